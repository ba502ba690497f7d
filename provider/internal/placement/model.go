package placement

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
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
	Namespace      types.String   `tfsdk:"namespace"`
	Name           types.String   `tfsdk:"name"`
	Labels         types.Map      `tfsdk:"labels"`
	Annotations    types.Map      `tfsdk:"annotations"`
	ScoreRateLimit types.String   `tfsdk:"score_rate_limit"`
	Preview        types.Bool     `tfsdk:"preview"`
	Wait           *waitModel     `tfsdk:"wait"`
	Ready          types.Bool     `tfsdk:"ready"`
	Adopt          types.Bool     `tfsdk:"adopt"`
	ForceConflicts types.Bool     `tfsdk:"force_conflicts"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
	placementSpecModel
	placementChoiceModel
}

// what names the placement in messages.
func (m *placementModel) what() string {
	return fmt.Sprintf("placement %q", m.Namespace.ValueString()+"/"+m.Name.ValueString())
}

func (m *placementModel) object() *clusterv1beta1.Placement {
	object := &clusterv1beta1.Placement{Spec: m.spec()}
	object.Namespace, object.Name = m.Namespace.ValueString(), m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	object.Spec.ScoreRateLimit = m.ScoreRateLimit.ValueString()
	return object
}

// observe brings up to date what the model owns.
func (m *placementModel) observe(object *clusterv1beta1.Placement) {
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	m.placementSpecModel.observe(object.Spec)
	if !m.ScoreRateLimit.IsNull() || !unlimited(object) {
		m.ScoreRateLimit = attribute.OptionalString(object.Spec.ScoreRateLimit)
	}
}

// unlimited reports whether nothing is asked for about the time between changes.
func unlimited(object *clusterv1beta1.Placement) bool {
	return object.Spec.ScoreRateLimit == "" || object.Spec.ScoreRateLimit == defaultScoreRateLimit
}

// unwanted are the fields that somebody has set on the hub and the model leaves out,
// which means something.
func (m *placementModel) unwanted(object *clusterv1beta1.Placement) [][]string {
	paths := m.placementSpecModel.unwanted(object.Spec)
	if m.ScoreRateLimit.IsNull() && !unlimited(object) {
		paths = append(paths, []string{"spec", "scoreRateLimit"})
	}
	return paths
}

// The values that the API fills in where nothing is asked for.
const (
	defaultSortBy         = clusterv1beta1.PlacementSortByClusterName
	defaultScoreRateLimit = "1m"
	defaultGroupSize      = "100%"
)

func importPlacement(object *clusterv1beta1.Placement) placementModel {
	owned := crud.FieldsOf(object, hub.FieldManager)
	spec := object.Spec
	unknown := types.ListNull(types.StringType)
	m := placementModel{
		Namespace: types.StringValue(object.Namespace),
		Name:      types.StringValue(object.Name),
		Labels:    attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, func(string) bool { return true }),
		Annotations: attribute.ImportedMap(owned.Keys("metadata", "annotations"), owned.None(), object.Annotations, func(key string) bool {
			return attribute.ImportableAnnotation(key)
		}),
		Timeouts:             attribute.NullTimeouts("create", "update", "delete"),
		placementChoiceModel: placementChoiceModel{SelectedClusters: unknown, PlannedClusters: unknown, PlannedAdded: unknown, PlannedDropped: unknown},
	}
	m.take(owned, spec)
	if owned.Has("spec", "scoreRateLimit") || !unlimited(object) {
		m.ScoreRateLimit = attribute.OptionalString(spec.ScoreRateLimit)
	}
	return m
}
