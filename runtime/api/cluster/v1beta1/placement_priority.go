package v1beta1

// PrioritizerPolicy says by which scores clusters are ranked. A cluster's total is
// the sum of its scores, each times its weight; equal totals rank by name.
type PrioritizerPolicy struct {
	// mode says what becomes of the prioritizers that are not configured here.
	// Additive: Balance and Steady take part with weight 1. Exact: only the
	// configured ones count.
	// +optional
	// +kubebuilder:default=Additive
	Mode PrioritizerPolicyModeType `json:"mode,omitempty"`

	// configurations choose prioritizers and their weights.
	// +optional
	Configurations []PrioritizerConfig `json:"configurations,omitempty"`
}

// PrioritizerPolicyModeType says how configured and default prioritizers combine.
type PrioritizerPolicyModeType string

const (
	// PrioritizerPolicyModeAdditive adds the configurations to the defaults and
	// overrides those of the same name.
	PrioritizerPolicyModeAdditive PrioritizerPolicyModeType = "Additive"

	// PrioritizerPolicyModeExact uses the configurations and nothing else.
	PrioritizerPolicyModeExact PrioritizerPolicyModeType = "Exact"
)

// PrioritizerConfig gives a prioritizer its weight.
type PrioritizerConfig struct {
	// scoreCoordinate says where the score comes from.
	// +required
	ScoreCoordinate *ScoreCoordinate `json:"scoreCoordinate,omitempty"`

	// weight multiplies the score, from -10 to 10. 0 switches the prioritizer off,
	// a negative weight prefers low scores. Left out, it is 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=-10
	// +kubebuilder:validation:Maximum=10
	Weight *int32 `json:"weight,omitempty"`
}

// ScoreCoordinate says where a score comes from.
type ScoreCoordinate struct {
	// type is BuiltIn for the scheduler's own prioritizers and AddOn for scores
	// from AddOnPlacementScore objects.
	// +required
	// +kubebuilder:default=BuiltIn
	// +kubebuilder:validation:Enum=BuiltIn;AddOn
	Type string `json:"type,omitempty"`

	// builtIn names one of the scheduler's own prioritizers. Balance prefers
	// clusters that few other placements chose. Steady prefers clusters that this
	// placement has already. ResourceAllocatableCPU and ResourceAllocatableMemory
	// prefer clusters with much of it to give.
	// +optional
	BuiltIn string `json:"builtIn,omitempty"`

	// addOn names a score of an AddOnPlacementScore; needed with the type AddOn.
	// +optional
	AddOn *AddOnScore `json:"addOn,omitempty"`
}

const (
	// ScoreCoordinateTypeBuiltIn is the type of the scheduler's own prioritizers.
	ScoreCoordinateTypeBuiltIn = "BuiltIn"

	// ScoreCoordinateTypeAddOn is the type of scores from AddOnPlacementScore objects.
	ScoreCoordinateTypeAddOn = "AddOn"
)

// AddOnScore is the address of a score within each cluster's namespace.
type AddOnScore struct {
	// resourceName is the name of the AddOnPlacementScore object.
	// +required
	ResourceName string `json:"resourceName"`

	// scoreName is the name of the score in it.
	// +required
	ScoreName string `json:"scoreName"`
}

// SpreadPolicy asks for an even spread of the selected clusters.
type SpreadPolicy struct {
	// spreadConstraints, the most important first.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	SpreadConstraints []SpreadConstraintsTerm `json:"spreadConstraints,omitempty"`
}

// SpreadConstraintsTerm asks for an even spread over the values of one key.
type SpreadConstraintsTerm struct {
	// topologyKey is the label or claim whose values divide the clusters.
	// +required
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	TopologyKey string `json:"topologyKey"`

	// topologyKeyType says whether topologyKey is a Label or a Claim.
	// +required
	TopologyKeyType TopologyKeyType `json:"topologyKeyType"`

	// maxSkew is by how many clusters the fullest and the emptiest value may differ.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MaxSkew int32 `json:"maxSkew,omitempty"`

	// whenUnsatisfiable says what to do when maxSkew cannot be kept: leave
	// clusters out (DoNotSchedule) or select them all the same (ScheduleAnyway).
	// +optional
	// +kubebuilder:default=ScheduleAnyway
	WhenUnsatisfiable UnsatisfiableMaxSkewAction `json:"whenUnsatisfiable,omitempty"`
}

// TopologyKeyType is the kind of key that divides clusters.
//
// +kubebuilder:validation:Enum=Label;Claim
type TopologyKeyType string

const (
	// TopologyKeyTypeLabel divides clusters by a label.
	TopologyKeyTypeLabel TopologyKeyType = "Label"

	// TopologyKeyTypeClaim divides clusters by a claim.
	TopologyKeyTypeClaim TopologyKeyType = "Claim"
)

// UnsatisfiableMaxSkewAction is what happens when an even spread is not possible.
//
// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
type UnsatisfiableMaxSkewAction string

const (
	// DoNotSchedule leaves out the clusters that would break the spread.
	DoNotSchedule UnsatisfiableMaxSkewAction = "DoNotSchedule"

	// ScheduleAnyway selects them and keeps the spread as even as it gets.
	ScheduleAnyway UnsatisfiableMaxSkewAction = "ScheduleAnyway"
)
