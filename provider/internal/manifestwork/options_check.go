package manifestwork

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// CheckOptions finds what is wrong with manifest_configs of a configuration, as far
// as it is known: options for objects that the work does not have, and more of
// them than a hub admits.
func CheckOptions(ctx context.Context, config crud.Source, content workload.Content, diags *diag.Diagnostics) {
	var list types.List
	diags.Append(config.GetAttribute(ctx, path.Root("manifest_configs"), &list)...)
	if list.IsNull() || list.IsUnknown() {
		return
	}
	objects, complete := content.Known()
	if len(objects) == 0 {
		complete = false // the objects are those of an import, or there is an error already
	}
	for i, element := range list.Elements() {
		option, _ := element.(types.Object)
		identifier, _ := option.Attributes()["resource_identifier"].(types.Object)
		if !complete || !attribute.Known(identifier) {
			continue
		}
		at := path.Root("manifest_configs").AtListIndex(i).AtName("resource_identifier")
		if problem := unmatched(identifierOf(identifier), objects); problem != "" {
			diags.AddAttributeError(at, "Options for no object", fmt.Sprintf("%s: the work has no such object. %s", at, problem))
		}
	}
	var models []ManifestConfigModel
	if attribute.Known(list) && !list.ElementsAs(ctx, &models, false).HasError() {
		if err := workcheck.Options("manifest_configs", readable(ManifestConfigs(models))); err != nil {
			diags.AddAttributeError(path.Root("manifest_configs"), "Too many options", "The hub would refuse the work: "+err.Error()+".")
		}
	}
}

func identifierOf(object types.Object) workv1.ResourceIdentifier {
	text := func(name string) string {
		value, _ := object.Attributes()[name].(types.String)
		return value.ValueString()
	}
	return workv1.ResourceIdentifier{Group: text("group"), Resource: text("resource"), Name: text("name"), Namespace: text("namespace")}
}

// unmatched says what to do about an identifier that means none of the objects; it
// is empty for one that may mean some. What a pattern finds is left to it, and so
// are the plural names of kinds that are not Kubernetes' own.
func unmatched(id workv1.ResourceIdentifier, objects []workload.Object) string {
	if strings.Contains(id.Name+id.Namespace, "*") {
		return ""
	}
	var near *workload.Object
	for i, object := range objects {
		group, _, grouped := strings.Cut(object.APIVersion, "/")
		if !grouped {
			group = ""
		}
		plural, known := workload.ResourceOf(object.APIVersion, object.Kind)
		sameName := object.Name == id.Name && object.Namespace == id.Namespace
		sameKind := group == id.Group && (!known || plural == id.Resource)
		if sameName && sameKind {
			return ""
		}
		similar := strings.EqualFold(object.Kind, id.Resource) || strings.EqualFold(object.Kind+"s", id.Resource) || plural == id.Resource
		if sameName && (near == nil || similar) || sameKind && object.Name == id.Name && near == nil || sameKind && known && near == nil {
			near = &objects[i]
		}
	}
	if near == nil {
		return "Name one of its objects, or remove the option."
	}
	return fmt.Sprintf("Did you mean %s? Its identifier is %s.", near, identifierText(*near))
}

// identifierText is the identifier of an object, as a configuration has it.
func identifierText(object workload.Object) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, fmt.Sprintf("%s = %q", name, value))
		}
	}
	if group, _, grouped := strings.Cut(object.APIVersion, "/"); grouped {
		add("group", group)
	}
	plural, known := workload.ResourceOf(object.APIVersion, object.Kind)
	if !known {
		plural = strings.ToLower(object.Kind) + "s"
	}
	add("resource", plural)
	add("namespace", object.Namespace)
	add("name", object.Name)
	return "{ " + strings.Join(parts, ", ") + " }"
}

// readable leaves out the paths that can't be read, which the validators of their
// attributes report.
func readable(options []workv1.ManifestConfigOption) []workv1.ManifestConfigOption {
	for i := range options {
		for j := range options[i].FeedbackRules {
			rule := &options[i].FeedbackRules[j]
			for k := range rule.JSONPaths {
				if workcheck.JSONPath(rule.JSONPaths[k].Path) != nil {
					rule.JSONPaths[k].Path = ".metadata.name"
				}
			}
		}
		if options[i].UpdateStrategy == nil || options[i].UpdateStrategy.ServerSideApply == nil {
			continue
		}
		for j := range options[i].UpdateStrategy.ServerSideApply.IgnoreFields {
			ignored := &options[i].UpdateStrategy.ServerSideApply.IgnoreFields[j]
			for k, text := range ignored.JSONPaths {
				if workcheck.JSONPath(text) != nil {
					ignored.JSONPaths[k] = ".metadata.name"
				}
			}
			for k, text := range ignored.JQPathExpressions {
				if workcheck.JQ(text) != nil {
					ignored.JQPathExpressions[k] = ".metadata.name"
				}
			}
		}
	}
	return options
}
