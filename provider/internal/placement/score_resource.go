package placement

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure   = (*placementScoreResource)(nil)
	_ resource.ResourceWithImportState = (*placementScoreResource)(nil)
	_ resource.ResourceWithIdentity    = (*placementScoreResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*placementScoreResource)(nil)
)

// placementScoreResource writes scores of one cluster. They are the status of an
// object without a spec; what the configuration sets of them is owned by its
// field manager, item by item, as a spec would be.
type placementScoreResource struct{ crud.Resource }

// placementScoreIdentity names an AddOnPlacementScore.
type placementScoreIdentity struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
}

// NewScore is muster_addon_placement_score.
func NewScore() resource.Resource { return &placementScoreResource{} }

func (r *placementScoreResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_addon_placement_score"
}

func (r *placementScoreResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("managed_cluster", "name")
}

func (r *placementScoreResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Scores of one managed cluster, such as its cost or latency, for placements to rank clusters by: `add_on` in `prioritizer_policy` of `muster_placement`, or `managedCluster.scores(\"<name>\")` in its `cel_expressions`.\n\n" +
			"It is an AddOnPlacementScore in the cluster's namespace on the hub. Scores of other names in the same object may have other writers, such as an add-on: they are left alone, and as long as there are any, destroying the resource removes its own scores and leaves the object.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": attribute.Identifying("Managed cluster that the scores are about. Changing it replaces the object.",
				attribute.ValidClusterName()),
			"name": attribute.Identifying("Name of the object, by which placements refer to it (`resource_name`): give it the same name in every cluster. Changing it replaces the object.",
				attribute.ValidObjectName("score object name")),
			"labels": attribute.Labels("Labels of the object.", nil),
			"scores": schema.MapAttribute{
				MarkdownDescription: "Scores by name, from -100 (worst) to 100 (best). A cluster without a score counts as 0.",
				Required:            true,
				ElementType:         types.NumberType,
				Validators: []validator.Map{
					mapvalidator.SizeAtLeast(1), mapvalidator.KeysAre(stringvalidator.LengthAtLeast(1)), mapvalidator.ValueNumbersAre(attribute.WholeBetween(-100, 100)),
				},
			},
			"valid_until": schema.StringAttribute{
				MarkdownDescription: "When the scores expire, in RFC 3339 and whole seconds, such as `2027-01-31T00:00:00Z`. From then on each counts as 0. If omitted, they never expire, unless another writer of scores in the same object sets a time for all.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidTime()},
			},
			"adopt":           attribute.AdoptAttribute(),
			"force_conflicts": attribute.ForceAttribute(),
		},
	}
}

// ModifyPlan keeps the old wording of a moment that stays the same, and asks the
// hub what would come of the change.
func (r *placementScoreResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	defer r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model placementScoreModel
		diags.Append(from.Get(ctx, &model)...)
		return model.owned(), !diags.HasError()
	})
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	var planned, prior types.String
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("valid_until"), &planned)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("valid_until"), &prior)...)
	if !planned.IsNull() && !planned.IsUnknown() && sameMoment(planned.ValueString(), prior.ValueString()) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("valid_until"), prior)...)
	}
}

func (r *placementScoreResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan placementScoreModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	o := plan.owned()
	written := r.write(ctx, &plan, "create", &resp.Diagnostics, func(client *kube.Client) error {
		return o.Create(ctx, client, resp.Private, &resp.Diagnostics)
	})
	if !written {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *placementScoreResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state placementScoreModel
	object := &clusterv1alpha1.AddOnPlacementScore{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.observe(object)
		return nil
	})
}

func (r *placementScoreResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan placementScoreModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	o := plan.owned()
	written := r.write(ctx, &plan, "update", &resp.Diagnostics, func(client *kube.Client) error {
		return o.Update(ctx, client, req.Private, resp.Private, &resp.Diagnostics)
	})
	if !written {
		return
	}
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (r *placementScoreResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state placementScoreModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &clusterv1alpha1.AddOnPlacementScore{}
	namespace, name := state.Key()
	found, ok := r.Find(ctx, object, namespace, name, "delete "+state.What(), &resp.Diagnostics)
	switch {
	case !ok || !found:
	case state.isShared(object):
		r.release(ctx, &state, req.Private, &resp.Diagnostics)
	default:
		r.Destroy(ctx, object, &state, attribute.DefaultDelete, req.Private, &resp.Diagnostics, nil)
	}
}

// release takes the resource's scores out of an object that has others' scores, too.
func (r *placementScoreResource) release(ctx context.Context, state *placementScoreModel, was crud.PrivateReader, diags *diag.Diagnostics) {
	client := r.Hub.WriteClient(diags)
	if client == nil {
		return
	}
	bare := &clusterv1alpha1.AddOnPlacementScore{}
	bare.Namespace, bare.Name = state.Key()
	err := crud.Release(ctx, client, bare, hub.FieldManager, crud.ClaimOf(ctx, was, diags))
	if err == nil && bare.UID != "" {
		none := &clusterv1alpha1.AddOnPlacementScore{}
		none.Namespace, none.Name = state.Key()
		err = client.ApplyStatus(ctx, none, kube.ApplyOptions{Manager: hub.FieldManager})
	}
	if err = crud.Left(client, state.What(), err, diags); err != nil {
		hub.AddAPIError(diags, client, "remove the scores of "+state.What(), err)
	}
}

func (r *placementScoreResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &clusterv1alpha1.AddOnPlacementScore{}
	named := func(names []string) crud.Model {
		return &placementScoreModel{ManagedCluster: types.StringValue(names[0]), Name: types.StringValue(names[1])}
	}
	r.ImportObject(ctx, req, resp, []string{"managed_cluster", "name"}, object, named, func() (crud.Model, error) {
		state := importPlacementScore(object)
		return &state, nil
	})
}

// write writes the object by own, and then its status: the API takes them only
// one after the other.
func (r *placementScoreResource) write(ctx context.Context, plan *placementScoreModel, verb string, diags *diag.Diagnostics, own func(*kube.Client) error) bool {
	client := r.Hub.WriteClient(diags)
	if client == nil {
		return false
	}
	doing := verb + " " + plan.What()
	err := own(client)
	if kube.IsMissingNamespace(err) {
		diags.AddAttributeError(path.Root("managed_cluster"), "Cannot "+doing,
			fmt.Sprintf("The hub %s has no namespace %q: there is no managed cluster of this name, or the hub has not made its namespace yet. "+
				"Refer to the name of a muster_managed_cluster, or correct it.", client.Host(), plan.ManagedCluster.ValueString()))
		return false
	}
	if err == nil {
		doing = "write the scores of " + plan.What()
		scored := plan.scored()
		err = client.ApplyStatus(ctx, scored, kube.ApplyOptions{Manager: hub.FieldManager, Force: plan.owned().Write.Force})
		if err == nil && plan.expiresWithout(scored) {
			patch := map[string]any{"metadata": map[string]any{"resourceVersion": scored.ResourceVersion}, "status": map[string]any{"validUntil": nil}}
			err = client.MergePatchStatus(ctx, scored, hub.FieldManager, patch)
		}
	}
	if err != nil {
		hub.AddAPIError(diags, client, doing, err)
		return false
	}
	return true
}
