package addon

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Template is muster_addon_template.
func Template() crud.Declared {
	return &crud.Kind[addOnTemplate]{
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
		Table:    append(templateContent().Table(), templateTable()...),
		Timeouts: crud.Timeouts{Delete: "deleting, which waits until no add-on uses it,"},
		Hooks:    templateHooks(),
		List: &crud.List[addOnTemplate]{
			Plural: "templates of add-ons", Objects: &v1alpha1.AddOnTemplateList{},
			Describe: func(object addOnTemplate) string {
				return fmt.Sprintf("add-on %s, %s", object.Spec.AddonName,
					crud.Count(len(object.Spec.AgentSpec.Workload.Manifests), "object"))
			},
		},
	}
}

type addOnTemplate = *v1alpha1.AddOnTemplate

// templateContent is where a template has its objects.
func templateContent() workload.Kind[addOnTemplate] {
	return workload.Kind[addOnTemplate]{
		Template: func(object addOnTemplate) *workv1.ManifestsTemplate { return &object.Spec.AgentSpec.Workload },
		Rules:    templateRules(),
	}
}

func templateHooks() crud.Hooks[addOnTemplate] {
	h := templateContent().Hooks()
	h.Validate, h.Plan = validateTemplate, planTemplate
	h.BeforeDelete = func(ctx context.Context, c *crud.Change[addOnTemplate]) bool {
		return untilUnused(ctx, c, addon.TemplateResource)
	}
	return h
}

// templateTable has the attributes beside the objects.
func templateTable() attribute.Table[addOnTemplate] {
	return attribute.Table[addOnTemplate]{
		attribute.Text("addon_name",
			attribute.Required("Name of the add-on that the template is for: that of its `muster_addon`.",
				attribute.ValidObjectName("add-on name")),
			func(t addOnTemplate) *string { return &t.Spec.AddonName }),
		attribute.LabelsField[addOnTemplate]("Labels of the template."),
		attribute.AnnotationsField[addOnTemplate]("Annotations of the template.", work.WriteOnlyAnnotation),
		manifestwork.ManifestConfigs("spec.agentSpec.manifestConfigs",
			"Treats some of the objects specially: how they are written, what is reported of them, and which "+
				"conditions are derived from them. Hubs report the usual fields of Deployments and DaemonSets in any "+
				"case, because the add-on's health is told from them.",
			func(t addOnTemplate) *[]workv1.ManifestConfigOption { return &t.Spec.AgentSpec.ManifestConfigs }),
		registrationField(),
	}
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
	diags.Append(content.Check(templateRules())...)
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
