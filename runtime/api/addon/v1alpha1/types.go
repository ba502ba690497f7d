// Package v1alpha1 holds the stored version of the API group
// addon.open-cluster-management.io.
//
// An add-on is a component that extends the fleet: a piece on the hub, an agent in
// each managed cluster, and credentials for the agent to talk to the hub. Four kinds
// describe one:
//
//   - ClusterManagementAddOn, cluster scoped: the add-on as such, where it is to be
//     installed, and its default configuration.
//   - ManagedClusterAddOn, in a cluster's namespace and with the add-on's name: the
//     add-on in that cluster.
//   - AddOnDeploymentConfig: variables, placement on nodes, registries and proxies
//     for the agent's deployment.
//   - AddOnTemplate: a whole add-on without code, as manifests and permissions.
//
// The same objects, except templates, are served as v1beta1 too, where some fields
// have another shape. The strings that travel in labels, annotations and conditions
// are in package addon, one directory up.
//
// +kubebuilder:object:generate=true
// +groupName=addon.open-cluster-management.io
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: addon.GroupName, Version: "v1alpha1"}

// AddOnDeploymentConfig adapts the deployment of add-on agents: values for
// placeholders, nodes, image registries, proxy, namespace and resources. It takes
// effect where a ClusterManagementAddOn or ManagedClusterAddOn refers to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Namespaced
type AddOnDeploymentConfig struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec holds the adaptations.
	// +required
	Spec AddOnDeploymentConfigSpec `json:"spec"`
}

// AddOnDeploymentConfigSpec adapts the deployment of add-on agents.
type AddOnDeploymentConfigSpec struct {
	// customizedVariables are values for placeholders of the form {{NAME}} in the
	// add-on's manifests.
	// +optional
	// +listType=map
	// +listMapKey=name
	CustomizedVariables []CustomizedVariable `json:"customizedVariables,omitempty"`

	// nodePlacement says on which nodes the agent's pods run.
	// +optional
	NodePlacement *NodePlacement `json:"nodePlacement,omitempty"`

	// registries replace the registries of the agent's images. If several entries
	// fit an image, the last one counts. They go before the registries that the
	// ManagedCluster names in its annotation.
	// +optional
	Registries []ImageMirror `json:"registries,omitempty"`

	// proxyConfig is the way out of the cluster for the agent.
	// +optional
	ProxyConfig ProxyConfig `json:"proxyConfig,omitzero"`

	// agentInstallNamespace is the namespace in the managed cluster for the agent.
	// Left out, it is open-cluster-management-agent-addon; set to the empty text,
	// the manifests keep the namespaces that they have.
	// +optional
	// +kubebuilder:default=open-cluster-management-agent-addon
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	AgentInstallNamespace *string `json:"agentInstallNamespace,omitempty"`

	// resourceRequirements set CPU and memory of the agent's containers. If several
	// entries fit a container, the last one counts.
	// +optional
	// +listType=map
	// +listMapKey=containerID
	ResourceRequirements []ContainerResourceRequirements `json:"resourceRequirements,omitempty"`
}

// CustomizedVariable is a value for a placeholder.
type CustomizedVariable struct {
	// name of the placeholder.
	// +required
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][_a-zA-Z0-9]*$`
	Name string `json:"name"`

	// value to put in its place. A value that can stand in a JSON text is read like
	// one, so \n ends a line. Others go in as they are; on an upstream hub quote in
	// them what JSON would quote.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// NodePlacement says on which nodes pods run.
type NodePlacement struct {
	// nodeSelector are labels that the nodes have to carry.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations excuse taints of nodes. Set nodeSelector too: on an upstream hub
	// tolerations without it have no effect.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// ImageMirror replaces one registry by another.
type ImageMirror struct {
	// mirror is the registry, or registry and path, to use.
	// +required
	Mirror string `json:"mirror"`

	// source is the beginning of the image names to replace. Left out, every image
	// is taken from the mirror, by the last part of its name.
	// +optional
	Source string `json:"source,omitempty"`
}

// ProxyConfig is the way out of a cluster. Each part becomes an environment
// variable of the agent's containers.
type ProxyConfig struct {
	// httpProxy is the proxy for http.
	// +optional
	HTTPProxy string `json:"httpProxy,omitempty"`

	// httpsProxy is the proxy for https.
	// +optional
	HTTPSProxy string `json:"httpsProxy,omitempty"`

	// caBundle holds the PEM certificates of the authorities that vouch for the
	// proxy, base64 encoded.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`

	// noProxy lists, separated by commas, what is reached without the proxy. The
	// hub's API usually belongs here.
	// +optional
	NoProxy string `json:"noProxy,omitempty"`
}

// ContainerResourceRequirements sets the resources of containers.
type ContainerResourceRequirements struct {
	// containerID says which containers, as kind:name:container with the plural
	// name of the kind; * stands for any in each of the three parts. Example:
	// deployments:my-agent:*.
	// +required
	// +kubebuilder:validation:Pattern=`^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\*):.+:.+$`
	ContainerID string `json:"containerID"`

	// resources are the requests and limits to set.
	// +required
	Resources corev1.ResourceRequirements `json:"resources"`
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
// +kubebuilder:storageversion
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

// AddOnTemplateSpec is an add-on without code.
type AddOnTemplateSpec struct {
	// addonName is the name of the ClusterManagementAddOn that this template is for.
	// +required
	AddonName string `json:"addonName"`

	// agentSpec is what goes to the managed cluster, as the spec of a ManifestWork.
	// +required
	AgentSpec workv1.ManifestWorkSpec `json:"agentSpec"`

	// registration lists the credentials that the agent needs. Without any it gets
	// none.
	// +optional
	Registration []RegistrationSpec `json:"registration,omitempty"`
}

// RegistrationSpec is a credential that an agent needs.
type RegistrationSpec struct {
	// type says what for. KubeClient: the hub's API. CustomSigner: a service of the
	// add-on's own, with its own authority.
	// +required
	Type RegistrationType `json:"type"`

	// kubeClient tunes the type KubeClient.
	// +optional
	KubeClient *KubeClientRegistrationConfig `json:"kubeClient,omitempty"`

	// customSigner tunes the type CustomSigner.
	// +optional
	CustomSigner *CustomSignerRegistrationConfig `json:"customSigner,omitempty"`
}

// RegistrationType says what a credential is for.
//
// +kubebuilder:validation:Enum=KubeClient;CustomSigner
type RegistrationType string

const (
	// RegistrationTypeKubeClient is for the hub's API.
	RegistrationTypeKubeClient RegistrationType = "KubeClient"

	// RegistrationTypeCustomSigner is for a service with an authority of its own.
	RegistrationTypeCustomSigner RegistrationType = "CustomSigner"
)

// KubeClientRegistrationConfig says what an agent may do on the hub.
type KubeClientRegistrationConfig struct {
	// hubPermissions are roles to bind the agent to.
	// +optional
	HubPermissions []HubPermissionConfig `json:"hubPermissions,omitempty"`
}

// HubPermissionConfig binds an agent to a role on the hub.
type HubPermissionConfig struct {
	// type says where the role counts. CurrentCluster: in the namespace of the
	// agent's own cluster. SingleNamespace: in one namespace, for the agents of all
	// clusters.
	// +required
	Type HubPermissionsBindingType `json:"type"`

	// currentCluster tunes the type CurrentCluster.
	// +optional
	CurrentCluster *CurrentClusterBindingConfig `json:"currentCluster,omitempty"`

	// singleNamespace tunes the type SingleNamespace.
	// +optional
	SingleNamespace *SingleNamespaceBindingConfig `json:"singleNamespace,omitempty"`
}

// HubPermissionsBindingType says where an agent's role counts.
//
// +kubebuilder:validation:Enum=CurrentCluster;SingleNamespace
type HubPermissionsBindingType string

const (
	// HubPermissionsBindingCurrentCluster counts in the namespace of the agent's
	// cluster.
	HubPermissionsBindingCurrentCluster HubPermissionsBindingType = "CurrentCluster"

	// HubPermissionsBindingSingleNamespace counts in one namespace.
	HubPermissionsBindingSingleNamespace HubPermissionsBindingType = "SingleNamespace"
)

// CurrentClusterBindingConfig binds an agent in its cluster's namespace.
type CurrentClusterBindingConfig struct {
	// clusterRoleName is the ClusterRole to bind to.
	// +required
	ClusterRoleName string `json:"clusterRoleName"`
}

// SingleNamespaceBindingConfig binds agents in one namespace.
type SingleNamespaceBindingConfig struct {
	// namespace on the hub.
	// +required
	Namespace string `json:"namespace"`

	// roleRef is the Role or ClusterRole to bind to.
	// +required
	RoleRef RoleRef `json:"roleRef"`
}

// RoleRef names a role, as a RoleBinding does.
//
// +structType=atomic
type RoleRef struct {
	// apiGroup of the role, rbac.authorization.k8s.io.
	// +required
	APIGroup string `json:"apiGroup"`

	// kind of the role: Role or ClusterRole.
	// +required
	Kind string `json:"kind"`

	// name of the role.
	// +required
	Name string `json:"name"`
}

// CustomSignerRegistrationConfig is a certificate from an add-on's own authority.
type CustomSignerRegistrationConfig struct {
	// signerName is the name under which the authority signs.
	// +required
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=571
	// +kubebuilder:validation:Pattern=`^([a-z0-9][a-z0-9-]*[a-z0-9]\.)+[a-z]+\/[a-z0-9-\.]+$`
	SignerName string `json:"signerName"`

	// subject is the identity in the certificate. Left out, it is the add-on's agent in
	// the cluster.
	// +optional
	Subject *Subject `json:"subject,omitempty"`

	// signingCA is the secret with the authority's certificate and key, under the
	// keys tls.crt and tls.key. The key has to be RSA.
	// +required
	SigningCA SigningCARef `json:"signingCA"`
}

// SigningCARef names the secret of an authority.
type SigningCARef struct {
	// namespace of the secret. Left out, it is the namespace of the hub's add-on
	// manager, open-cluster-management-hub.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name of the secret.
	// +required
	Name string `json:"name"`
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

// ConfigGroupResource names a kind of configuration object.
type ConfigGroupResource struct {
	// group is the API group of the configuration, empty for the core group.
	// +optional
	// +kubebuilder:default=""
	Group string `json:"group"`

	// resource is the plural name of the configuration's kind, such as
	// addondeploymentconfigs.
	// +required
	// +kubebuilder:validation:MinLength=1
	Resource string `json:"resource"`
}

// ConfigReferent names one configuration object of a known kind.
type ConfigReferent struct {
	// namespace of the configuration, empty if its kind has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name of the configuration.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// ConfigSpecHash names a configuration object together with a fingerprint of its
// content.
type ConfigSpecHash struct {
	ConfigReferent `json:",inline"`

	// specHash is the SHA-256, in hexadecimal, of the configuration without its
	// apiVersion, kind, metadata and status. It changes whenever the content does.
	// +optional
	SpecHash string `json:"specHash,omitempty"`
}

// AddOnConfig names a configuration object and its kind.
type AddOnConfig struct {
	ConfigGroupResource `json:",inline"`
	ConfigReferent      `json:",inline"`
}

// ConfigCoordinates points at the configuration of an add-on in a way that has been
// given up; use supportedConfigs and configs.
type ConfigCoordinates struct {
	// crdName is the name of the CustomResourceDefinition of the configuration.
	// +optional
	CRDName string `json:"crdName,omitempty"`

	// crName is the name of the configuration object.
	// +optional
	CRName string `json:"crName,omitempty"`

	// lastObservedGeneration is the generation of the configuration that was last
	// acted on.
	// +optional
	LastObservedGeneration int64 `json:"lastObservedGeneration,omitempty"`
}

// AddOnMeta describes an add-on to people.
type AddOnMeta struct {
	// displayName is the add-on's name for people.
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// description says in a sentence or two what the add-on is for.
	// +optional
	Description string `json:"description,omitempty"`
}

// ManagedClusterAddOn is an add-on in one managed cluster. It lives in the
// cluster's namespace on the hub and has the name of its ClusterManagementAddOn.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	// installNamespace is the namespace in the managed cluster for the add-on's
	// agent. An AddOnDeploymentConfig with agentInstallNamespace is the better way
	// to choose it, and v1beta1 has no such field any more.
	// +optional
	// +kubebuilder:default=open-cluster-management-agent-addon
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	InstallNamespace string `json:"installNamespace,omitempty"`

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
