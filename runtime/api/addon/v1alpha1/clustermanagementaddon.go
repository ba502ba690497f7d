package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

// ClusterManagementAddOn is an add-on as the hub knows it: what it is called, which
// configuration it understands, and in which clusters it is to be installed. The
// ManagedClusterAddOns of the add-on have the same name and are deleted with it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName={cma,cmas}
// +kubebuilder:printcolumn:name="DISPLAY NAME",type=string,JSONPath=`.spec.addOnMeta.displayName`
// +kubebuilder:printcolumn:name="CRD NAME",type=string,JSONPath=`.spec.addOnConfiguration.crdName`
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

	// addOnConfiguration is an earlier form of supportedConfigs. Do not use it for
	// new add-ons.
	// +optional
	AddOnConfiguration ConfigCoordinates `json:"addOnConfiguration,omitzero"`

	// supportedConfigs are the kinds of configuration that the add-on understands,
	// each with an optional default. A configuration of any other kind is refused.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	SupportedConfigs []ConfigMeta `json:"supportedConfigs,omitempty"`

	// installStrategy says in which clusters the add-on is installed.
	// +optional
	// +kubebuilder:default={type: Manual}
	InstallStrategy InstallStrategy `json:"installStrategy,omitzero"`
}

// ConfigMeta is a kind of configuration that an add-on understands.
type ConfigMeta struct {
	ConfigGroupResource `json:",inline"`

	// defaultConfig is used where nothing more specific is given.
	// +optional
	DefaultConfig *ConfigReferent `json:"defaultConfig,omitempty"`
}

// InstallStrategy says in which clusters an add-on is installed.
type InstallStrategy struct {
	// type of the strategy. Manual: where a user creates a ManagedClusterAddOn.
	// Placements: in the clusters that placements select, and only there; a
	// ManagedClusterAddOn in any other cluster is deleted.
	// +optional
	// +kubebuilder:default=Manual
	// +kubebuilder:validation:Enum=Manual;Placements
	Type string `json:"type,omitempty"`

	// placements select the clusters for the type Placements. If a cluster is in
	// several, the settings of the last in the list count.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	Placements []PlacementStrategy `json:"placements,omitempty"`
}

const (
	// InstallStrategyManual installs the add-on where a user creates a
	// ManagedClusterAddOn. It is the default.
	InstallStrategyManual = "Manual"

	// InstallStrategyPlacements installs where placements select.
	InstallStrategyPlacements = "Placements"
)

// PlacementRef names a placement.
type PlacementRef struct {
	// namespace of the Placement.
	// +required
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`

	// name of the Placement.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// PlacementStrategy installs an add-on in the clusters of one placement.
type PlacementStrategy struct {
	PlacementRef `json:",inline"`

	// configs are the configurations for these clusters. For each kind that they
	// contain they replace all defaults of that kind.
	// +optional
	Configs []AddOnConfig `json:"configs,omitempty"`

	// rolloutStrategy says how a change of configuration spreads over these
	// clusters.
	// +optional
	// +kubebuilder:default={type: All}
	RolloutStrategy clusterv1alpha1.RolloutStrategy `json:"rolloutStrategy,omitzero"`
}

// ClusterManagementAddOnStatus says how far an add-on has come.
type ClusterManagementAddOnStatus struct {
	// defaultconfigReferences are the default configurations and their
	// fingerprints.
	// +optional
	DefaultConfigReferences []DefaultConfigReference `json:"defaultconfigReferences,omitempty"`

	// installProgressions say, placement by placement, how far the configuration
	// has spread.
	// +optional
	InstallProgressions []InstallProgression `json:"installProgressions,omitempty"`
}

// DefaultConfigReference is a default configuration as it is at present.
type DefaultConfigReference struct {
	ConfigGroupResource `json:",inline"`

	// desiredConfig is the configuration and its fingerprint.
	// +optional
	DesiredConfig *ConfigSpecHash `json:"desiredConfig,omitempty"`
}

// InstallProgression says how far configuration has spread in one placement.
type InstallProgression struct {
	PlacementRef `json:",inline"`

	// configReferences follow each configuration from wish to proof.
	// +optional
	ConfigReferences []InstallConfigReference `json:"configReferences,omitempty"`

	// conditions: Progressing is True while clusters are still being configured;
	// its message counts them.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// InstallConfigReference follows one configuration of a placement.
type InstallConfigReference struct {
	ConfigGroupResource `json:",inline"`

	// desiredConfig is what the clusters should have.
	// +optional
	DesiredConfig *ConfigSpecHash `json:"desiredConfig,omitempty"`

	// lastKnownGoodConfig is what all clusters last had with success.
	// +optional
	LastKnownGoodConfig *ConfigSpecHash `json:"lastKnownGoodConfig,omitempty"`

	// lastAppliedConfig is what was last rolled out to the end.
	// +optional
	LastAppliedConfig *ConfigSpecHash `json:"lastAppliedConfig,omitempty"`
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
