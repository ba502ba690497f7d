package crud

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
	fwpath "github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// The attributes that all lists have.
const (
	nameAttribute      = "name"
	selectorAttribute  = "label_selector"
	setAttribute       = "cluster_set"
	managedAttribute   = "include_managed"
	deletingAttribute  = "include_deleting"
	generatedAttribute = "include_generated"
)

// ListResourceConfigSchema implements list.ListResource.
func (r *listResource[T]) ListResourceConfigSchema(
	_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse,
) {
	plural := r.kind.Plural
	text := func(description string, validators ...validator.String) schema.StringAttribute {
		return schema.StringAttribute{MarkdownDescription: description, Optional: true, Validators: validators}
	}
	truth := func(description string) schema.BoolAttribute {
		return schema.BoolAttribute{MarkdownDescription: description +
			" If omitted, they are left out.", Optional: true}
	}
	attributes := map[string]schema.Attribute{
		nameAttribute: text("Only "+plural+" of this name. `*` stands for any characters, `?` for one, and `[ab]` "+
			"for one of these, as in `prod-*`.", validPattern()),
		selectorAttribute: text("Only "+plural+" with these labels, as a label selector in the notation of kubectl, "+
			"such as `env=prod,region in (eu,us)`.",
			attribute.ValidSelector()),
		managedAttribute: truth("Whether to list " + plural + " that a resource in Terraform manages already, in " +
			"this or another state. The provider tells by its mark and its field manager on the object."),
		deletingAttribute: truth("Whether to list " + plural + " that are being deleted."),
		generatedAttribute: truth("Whether to list " + plural + " that the hub or a controller makes and keeps " +
			"itself: changes by Terraform would be reverted, or would be fought over."),
	}
	if name := r.kind.NamespaceAttribute; name != "" {
		attributes[name] = text("Only "+plural+" in this namespace of the hub. A pattern as in `name`.", validPattern())
		if name == "managed_cluster" {
			attributes[name] = text("Only "+plural+" of this managed cluster. A pattern as in `name`.", validPattern())
		}
	}
	switch {
	case r.kind.Cluster != nil:
		attributes[setAttribute] = text("Only "+plural+" of the clusters that are put in this set by their label.",
			attribute.ValidName(
				"cluster set name"))
	case r.kind.Sets != nil:
		attributes[setAttribute] = text("Only "+plural+" with this cluster set.", attribute.ValidName("cluster set "+
			"name"))
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Lists the " + plural + " of the hub, for `terraform query`. " + r.kind.About,
		Attributes:          attributes,
	}
}

func validPattern() validator.String {
	return attribute.ValidText("a name, or a pattern such as prod-*",
		func(_ fwpath.Path, text string) (summary, detail string) {
			if _, err := path.Match(text, ""); err != nil || text == "" || strings.Contains(text, "/") {
				return "Invalid pattern", fmt.Sprintf("%q is neither a name nor a pattern such as prod-*: names have "+
					"no "+
					"slashes, and each [ needs its ].", text)
			}
			return "", ""
		})
}

// filter is the configuration of a list.
type filter struct {
	name, namespace, selector, set        string
	includeManaged, deleting, asGenerated bool
}

func (r *listResource[T]) filter(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) filter {
	if config.Raw.IsNull() {
		return filter{}
	}
	text := func(name string) string {
		var value types.String
		diags.Append(config.GetAttribute(ctx, fwpath.Root(name), &value)...)
		return value.ValueString()
	}
	truth := func(name string) bool {
		var value types.Bool
		diags.Append(config.GetAttribute(ctx, fwpath.Root(name), &value)...)
		return value.ValueBool()
	}
	f := filter{
		name: text(nameAttribute), selector: text(selectorAttribute),
		includeManaged: truth(managedAttribute), deleting: truth(deletingAttribute),
		asGenerated: truth(generatedAttribute),
	}
	if r.kind.NamespaceAttribute != "" {
		f.namespace = text(r.kind.NamespaceAttribute)
	}
	if r.kind.Cluster != nil || r.kind.Sets != nil {
		f.set = text(setAttribute)
	}
	return f
}

// options are what the server selects by.
func (k List[T]) options(f filter) kube.ListOptions {
	options := k.Within
	options.LabelSelector = f.selector
	if f.namespace != "" && !strings.ContainsAny(f.namespace, `*?[\`) {
		options.Namespace = f.namespace
	}
	return options
}

// matches reports whether the name and the namespace are those asked for.
func (f filter) matches(object kube.Object) bool {
	return matches(f.name, object.GetName()) && matches(f.namespace, object.GetNamespace())
}

func matches(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	fits, err := path.Match(pattern, name)
	return err == nil && fits
}
