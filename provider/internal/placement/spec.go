package placement

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// specField ties an attribute of the selection to its place in the API's
// PlacementSpec. All that reads or writes the selection goes through specFields, so
// that a new attribute needs an entry there, its schema in placementSpecAttributes,
// and nothing else.
type specField struct {
	name string
	// target is the attribute in the model, to read it into.
	target func(m *placementSpecModel) any
	// isSet reports whether the configuration asks for anything.
	isSet func(m *placementSpecModel) bool
	// write puts the attribute into the spec.
	write func(m *placementSpecModel, spec *clusterv1beta1.PlacementSpec)
	// read takes the attribute from the spec.
	read func(m *placementSpecModel, spec *clusterv1beta1.PlacementSpec)
	// part is the place in the spec, to compare two by.
	part func(spec *clusterv1beta1.PlacementSpec) any
	// field is the name of the place.
	field string
	// absent reports whether the place is as the hub leaves it where nothing is asked
	// for. Leaving the attribute out means just that, so anything else is drift.
	absent func(spec *clusterv1beta1.PlacementSpec) bool
}

func specFields() []specField { return slices.Concat(qualifyingFields(), choosingFields()) }

// qualifyingFields are those that tell which clusters qualify, and how many are
// selected.
func qualifyingFields() []specField {
	type model = placementSpecModel
	type spec = clusterv1beta1.PlacementSpec
	return []specField{
		{
			name:   "cluster_sets",
			target: func(m *model) any { return &m.ClusterSets },
			isSet:  func(m *model) bool { return m.ClusterSets != nil },
			write:  func(m *model, s *spec) { s.ClusterSets = attribute.Texts(m.ClusterSets) },
			read:   func(m *model, s *spec) { m.ClusterSets = attribute.TextValues(s.ClusterSets) },
			part:   func(s *spec) any { return s.ClusterSets },
			field:  "clusterSets",
			absent: func(s *spec) bool { return len(s.ClusterSets) == 0 },
		},
		{
			name:   "number_of_clusters",
			target: func(m *model) any { return &m.NumberOfClusters },
			isSet:  func(m *model) bool { return !m.NumberOfClusters.IsNull() },
			write: func(m *model, s *spec) {
				if !m.NumberOfClusters.IsNull() {
					number := int32(m.NumberOfClusters.ValueInt64()) //nolint:gosec // validated
					s.NumberOfClusters = &number
				}
			},
			read: func(m *model, s *spec) {
				m.NumberOfClusters = types.Int64Null()
				if s.NumberOfClusters != nil {
					m.NumberOfClusters = types.Int64Value(int64(*s.NumberOfClusters))
				}
			},
			part:   func(s *spec) any { return s.NumberOfClusters },
			field:  "numberOfClusters",
			absent: func(s *spec) bool { return s.NumberOfClusters == nil },
		},
		{
			name:   "predicates",
			target: func(m *model) any { return &m.Predicates },
			isSet:  func(m *model) bool { return m.Predicates != nil },
			write:  func(m *model, s *spec) { s.Predicates = predicates(m.Predicates) },
			read:   func(m *model, s *spec) { m.Predicates = predicateModels(s.Predicates) },
			part:   func(s *spec) any { return s.Predicates },
			field:  "predicates",
			absent: func(s *spec) bool { return len(s.Predicates) == 0 },
		},
		{
			name:   "tolerations",
			target: func(m *model) any { return &m.Tolerations },
			isSet:  func(m *model) bool { return m.Tolerations != nil },
			write:  func(m *model, s *spec) { s.Tolerations = tolerations(m.Tolerations) },
			read:   func(m *model, s *spec) { m.Tolerations = tolerationModels(s.Tolerations) },
			part:   func(s *spec) any { return s.Tolerations },
			field:  "tolerations",
			absent: func(s *spec) bool { return len(s.Tolerations) == 0 },
		},
	}
}

// choosingFields are those that tell which of the qualifying clusters are selected,
// and how the decision is presented.
func choosingFields() []specField {
	type model = placementSpecModel
	type spec = clusterv1beta1.PlacementSpec
	return []specField{
		{
			name:   "prioritizer_policy",
			target: func(m *model) any { return &m.PrioritizerPolicy },
			isSet:  func(m *model) bool { return m.PrioritizerPolicy != nil },
			write:  func(m *model, s *spec) { s.PrioritizerPolicy = m.PrioritizerPolicy.policy() },
			read:   func(m *model, s *spec) { m.PrioritizerPolicy = prioritizerPolicyModelOf(s.PrioritizerPolicy) },
			part:   func(s *spec) any { return s.PrioritizerPolicy },
			field:  "prioritizerPolicy",
			absent: func(s *spec) bool {
				return len(s.PrioritizerPolicy.Configurations) == 0 && s.PrioritizerPolicy.Mode != clusterv1beta1.PrioritizerPolicyModeExact
			},
		},
		{
			name:   "spread_policy",
			target: func(m *model) any { return &m.SpreadPolicy },
			isSet:  func(m *model) bool { return m.SpreadPolicy != nil },
			write:  func(m *model, s *spec) { s.SpreadPolicy = m.SpreadPolicy.policy() },
			read:   func(m *model, s *spec) { m.SpreadPolicy = spreadPolicyModelOf(s.SpreadPolicy) },
			part:   func(s *spec) any { return s.SpreadPolicy },
			field:  "spreadPolicy",
			absent: func(s *spec) bool { return len(s.SpreadPolicy.SpreadConstraints) == 0 },
		},
		{
			name:   "decision_strategy",
			target: func(m *model) any { return &m.DecisionStrategy },
			isSet:  func(m *model) bool { return m.DecisionStrategy != nil },
			write:  func(m *model, s *spec) { s.DecisionStrategy = m.DecisionStrategy.strategy() },
			read:   func(m *model, s *spec) { m.DecisionStrategy = decisionStrategyModelOf(s.DecisionStrategy) },
			part:   func(s *spec) any { return s.DecisionStrategy },
			field:  "decisionStrategy",
			absent: func(s *spec) bool { return undivided(s.DecisionStrategy.GroupStrategy) },
		},
		{
			name:   "sort_by",
			target: func(m *model) any { return &m.SortBy },
			isSet:  func(m *model) bool { return !m.SortBy.IsNull() },
			write:  func(m *model, s *spec) { s.SortBy = clusterv1beta1.PlacementSortBy(m.SortBy.ValueString()) },
			read:   func(m *model, s *spec) { m.SortBy = attribute.OptionalString(string(s.SortBy)) },
			part:   func(s *spec) any { return s.SortBy },
			field:  "sortBy",
			absent: func(s *spec) bool { return s.SortBy == "" || s.SortBy == defaultSortBy },
		},
	}
}

// spec is what the API gets of the selection.
func (m *placementSpecModel) spec() clusterv1beta1.PlacementSpec {
	var spec clusterv1beta1.PlacementSpec
	for _, field := range specFields() {
		field.write(m, &spec)
	}
	return spec
}

// observe brings the model up to date, and keeps its wording where it means the same
// as what the hub has.
func (m *placementSpecModel) observe(live clusterv1beta1.PlacementSpec) {
	own := m.spec()
	for _, field := range specFields() {
		if field.isSet(m) && !attribute.Same(field.part(&own), field.part(&live)) || !field.isSet(m) && !field.absent(&live) {
			field.read(m, &live)
		}
	}
}

// take is the part of a spec that an import takes over.
func (m *placementSpecModel) take(owned crud.Fields, live clusterv1beta1.PlacementSpec) {
	for _, field := range specFields() {
		if owned.Has("spec", field.field) || !field.absent(&live) {
			field.read(m, &live)
		}
	}
}

// unwanted are the fields of the spec that somebody has set and the model leaves
// out.
func (m *placementSpecModel) unwanted(live clusterv1beta1.PlacementSpec) [][]string {
	var paths [][]string
	own := m.spec()
	for _, field := range specFields() {
		if attribute.Same(field.part(&own), field.part(&clusterv1beta1.PlacementSpec{})) && !field.absent(&live) {
			paths = append(paths, []string{"spec", field.field})
		}
	}
	return paths
}

// undivided reports whether all clusters are in one group without a name.
func undivided(s clusterv1beta1.GroupStrategy) bool {
	size := s.ClustersPerDecisionGroup
	return len(s.DecisionGroups) == 0 && (size == intstr.IntOrString{} || size.String() == defaultGroupSize)
}

// asksForNothing reports whether nothing about the selection is set.
func (m *placementSpecModel) asksForNothing() bool {
	for _, field := range specFields() {
		if field.isSet(m) {
			return false
		}
	}
	return true
}
