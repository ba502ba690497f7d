package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedClusterAddOnStatus is what hub and agent report about an add-on in one
// cluster.
type ManagedClusterAddOnStatus struct {
	// conditions. Available: the agent works; Unknown as long as the cluster is.
	// Degraded: it works, but not well. Configured: every configuration was found.
	// Progressing: a change is on its way. RegistrationApplied: the hub has granted
	// the agent its rights. ManifestApplied: the agent's manifests are in place.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// relatedObjects are objects that matter to the add-on, for people who look for
	// the cause of a problem.
	// +optional
	RelatedObjects []ObjectReference `json:"relatedObjects,omitempty"`

	// addOnMeta describes the add-on to people.
	// +optional
	AddOnMeta AddOnMeta `json:"addOnMeta,omitzero"`

	// addOnConfiguration is an earlier form of configReferences.
	// +optional
	AddOnConfiguration ConfigCoordinates `json:"addOnConfiguration,omitzero"`

	// supportedConfigs are the kinds of configuration that the add-on understands.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	SupportedConfigs []ConfigGroupResource `json:"supportedConfigs,omitempty"`

	// configReferences are the configurations that count for this cluster, after
	// defaults, placements and spec.configs have been laid over each other.
	// +optional
	ConfigReferences []ConfigReference `json:"configReferences,omitempty"`

	// namespace in the managed cluster where the agent is, and where its
	// credentials are put.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// registrations are the credentials that the agent needs. The hub writes what
	// is needed; the registration agent obtains them and stores them as secrets.
	// +optional
	Registrations []RegistrationConfig `json:"registrations,omitempty"`

	// healthCheck says how the condition Available comes about.
	// +optional
	HealthCheck HealthCheck `json:"healthCheck,omitzero"`

	// kubeClientDriver is how the agent obtains its credentials for the hub's API:
	// csr, a client certificate, or token, a service account's token. The
	// registration agent writes it.
	// +optional
	// +kubebuilder:validation:Enum=csr;token
	KubeClientDriver string `json:"kubeClientDriver,omitempty"`
}

// ObjectReference names an object.
type ObjectReference struct {
	// group is the object's API group, empty for the core group.
	// +required
	Group string `json:"group"`

	// resource is the plural name of the object's kind.
	// +required
	Resource string `json:"resource"`

	// namespace of the object, empty if its kind has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name of the object.
	// +required
	Name string `json:"name"`
}

// ConfigReference is a configuration that counts for an add-on in a cluster.
type ConfigReference struct {
	ConfigGroupResource `json:",inline"`

	// Name and namespace of the configuration, repeated for older clients; new ones
	// read desiredConfig.
	ConfigReferent `json:",inline"`

	// lastObservedGeneration is the generation of the configuration that was last
	// looked at.
	// +optional
	LastObservedGeneration int64 `json:"lastObservedGeneration,omitempty"`

	// desiredConfig is what the cluster should have.
	// +optional
	DesiredConfig *ConfigSpecHash `json:"desiredConfig,omitempty"`

	// lastAppliedConfig is what the cluster last had in full.
	// +optional
	LastAppliedConfig *ConfigSpecHash `json:"lastAppliedConfig,omitempty"`
}

// RegistrationConfig is one credential that an add-on's agent needs.
type RegistrationConfig struct {
	// signerName is who signs the certificate. kubernetes.io/kube-apiserver-client
	// stands for access to the hub's API, any other name for the add-on's own
	// authority.
	// +required
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=571
	// +kubebuilder:validation:Pattern=`^([a-z0-9][a-z0-9-]*[a-z0-9]\.)+[a-z]+\/[a-z0-9-\.]+$`
	SignerName string `json:"signerName"`

	// subject is the identity in the certificate.
	// +optional
	Subject Subject `json:"subject,omitzero"`
}

// Subject is the identity in a certificate.
type Subject struct {
	// user becomes the common name.
	// +optional
	User string `json:"user,omitempty"`

	// groups become organizations.
	// +optional
	Groups []string `json:"groups,omitempty"`

	// organizationUnit become organizational units. The hub's API does not look at
	// them; own signers may.
	// +optional
	OrganizationUnits []string `json:"organizationUnit,omitempty"`
}

// HealthCheck says how an add-on's health is found out.
type HealthCheck struct {
	// mode is Lease when the agent renews a lease of the add-on's name in its
	// namespace and the registration agent watches it, and Customized when another
	// controller sets the condition Available.
	// +optional
	// +kubebuilder:default=Lease
	Mode HealthCheckMode `json:"mode,omitempty"`
}

// HealthCheckMode is a way to find out an add-on's health.
//
// +kubebuilder:validation:Enum=Lease;Customized
type HealthCheckMode string

const (
	// HealthCheckModeLease looks at the add-on's lease. It is the default.
	HealthCheckModeLease HealthCheckMode = "Lease"

	// HealthCheckModeCustomized leaves the condition Available to another controller.
	HealthCheckModeCustomized HealthCheckMode = "Customized"
)
