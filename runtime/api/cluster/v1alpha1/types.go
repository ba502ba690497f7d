// Package v1alpha1 holds the alpha kinds of the API group
// cluster.open-cluster-management.io, and the rollout strategy that the work and
// add-on APIs share.
//
//   - ClusterClaim lives in the managed cluster. It is a fact that the cluster
//     states about itself; the agent carries it to the hub, into
//     ManagedCluster.status.clusterClaims, where placements can select on it.
//   - AddOnPlacementScore lives on the hub, in the cluster's namespace. A program
//     that measures something worth scheduling by writes numbers into its status,
//     and placements weigh them.
//   - RolloutStrategy is no kind of its own. It says in which order and with
//     how much caution a change reaches the clusters of a placement.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.open-cluster-management.io
package v1alpha1

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: cluster.GroupName, Version: "v1alpha1"}

// AddOnPlacementScore offers numbers about one managed cluster for placements to
// schedule by: cost, latency, free accelerators, whatever its author measures.
// It lives on the hub in the namespace of the cluster it is about. A placement
// refers to it by the object's name and the name of a score in it, so give the
// object the same name in every cluster's namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
type AddOnPlacementScore struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// status holds the scores. The kind has no spec: the
	// author of a score only reports it.
	// +optional
	Status AddOnPlacementScoreStatus `json:"status,omitzero"`
}

// AddOnPlacementScoreStatus is the scores of one cluster.
type AddOnPlacementScoreStatus struct {
	// conditions are for the author of the scores to say how the measuring goes.
	// Placements do not read them.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// scores by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Scores []AddOnPlacementScoreItem `json:"scores,omitempty"`

	// validUntil is when the scores go stale. From then on each counts as 0 and
	// placements that use them warn. Left out, they never go stale.
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
}

// AddOnPlacementScoreItem is one named score.
type AddOnPlacementScoreItem struct {
	// name of the score, unique within the object.
	// +required
	Name string `json:"name"`

	// value of the score, from -100 (worst) to 100 (best). 0 is neutral, and is
	// also what a cluster without the score gets.
	// +required
	// +kubebuilder:validation:Minimum=-100
	// +kubebuilder:validation:Maximum=100
	Value int32 `json:"value"`
}

// AddOnPlacementScoreList is a list of placement scores.
//
// +kubebuilder:object:root=true
type AddOnPlacementScoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the score objects.
	Items []AddOnPlacementScore `json:"items"`
}

// ClusterClaim is one fact that a managed cluster states about itself, such as
// its platform or its identity. The object's name is the claim's name. It lives
// in the managed cluster; the agent copies it into the status of the
// ManagedCluster on the hub, unless it carries the label
// open-cluster-management.io/spoke-only (with any value).
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
type ClusterClaim struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec holds the claim's value.
	// +optional
	Spec ClusterClaimSpec `json:"spec,omitzero"`
}

// ClusterClaimSpec is the content of a claim.
type ClusterClaimSpec struct {
	// value of the claim: free text, 1 to 1024 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// ClusterClaimList is a list of cluster claims.
//
// +kubebuilder:object:root=true
type ClusterClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the claims.
	Items []ClusterClaim `json:"items"`
}

// RolloutStrategy says how a change spreads over the clusters of a placement.
// Only the settings of the chosen type have an effect.
type RolloutStrategy struct {
	// type chooses the strategy. All: every cluster at once. Progressive: at most
	// a given number of clusters at a time. ProgressivePerGroup: one decision
	// group of the placement after the other.
	// +optional
	// +kubebuilder:default=All
	Type RolloutType `json:"type,omitempty"`

	// all tunes the type All.
	// +optional
	All *RolloutAll `json:"all,omitempty"`

	// progressive tunes the type Progressive.
	// +optional
	Progressive *RolloutProgressive `json:"progressive,omitempty"`

	// progressivePerGroup tunes the type ProgressivePerGroup.
	// +optional
	ProgressivePerGroup *RolloutProgressivePerGroup `json:"progressivePerGroup,omitempty"`
}

// RolloutType is the way in which a change spreads over clusters.
//
// +kubebuilder:validation:Enum=All;Progressive;ProgressivePerGroup
type RolloutType string

const (
	// RolloutTypeAll hands the change to all clusters at once; failures do not stop it.
	RolloutTypeAll RolloutType = "All"

	// RolloutTypeProgressive hands the change to a limited number of clusters at a
	// time.
	RolloutTypeProgressive RolloutType = "Progressive"

	// RolloutTypeProgressivePerGroup hands the change to one decision group at a
	// time, and to all clusters of that group at once.
	RolloutTypeProgressivePerGroup RolloutType = "ProgressivePerGroup"
)

// RolloutAll tunes a rollout to all clusters at once.
type RolloutAll struct {
	// Of these, only progressDeadline matters here: with every cluster started at
	// once there is nothing left for maxFailures and minSuccessTime to hold back.
	RolloutConfig `json:",inline"`
}

// RolloutProgressive tunes a rollout that goes cluster by cluster.
type RolloutProgressive struct {
	RolloutConfig `json:",inline"`

	// Decision groups that go first, as canaries.
	MandatoryDecisionGroups `json:",inline"`

	// maxConcurrency limits how many clusters may be under way at the same time:
	// a number, or a percentage of the clusters outside the mandatory groups,
	// rounded up. A cluster that failed or that is still within minSuccessTime
	// keeps its slot. Left out, or beyond the number of clusters, it is no limit
	// for works; for add-ons the placement's clustersPerDecisionGroup takes its
	// place.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]+)$`
	MaxConcurrency intstr.IntOrString `json:"maxConcurrency,omitzero"`
}

// RolloutProgressivePerGroup tunes a rollout that goes decision group by
// decision group, in the order of the group indexes.
type RolloutProgressivePerGroup struct {
	RolloutConfig `json:",inline"`

	// Decision groups that go first, as canaries.
	MandatoryDecisionGroups `json:",inline"`
}

// MandatoryDecisionGroups names the decision groups that have to succeed before
// any other cluster is touched.
type MandatoryDecisionGroups struct {
	// mandatoryDecisionGroups are rolled out one by one, in the order of their
	// indexes, before everything else. They tolerate no failure: one failed or timed-out cluster
	// in them blocks the rest, whatever maxFailures says.
	// +optional
	MandatoryDecisionGroups []MandatoryDecisionGroup `json:"mandatoryDecisionGroups,omitempty"`
}

// MandatoryDecisionGroup points at decision groups of a placement, by name or by
// index. The name wins if both are given; if neither is, group 0 is meant.
type MandatoryDecisionGroup struct {
	// groupName selects every decision group of this name.
	// +optional
	GroupName string `json:"groupName,omitempty"`

	// groupIndex selects the decision group with this index, counted from 0.
	// +optional
	GroupIndex int32 `json:"groupIndex,omitempty"`
}

// RolloutConfig is what all rollout types have in common: when a cluster counts
// as done, when it counts as failed, and how many failures are too many.
type RolloutConfig struct {
	// minSuccessTime is how long a cluster has to stay successful before it counts
	// as done and lets the next one start, as a duration such as 30s or 5m.
	// +optional
	// +kubebuilder:default="0"
	MinSuccessTime string `json:"minSuccessTime,omitempty"`

	// progressDeadline is how long a cluster may be progressing or failed before
	// it is given up as timed out: a number with one of the units h, m and s, or
	// None to wait for ever.
	// +optional
	// +kubebuilder:default="None"
	// +kubebuilder:validation:Pattern=`^(([0-9])+[h|m|s])|None$`
	ProgressDeadline string `json:"progressDeadline,omitempty"`

	// maxFailures is how many clusters may fail before no further cluster is
	// started: a number, or a percentage, rounded up, of the placement's clusters
	// (of the group's, for ProgressivePerGroup). Failed and timed-out clusters
	// count. A value beyond the number of clusters is taken as 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]+)$`
	MaxFailures intstr.IntOrString `json:"maxFailures,omitzero"`
}

// ProgressDeadlineNone is the progressDeadline that never passes.
const ProgressDeadlineNone = "None"

// SuccessTime parses MinSuccessTime. Empty means 0.
//
// The field is kept as the text that its author wrote, for two reasons: the API
// does not check its form, so that one mistyped object would otherwise make a
// whole list undecodable; and 5m must not come back as 5m0s.
func (c RolloutConfig) SuccessTime() (time.Duration, error) {
	if c.MinSuccessTime == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(c.MinSuccessTime)
	if err != nil {
		return 0, fmt.Errorf("reading minSuccessTime %q of the rollout strategy: %w; write a duration such as 30s or 5m", c.MinSuccessTime, err)
	}
	return d, nil
}

// Deadline parses ProgressDeadline. limited is false when there is none, that is
// for None and for an empty field; a deadline of 0 is limited and passes at once.
func (c RolloutConfig) Deadline() (deadline time.Duration, limited bool, err error) {
	if c.ProgressDeadline == "" || c.ProgressDeadline == ProgressDeadlineNone {
		return 0, false, nil
	}
	d, err := time.ParseDuration(c.ProgressDeadline)
	if err != nil {
		return 0, false, fmt.Errorf("reading progressDeadline %q of the rollout strategy: %w; write a duration such as 10m, or None", c.ProgressDeadline, err)
	}
	return d, true, nil
}
