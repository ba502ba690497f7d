package addon

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
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

// configModel names one configuration object.
type configModel struct {
	Group     types.String `tfsdk:"group"`
	Resource  types.String `tfsdk:"resource"`
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"name"`
}

// configsField is the attribute configs. description says what they are for.
func configsField[P any](description string, at func(P) *[]v1alpha1.AddOnConfig) attribute.Field[P] {
	return attribute.Objects("configs",
		schema.ListNestedAttribute{
			MarkdownDescription: description,
			Optional:            true,
			Validators:          []validator.List{configsValidator{"at least one configuration, each named once"}},
		}, at,
		attribute.Text("group", configGroupAttribute(), func(c *v1alpha1.AddOnConfig) *string { return &c.Group }),
		attribute.Text("resource", configResourceAttribute(), func(c *v1alpha1.AddOnConfig) *string { return &c.Resource }),
		attribute.Text("namespace",
			attribute.Optional("Namespace of the object. Leave it out for kinds that have none, such as "+
				"`"+addon.TemplateResource+"`.",
				attribute.ValidName("namespace")),
			func(c *v1alpha1.AddOnConfig) *string { return &c.Namespace }),
		attribute.Text("name", attribute.Required("Name of the object.", attribute.ValidObjectName("configuration name")),
			func(c *v1alpha1.AddOnConfig) *string { return &c.Name }))
}

// configsAttribute is the attribute configs in a schema.
func configsAttribute(description string) schema.Attribute {
	return attribute.Table[*[]v1alpha1.AddOnConfig]{
		configsField(description, func(configs *[]v1alpha1.AddOnConfig) *[]v1alpha1.AddOnConfig { return configs }),
	}.Attributes()["configs"]
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
		resp := validator.StringResponse{}
		name.ValidateString(context.Background(), validator.StringRequest{Path: at, ConfigValue: types.StringValue(text)}, &resp)
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
	const description = "the plural name of a kind in lower case, such as addontemplates"
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		lower := strings.ToLower(text)
		for _, known := range []string{addon.TemplateResource, addon.DeploymentConfigResource} {
			if text != known && (lower == known || lower+"s" == known) {
				return "Invalid resource", fmt.Sprintf("%s is %q, but it takes %s. Write "+
					"%q.", attribute.Place(at), text, description, known)
			}
		}
		if !resourceName.MatchString(text) {
			return "Invalid resource", fmt.Sprintf("%s is %q, but it takes %s. kubectl api-resources prints "+
				"them.", attribute.Place(at), text, description)
		}
		return "", ""
	})
}

// configsValidator refuses what is pointless in a list of configurations.
type configsValidator struct{ attribute.Described }

// ValidateList implements validator.List.
func (configsValidator) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if len(req.ConfigValue.Elements()) == 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "No configurations",
			attribute.Place(req.Path)+" = [] names no configuration. Name at least one, or leave it out.")
	}
	seen := map[v1alpha1.AddOnConfig]int{}
	template := -1
	for i, element := range req.ConfigValue.Elements() {
		object, ok := element.(types.Object)
		if !ok || object.IsNull() || !attribute.Known(object) {
			continue
		}
		at, c := req.Path.AtListIndex(i), configOf(object.Attributes())
		checkConfigPlace(at, c, &resp.Diagnostics)
		if first, twice := seen[c]; twice {
			resp.Diagnostics.AddAttributeError(at, "Duplicate configuration",
				fmt.Sprintf("%s and %s name the same object. Remove one of "+
					"them.", attribute.Place(req.Path.AtListIndex(first)), attribute.Place(at)))
			continue
		}
		seen[c] = i
		if c.Group != addon.GroupName || c.Resource != addon.TemplateResource {
			continue
		}
		if template >= 0 {
			resp.Diagnostics.AddAttributeError(at, "Two templates",
				fmt.Sprintf("%s and %s both name a template, and hubs use only the first. Remove one of "+
					"them.", attribute.Place(req.Path.AtListIndex(template)), attribute.Place(at)))
		}
		template = i
	}
}

// configOf is the configuration that the attributes of a known object name.
func configOf(attributes map[string]attr.Value) v1alpha1.AddOnConfig {
	text := func(name string) types.String {
		value, _ := attributes[name].(types.String)
		return value
	}
	m := configModel{Group: text("group"), Resource: text("resource"), Namespace: text("namespace"), Name: text("name")}
	if m.Group.IsNull() { // A validator sees no defaults.
		m.Group = types.StringValue(addon.GroupName)
	}
	return m.config()
}

// checkConfigPlace refuses a namespace for a kind that has none, and the reverse.
func checkConfigPlace(at path.Path, c v1alpha1.AddOnConfig, diags *diag.Diagnostics) {
	if c.Group != addon.GroupName {
		return
	}
	switch {
	case c.Resource == addon.TemplateResource && c.Namespace != "":
		diags.AddAttributeError(at.AtName("namespace"), "Needless namespace",
			fmt.Sprintf("%s is %q, but templates of add-ons have no namespace. Remove "+
				"it.", attribute.Place(at.AtName("namespace")), c.Namespace))
	case c.Resource == addon.DeploymentConfigResource && c.Namespace == "":
		diags.AddAttributeError(at, "Missing namespace",
			fmt.Sprintf("%s names a deployment configuration, and these have namespaces. Set "+
				"namespace.", attribute.Place(at)))
	}
}

// config is the configuration in the API's type.
func (m configModel) config() v1alpha1.AddOnConfig {
	return v1alpha1.AddOnConfig{
		ConfigGroupResource: v1alpha1.ConfigGroupResource{Group: m.Group.ValueString(), Resource: m.Resource.ValueString()},
		ConfigReferent:      v1alpha1.ConfigReferent{Namespace: m.Namespace.ValueString(), Name: m.Name.ValueString()},
	}
}

// configsOf are configurations in the API's type; nil when there are none.
func configsOf(models []configModel) []v1alpha1.AddOnConfig {
	var configs []v1alpha1.AddOnConfig
	for _, m := range models {
		configs = append(configs, m.config())
	}
	return configs
}

// configModels are configurations as the attribute configs has them; nil when there
// are none.
func configModels(configs []v1alpha1.AddOnConfig) []configModel {
	var models []configModel
	for _, c := range configs {
		models = append(models, configModel{
			Group: types.StringValue(c.Group), Resource: types.StringValue(c.Resource),
			Namespace: attribute.OptionalString(c.Namespace), Name: types.StringValue(c.Name),
		})
	}
	return models
}
