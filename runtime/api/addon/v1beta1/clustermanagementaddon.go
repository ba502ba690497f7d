package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterManagementAddOn is an add-on as the hub knows it: what it is called, which
// configuration it understands, and in which clusters it is to be installed. The
// ManagedClusterAddOns of the add-on have the same name and are deleted with it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName={cma,cmas}
// +kubebuilder:printcolumn:name="DISPLAY NAME",type=string,JSONPath=`.spec.addOnMeta.displayName`
type ClusterManagementAddOn struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec describes the add-on and where to install it.
	// +required
	Spec ClusterManagementAddOnSpec `json:"spec"`

	// status says how far the installation and its configuration have come.
	// +optional
	Status ClusterManagementAddOnStatus `json:"status,omitzero"`
}

// ClusterManagementAddOnSpec describes an add-on and where to install it.
type ClusterManagementAddOnSpec struct {
	// addOnMeta describes the add-on to people.
	// +optional
	AddOnMeta AddOnMeta `json:"addOnMeta,omitzero"`

	// defaultConfigs are the kinds of configuration that the add-on understands,
	// each with the configuration to use where nothing more specific is given. The
	// name __reserved_no_default__ says that there is no default for the kind. A
	// configuration of any other kind is refused.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	DefaultConfigs []AddOnConfig `json:"defaultConfigs,omitempty"`

	// installStrategy says in which clusters the add-on is installed.
	// +optional
	// +kubebuilder:default={type: Manual}
	InstallStrategy InstallStrategy `json:"installStrategy,omitzero"`
}

// ClusterManagementAddOnStatus says how far an add-on has come.
type ClusterManagementAddOnStatus struct {
	// defaultConfigReferences are the default configurations and their
	// fingerprints.
	// +optional
	DefaultConfigReferences []DefaultConfigReference `json:"defaultConfigReferences,omitempty"`

	// installProgressions say, placement by placement, how far the configuration
	// has spread.
	// +optional
	InstallProgressions []InstallProgression `json:"installProgressions,omitempty"`
}

// ClusterManagementAddOnList is a list of add-ons.
//
// +kubebuilder:object:root=true
type ClusterManagementAddOnList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the add-ons.
	Items []ClusterManagementAddOn `json:"items"`
}
