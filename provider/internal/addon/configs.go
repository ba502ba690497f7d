package addon

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// The configurations that an add-on is told to use, in a placement or in a cluster.

// configsField is the attribute configs. description says what they are for.
func configsField[P any](description string, at func(P) *[]v1alpha1.AddOnConfig) attribute.Field[P] {
	return attribute.Objects("configs",
		schema.ListNestedAttribute{
			MarkdownDescription: description,
			Optional:            true,
			Validators:          []validator.List{validConfigs()},
		}, at,
		attribute.Text("group", configGroupAttribute(), func(c *v1alpha1.AddOnConfig) *string { return &c.Group }),
		attribute.Text("resource", configResourceAttribute(),
			func(c *v1alpha1.AddOnConfig) *string { return &c.Resource }),
		attribute.Text("namespace",
			attribute.Optional("Namespace of the object. Leave it out for kinds that have none, such as "+
				"`"+addon.TemplateResource+"`.",
				attribute.ValidName("namespace")),
			func(c *v1alpha1.AddOnConfig) *string { return &c.Namespace }),
		attribute.Text("name",
			attribute.Required("Name of the object.", attribute.ValidObjectName("configuration name")),
			func(c *v1alpha1.AddOnConfig) *string { return &c.Name }))
}

// configGroupAttribute is the API group of a configuration's kind.
func configGroupAttribute() schema.StringAttribute {
	return schema.StringAttribute{
		MarkdownDescription: "API group of the configuration's kind, and `\"\"` for the core group. Defaults to " +
			"`" + addon.GroupName + "`.",
		Optional: true, Computed: true, Default: stringdefault.StaticString(addon.GroupName),
		Validators: []validator.String{validGroup()},
	}
}

// configResourceAttribute is the plural name of a configuration's kind.
func configResourceAttribute() schema.StringAttribute {
	return schema.StringAttribute{
		MarkdownDescription: "Plural name of the configuration's kind, in lower case, such as " +
			"`" + addon.TemplateResource + "` or `" + addon.DeploymentConfigResource + "`.",
		Required:   true,
		Validators: []validator.String{validResource()},
	}
}

// validGroup admits API groups, the core group included.
func validGroup() validator.String {
	const description = "an API group such as addon.open-cluster-management.io, without a version, or \"\" for the " +
		"core group"
	name := attribute.ValidObjectName("API group")
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		if text == "" {
			return "", ""
		}
		if apiVersion.MatchString(text) {
			return "Invalid API group", fmt.Sprintf("%s is %q, which is a version. Write \"\" for the core "+
				"group.", attribute.Place(at), text)
		}
		if group, version, found := strings.Cut(text, "/"); found {
			return "Invalid API group", fmt.Sprintf("%s is %q, but it takes %s. Write %q; the version %s is not "+
				"needed.", attribute.Place(at), text, description, group, version)
		}
		req, resp := validator.StringRequest{Path: at, ConfigValue: types.StringValue(text)}, validator.StringResponse{}
		name.ValidateString(context.Background(), req, &resp)
		for _, d := range resp.Diagnostics {
			return d.Summary(), attribute.Place(at) + ": " + d.Detail()
		}
		return "", ""
	})
}

// apiVersion is what a version of an API looks like.
var apiVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// resourceName is what the plural name of a kind looks like.
var resourceName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// validResource admits plural names of kinds.
func validResource() validator.String {
	known := func(text string) string {
		lower := strings.ToLower(text)
		for _, known := range []string{addon.TemplateResource, addon.DeploymentConfigResource} {
			if lower == known || lower+"s" == known {
				return known
			}
		}
		return ""
	}
	return attribute.Fitting("Invalid resource", "the plural name of a kind in lower case, such as addontemplates",
		func(text string) bool {
			name := known(text)
			return (name == "" || name == text) && resourceName.MatchString(text)
		},
		func(text string) string {
			if name := known(text); name != "" {
				return fmt.Sprintf("Write %q.", name)
			}
			return "kubectl api-resources prints them."
		})
}

// validConfigs refuses what is pointless in a list of configurations.
func validConfigs() validator.List {
	const description = "at least one configuration, each named once"
	return attribute.ValidList(description, func(at path.Path, list types.List, diags *diag.Diagnostics) {
		if len(list.Elements()) == 0 {
			diags.AddAttributeError(at, "No configurations",
				attribute.Place(at)+" = [] names no configuration. Name at least one, or leave it out.")
		}
		seen, templates := attribute.Seen{}, attribute.Seen{}
		for i, c := range attribute.EachObject(list) {
			if !attribute.Known(list.Elements()[i]) {
				continue
			}
			at := at.AtListIndex(i)
			kind, _ := kindOf(c)
			key := strings.Join([]string{kind.Group, kind.Resource, c.Text("namespace"), c.Text("name")}, "/")
			checkConfigPlace(at, kind, c.Text("namespace"), diags)
			again := seen.Again(key, at, "Duplicate configuration",
				"name the same object. Remove one of them.", diags)
			if !again && kind == ownKind(addon.TemplateResource) {
				templates.Again("", at, "Two templates",
					"both name a template, and hubs use only the first. Remove one of them.", diags)
			}
		}
	})
}

// checkConfigPlace refuses a namespace for a kind that has none, and the reverse.
func checkConfigPlace(
	at path.Path, kind v1alpha1.ConfigGroupResource, namespace string, diags *diag.Diagnostics,
) {
	switch {
	case kind == ownKind(addon.TemplateResource) && namespace != "":
		at = at.AtName("namespace")
		diags.AddAttributeError(at, "Needless namespace",
			fmt.Sprintf("%s is %q, but templates of add-ons have no namespace. Remove it.",
				attribute.Place(at), namespace))
	case kind == ownKind(addon.DeploymentConfigResource) && namespace == "":
		diags.AddAttributeError(at, "Missing namespace",
			attribute.Place(at)+" names a deployment configuration, and these have namespaces. Set namespace.")
	}
}
