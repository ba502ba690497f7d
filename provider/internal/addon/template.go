package addon

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

type templateModel struct {
	Name        types.String `tfsdk:"name"`
	AddOnName   types.String `tfsdk:"addon_name"`
	Labels      types.Map    `tfsdk:"labels"`
	Annotations types.Map    `tfsdk:"annotations"`
	workload.Content
	ManifestConfigs types.List     `tfsdk:"manifest_configs"`
	Registration    types.List     `tfsdk:"registration"`
	Adopt           types.Bool     `tfsdk:"adopt"`
	ForceConflicts  types.Bool     `tfsdk:"force_conflicts"`
	Timeouts        timeouts.Value `tfsdk:"timeouts"`
}

// Template is muster_addon_template.
func Template() crud.Declared {
	return &crud.Kind[templateModel, *v1alpha1.AddOnTemplate]{
		Type: "addon_template", Noun: "add-on template", Empty: &v1alpha1.AddOnTemplate{},
		Description: "An add-on without code: the objects of its agent, and the credentials and rights that the " +
			"agent needs on the hub. A `muster_addon` uses it by naming it in `template`, or in `configs` of a " +
			"placement.\n\n" +
			"Texts in the objects may have variables such as `{{CLUSTER_NAME}}`, without spaces inside the braces. " +
			"`CLUSTER_NAME` is the cluster, `INSTALL_NAMESPACE` the namespace of the agent, where a " +
			"`muster_addon_deployment_config` gives one, and `HUB_KUBECONFIG` the path of the kubeconfig for the " +
			"hub, where there is a registration for it. All others are `customized_variables` of a " +
			"`muster_addon_deployment_config`; one that has no value is left out of the text. `metadata.namespace` " +
			"and `metadata.labels` of an object can't have variables. All containers of Deployments and DaemonSets " +
			"get these three as environment variables, and the credentials as files.\n\n" +
			"A Job or Pod with the annotation `" + addon.PreDeleteAnnotation + "` runs when the add-on is removed " +
			"from a cluster, before its objects go. " +
			"An object with the annotation `" + addon.DeletionOrphanAnnotation + "` stays then.\n\n" +
			"A change of a template that is in use reaches the clusters as the rollout strategy of the add-on says. " +
			"Destroying waits until no add-on in a cluster uses the template: one without its template can neither " +
			"run nor be removed.",
		Keys: []crud.Key{{
			Name: "name",
			Description: "Name of the template. Changing it replaces the template: to change the objects of an " +
				"add-on cluster by cluster, " +
				"create another template beside this one, and let the `muster_addon` name that.",
			Valid: attribute.ValidObjectName("template name"),
		}},
		Model: &crud.Conversion[templateModel, *v1alpha1.AddOnTemplate]{
			Attributes: templateAttributes,
			Object:     (*templateModel).object,
			Observe:    (*templateModel).observe,
			Import:     importTemplate,
			Unwanted:   (*templateModel).unwanted,
		},
		Timeouts: crud.Timeouts{Delete: "deleting, which waits until no add-on uses it,"},
		Hooks: crud.Hooks[templateModel, *v1alpha1.AddOnTemplate]{
			Validate: validateTemplate,
			Plan:     planTemplate,
			Own:      func(_ *templateModel, o *crud.Owned) { o.Discreet = true }, // Its manifests may hold secrets.
			Complete: func(
				ctx context.Context, m *templateModel, config tfsdk.Config, object *v1alpha1.AddOnTemplate, diags *diag.Diagnostics,
			) {
				m.PutBy(ctx, templateRules(), config, object, &object.Spec.AgentSpec.Workload, diags)
			},
			Mask: func(ctx context.Context, from, config crud.Source, diags *diag.Diagnostics) {
				workload.Of(ctx, from, &diag.Diagnostics{}).MaskWith(ctx, config, diags)
			},
			BeforeDelete: func(ctx context.Context, c *crud.Change[templateModel, *v1alpha1.AddOnTemplate]) bool {
				used := usage{v1alpha1.AddOnConfig{
					ConfigGroupResource: v1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: addon.TemplateResource},
					ConfigReferent:      v1alpha1.ConfigReferent{Name: c.Keys[0]},
				}}
				return used.untilUnused(ctx, c.Resource, c.What, c.Timeout, c.Private, &v1alpha1.AddOnTemplate{}, c.Diagnostics)
			},
		},
		List: &crud.List[*v1alpha1.AddOnTemplate]{
			Plural: "templates of add-ons", Objects: &v1alpha1.AddOnTemplateList{},
			Describe: func(object *v1alpha1.AddOnTemplate) string {
				return fmt.Sprintf("add-on %s, %s", object.Spec.AddonName, crud.Count(len(object.Spec.AgentSpec.Workload.Manifests), "object"))
			},
		},
	}
}

// templateTable are the attributes beside the objects.
func templateTable() attribute.Table[*v1alpha1.AddOnTemplate] {
	configs := manifestwork.ManifestConfigsAttribute()
	configs.MarkdownDescription = "Treats some of the objects specially: how they are written, what is reported of " +
		"them, and which conditions are derived from them. Hubs report the usual fields of Deployments and " +
		"DaemonSets in any case, because the add-on's health is told from them."
	return attribute.Table[*v1alpha1.AddOnTemplate]{
		attribute.Text("addon_name",
			attribute.Required("Name of the add-on that the template is for: that of its `muster_addon`.",
				attribute.ValidObjectName("add-on name")),
			func(t *v1alpha1.AddOnTemplate) *string { return &t.Spec.AddonName }),
		attribute.LabelsField[*v1alpha1.AddOnTemplate]("Labels of the template."),
		attribute.AnnotationsField[*v1alpha1.AddOnTemplate]("Annotations of the template.", work.WriteOnlyAnnotation),
		attribute.Model("manifest_configs", configs,
			func(models []manifestwork.ManifestConfigModel, t *v1alpha1.AddOnTemplate) {
				t.Spec.AgentSpec.ManifestConfigs = manifestwork.ManifestConfigs(models)
			},
			func(t *v1alpha1.AddOnTemplate) []manifestwork.ManifestConfigModel {
				return manifestwork.ManifestConfigModels(t.Spec.AgentSpec.ManifestConfigs)
			}).At("spec.agentSpec.manifestConfigs"),
		registrationField(),
	}
}

func templateAttributes() map[string]schema.Attribute {
	attributes := templateContent()
	maps.Copy(attributes, templateTable().Attributes())
	return attributes
}

// validateTemplate checks the objects of all inputs, with their placeholders, and the
// registrations.
func validateTemplate(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var registrations types.List
	content := workload.Of(ctx, config, diags)
	diags.Append(config.GetAttribute(ctx, path.Root("registration"), &registrations)...)
	if diags.HasError() {
		return
	}
	diags.Append(content.CheckBy(templateRules())...)
	// Namespaces of objects may be others in a cluster, so that options are not matched.
	manifestwork.CheckOptions(ctx, config, workload.None(), diags)
	checkRegistrations(path.Root("registration"), registrations, diags)
}

// planTemplate keeps the objects' old wording where the new one means the same, and lists
// their fields.
func planTemplate(
	ctx context.Context, _ *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.Plan.Raw.IsNull() {
		return false
	}
	changed := workload.Plan(ctx, req, resp)
	return changed || attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw).
		Beyond("fields", "sensitive_fields", "field_validation", "force_conflicts", "timeouts")
}

// unwanted are credentials, rights and options that somebody else has added.
func (m *templateModel) unwanted(live *v1alpha1.AddOnTemplate) [][]string {
	return templateTable().Unwanted(m.object(), live)
}

// values are those of the table.
func (m *templateModel) values() attribute.Values {
	return attribute.Values{
		"addon_name": m.AddOnName, "labels": m.Labels, "annotations": m.Annotations,
		"manifest_configs": m.ManifestConfigs, "registration": m.Registration,
	}
}

// take takes over values of the table.
func (m *templateModel) take(values attribute.Values) {
	m.AddOnName, _ = values["addon_name"].(types.String)
	m.Labels, _ = values["labels"].(types.Map)
	m.Annotations, _ = values["annotations"].(types.Map)
	m.ManifestConfigs, _ = values["manifest_configs"].(types.List)
	m.Registration, _ = values["registration"].(types.List)
}

// object is the AddOnTemplate that the model describes, without its objects.
func (m *templateModel) object() *v1alpha1.AddOnTemplate {
	object := &v1alpha1.AddOnTemplate{}
	object.Name = m.Name.ValueString()
	templateTable().Write(m.values(), object)
	return object
}

func templateLive(object *v1alpha1.AddOnTemplate) workload.Live {
	return workload.Live{Manifests: object.Spec.AgentSpec.Workload.Manifests, Annotations: object.Annotations}
}

func (m *templateModel) observe(object *v1alpha1.AddOnTemplate) error {
	values := m.values()
	templateTable().Observe(values, m.object(), object)
	m.take(values)
	return m.Observe(templateLive(object))
}

func importTemplate(object *v1alpha1.AddOnTemplate) (*templateModel, error) {
	m := &templateModel{Name: types.StringValue(object.Name), Timeouts: attribute.NullTimeouts("delete")}
	m.take(templateTable().Import(crud.FieldsOf(object, hub.FieldManager), object))
	var err error
	m.Content, err = workload.Import(templateLive(object))
	return m, err
}
