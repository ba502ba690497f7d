// Package v1beta1 holds the newer version of the API group
// addon.open-cluster-management.io. It is served beside v1alpha1, which is the
// stored one; package v1alpha1 explains the kinds.
//
// What differs from v1alpha1:
//
//   - ClusterManagementAddOn: spec.supportedConfigs, each with an optional default,
//     becomes spec.defaultConfigs; a kind of configuration without a default has the
//     reserved name addon.ReservedNoDefaultConfigName. spec.addOnConfiguration is
//     gone. status.defaultconfigReferences is spelled defaultConfigReferences.
//   - ManagedClusterAddOn: spec.installNamespace becomes an annotation;
//     status.addOnConfiguration is gone; status.registrations says the type of each
//     registration, and the driver of the one for the hub's API, instead of telling
//     them apart by the signer's name.
//
// +kubebuilder:object:generate=true
// +groupName=addon.open-cluster-management.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: addon.GroupName, Version: "v1beta1"}

// AddOnDeploymentConfig adapts the deployment of add-on agents: values for
// placeholders, nodes, image registries, proxy, namespace and resources. It takes
// effect where a ClusterManagementAddOn or ManagedClusterAddOn refers to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced
type AddOnDeploymentConfig struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec holds the adaptations.
	// +required
	Spec AddOnDeploymentConfigSpec `json:"spec"`
}

// AddOnDeploymentConfigList is a list of deployment configurations.
//
// +kubebuilder:object:root=true
type AddOnDeploymentConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the configurations.
	Items []AddOnDeploymentConfig `json:"items"`
}

// AddOnTemplate is an add-on without code: the manifests of its agent and the
// credentials and rights that the agent needs on the hub. A
// ClusterManagementAddOn uses it by naming it as a configuration of the kind
// addontemplates.
//
// The manifests may contain {{CLUSTER_NAME}}, {{INSTALL_NAMESPACE}},
// {{HUB_KUBECONFIG}} and the variables of an AddOnDeploymentConfig.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="ADDON NAME",type=string,JSONPath=`.spec.addonName`
type AddOnTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the add-on.
	// +required
	Spec AddOnTemplateSpec `json:"spec"`
}

// AddOnTemplateList is a list of templates.
//
// +kubebuilder:object:root=true
type AddOnTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the templates.
	Items []AddOnTemplate `json:"items"`
}

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

// ManagedClusterAddOn is an add-on in one managed cluster. It lives in the
// cluster's namespace on the hub and has the name of its ClusterManagementAddOn.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName={mca,mcas}
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].status`
type ManagedClusterAddOn struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what is wanted in this cluster in particular. It may be empty.
	// +required
	Spec ManagedClusterAddOnSpec `json:"spec"`

	// status is what hub and agent report.
	// +optional
	Status ManagedClusterAddOnStatus `json:"status,omitzero"`
}

// ManagedClusterAddOnSpec is what is wanted of an add-on in one cluster.
type ManagedClusterAddOnSpec struct {
	// configs are the configurations for this cluster. For each kind that they
	// contain they replace what the ClusterManagementAddOn says.
	// +optional
	Configs []AddOnConfig `json:"configs,omitempty"`
}

// ManagedClusterAddOnList is a list of add-ons in clusters.
//
// +kubebuilder:object:root=true
type ManagedClusterAddOnList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the add-ons.
	Items []ManagedClusterAddOn `json:"items"`
}

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

// Everything that has the same shape in both versions is declared once, in
// v1alpha1, and known here under the same name.
type (
	// AddOnMeta describes an add-on to people.
	AddOnMeta = v1alpha1.AddOnMeta

	// ConfigGroupResource names a kind of configuration object.
	ConfigGroupResource = v1alpha1.ConfigGroupResource

	// ConfigReferent names one configuration object of a known kind.
	ConfigReferent = v1alpha1.ConfigReferent

	// ConfigSpecHash names a configuration object together with a fingerprint of
	// its content.
	ConfigSpecHash = v1alpha1.ConfigSpecHash

	// AddOnConfig names a configuration object and its kind.
	AddOnConfig = v1alpha1.AddOnConfig

	// InstallStrategy says in which clusters an add-on is installed.
	InstallStrategy = v1alpha1.InstallStrategy

	// PlacementRef names a placement.
	PlacementRef = v1alpha1.PlacementRef

	// PlacementStrategy installs an add-on in the clusters of one placement.
	PlacementStrategy = v1alpha1.PlacementStrategy

	// DefaultConfigReference is a default configuration as it is at present.
	DefaultConfigReference = v1alpha1.DefaultConfigReference

	// InstallProgression says how far configuration has spread in one placement.
	InstallProgression = v1alpha1.InstallProgression

	// InstallConfigReference follows one configuration of a placement.
	InstallConfigReference = v1alpha1.InstallConfigReference

	// ObjectReference names an object.
	ObjectReference = v1alpha1.ObjectReference

	// HealthCheck says how an add-on's health is found out.
	HealthCheck = v1alpha1.HealthCheck

	// HealthCheckMode is a way to find out an add-on's health.
	HealthCheckMode = v1alpha1.HealthCheckMode

	// AddOnTemplateSpec is an add-on without code. The types of its registrations
	// begin in upper case, as in v1alpha1.
	AddOnTemplateSpec = v1alpha1.AddOnTemplateSpec

	// AddOnDeploymentConfigSpec adapts the deployment of add-on agents.
	AddOnDeploymentConfigSpec = v1alpha1.AddOnDeploymentConfigSpec

	// CustomizedVariable is a value for a placeholder.
	CustomizedVariable = v1alpha1.CustomizedVariable

	// NodePlacement says on which nodes pods run.
	NodePlacement = v1alpha1.NodePlacement

	// ImageMirror replaces one registry by another.
	ImageMirror = v1alpha1.ImageMirror

	// ProxyConfig is the way out of a cluster.
	ProxyConfig = v1alpha1.ProxyConfig

	// ContainerResourceRequirements sets the resources of containers.
	ContainerResourceRequirements = v1alpha1.ContainerResourceRequirements
)

const (
	// InstallStrategyManual installs the add-on where a user creates a
	// ManagedClusterAddOn. It is the default.
	InstallStrategyManual = v1alpha1.InstallStrategyManual

	// InstallStrategyPlacements installs where placements select.
	InstallStrategyPlacements = v1alpha1.InstallStrategyPlacements

	// HealthCheckModeLease looks at the add-on's lease. It is the default.
	HealthCheckModeLease = v1alpha1.HealthCheckModeLease

	// HealthCheckModeCustomized leaves the condition Available to another controller.
	HealthCheckModeCustomized = v1alpha1.HealthCheckModeCustomized
)
