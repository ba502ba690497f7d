package v1alpha1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LogicalCloud gives users one namespace of the same name in several clusters,
// with quotas and rights: the logical cloud of EMCO's DCM.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=lcloud
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.namespace.name`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.clusters.selected`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.clusters.ready`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LogicalCloud struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what the cloud is made of, and who may use it.
	// +required
	Spec LogicalCloudSpec `json:"spec"`

	// status is what has become of it in the clusters.
	// +optional
	Status LogicalCloudStatus `json:"status,omitzero"`
}

// LogicalCloudSpec says what a cloud is made of, and who may use it.
type LogicalCloudSpec struct {
	// placements select the clusters. They are in the cloud's namespace on the
	// hub. A cluster that several of them select counts once.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Placements []PlacementReference `json:"placements"`

	// namespace is the cloud's namespace in each cluster.
	// +required
	Namespace CloudNamespace `json:"namespace"`

	// quotas limit what the namespace may hold, in each cluster by itself.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Quotas []CloudQuota `json:"quotas,omitempty"`

	// grants say who may do what. A user has the sum of the grants that name the
	// user or one of the user's groups.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Grants []Grant `json:"grants,omitempty"`

	// access limits how users come in.
	// +optional
	// +kubebuilder:default={}
	Access CloudAccess `json:"access,omitzero"`
}

// PlacementReference names a placement in the same namespace.
type PlacementReference struct {
	// name is the placement's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Existing says what to do with a namespace that a cluster has already.
type Existing string

// What to do with a namespace that a cluster has already.
const (
	ExistingRefuse Existing = "Refuse"
	ExistingAdopt  Existing = "Adopt"
)

// OnDelete says what becomes of a namespace that leaves the cloud.
type OnDelete string

// What becomes of a namespace that leaves the cloud.
const (
	OnDeleteKeep   OnDelete = "Keep"
	OnDeleteDelete OnDelete = "Delete"
)

// CloudNamespace is a namespace in each cluster of a cloud.
type CloudNamespace struct {
	// name is the namespace's name. It can't be changed. Namespaces of
	// Kubernetes and of the agent are refused.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the namespace of a logical cloud can't be changed; create another cloud"
	Name string `json:"name"`

	// labels are put on the namespace.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are put on the namespace.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// existing says what to do in a cluster that has the namespace already:
	// Refuse, so that the cloud has no part in that cluster, or Adopt.
	// +optional
	// +kubebuilder:default=Refuse
	// +kubebuilder:validation:Enum=Refuse;Adopt
	Existing Existing `json:"existing,omitempty"`

	// onDelete says what becomes of the namespace, with all that is in it, when
	// the cloud is deleted or the cluster is not selected any more: Keep or
	// Delete. An adopted namespace is kept in any case.
	// +optional
	// +kubebuilder:default=Keep
	// +kubebuilder:validation:Enum=Keep;Delete
	OnDelete OnDelete `json:"onDelete,omitempty"`
}

// CloudQuota is a ResourceQuota in the namespace of a cloud.
type CloudQuota struct {
	// name is the quota's name.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// hard are the limits by resource, such as limits.cpu.
	// +required
	// +kubebuilder:validation:MinProperties=1
	Hard corev1.ResourceList `json:"hard"`

	// scopes limit the quota to some pods, as in a ResourceQuota.
	// +optional
	// +listType=atomic
	Scopes []corev1.ResourceQuotaScope `json:"scopes,omitempty"`
}

// GrantScope is how far a grant reaches.
type GrantScope string

// How far a grant reaches.
const (
	ScopeNamespace GrantScope = "Namespace"
	ScopeCluster   GrantScope = "Cluster"
)

// Grant gives rights to users and groups.
//
// +kubebuilder:validation:XValidation:rule="has(self.role) != (has(self.rules) && size(self.rules) > 0)",message="a grant needs either a role or rules"
// +kubebuilder:validation:XValidation:rule="(has(self.users) && size(self.users) > 0) || (has(self.groups) && size(self.groups) > 0)",message="a grant needs users or groups"
type Grant struct {
	// role is the AccessRole whose rules are granted.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Role string `json:"role,omitempty"`

	// rules are granted, as in a Role. Who writes them needs all of these rights
	// on the hub, or the verb escalate on accessroles.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Rules []rbacv1.PolicyRule `json:"rules,omitempty"`

	// scope is Namespace for rights in the cloud's namespace, or Cluster for
	// rights in all of the cluster.
	// +optional
	// +kubebuilder:default=Namespace
	// +kubebuilder:validation:Enum=Namespace;Cluster
	Scope GrantScope `json:"scope,omitempty"`

	// users are users of the hub.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=set
	Users []string `json:"users,omitempty"`

	// groups are groups of users of the hub.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=set
	Groups []string `json:"groups,omitempty"`
}

// AccessMode is how a user proves who it is to a cluster.
//
// +kubebuilder:validation:Enum=Certificate;Token;Auto
type AccessMode string

// How a user proves who it is to a cluster.
const (
	// AccessCertificate is a client certificate.
	AccessCertificate AccessMode = "Certificate"
	// AccessToken is a token of a service account in the cloud's namespace.
	AccessToken AccessMode = "Token"
	// AccessAuto is a certificate, or a token where the cluster's signer gives
	// none.
	AccessAuto AccessMode = "Auto"
)

// KeyPolicy says who makes the keys of certificates.
type KeyPolicy string

// Who makes the keys of certificates.
const (
	// KeyUserHeld leaves the key with the user: the hub sees a certificate
	// request only.
	KeyUserHeld KeyPolicy = "UserHeld"
	// KeyHubMade has the hub make one key for each user and hand it out inside
	// the finished kubeconfig, as DCM does.
	KeyHubMade KeyPolicy = "HubMade"
)

// CloudAccess limits how users come into the clusters of a cloud.
type CloudAccess struct {
	// modes are the ways in that are allowed: Certificate, Token.
	// +optional
	// +kubebuilder:default={Certificate,Token}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=Certificate;Token
	// +listType=set
	Modes []AccessMode `json:"modes,omitempty"`

	// defaultLifetimeSeconds is how long access lasts when a request does not
	// say: 8 hours by default.
	// +optional
	// +kubebuilder:default=28800
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=31536000
	DefaultLifetimeSeconds int32 `json:"defaultLifetimeSeconds,omitempty"`

	// maxLifetimeSeconds is how long access may last: 24 hours by default.
	// +optional
	// +kubebuilder:default=86400
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=31536000
	MaxLifetimeSeconds int32 `json:"maxLifetimeSeconds,omitempty"`

	// keyPolicy is UserHeld, so that keys stay with their users, or HubMade: the
	// hub makes a key for each user that the grants name, and hands it out inside
	// the finished kubeconfig.
	// +optional
	// +kubebuilder:default=UserHeld
	// +kubebuilder:validation:Enum=UserHeld;HubMade
	KeyPolicy KeyPolicy `json:"keyPolicy,omitempty"`

	// maxRequestsPerUser limits the access requests of one user that are alive,
	// per cluster of the cloud: 10 by default. What the hub asks for itself does not
	// count.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxRequestsPerUser int32 `json:"maxRequestsPerUser,omitempty"`
}

// LogicalCloudStatus is what has become of a cloud in the clusters.
type LogicalCloudStatus struct {
	// clusters counts the cloud's clusters.
	// +optional
	Clusters CloudClusters `json:"clusters,omitzero"`

	// revokedKeys are the keys that were withdrawn from a cluster and have a
	// certificate of it that still lives. They are refused until it ends.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=keyHash
	// +listMapKey=managedCluster
	RevokedKeys []RevokedKey `json:"revokedKeys,omitempty"`

	// conditions: Selected, Applied, Ready, Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RevokedKey is a key that was withdrawn.
type RevokedKey struct {
	// keyHash is the key's hash, as in the status of access requests.
	// +required
	// +kubebuilder:validation:MaxLength=64
	KeyHash string `json:"keyHash"`

	// managedCluster is the cluster whose certificate it has.
	// +required
	// +kubebuilder:validation:MaxLength=63
	ManagedCluster string `json:"managedCluster"`

	// until is when the last certificate of the key ends.
	// +required
	Until metav1.Time `json:"until"`
}

// RevokedUntil reports whether a key was withdrawn from a cluster and has a
// certificate there that still lives, and when that ends.
func (c *LogicalCloud) RevokedUntil(cluster, keyHash string, now time.Time) (until time.Time, revoked bool) {
	for _, k := range c.Status.RevokedKeys {
		if k.KeyHash == keyHash && k.ManagedCluster == cluster && now.Before(k.Until.Time) {
			return k.Until.Time, true
		}
	}
	return time.Time{}, false
}

// CloudClusters counts the clusters of a cloud.
type CloudClusters struct {
	// selected is how many clusters the placements select.
	// +optional
	Selected int32 `json:"selected"`

	// ready is how many of them have all of the cloud's objects.
	// +optional
	Ready int32 `json:"ready"`

	// failed is how many of them can't have them.
	// +optional
	Failed int32 `json:"failed"`

	// failing names up to 10 clusters that are not ready, with the reason.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=name
	Failing []FailingCluster `json:"failing,omitempty"`
}

// FailingCluster is a cluster of a cloud that is not ready.
type FailingCluster struct {
	// name is the ManagedCluster's name.
	// +required
	Name string `json:"name"`

	// reason is a word for programs, such as NamespaceExists.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// LogicalCloudList is a list of logical clouds.
//
// +kubebuilder:object:root=true
type LogicalCloudList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []LogicalCloud `json:"items"`
}

// AccessRole is what may be granted: a role in the administrator's catalogue.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
type AccessRole struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// rules are what the role allows, as in a ClusterRole.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Rules []rbacv1.PolicyRule `json:"rules"`

	// clusterScopeAllowed lets clouds grant the role beyond their namespace.
	// +optional
	ClusterScopeAllowed bool `json:"clusterScopeAllowed,omitempty"`
}

// AccessRoleList is a list of access roles.
//
// +kubebuilder:object:root=true
type AccessRoleList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []AccessRole `json:"items"`
}
