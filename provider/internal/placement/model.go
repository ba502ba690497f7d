package placement

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// A placement between Terraform and the API.

// placementSpecModel is what a placement asks for. The resource and the preview
// have it in common.
type placementSpecModel struct {
	ClusterSets       []types.String          `tfsdk:"cluster_sets"`
	NumberOfClusters  types.Int64             `tfsdk:"number_of_clusters"`
	Predicates        []predicateModel        `tfsdk:"predicates"`
	PrioritizerPolicy *prioritizerPolicyModel `tfsdk:"prioritizer_policy"`
	SpreadPolicy      *spreadPolicyModel      `tfsdk:"spread_policy"`
	Tolerations       []tolerationModel       `tfsdk:"tolerations"`
	DecisionStrategy  *decisionStrategyModel  `tfsdk:"decision_strategy"`
	SortBy            types.String            `tfsdk:"sort_by"`
}

// placementChoiceModel is which clusters a placement selects, and was expected
// to.
type placementChoiceModel struct {
	SelectedClusters types.List `tfsdk:"selected_clusters"`
	PlannedClusters  types.List `tfsdk:"planned_clusters"`
	PlannedAdded     types.List `tfsdk:"planned_added"`
	PlannedDropped   types.List `tfsdk:"planned_dropped"`
}

type placementModel struct {
	Namespace      types.String        `tfsdk:"namespace"`
	Name           types.String        `tfsdk:"name"`
	Labels         types.Map           `tfsdk:"labels"`
	Annotations    types.Map           `tfsdk:"annotations"`
	ScoreRateLimit types.String        `tfsdk:"score_rate_limit"`
	Preview        types.Bool          `tfsdk:"preview"`
	Wait           *placementWaitModel `tfsdk:"wait"`
	Ready          types.Bool          `tfsdk:"ready"`
	Adopt          types.Bool          `tfsdk:"adopt"`
	ForceConflicts types.Bool          `tfsdk:"force_conflicts"`
	Timeouts       timeouts.Value      `tfsdk:"timeouts"`
	placementSpecModel
	placementChoiceModel
}

func (m *placementModel) what() string {
	return fmt.Sprintf("placement %q", m.Namespace.ValueString()+"/"+m.Name.ValueString())
}

func (m *placementModel) identity() attribute.NamespacedIdentity {
	return attribute.NamespacedIdentity{Namespace: m.Namespace, Name: m.Name}
}

// owned is the placement as an object of the hub.
func (m *placementModel) owned(object *clusterv1beta1.Placement) crud.Owned {
	return crud.Own(object, m.what(), m.Namespace.ValueString()+"/"+m.Name.ValueString(), m.Adopt, m.ForceConflicts)
}

func (m *placementModel) object() *clusterv1beta1.Placement {
	object := &clusterv1beta1.Placement{Spec: m.spec()}
	object.Namespace, object.Name = m.Namespace.ValueString(), m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	object.Spec.ScoreRateLimit = m.ScoreRateLimit.ValueString()
	return object
}

func (m *placementSpecModel) spec() clusterv1beta1.PlacementSpec {
	spec := clusterv1beta1.PlacementSpec{
		ClusterSets:       attribute.Texts(m.ClusterSets),
		Predicates:        predicates(m.Predicates),
		PrioritizerPolicy: m.PrioritizerPolicy.policy(),
		SpreadPolicy:      m.SpreadPolicy.policy(),
		Tolerations:       tolerations(m.Tolerations),
		DecisionStrategy:  m.DecisionStrategy.strategy(),
		SortBy:            clusterv1beta1.PlacementSortBy(m.SortBy.ValueString()),
	}
	if !m.NumberOfClusters.IsNull() {
		number := int32(m.NumberOfClusters.ValueInt64()) //nolint:gosec // validated
		spec.NumberOfClusters = &number
	}
	return spec
}

// observe brings up to date what the model owns, and keeps its wording where it
// means the same as what the hub has.
func (m *placementModel) observe(object *clusterv1beta1.Placement) {
	own, live, now := m.object().Spec, object.Spec, importPlacement(object)
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	if m.ClusterSets != nil && !attribute.Same(own.ClusterSets, live.ClusterSets) {
		m.ClusterSets = now.ClusterSets
	}
	if !m.NumberOfClusters.IsNull() {
		m.NumberOfClusters = now.NumberOfClusters
	}
	if m.Predicates != nil && !attribute.Same(own.Predicates, live.Predicates) {
		m.Predicates = now.Predicates
	}
	if m.PrioritizerPolicy != nil && !attribute.Same(own.PrioritizerPolicy, live.PrioritizerPolicy) {
		m.PrioritizerPolicy = prioritizerPolicyModelOf(live.PrioritizerPolicy)
	}
	if m.SpreadPolicy != nil && !attribute.Same(own.SpreadPolicy, live.SpreadPolicy) {
		m.SpreadPolicy = spreadPolicyModelOf(live.SpreadPolicy)
	}
	if m.Tolerations != nil && !attribute.Same(own.Tolerations, live.Tolerations) {
		m.Tolerations = now.Tolerations
	}
	if m.DecisionStrategy != nil && !attribute.Same(own.DecisionStrategy, live.DecisionStrategy) {
		m.DecisionStrategy = decisionStrategyModelOf(live.DecisionStrategy)
	}
	if !m.SortBy.IsNull() {
		m.SortBy = attribute.OptionalString(string(live.SortBy))
	}
	if !m.ScoreRateLimit.IsNull() {
		m.ScoreRateLimit = attribute.OptionalString(live.ScoreRateLimit)
	}
}

// The values that the API fills in where nothing is asked for.
const (
	defaultSortBy         = clusterv1beta1.PlacementSortByClusterName
	defaultScoreRateLimit = "1m"
)

func importPlacement(object *clusterv1beta1.Placement) placementModel {
	owned := ownership.Of(object, hub.FieldManager)
	spec := object.Spec
	unknown := types.ListNull(types.StringType)
	m := placementModel{
		Namespace: types.StringValue(object.Namespace),
		Name:      types.StringValue(object.Name),
		Labels:    attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, func(string) bool { return true }),
		Annotations: attribute.ImportedMap(owned.Keys("metadata", "annotations"), owned.None(), object.Annotations, func(key string) bool {
			return key != corev1.LastAppliedConfigAnnotation && attribute.ReservedAnnotation(key) == ""
		}),
		Timeouts:             attribute.NullTimeouts("create", "update", "delete"),
		placementSpecModel:   placementSpecModel{ClusterSets: attribute.TextValues(spec.ClusterSets), Predicates: predicateModels(spec.Predicates), Tolerations: tolerationModels(spec.Tolerations)},
		placementChoiceModel: placementChoiceModel{SelectedClusters: unknown, PlannedClusters: unknown, PlannedAdded: unknown, PlannedDropped: unknown},
	}
	if spec.NumberOfClusters != nil {
		m.NumberOfClusters = types.Int64Value(int64(*spec.NumberOfClusters))
	}
	if owned.Has("spec", "prioritizerPolicy") || len(spec.PrioritizerPolicy.Configurations) > 0 {
		m.PrioritizerPolicy = prioritizerPolicyModelOf(spec.PrioritizerPolicy)
	}
	if len(spec.SpreadPolicy.SpreadConstraints) > 0 {
		m.SpreadPolicy = spreadPolicyModelOf(spec.SpreadPolicy)
	}
	if owned.Has("spec", "decisionStrategy") || !attribute.Same(spec.DecisionStrategy, clusterv1beta1.DecisionStrategy{}) {
		m.DecisionStrategy = decisionStrategyModelOf(spec.DecisionStrategy)
	}
	if owned.Has("spec", "sortBy") || spec.SortBy != defaultSortBy {
		m.SortBy = attribute.OptionalString(string(spec.SortBy))
	}
	if owned.Has("spec", "scoreRateLimit") || spec.ScoreRateLimit != defaultScoreRateLimit {
		m.ScoreRateLimit = attribute.OptionalString(spec.ScoreRateLimit)
	}
	return m
}
