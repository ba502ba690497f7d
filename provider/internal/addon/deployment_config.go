package addon

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure      = (*deploymentConfigResource)(nil)
	_ resource.ResourceWithImportState    = (*deploymentConfigResource)(nil)
	_ resource.ResourceWithIdentity       = (*deploymentConfigResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*deploymentConfigResource)(nil)
	_ resource.ResourceWithMoveState      = (*deploymentConfigResource)(nil)
	_ resource.ResourceWithValidateConfig = (*deploymentConfigResource)(nil)
)

type deploymentConfigResource struct{ crud.Resource }

type deploymentConfigModel struct {
	Namespace            types.String            `tfsdk:"namespace"`
	Name                 types.String            `tfsdk:"name"`
	Labels               types.Map               `tfsdk:"labels"`
	Annotations          types.Map               `tfsdk:"annotations"`
	Variables            types.Map               `tfsdk:"customized_variables"`
	NodePlacement        *nodePlacementModel     `tfsdk:"node_placement"`
	Registries           []registryModel         `tfsdk:"registries"`
	Proxy                *proxyModel             `tfsdk:"proxy"`
	InstallNamespace     types.String            `tfsdk:"agent_install_namespace"`
	ResourceRequirements []containerRequirements `tfsdk:"resource_requirements"`
	Adopt                types.Bool              `tfsdk:"adopt"`
	ForceConflicts       types.Bool              `tfsdk:"force_conflicts"`
	Timeouts             timeouts.Value          `tfsdk:"timeouts"`
}

type nodePlacementModel struct {
	NodeSelector types.Map  `tfsdk:"node_selector"`
	Tolerations  types.List `tfsdk:"tolerations"`
}

type registryModel struct {
	Source types.String `tfsdk:"source"`
	Mirror types.String `tfsdk:"mirror"`
}

type proxyModel struct {
	HTTP     types.String `tfsdk:"http"`
	HTTPS    types.String `tfsdk:"https"`
	NoProxy  types.List   `tfsdk:"no_proxy"`
	CABundle types.String `tfsdk:"ca_bundle"`
}

type containerRequirements struct {
	ContainerID types.String `tfsdk:"container_id"`
	Resources   types.Object `tfsdk:"resources"`
}

// NewDeploymentConfig is muster_addon_deployment_config.
func NewDeploymentConfig() resource.Resource { return &deploymentConfigResource{} }

func (r *deploymentConfigResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_addon_deployment_config"
}

func (r *deploymentConfigResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("namespace", "name")
}

// ModifyPlan asks the hub what would come of the change.
func (r *deploymentConfigResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	r.NoteCreation(ctx, req, &v1alpha1.AddOnDeploymentConfig{}, "namespace", "name")
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model deploymentConfigModel
		diags.Append(from.Get(ctx, &model)...)
		return model.owned(), !diags.HasError()
	})
}

func (r *deploymentConfigResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan deploymentConfigModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.CreateObject(ctx, plan.owned(), resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *deploymentConfigResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state deploymentConfigModel
	object := &v1alpha1.AddOnDeploymentConfig{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.observe(object)
		return nil
	})
}

func (r *deploymentConfigResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan deploymentConfigModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.UpdateObject(ctx, plan.owned(), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

// Delete waits until no add-on in a cluster uses the configuration: without it one
// that is on its way out can't finish.
func (r *deploymentConfigResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state deploymentConfigModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	namespace, name := state.Key()
	used := usage{v1alpha1.AddOnConfig{
		ConfigGroupResource: v1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: addon.DeploymentConfigResource},
		ConfigReferent:      v1alpha1.ConfigReferent{Namespace: namespace, Name: name},
	}}
	if used.untilUnused(ctx, &r.Resource, &state, timeout, req.Private, &v1alpha1.AddOnDeploymentConfig{}, &resp.Diagnostics) {
		r.Destroy(ctx, &v1alpha1.AddOnDeploymentConfig{}, &state, timeout, req.Private, &resp.Diagnostics, nil)
	}
}

func (r *deploymentConfigResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &v1alpha1.AddOnDeploymentConfig{}
	named := func(names []string) crud.Model {
		return &deploymentConfigModel{Namespace: types.StringValue(names[0]), Name: types.StringValue(names[1])}
	}
	r.ImportObject(ctx, req, resp, []string{"namespace", "name"}, object, named, func() (crud.Model, error) { return importDeploymentConfig(object), nil })
}

// MoveState implements resource.ResourceWithMoveState.
func (r *deploymentConfigResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *v1alpha1.AddOnDeploymentConfig) (crud.Model, error) {
		return importDeploymentConfig(object), nil
	})
}

// NewDeploymentConfigListResource lists deployment configurations.
func NewDeploymentConfigListResource() list.ListResource {
	return listing.New(listing.Kind[*v1alpha1.AddOnDeploymentConfig]{
		Type: "addon_deployment_config", Plural: "deployment configurations of add-ons", Objects: &v1alpha1.AddOnDeploymentConfigList{},
		NamespaceAttribute: "namespace",
		Adopt: func(object *v1alpha1.AddOnDeploymentConfig) (crud.Model, error) {
			return importDeploymentConfig(object), nil
		},
		Describe: func(object *v1alpha1.AddOnDeploymentConfig) string {
			return listing.Count(len(object.Spec.CustomizedVariables), "variable")
		},
	})
}

// What implements crud.Model.
func (m *deploymentConfigModel) What() string {
	return fmt.Sprintf("deployment configuration %q", m.Namespace.ValueString()+"/"+m.Name.ValueString())
}

// Key implements crud.Model.
func (m *deploymentConfigModel) Key() (namespace, name string) {
	return m.Namespace.ValueString(), m.Name.ValueString()
}

// Identity implements crud.Model.
func (m *deploymentConfigModel) Identity() any {
	return attribute.NamespacedIdentity{Namespace: m.Namespace, Name: m.Name}
}
