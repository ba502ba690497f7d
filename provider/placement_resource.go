package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

var (
	_ resource.ResourceWithConfigure   = (*placementResource)(nil)
	_ resource.ResourceWithImportState = (*placementResource)(nil)
	_ resource.ResourceWithIdentity    = (*placementResource)(nil)
)

type placementResource struct{ hubResource }

type placementModel struct {
	Namespace         types.String            `tfsdk:"namespace"`
	Name              types.String            `tfsdk:"name"`
	Labels            types.Map               `tfsdk:"labels"`
	ClusterSets       []types.String          `tfsdk:"cluster_sets"`
	NumberOfClusters  types.Int64             `tfsdk:"number_of_clusters"`
	Predicates        []predicateModel        `tfsdk:"predicates"`
	PrioritizerPolicy *prioritizerPolicyModel `tfsdk:"prioritizer_policy"`
	Tolerations       []tolerationModel       `tfsdk:"tolerations"`
	DecisionStrategy  *decisionStrategyModel  `tfsdk:"decision_strategy"`
	ForceConflicts    types.Bool              `tfsdk:"force_conflicts"`
}

func newPlacementResource() resource.Resource { return &placementResource{} }

func (r *placementResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_placement"
}

func (r *placementResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identitySchema("namespace", "name")
}

func (r *placementResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Selects managed clusters out of the cluster sets that are bound to its namespace, and keeps the selection current. " +
			"The data source `muster_placement_decisions` reads it.\n\n" +
			"A cluster that is not accepted, or whose agent is silent, carries the taint `cluster.open-cluster-management.io/unreachable` and is not selected unless a toleration excuses it.",
		Attributes: map[string]schema.Attribute{
			"namespace": schema.StringAttribute{
				MarkdownDescription: "Namespace on the hub. It has to exist, and a cluster set has to be bound to it. Changing it makes another placement.",
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:          []validator.String{nameValidator{"namespace"}},
			},
			"name": schema.StringAttribute{
				MarkdownDescription: "Name of the placement. It becomes a label on its decisions, hence at most 63 characters. Changing it makes another placement.",
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:          []validator.String{nameValidator{"placement name"}},
			},
			"labels": schema.MapAttribute{
				MarkdownDescription: "Labels of the placement itself.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Map{labelsValidator{described: "Kubernetes labels"}},
			},
			"cluster_sets": schema.ListAttribute{
				MarkdownDescription: "Cluster sets to select from. Those that are not bound to the namespace are ignored. Left out, all that are.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.List{listvalidator.UniqueValues(), listvalidator.ValueStringsAre(nameValidator{"cluster set name"})},
			},
			"number_of_clusters": schema.Int64Attribute{
				MarkdownDescription: "How many clusters to select at most. Left out, all that qualify; `0` selects none.",
				Optional:            true,
				Validators:          []validator.Int64{int64validator.Between(0, 1<<31-1)},
			},
			"predicates":         predicatesAttribute(),
			"prioritizer_policy": prioritizerPolicyAttribute(),
			"tolerations":        tolerationsAttribute(),
			"decision_strategy":  decisionStrategyAttribute(),
			"force_conflicts":    forceAttribute(),
		},
	}
}

func (r *placementResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan placementModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.apply(ctx, plan.object(), "create "+plan.what(), force(plan.ForceConflicts, false), &resp.Diagnostics) {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
}

func (r *placementResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state placementModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
	if resp.Diagnostics.HasError() || r.skipRead(&resp.Diagnostics) {
		return
	}
	object := &clusterv1beta1.Placement{}
	switch found, ok := r.find(ctx, object, state.Namespace.ValueString(), state.Name.ValueString(), "read "+state.what(), &resp.Diagnostics); {
	case !ok:
		return
	case !found:
		resp.State.RemoveResource(ctx)
		return
	}
	state.observe(object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

func (r *placementResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan placementModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.apply(ctx, plan.object(), "update "+plan.what(), force(plan.ForceConflicts, true), &resp.Diagnostics) {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
}

func (r *placementResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state placementModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.destroy(ctx, &clusterv1beta1.Placement{}, state.Namespace.ValueString(), state.Name.ValueString(), "delete "+state.what(), defaultDelete, &resp.Diagnostics)
}

func (r *placementResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	names := importedNames(ctx, req, &resp.Diagnostics, "namespace", "name")
	if resp.Diagnostics.HasError() {
		return
	}
	object := &clusterv1beta1.Placement{}
	if !r.existing(ctx, object, names[0], names[1], fmt.Sprintf("import placement %q", names[0]+"/"+names[1]), &resp.Diagnostics) {
		return
	}
	state := importPlacement(object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
}

func (m *placementModel) what() string {
	return fmt.Sprintf("placement %q", m.Namespace.ValueString()+"/"+m.Name.ValueString())
}

func (m *placementModel) identity() namespacedIdentity {
	return namespacedIdentity{Namespace: m.Namespace, Name: m.Name}
}

func (m *placementModel) object() *clusterv1beta1.Placement {
	object := &clusterv1beta1.Placement{}
	object.Namespace, object.Name = m.Namespace.ValueString(), m.Name.ValueString()
	object.Labels = stringMap(m.Labels)
	for _, set := range m.ClusterSets {
		object.Spec.ClusterSets = append(object.Spec.ClusterSets, set.ValueString())
	}
	if !m.NumberOfClusters.IsNull() {
		number := int32(m.NumberOfClusters.ValueInt64()) //nolint:gosec // validated
		object.Spec.NumberOfClusters = &number
	}
	object.Spec.Predicates = predicates(m.Predicates)
	object.Spec.PrioritizerPolicy = m.PrioritizerPolicy.policy()
	object.Spec.Tolerations = tolerations(m.Tolerations)
	object.Spec.DecisionStrategy = m.DecisionStrategy.strategy()
	return object
}

// observe brings up to date what the model owns, and keeps its wording where it
// means the same as what the hub has.
func (m *placementModel) observe(object *clusterv1beta1.Placement) {
	own, live, now := m.object().Spec, object.Spec, importPlacement(object)
	m.Labels = observedMap(m.Labels, object.Labels)
	if m.ClusterSets != nil && !same(own.ClusterSets, live.ClusterSets) {
		m.ClusterSets = now.ClusterSets
	}
	if !m.NumberOfClusters.IsNull() {
		m.NumberOfClusters = now.NumberOfClusters
	}
	if m.Predicates != nil && !same(own.Predicates, live.Predicates) {
		m.Predicates = now.Predicates
	}
	if m.PrioritizerPolicy != nil && !same(own.PrioritizerPolicy, live.PrioritizerPolicy) {
		m.PrioritizerPolicy = prioritizerPolicyModelOf(live.PrioritizerPolicy)
	}
	if m.Tolerations != nil && !same(own.Tolerations, live.Tolerations) {
		m.Tolerations = now.Tolerations
	}
	if m.DecisionStrategy != nil && !same(own.DecisionStrategy, live.DecisionStrategy) {
		m.DecisionStrategy = decisionStrategyModelOf(live.DecisionStrategy)
	}
}

func importPlacement(object *clusterv1beta1.Placement) placementModel {
	owned := ownership.Of(object, fieldManager)
	spec := object.Spec
	m := placementModel{
		Namespace:   types.StringValue(object.Namespace),
		Name:        types.StringValue(object.Name),
		Labels:      importedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, func(string) bool { return true }),
		Predicates:  predicateModels(spec.Predicates),
		Tolerations: tolerationModels(spec.Tolerations),
	}
	for _, set := range spec.ClusterSets {
		m.ClusterSets = append(m.ClusterSets, types.StringValue(set))
	}
	if spec.NumberOfClusters != nil {
		m.NumberOfClusters = types.Int64Value(int64(*spec.NumberOfClusters))
	}
	if owned.Has("spec", "prioritizerPolicy") || len(spec.PrioritizerPolicy.Configurations) > 0 {
		m.PrioritizerPolicy = prioritizerPolicyModelOf(spec.PrioritizerPolicy)
	}
	if owned.Has("spec", "decisionStrategy") || !same(spec.DecisionStrategy, clusterv1beta1.DecisionStrategy{}) {
		m.DecisionStrategy = decisionStrategyModelOf(spec.DecisionStrategy)
	}
	return m
}
