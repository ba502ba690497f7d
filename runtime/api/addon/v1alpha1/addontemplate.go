package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

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
