package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// ClusterPredicate is one way for a cluster to qualify.
type ClusterPredicate struct {
	// requiredClusterSelector describes the clusters that qualify. An empty one
	// matches all.
	// +optional
	RequiredClusterSelector ClusterSelector `json:"requiredClusterSelector,omitzero"`
}

// ClusterSelector matches a cluster when every part of it does. A part that is
// left out matches every cluster.
type ClusterSelector struct {
	// labelSelector looks at the labels of the ManagedCluster.
	// +optional
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitzero"`

	// claimSelector looks at the claims in the status of the ManagedCluster.
	// +optional
	ClaimSelector ClusterClaimSelector `json:"claimSelector,omitzero"`

	// celSelector evaluates expressions over the whole ManagedCluster.
	// +optional
	CELSelector ClusterCELSelector `json:"celSelector,omitzero"`
}

// ClusterClaimSelector matches the claims of a cluster as if they were labels.
type ClusterClaimSelector struct {
	// matchExpressions all have to hold. The operators are those of label
	// selectors: In, NotIn, Exists, DoesNotExist; the last and NotIn also match
	// clusters without the claim.
	// +optional
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// ClusterCELSelector matches clusters by expressions in CEL, the Common
// Expression Language.
type ClusterCELSelector struct {
	// celExpressions all have to be true. Each sees the variable managedCluster,
	// the object as it is in the API, and the function
	// managedCluster.scores("<name>"), the scores of the AddOnPlacementScore of
	// that name as a list of objects with name and value. An expression that does
	// not compile makes the placement misconfigured; one that fails while it runs
	// only excludes the cluster at hand.
	// +optional
	CELExpressions []string `json:"celExpressions,omitempty"`
}

// Toleration excuses a cluster's taints that match it.
type Toleration struct {
	// key of the taints to tolerate. Empty, together with the operator Exists, it
	// stands for all keys.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	Key string `json:"key,omitempty"`

	// operator says how value compares to the taint's. Equal: they are the same.
	// Exists: any value will do, and value must be left out.
	// +optional
	// +kubebuilder:default=Equal
	Operator TolerationOperator `json:"operator,omitempty"`

	// value of the taints to tolerate.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`

	// effect of the taints to tolerate. Left out, every effect.
	// +optional
	Effect clusterv1.TaintEffect `json:"effect,omitempty"`

	// tolerationSeconds is how long, counted from the taint's timeAdded, it is
	// tolerated. Left out, for ever; 0 or less, not at all.
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// TolerationOperator compares a toleration with a taint.
type TolerationOperator string

const (
	// TolerationOpEqual tolerates taints with the same value. It is the default.
	TolerationOpEqual TolerationOperator = "Equal"

	// TolerationOpExists tolerates taints with any value.
	TolerationOpExists TolerationOperator = "Exists"
)

// DecisionStrategy divides the selected clusters.
type DecisionStrategy struct {
	// groupStrategy forms the decision groups.
	// +optional
	GroupStrategy GroupStrategy `json:"groupStrategy,omitzero"`
}

// GroupStrategy forms decision groups: first the named ones, in their order, then
// groups without a name for the clusters that are left.
type GroupStrategy struct {
	// decisionGroups are the named groups. A cluster goes to the first that
	// selects it.
	// +optional
	DecisionGroups []DecisionGroup `json:"decisionGroups,omitempty"`

	// clustersPerDecisionGroup is the most clusters that a group may have: a
	// number, or a percentage, rounded up, of the selected clusters. What is
	// beyond goes to further groups of the same name.
	// +optional
	// +kubebuilder:default="100%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$`
	ClustersPerDecisionGroup intstr.IntOrString `json:"clustersPerDecisionGroup,omitzero"`
}

// DecisionGroup is a named group and the clusters that belong to it.
type DecisionGroup struct {
	// groupName names the group. It appears as a label value on the group's
	// PlacementDecisions.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$`
	GroupName string `json:"groupName"`

	// groupClusterSelector picks the group's clusters out of the selected ones. An
	// empty one picks all.
	// +required
	GroupClusterSelector GroupClusterSelector `json:"groupClusterSelector"`
}

// GroupClusterSelector matches a cluster when both its parts do. It knows no CEL.
type GroupClusterSelector struct {
	// labelSelector looks at the labels of the ManagedCluster.
	// +optional
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitzero"`

	// claimSelector looks at the claims in the status of the ManagedCluster.
	// +optional
	ClaimSelector ClusterClaimSelector `json:"claimSelector,omitzero"`
}
