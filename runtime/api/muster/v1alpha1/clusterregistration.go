package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterRegistration is how an agent that knows its client ID, and not its
// cluster's name, asks the hub under which name it is to register. The agent
// creates it with its bootstrap token. The hub finds the ManagedCluster of the
// client ID or creates one, and deletes the registration when it is of no use any
// more.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Client ID",type=string,JSONPath=`.spec.clientID`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.status.clusterName`
// +kubebuilder:printcolumn:name="Registered",type=string,JSONPath=`.status.conditions[?(@.type=="Registered")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Registered")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterRegistration struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is who wants to register.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a cluster registration can't be changed; create another one"
	Spec ClusterRegistrationSpec `json:"spec"`

	// status is the answer.
	// +optional
	Status ClusterRegistrationStatus `json:"status,omitzero"`
}

// ClusterRegistrationSpec is who wants to register.
type ClusterRegistrationSpec struct {
	// clientID is a name that the cluster keeps for all of its life.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.:]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClientID string `json:"clientID"`

	// clusterUID is the UID of the cluster's namespace kube-system, which tells
	// two clusters with one client ID apart.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID"`

	// labels are what the agent would like the new ManagedCluster to have. The
	// token says which of them are taken.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// token is the bootstrap token by which it was created, without its secret
	// half. The hub sets it, whatever the client says.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Token string `json:"token,omitempty"`
}

// ClusterRegistrationStatus is the answer to a registration.
type ClusterRegistrationStatus struct {
	// clusterName is the ManagedCluster under whose name the agent is to ask for
	// its certificate.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`

	// conditions: Registered.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterRegistrationList is a list of cluster registrations.
//
// +kubebuilder:object:root=true
type ClusterRegistrationList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []ClusterRegistration `json:"items"`
}
