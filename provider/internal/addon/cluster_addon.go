package addon

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure      = (*clusterAddOnResource)(nil)
	_ resource.ResourceWithImportState    = (*clusterAddOnResource)(nil)
	_ resource.ResourceWithIdentity       = (*clusterAddOnResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*clusterAddOnResource)(nil)
	_ resource.ResourceWithMoveState      = (*clusterAddOnResource)(nil)
	_ resource.ResourceWithValidateConfig = (*clusterAddOnResource)(nil)
)

type clusterAddOnResource struct{ crud.Resource }

type clusterAddOnModel struct {
	ManagedCluster   types.String  `tfsdk:"managed_cluster"`
	Name             types.String  `tfsdk:"name"`
	Labels           types.Map     `tfsdk:"labels"`
	Annotations      types.Map     `tfsdk:"annotations"`
	Configs          []configModel `tfsdk:"configs"`
	HostingCluster   types.String  `tfsdk:"hosting_cluster"`
	InstallNamespace types.String  `tfsdk:"install_namespace"`
	clusterAddOnStatusModel
	Wait           *addOnWaitModel `tfsdk:"wait"`
	Triggers       types.Map       `tfsdk:"triggers"`
	Ready          types.Bool      `tfsdk:"ready"`
	Adopt          types.Bool      `tfsdk:"adopt"`
	ForceConflicts types.Bool      `tfsdk:"force_conflicts"`
	Timeouts       timeouts.Value  `tfsdk:"timeouts"`
}

type clusterAddOnIdentity struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
}

// NewClusterAddOn is muster_cluster_addon.
func NewClusterAddOn() resource.Resource { return &clusterAddOnResource{} }

func (r *clusterAddOnResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cluster_addon"
}

func (r *clusterAddOnResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("managed_cluster", "name")
}

func (r *clusterAddOnResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan clusterAddOnModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !plan.mayStay(waiting, client, &resp.Diagnostics) {
		return
	}
	object := plan.object()
	o := plan.owned(object)
	if !crud.InCluster(waiting, client, object.Namespace, "create "+plan.What(), timeout, &resp.Diagnostics, func() error {
		return o.Create(waiting, client, resp.Private, &resp.Diagnostics)
	}) {
		return
	}
	plan.reportPlanned(object)
	plan.follow(ctx, waiting, client, object, timeout).Created(ctx, &plan, resp)
}

func (r *clusterAddOnResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state clusterAddOnModel
	object := &v1alpha1.ManagedClusterAddOn{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.observe(object)
		return nil
	})
}

func (r *clusterAddOnResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan clusterAddOnModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Update(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	object := plan.object()
	o := plan.owned(object)
	if !crud.InCluster(waiting, client, object.Namespace, "update "+plan.What(), timeout, &resp.Diagnostics, func() error {
		if !attribute.ChangesBetween(req.Plan.Raw, req.State.Raw).Beyond(clusterLocal()...) {
			return client.Get(waiting, object, object.Namespace, object.Name)
		}
		return o.Update(waiting, client, req.Private, resp.Private, &resp.Diagnostics)
	}) {
		return
	}
	plan.reportPlanned(object)
	plan.follow(ctx, waiting, client, object, timeout).Updated(ctx, &plan, resp)
}

func (r *clusterAddOnResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state clusterAddOnModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &v1alpha1.ManagedClusterAddOn{}
	r.Destroy(ctx, object, &state, timeout, req.Private, &resp.Diagnostics, func(client *kube.Client) (summary, detail string) {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
		defer cancel()
		works, err := worksOf(asking, client, object.Name)
		if err != nil {
			works = nil // The rest of the message does without them.
		}
		return "Not removed yet: " + state.What(), describeRemoval([]*v1alpha1.ManagedClusterAddOn{object}, works, timeout, time.Now())
	})
}

func (r *clusterAddOnResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &v1alpha1.ManagedClusterAddOn{}
	named := func(names []string) crud.Model {
		return &clusterAddOnModel{ManagedCluster: types.StringValue(names[0]), Name: types.StringValue(names[1])}
	}
	r.ImportObject(ctx, req, resp, []string{"managed_cluster", "name"}, object, named, func() (crud.Model, error) { return importClusterAddOn(object), nil })
}

// MoveState implements resource.ResourceWithMoveState.
func (r *clusterAddOnResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *v1alpha1.ManagedClusterAddOn) (crud.Model, error) { return importClusterAddOn(object), nil })
}

// NewClusterAddOnListResource lists add-ons in clusters.
func NewClusterAddOnListResource() list.ListResource {
	return listing.New(listing.Kind[*v1alpha1.ManagedClusterAddOn]{
		Type: "cluster_addon", Plural: "add-ons in clusters", Objects: &v1alpha1.ManagedClusterAddOnList{},
		About:              "Those that the hub has installed for the placements of an add-on, and that nobody has changed, count as made by a controller.",
		NamespaceAttribute: "managed_cluster",
		Adopt:              func(object *v1alpha1.ManagedClusterAddOn) (crud.Model, error) { return importClusterAddOn(object), nil },
		Made:               madeByHub,
		Cluster:            func(object *v1alpha1.ManagedClusterAddOn) string { return object.Namespace },
		Describe: func(object *v1alpha1.ManagedClusterAddOn) string {
			return listing.Count(len(object.Spec.Configs), "configuration")
		},
	})
}

// What implements crud.Model.
func (m *clusterAddOnModel) What() string {
	return fmt.Sprintf("add-on %q in cluster %q", m.Name.ValueString(), m.ManagedCluster.ValueString())
}

// Key implements crud.Model.
func (m *clusterAddOnModel) Key() (namespace, name string) {
	return m.ManagedCluster.ValueString(), m.Name.ValueString()
}

// Identity implements crud.Model.
func (m *clusterAddOnModel) Identity() any {
	return clusterAddOnIdentity{ManagedCluster: m.ManagedCluster, Name: m.Name}
}
