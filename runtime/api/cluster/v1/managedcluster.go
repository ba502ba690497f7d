package v1

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// ManagedCluster is the hub's record of one Kubernetes cluster of the fleet. Its
// name is the cluster's name everywhere: in certificates, in labels, and as the
// hub namespace that holds the cluster's works, add-ons and lease. It therefore
// has to be a DNS label of at most 63 characters.
//
// A cluster joins in two independent steps: its agent's certificate request is
// approved, which tells the hub who is calling, and spec.hubAcceptsClient is set
// to true, which grants that caller its rights.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName={mcl,mcls}
// +kubebuilder:printcolumn:name="Hub Accepted",type=boolean,JSONPath=`.spec.hubAcceptsClient`
// +kubebuilder:printcolumn:name="Managed Cluster URLs",type=string,JSONPath=`.spec.managedClusterClientConfigs[*].url`
// +kubebuilder:printcolumn:name="Joined",type=string,JSONPath=`.status.conditions[?(@.type=="ManagedClusterJoined")].status`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ManagedCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says how the fleet should treat the cluster: whether the hub accepts
	// it, how often it must give a sign of life, and which taints keep workloads
	// away from it.
	// +optional
	Spec ManagedClusterSpec `json:"spec,omitzero"`

	// status is what the agent and the hub's controllers report about the cluster.
	// +optional
	Status ManagedClusterStatus `json:"status,omitzero"`
}

// ManagedClusterSpec is what is wanted of a managed cluster.
type ManagedClusterSpec struct {
	// managedClusterClientConfigs lists addresses at which the cluster's own API
	// server can be reached. The hub itself never connects to them (agents pull);
	// they are for tools and people that need a way in. The agent fills them in
	// when it registers.
	// +optional
	ManagedClusterClientConfigs []ClientConfig `json:"managedClusterClientConfigs,omitempty"`

	// hubAcceptsClient is the hub's half of the handshake. true gives the agent a
	// namespace and the rights to work in it. false, or leaving it out, keeps a
	// new cluster outside. Going from true to false shuts the cluster out again:
	// its rights are withdrawn and its Available condition turns Unknown, while
	// whatever already runs in it keeps running.
	//
	// Turning it to true needs the permission "update" on
	// managedclusters/accept in the group register.open-cluster-management.io;
	// turning it to false needs no more than updating the object.
	// +optional
	HubAcceptsClient *bool `json:"hubAcceptsClient,omitempty"`

	// leaseDurationSeconds is the pace, in seconds, at which the agent renews its
	// lease on the hub (plus up to 25 percent of jitter). After five times this
	// span without a renewal the hub declares the cluster's availability Unknown.
	// 0 counts as 60.
	// +optional
	// +kubebuilder:default=60
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds,omitempty"`

	// taints make placements pass the cluster over unless they tolerate every one
	// of them. The hub adds and removes the taints
	// cluster.open-cluster-management.io/unreachable and
	// cluster.open-cluster-management.io/unavailable by itself.
	// +optional
	Taints []Taint `json:"taints,omitempty"`
}

// AcceptsClient reports whether the hub accepts the cluster. An unset
// HubAcceptsClient means no.
func (s *ManagedClusterSpec) AcceptsClient() bool {
	return s.HubAcceptsClient != nil && *s.HubAcceptsClient
}

// LeaseDuration is LeaseDurationSeconds as a duration, with the default of 60
// seconds in place of 0 and of what is negative.
func (s *ManagedClusterSpec) LeaseDuration() time.Duration {
	seconds := s.LeaseDurationSeconds
	if seconds <= 0 {
		seconds = cluster.DefaultLeaseDurationSeconds
	}
	return time.Duration(seconds) * time.Second
}

// LeaseGrace is how long the hub waits for a heartbeat before it calls the
// cluster's availability Unknown: cluster.LeaseGracePeriods times LeaseDuration,
// or the longest duration that there is, some 292 years, where that is less.
func (s *ManagedClusterSpec) LeaseGrace() time.Duration {
	if d := s.LeaseDuration(); d <= math.MaxInt64/cluster.LeaseGracePeriods {
		return cluster.LeaseGracePeriods * d
	}
	return math.MaxInt64
}

// ClientConfig is one address of a managed cluster's API server.
type ClientConfig struct {
	// url is the address, scheme included. Only https is admitted.
	// +required
	URL string `json:"url"`

	// caBundle holds the PEM certificates of the authorities that vouch for the
	// server at url, base64 encoded. Without it the client's own trust store
	// decides.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// Taint marks a managed cluster as unsuitable for placements that do not
// tolerate it.
type Taint struct {
	// key names the taint, in the form of a label key. Use a key only once per
	// cluster: the hub finds a taint's earlier state by its key alone.
	// +required
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	Key string `json:"key"`

	// value refines the key; a toleration with the operator Equal has to name the
	// same value.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`

	// effect says what happens to placements without a matching toleration.
	// NoSelect: the cluster is not selected and leaves decisions it is in.
	// NoSelectIfNew: it is not newly selected but stays where it already is.
	// PreferNoSelect: a wish, which scheduling acts on only in a hub of muster's
	// with the feature gate of that name: the cluster is then selected after others.
	// +required
	Effect TaintEffect `json:"effect"`

	// timeAdded is when the taint was set, the moment from which
	// tolerationSeconds counts. The hub stamps it; a client must leave it out of
	// a new or changed taint and send it back untouched with an unchanged one.
	// +optional
	// +nullable
	TimeAdded *metav1.Time `json:"timeAdded,omitempty"`
}

// TaintEffect is the consequence of a taint that a placement does not tolerate.
//
// +kubebuilder:validation:Enum=NoSelect;PreferNoSelect;NoSelectIfNew
type TaintEffect string

const (
	// TaintEffectNoSelect keeps the cluster out of every decision, present ones included.
	TaintEffectNoSelect TaintEffect = "NoSelect"

	// TaintEffectPreferNoSelect asks the scheduler to avoid the cluster; it never
	// excludes the cluster.
	TaintEffectPreferNoSelect TaintEffect = "PreferNoSelect"

	// TaintEffectNoSelectIfNew keeps the cluster out of decisions that it is not in yet.
	TaintEffectNoSelectIfNew TaintEffect = "NoSelectIfNew"
)

// ManagedClusterList is a list of managed clusters.
//
// +kubebuilder:object:root=true
type ManagedClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the managed clusters.
	Items []ManagedCluster `json:"items"`
}

// HasAgent reports whether an agent of the cluster has been let in before, so
// that another one would take its place.
func (c *ManagedCluster) HasAgent() bool {
	return c.Annotations[cluster.AgentAnnotation] != "" || meta.IsStatusConditionTrue(c.Status.Conditions, cluster.ConditionJoined)
}
