package v1beta1

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
}

// ConfigReference is a configuration that counts for an add-on in a cluster.
type ConfigReference struct {
	ConfigGroupResource `json:",inline"`

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
	// type says what for. kubeClient: the hub's API. customSigner: a service of the
	// add-on's own, with its own authority.
	// +required
	Type RegistrationType `json:"type"`

	// kubeClient tunes the type kubeClient.
	// +optional
	KubeClient *KubeClientConfig `json:"kubeClient,omitempty"`

	// customSigner tunes the type customSigner.
	// +optional
	CustomSigner *CustomSignerConfig `json:"customSigner,omitempty"`
}

// RegistrationType says what a credential is for. The values begin in lower case
// here, unlike those of an AddOnTemplate.
//
// +kubebuilder:validation:Enum=kubeClient;customSigner
type RegistrationType string

const (
	// RegistrationTypeKubeClient is for the hub's API.
	RegistrationTypeKubeClient RegistrationType = "kubeClient"

	// RegistrationTypeCustomSigner is for a service with an authority of its own.
	RegistrationTypeCustomSigner RegistrationType = "customSigner"
)

// KubeClientConfig is a credential for the hub's API.
type KubeClientConfig struct {
	// subject is the identity in the credential. With the driver csr the hub sets it,
	// with the driver token the registration agent.
	// +optional
	Subject KubeClientSubject `json:"subject,omitzero"`

	// driver is how the agent obtains the credential: csr, a client certificate, or
	// token, a service account's token. The registration agent writes it.
	// +optional
	// +kubebuilder:validation:Enum=csr;token
	Driver string `json:"driver,omitempty"`
}

// KubeClientSubject is an identity on the hub.
type KubeClientSubject struct {
	// user is the name by which the hub's API knows the agent.
	// +optional
	User string `json:"user,omitempty"`

	// groups are the groups in which the hub's API sees the agent.
	// +optional
	Groups []string `json:"groups,omitempty"`
}

// CustomSignerConfig is a certificate from an add-on's own authority.
type CustomSignerConfig struct {
	// signerName is the name under which the authority signs.
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

	// organizationUnits become organizational units.
	// +optional
	OrganizationUnits []string `json:"organizationUnits,omitempty"`
}
