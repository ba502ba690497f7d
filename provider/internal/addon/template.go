package addon

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure      = (*templateResource)(nil)
	_ resource.ResourceWithImportState    = (*templateResource)(nil)
	_ resource.ResourceWithIdentity       = (*templateResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*templateResource)(nil)
	_ resource.ResourceWithMoveState      = (*templateResource)(nil)
	_ resource.ResourceWithValidateConfig = (*templateResource)(nil)
)

type templateResource struct{ crud.Resource }

type templateModel struct {
	Name        types.String `tfsdk:"name"`
	AddOnName   types.String `tfsdk:"addon_name"`
	Labels      types.Map    `tfsdk:"labels"`
	Annotations types.Map    `tfsdk:"annotations"`
	workload.Content
	ManifestConfigs []manifestwork.ManifestConfigModel `tfsdk:"manifest_configs"`
	Registration    []registrationModel                `tfsdk:"registration"`
	Adopt           types.Bool                         `tfsdk:"adopt"`
	ForceConflicts  types.Bool                         `tfsdk:"force_conflicts"`
	Timeouts        timeouts.Value                     `tfsdk:"timeouts"`
}

// NewTemplate is muster_addon_template.
func NewTemplate() resource.Resource { return &templateResource{} }

func (r *templateResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_addon_template"
}

func (r *templateResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("name")
}

func (r *templateResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := templateContent()
	configs := manifestwork.ManifestConfigsAttribute()
	configs.MarkdownDescription = "Treats some of the objects specially: how they are written, what is reported of them, and which conditions are derived from them. " +
		"Hubs report the usual fields of Deployments and DaemonSets in any case, because the add-on's health is told from them."
	maps.Copy(attributes, map[string]schema.Attribute{
		"name": attribute.Identifying("Name of the template. Changing it replaces the template: to change the objects of an add-on cluster by cluster, create another template beside this one, and let the `muster_addon` name that.",
			attribute.ValidObjectName("template name")),
		"addon_name": schema.StringAttribute{
			MarkdownDescription: "Name of the add-on that the template is for: that of its `muster_addon`.",
			Required:            true,
			Validators:          []validator.String{attribute.ValidObjectName("add-on name")},
		},
		"labels":           attribute.Labels("Labels of the template.", nil),
		"annotations":      attribute.Annotations("Annotations of the template."),
		"manifest_configs": configs,
		"registration":     registrationAttribute(),
		"adopt":            attribute.AdoptAttribute(),
		"force_conflicts":  attribute.ForceAttribute(),
	})
	resp.Schema = schema.Schema{
		MarkdownDescription: "An add-on without code: the objects of its agent, and the credentials and rights that the agent needs on the hub. A `muster_addon` uses it by naming it in `template`, or in `configs` of a placement.\n\n" +
			"Texts in the objects may have variables such as `{{CLUSTER_NAME}}`, without spaces inside the braces. `CLUSTER_NAME` is the cluster, `INSTALL_NAMESPACE` the namespace of the agent, where a `muster_addon_deployment_config` gives one, " +
			"and `HUB_KUBECONFIG` the path of the kubeconfig for the hub, where there is a registration for it. All others are `customized_variables` of a `muster_addon_deployment_config`; one that has no value is left out of the text. `metadata.namespace` and `metadata.labels` of an object can't have variables. " +
			"All containers of Deployments and DaemonSets get these three as environment variables, and the credentials as files.\n\n" +
			"A Job or Pod with the annotation `" + addon.PreDeleteAnnotation + "` runs when the add-on is removed from a cluster, before its objects go. " +
			"An object with the annotation `" + addon.DeletionOrphanAnnotation + "` stays then.\n\n" +
			"A change of a template that is in use reaches the clusters as the rollout strategy of the add-on says. Destroying waits until no add-on in a cluster uses the template: one without its template can neither run nor be removed.",
		Attributes: attributes,
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{Delete: true, DeleteDescription: attribute.TimeoutText("deleting, which waits until no add-on uses it,", attribute.DefaultDelete)}),
		},
	}
}

// ValidateConfig checks the objects of all inputs, with their placeholders, and the
// registrations.
func (r *templateResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var registrations types.List
	content := workload.Of(ctx, req.Config, &resp.Diagnostics)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("registration"), &registrations)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(content.CheckBy(templateRules())...)
	// Namespaces of objects may be others in a cluster, so that options are not matched.
	manifestwork.CheckOptions(ctx, req.Config, workload.None(), &resp.Diagnostics)
	checkRegistrations(path.Root("registration"), registrations, &resp.Diagnostics)
}

// ModifyPlan keeps the objects' old wording where the new one means the same, lists
// their fields, and asks the hub what would come of the change.
func (r *templateResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	r.NoteCreation(ctx, req, &v1alpha1.AddOnTemplate{}, "name")
	defer func() { workload.Of(ctx, resp.Plan, &diag.Diagnostics{}).MaskWith(ctx, req.Config, &resp.Diagnostics) }()
	workload.Plan(ctx, req, resp)
	if resp.Diagnostics.HasError() || !attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw).Beyond("field_validation", "force_conflicts", "timeouts") {
		return
	}
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model templateModel
		diags.Append(from.Get(ctx, &model)...)
		return model.owned(model.complete(ctx, req.Config, diags)), !diags.HasError()
	})
}

func (r *templateResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan templateModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	defer func() { plan.MaskWith(ctx, req.Config, &resp.Diagnostics) }()
	object := plan.complete(ctx, req.Config, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || !r.CreateObject(ctx, plan.owned(object), resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *templateResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state templateModel
	object := &v1alpha1.AddOnTemplate{}
	defer func() { state.Mask(&resp.Diagnostics) }()
	r.ReadObject(ctx, req, resp, &state, object, func() error { return state.observe(object) })
}

func (r *templateResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan templateModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	defer func() { plan.MaskWith(ctx, req.Config, &resp.Diagnostics) }()
	object := plan.complete(ctx, req.Config, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || !r.UpdateObject(ctx, plan.owned(object), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

// Delete waits until no add-on in a cluster uses the template.
func (r *templateResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state templateModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	used := usage{v1alpha1.AddOnConfig{
		ConfigGroupResource: v1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: addon.TemplateResource},
		ConfigReferent:      v1alpha1.ConfigReferent{Name: state.Name.ValueString()},
	}}
	if used.untilUnused(ctx, &r.Resource, &state, timeout, req.Private, &v1alpha1.AddOnTemplate{}, &resp.Diagnostics) {
		r.Destroy(ctx, &v1alpha1.AddOnTemplate{}, &state, timeout, req.Private, &resp.Diagnostics, nil)
	}
}

func (r *templateResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &v1alpha1.AddOnTemplate{}
	named := func(names []string) crud.Model { return &templateModel{Name: types.StringValue(names[0])} }
	r.ImportObject(ctx, req, resp, []string{"name"}, object, named, func() (crud.Model, error) { return importTemplate(object) })
}

// MoveState implements resource.ResourceWithMoveState.
func (r *templateResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(importTemplate)
}

// NewTemplateListResource lists templates of add-ons.
func NewTemplateListResource() list.ListResource {
	return listing.New(listing.Kind[*v1alpha1.AddOnTemplate]{
		Type: "addon_template", Plural: "templates of add-ons", Objects: &v1alpha1.AddOnTemplateList{},
		Adopt: importTemplate,
		Describe: func(object *v1alpha1.AddOnTemplate) string {
			return fmt.Sprintf("add-on %s, %s", object.Spec.AddonName, listing.Count(len(object.Spec.AgentSpec.Workload.Manifests), "object"))
		},
	})
}

// What implements crud.Model.
func (m *templateModel) What() string { return fmt.Sprintf("add-on template %q", m.Name.ValueString()) }

// Key implements crud.Model.
func (m *templateModel) Key() (namespace, name string) { return "", m.Name.ValueString() }

// Identity implements crud.Model.
func (m *templateModel) Identity() any { return attribute.NameIdentity{Name: m.Name} }

// complete is the template to write, with the objects that are in the configuration
// alone.
func (m *templateModel) complete(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) *v1alpha1.AddOnTemplate {
	object := m.object()
	m.PutBy(ctx, templateRules(), config, object, &object.Spec.AgentSpec.Workload, diags)
	return object
}
