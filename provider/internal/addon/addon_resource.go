package addon

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/listing"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure      = (*addOnResource)(nil)
	_ resource.ResourceWithImportState    = (*addOnResource)(nil)
	_ resource.ResourceWithIdentity       = (*addOnResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*addOnResource)(nil)
	_ resource.ResourceWithMoveState      = (*addOnResource)(nil)
	_ resource.ResourceWithValidateConfig = (*addOnResource)(nil)
)

type addOnResource struct{ crud.Resource }

// New is muster_addon.
func New() resource.Resource { return &addOnResource{} }

// NewListResource lists add-ons.
func NewListResource() list.ListResource {
	return listing.New(listing.Kind[*v1alpha1.ClusterManagementAddOn]{
		Type: "addon", Plural: "add-ons", Objects: &v1alpha1.ClusterManagementAddOnList{},
		Adopt: func(object *v1alpha1.ClusterManagementAddOn) (crud.Model, error) { return importAddOn(object), nil },
		Describe: func(object *v1alpha1.ClusterManagementAddOn) string {
			if n := len(object.Spec.InstallStrategy.Placements); n > 0 {
				return listing.Count(n, "placement")
			}
			return "installed by hand"
		},
	})
}

func (r *addOnResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_addon"
}

func (r *addOnResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("name")
}

func (r *addOnResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan addOnModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r.expect(waiting, client, &plan, &resp.Diagnostics)
	object := plan.object()
	if resp.Diagnostics.HasError() || !r.CreateObject(waiting, plan.owned(object), resp.Private, &resp.Diagnostics) {
		return
	}
	follow := r.follow(ctx, waiting, client, &plan, object, timeout)
	plan.reportPlanned(object)
	follow.Created(ctx, &plan, resp)
}

func (r *addOnResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state addOnModel
	object := &v1alpha1.ClusterManagementAddOn{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.addOnSpecModel.observe(object)
		client := r.Hub.ReadClient(&resp.Diagnostics)
		if client == nil {
			return nil
		}
		state.report(object)
		addOns, err := inClusters(ctx, client, object.Name)
		if state.InstalledClusters = clustersOf(addOns); err != nil {
			state.InstalledClusters = types.ListNull(types.StringType)
		}
		switch {
		case state.Wait == nil:
			state.Ready = types.BoolNull()
		case !state.Ready.ValueBool():
			state.Ready = types.BoolValue(err == nil && state.Wait.metBy(&state.addOnStatusModel, addOns))
		}
		if apierrors.IsForbidden(err) {
			return nil
		}
		return err
	})
}

func (r *addOnResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan addOnModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Update(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	changes := attribute.ChangesBetween(req.Plan.Raw, req.State.Raw)
	if changes.In(placing()...) {
		r.expect(waiting, client, &plan, &resp.Diagnostics)
	}
	object := plan.object()
	if resp.Diagnostics.HasError() || !r.UpdateObject(waiting, plan.owned(object), req.Private, resp.Private, &resp.Diagnostics) {
		return
	}
	follow := r.follow(ctx, waiting, client, &plan, object, timeout)
	plan.reportPlanned(object)
	follow.Updated(ctx, &plan, resp)
}

// follow is what comes after the add-on was written. waiting ends with the timeout, ctx
// does not.
func (r *addOnResource) follow(
	ctx, waiting context.Context, client *kube.Client, plan *addOnModel, object *v1alpha1.ClusterManagementAddOn, timeout time.Duration,
) crud.Follow {
	open := plan.Progressions.IsUnknown()
	f := crud.Follow{
		Waits: plan.Wait != nil, Ready: &plan.Ready, Kind: "add-on",
		Wait: func() (summary, problem string) { return "", "" },
		Report: func() {
			if !open {
				return // What the plan has shown stays.
			}
			plan.report(object)
			if addOns, err := inClusters(ctx, client, object.Name); err == nil {
				plan.InstalledClusters = clustersOf(addOns)
			}
		},
	}
	if plan.Wait == nil || !plan.Ready.IsUnknown() {
		return f
	}
	f.Wait = func() (summary, problem string) {
		a := &awaited{client: client, wait: plan.Wait, object: object, patience: stoppedPatience}
		switch err := a.until(waiting); {
		case err == nil:
			return "", ""
		case hub.IsTimeout(err) || errors.Is(err, errStopped):
			return "Not ready: " + plan.What(), a.describe(ctx, timeout, err)
		default:
			return "Not ready: " + plan.What(), hub.Explain(client.Host(), "wait for it", err)
		}
	}
	return f
}

// Delete deletes the add-on, and waits until it is gone from all clusters: what it is
// made from may be deleted only then.
func (r *addOnResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state addOnModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	began := time.Now()
	object := &v1alpha1.ClusterManagementAddOn{}
	warnings := len(resp.Diagnostics)
	r.Destroy(ctx, object, &state, timeout, req.Private, &resp.Diagnostics, nil)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() || len(resp.Diagnostics) > warnings || object.UID == "" {
		return // It was another's, or nothing was there.
	}
	waiting, cancel := context.WithTimeout(ctx, timeout-time.Since(began))
	defer cancel()
	left, err := r.gone(waiting, client, object)
	switch {
	case err == nil || apierrors.IsForbidden(err):
	case hub.IsTimeout(err):
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
		defer cancel()
		works, _ := worksOf(reading, client, object.Name) // Without them, the finalizers tell.
		resp.Diagnostics.AddError("Not removed yet: "+state.What(), describeRemoval(left, works, timeout, time.Now()))
	default:
		hub.AddAPIError(&resp.Diagnostics, client, "wait until "+state.What()+" is gone from its clusters", err)
	}
}

// gone waits until the add-on is gone from all clusters, and returns what is left. What
// does not belong to the object that was deleted is not waited for.
func (r *addOnResource) gone(ctx context.Context, client *kube.Client, object *v1alpha1.ClusterManagementAddOn) ([]*v1alpha1.ManagedClusterAddOn, error) {
	a := &awaited{}
	err := client.WaitObjects(ctx, &v1alpha1.ManagedClusterAddOnList{}, &v1alpha1.ManagedClusterAddOn{}, named(object.Name), func(objects map[string]kube.Object) (bool, error) {
		a.addOns = map[string]*v1alpha1.ManagedClusterAddOn{}
		for _, o := range objects {
			x, ok := o.(*v1alpha1.ManagedClusterAddOn)
			if !ok || x.Name != object.Name {
				continue
			}
			for _, owner := range x.OwnerReferences {
				if owner.UID == object.UID {
					a.addOns[x.Namespace] = x
				}
			}
		}
		return len(a.addOns) == 0, nil
	})
	return a.inClusters(), err
}

func (r *addOnResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &v1alpha1.ClusterManagementAddOn{}
	named := func(names []string) crud.Model {
		return &addOnModel{addOnSpecModel: addOnSpecModel{Name: types.StringValue(names[0])}}
	}
	r.ImportObject(ctx, req, resp, []string{"name"}, object, named, func() (crud.Model, error) { return importAddOn(object), nil })
}

// MoveState implements resource.ResourceWithMoveState.
func (r *addOnResource) MoveState(context.Context) []resource.StateMover {
	return crud.MovedFrom(func(object *v1alpha1.ClusterManagementAddOn) (crud.Model, error) { return importAddOn(object), nil })
}
