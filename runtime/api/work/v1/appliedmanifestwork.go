package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AppliedManifestWork is the work agent's record, in the managed cluster, of what
// it applied for one ManifestWork. Its name is the hash of the hub's address, a
// hyphen, and the name of the work. It owns the applied objects. Leave it to the
// agent: deleting it deletes what it owns.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
type AppliedManifestWork struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says which work this is the record of.
	// +optional
	Spec AppliedManifestWorkSpec `json:"spec,omitzero"`

	// status lists what was applied.
	// +optional
	Status AppliedManifestWorkStatus `json:"status,omitzero"`
}

// AppliedManifestWorkSpec says which work a record belongs to.
type AppliedManifestWorkSpec struct {
	// hubHash is the SHA-256 of the hub's address as the agent's kubeconfig has it,
	// in lower-case hexadecimal.
	// +required
	HubHash string `json:"hubHash"`

	// agentID is the agent that looks after this record. Agents leave the records
	// of other agents alone.
	// +optional
	AgentID string `json:"agentID,omitempty"`

	// manifestWorkName is the name of the ManifestWork in the cluster's namespace
	// on the hub.
	// +required
	ManifestWorkName string `json:"manifestWorkName"`
}

// AppliedManifestWorkStatus lists what was applied for a work.
type AppliedManifestWorkStatus struct {
	// appliedResources are the objects that the work put into the cluster, or
	// found there. An object that is listed here but not wanted any more is deleted.
	// +optional
	AppliedResources []AppliedManifestResourceMeta `json:"appliedResources,omitempty"`

	// evictionStartTime is when the agent first missed the work on the hub. After
	// a time of grace, 60 minutes unless set otherwise, the record and what it owns
	// are deleted; if the work turns up again before, this is cleared.
	// +optional
	EvictionStartTime *metav1.Time `json:"evictionStartTime,omitempty"`
}

// AppliedManifestResourceMeta names an applied object.
type AppliedManifestResourceMeta struct {
	ResourceIdentifier `json:",inline"`

	// version of the API with which the object was applied.
	// +required
	Version string `json:"version"`

	// uid of the object. An object of the same name with another uid is another
	// one, and is not deleted.
	// +optional
	UID string `json:"uid,omitempty"`
}

// AppliedManifestWorkList is a list of records.
//
// +kubebuilder:object:root=true
type AppliedManifestWorkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the records.
	Items []AppliedManifestWork `json:"items"`
}
