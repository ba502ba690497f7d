// Package v1 holds the ManagedCluster kind of the API group
// cluster.open-cluster-management.io.
//
// A ManagedCluster lives on the hub, is cluster scoped, and stands for one
// Kubernetes cluster of the fleet. Three parties write to it, each to its own
// part:
//
//   - the agent in the managed cluster creates the object when it registers,
//     and afterwards keeps status.version, status.capacity,
//     status.allocatable, status.clusterClaims and its own conditions up to date;
//   - an administrator (or Terraform) sets spec.hubAcceptsClient, labels,
//     annotations and taints;
//   - the hub's controllers write the acceptance, availability and clock
//     conditions, the taints that follow from availability, and
//     status.managedNamespaces.
//
// The strings that travel in labels, annotations, conditions and object names
// are in package cluster, one directory up.
//
// # Zero values on the wire
//
// The types are made for clients that send only what they mean. A field whose
// zero value is a statement of its own is a pointer (HubAcceptsClient,
// Taint.TimeAdded); every other optional field is left out when it is empty, so
// that a server-side apply never claims, and a merge patch never resets, a field
// that the caller did not touch.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.open-cluster-management.io
package v1

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: cluster.GroupName, Version: "v1"}

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

// HubTaint is the key of the taint by which the hub itself keeps workloads away from the
// cluster; empty without one. The hub removes it a moment after the cluster has become
// available: until then, no placement selects the cluster.
func (c *ManagedCluster) HubTaint() string {
	for _, t := range c.Spec.Taints {
		if cluster.IsHubTaint(t.Key) {
			return t.Key
		}
	}
	return ""
}

// ManagedClusterStatus is what is known about a managed cluster.
type ManagedClusterStatus struct {
	// conditions sum up the cluster's state. HubAcceptedManagedCluster: the hub
	// granted or withdrew the cluster's rights. ManagedClusterJoined: the agent
	// has been heard with its own certificate. ManagedClusterConditionAvailable:
	// the cluster's API server answers; Unknown when the agent fell silent.
	// ManagedClusterConditionClockSynced: hub and agent agree on the time.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// capacity adds up what all nodes have, unschedulable ones included. The
	// agent keeps keys that it does not report itself, so that other components
	// may publish quantities of their own.
	// +optional
	Capacity ResourceList `json:"capacity,omitempty"`

	// allocatable adds up what pods may use on the schedulable nodes.
	// +optional
	Allocatable ResourceList `json:"allocatable,omitempty"`

	// version is that of the software that the cluster runs.
	// +optional
	Version ManagedClusterVersion `json:"version,omitzero"`

	// clusterClaims are facts that the cluster states about itself, collected from
	// its ClusterClaim objects: the reserved names first, then at most 20 others,
	// each part in the order of the names. Placements can select on them.
	// +optional
	ClusterClaims []ManagedClusterClaim `json:"clusterClaims,omitempty"`

	// managedNamespaces are the namespaces that the cluster's sets want to exist in
	// it. The hub writes name and set, the agent creates the namespace and
	// reports with the conditions of the entry.
	// +optional
	// +listType=map
	// +listMapKey=clusterSet
	// +listMapKey=name
	ManagedNamespaces []ClusterSetManagedNamespaceConfig `json:"managedNamespaces,omitempty"`
}

// ResourceName names a countable resource of a cluster, such as cpu or memory.
type ResourceName string

const (
	// ResourceCPU counts processor cores (0.5 is half a core, also written 500m).
	ResourceCPU ResourceName = "cpu"

	// ResourceMemory counts memory in bytes.
	ResourceMemory ResourceName = "memory"
)

// ResourceList maps resources to amounts in the notation of Kubernetes quantities.
type ResourceList map[ResourceName]resource.Quantity

// ManagedClusterVersion is the software of a managed cluster.
type ManagedClusterVersion struct {
	// kubernetes is the version that the cluster's API server reports, such as v1.37.1.
	// +optional
	Kubernetes string `json:"kubernetes,omitempty"`
}

// ManagedClusterClaim is one name and value that a managed cluster states about itself.
type ManagedClusterClaim struct {
	// name of the claim, unique within the cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// value of the claim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// ClusterSetManagedNamespaceConfig is a namespace that a cluster set wants in
// each of its clusters, seen from one of them.
type ClusterSetManagedNamespaceConfig struct {
	// name of the namespace in the managed cluster.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// clusterSet is the set that asks for the namespace.
	// +required
	ClusterSet string `json:"clusterSet"`

	// conditions report on this one namespace. NamespaceAvailable is True once
	// the agent has created it or taken it over.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
