package clusterset

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

var (
	_ resource.ResourceWithConfigure   = (*managedClusterSetBindingResource)(nil)
	_ resource.ResourceWithImportState = (*managedClusterSetBindingResource)(nil)
	_ resource.ResourceWithIdentity    = (*managedClusterSetBindingResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*managedClusterSetBindingResource)(nil)
)

type managedClusterSetBindingResource struct{ crud.Resource }

type managedClusterSetBindingModel struct {
	Namespace      types.String `tfsdk:"namespace"`
	ClusterSet     types.String `tfsdk:"cluster_set"`
	Adopt          types.Bool   `tfsdk:"adopt"`
	ForceConflicts types.Bool   `tfsdk:"force_conflicts"`
}

type bindingIdentity struct {
	Namespace  types.String `tfsdk:"namespace"`
	ClusterSet types.String `tfsdk:"cluster_set"`
}

// NewBinding is muster_managed_cluster_set_binding.
func NewBinding() resource.Resource {
	return &managedClusterSetBindingResource{}
}

func (r *managedClusterSetBindingResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_managed_cluster_set_binding"
}

func (r *managedClusterSetBindingResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("namespace", "cluster_set")
}

func (r *managedClusterSetBindingResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Lets the placements of a namespace on the hub select from a cluster set. Creating it needs the right to bind the set (`create` on `managedclustersets/bind`).",
		Attributes: map[string]schema.Attribute{
			"namespace": attribute.Identifying("Namespace on the hub. It has to exist, for example as a `muster_namespace`. Changing it replaces the binding.",
				attribute.ValidName("namespace")),
			"cluster_set": attribute.Identifying("Name of the cluster set, and of the binding. The set may be created later. Changing it replaces the binding.",
				attribute.ValidName("cluster set name")),
			"adopt":           attribute.AdoptAttribute(),
			"force_conflicts": attribute.ForceAttribute(),
		},
	}
}

func (r *managedClusterSetBindingResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan managedClusterSetBindingModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.CreateObject(ctx, plan.owned(), resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *managedClusterSetBindingResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	r.ReadObject(ctx, req, resp, &managedClusterSetBindingModel{}, &clusterv1beta2.ManagedClusterSetBinding{}, func() error { return nil })
}

// Update writes the same again, under this resource's mark: all that differs makes
// another binding.
func (r *managedClusterSetBindingResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan managedClusterSetBindingModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.UpdateObject(ctx, plan.owned(), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *managedClusterSetBindingResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state managedClusterSetBindingModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.Destroy(ctx, &clusterv1beta2.ManagedClusterSetBinding{}, &state, attribute.DefaultDelete, req.Private, &resp.Diagnostics, nil)
}

func (r *managedClusterSetBindingResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &clusterv1beta2.ManagedClusterSetBinding{}
	named := func(names []string) crud.Model {
		return &managedClusterSetBindingModel{Namespace: types.StringValue(names[0]), ClusterSet: types.StringValue(names[1])}
	}
	r.ImportObject(ctx, req, resp, []string{"namespace", "cluster_set"}, object, named,
		func() (crud.Model, error) { return importBinding(object), nil })
}

func importBinding(object *clusterv1beta2.ManagedClusterSetBinding) *managedClusterSetBindingModel {
	return &managedClusterSetBindingModel{Namespace: types.StringValue(object.Namespace), ClusterSet: types.StringValue(object.Name)}
}

// ModifyPlan asks the hub what would come of the change.
func (r *managedClusterSetBindingResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model managedClusterSetBindingModel
		diags.Append(from.Get(ctx, &model)...)
		return model.owned(), !diags.HasError()
	})
}

// owned is the binding as an object of the hub.
func (m *managedClusterSetBindingModel) owned() crud.Owned {
	o := crud.Own(m.object(), m.What(), m.Namespace.ValueString()+"/"+m.ClusterSet.ValueString(), m.Adopt, m.ForceConflicts)
	o.Write.Foreign = crud.ForeignMetadata
	o.Places = map[string]string{cluster.RefusedSetBinding: "cluster_set"}
	return o
}

// What implements crud.Model.
func (m *managedClusterSetBindingModel) What() string {
	return fmt.Sprintf("the binding of cluster set %q to namespace %q", m.ClusterSet.ValueString(), m.Namespace.ValueString())
}

// Identity implements crud.Model.
func (m *managedClusterSetBindingModel) Identity() any {
	return bindingIdentity{Namespace: m.Namespace, ClusterSet: m.ClusterSet}
}

func (m *managedClusterSetBindingModel) object() *clusterv1beta2.ManagedClusterSetBinding {
	object := &clusterv1beta2.ManagedClusterSetBinding{}
	object.Namespace, object.Name = m.Namespace.ValueString(), m.ClusterSet.ValueString()
	object.Spec.ClusterSet = m.ClusterSet.ValueString()
	return object
}

// Key implements crud.Model.
func (m *managedClusterSetBindingModel) Key() (namespace, name string) {
	return m.Namespace.ValueString(), m.ClusterSet.ValueString()
}
