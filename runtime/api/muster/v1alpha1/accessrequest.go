package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// AccessRequest asks for access to one cluster of a logical cloud. Its spec can't
// be changed: to renew access, create another request. To withdraw it, delete the
// request.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=areq
// +kubebuilder:selectablefield:JSONPath=`.spec.logicalCloud`
// +kubebuilder:selectablefield:JSONPath=`.spec.managedCluster`
// +kubebuilder:selectablefield:JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Cloud",type=string,JSONPath=`.spec.logicalCloud`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.managedCluster`
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Issued",type=string,JSONPath=`.status.conditions[?(@.type=="Issued")].status`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.notAfter`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AccessRequest struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says who wants to get where, and by what key.
	// +required
	Spec AccessRequestSpec `json:"spec"`

	// status is the answer.
	// +optional
	Status AccessRequestStatus `json:"status,omitzero"`
}

// AccessRequestSpec says who wants to get where, and by what key. The hub's
// admission checks it, and that it stays as it is: rules of the schema can't read
// bytes in every base64.
type AccessRequestSpec struct {
	// logicalCloud is the LogicalCloud, in the request's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	LogicalCloud string `json:"logicalCloud"`

	// managedCluster is one of the cloud's clusters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ManagedCluster string `json:"managedCluster"`

	// user is the user of the hub that gets access; the requester by default.
	// Who asks for another user needs the right to impersonate that user.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user,omitempty"`

	// mode is how the user proves who it is to the cluster: Certificate, Token,
	// or Auto for a certificate where the cluster's signer gives one.
	// +optional
	// +kubebuilder:default=Certificate
	Mode AccessMode `json:"mode,omitempty"`

	// request is a certificate request in PEM. Its subject must be the one that
	// muster demands; see docs/security.md.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Request []byte `json:"request,omitempty"`

	// sealTo is an X25519 public key of 32 bytes, to which tokens are sealed. Not
	// the key of the certificate request.
	// +optional
	// +kubebuilder:validation:MinLength=44
	// +kubebuilder:validation:MaxLength=44
	SealTo []byte `json:"sealTo,omitempty"`

	// expirationSeconds is how long access lasts; the cloud's default when it is
	// 0.
	// +optional
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=31536000
	ExpirationSeconds int32 `json:"expirationSeconds,omitempty"`

	// requester is who created the request. The hub sets it, whatever the client
	// says, but for the groups of another user.
	// +optional
	Requester Requester `json:"requester,omitzero"`
}

// Requester is who created an access request.
type Requester struct {
	// username is the user's name on the hub.
	// +optional
	Username string `json:"username,omitempty"`

	// uid is the user's UID on the hub, if it has one.
	// +optional
	UID string `json:"uid,omitempty"`

	// groups are those of the user that gets access, by which grants to groups
	// are found: the requester's own, or, when access is for another user, the
	// ones in the request, which the requester needs the right to impersonate.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
}

// AccessRequestStatus is the answer to a request for access.
type AccessRequestStatus struct {
	// conditions: Approved, Issued, Revoked, Expired, Failed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	IssuedAccess `json:",inline"`

	// endpoints are where the cluster's API server is.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// IssuedAccess is what a cluster has issued to a user.
type IssuedAccess struct {
	// certificate is a client certificate with its chain, in PEM.
	// +optional
	// +kubebuilder:validation:MaxLength=24576
	Certificate []byte `json:"certificate,omitempty"`

	// sealedToken is a token, sealed to the request's sealTo by HPKE (RFC 9180).
	// +optional
	// +kubebuilder:validation:MaxLength=24576
	SealedToken []byte `json:"sealedToken,omitempty"`

	// keyHash is the hash of the key that has access: the first 32 hexadecimal
	// digits of the SHA-256 of the certificate request's public key, or of the
	// one that tokens are sealed to, in mode Token.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	KeyHash string `json:"keyHash,omitempty"`

	// serial is the certificate's serial number, in hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Serial string `json:"serial,omitempty"`

	// serviceAccountUID is the UID of the service account that the token is of. A
	// token ends with its account; the agent replaces it when the account has been
	// made again.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ServiceAccountUID string `json:"serviceAccountUID,omitempty"`

	// notBefore is when access begins.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`

	// notAfter is when access ends by itself.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
}

// Endpoint is where an API server is.
type Endpoint struct {
	// url is its address.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`

	// caBundle verifies its certificate, in PEM; the system's authorities when
	// it is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CABundle []byte `json:"caBundle,omitempty"`
}

// HasEnded reports whether nothing more comes of a request: it is being deleted,
// or what it gave has expired or was withdrawn, or it has failed.
func (r *AccessRequest) HasEnded() bool {
	for _, kind := range []string{muster.ConditionExpired, muster.ConditionRevoked, muster.ConditionFailed} {
		if meta.IsStatusConditionTrue(r.Status.Conditions, kind) {
			return true
		}
	}
	return r.DeletionTimestamp != nil
}

// AccessRequestList is a list of access requests.
//
// +kubebuilder:object:root=true
type AccessRequestList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []AccessRequest `json:"items"`
}

// ClusterCredential is an approved access request, as the cluster's agent sees
// it: in the cluster's namespace on the hub. The hub creates it, and the agent
// writes its status only.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Issued",type=string,JSONPath=`.status.conditions[?(@.type=="Issued")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterCredential struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the agent is asked for.
	// +required
	Spec ClusterCredentialSpec `json:"spec"`

	// status is what the agent has got.
	// +optional
	Status ClusterCredentialStatus `json:"status,omitzero"`
}

// ClusterCredentialSpec is what an agent is asked for.
type ClusterCredentialSpec struct {
	// accessRequest is the request.
	// +required
	AccessRequest RequestReference `json:"accessRequest"`

	// hubID is the hub, as it is in the certificate's subject.
	// +required
	HubID string `json:"hubID"`

	// requester is the user of the hub that asked.
	// +required
	Requester string `json:"requester"`

	// user is the user of the hub that gets access.
	// +required
	User string `json:"user"`

	// namespace is the cloud's namespace in the cluster.
	// +required
	Namespace string `json:"namespace"`

	// mode is Certificate, Token or Auto.
	// +required
	Mode AccessMode `json:"mode"`

	// request is the certificate request, in PEM.
	// +optional
	Request []byte `json:"request,omitempty"`

	// sealTo is the X25519 public key to which tokens are sealed.
	// +optional
	SealTo []byte `json:"sealTo,omitempty"`

	// expirationSeconds is how long access lasts.
	// +required
	ExpirationSeconds int32 `json:"expirationSeconds"`

	// tunnels are those that users have open to the cluster by this access. The
	// agent comes to the hub for each of them. To end one, remove it.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=id
	Tunnels []Tunnel `json:"tunnels,omitempty"`
}

// Tunnel is one that a user has open to a cluster's API server.
type Tunnel struct {
	// id is 32 hexadecimal digits, which the user's side has made up.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`

	// user is the user of the hub who has opened it.
	// +required
	User string `json:"user"`

	// since is when it was opened.
	// +required
	Since metav1.Time `json:"since"`

	// replica is the one of several hubs to which the user is connected; empty where
	// there is one.
	// +optional
	Replica string `json:"replica,omitempty"`
}

// RequestReference names an access request.
type RequestReference struct {
	// namespace is the request's namespace on the hub.
	// +required
	Namespace string `json:"namespace"`

	// name is the request's name.
	// +required
	Name string `json:"name"`

	// uid is the request's UID.
	// +required
	UID types.UID `json:"uid"`
}

// ClusterCredentialStatus is what an agent has got.
type ClusterCredentialStatus struct {
	// conditions: Issued, Failed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	IssuedAccess `json:",inline"`
}

// ClusterCredentialList is a list of cluster credentials.
//
// +kubebuilder:object:root=true
type ClusterCredentialList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []ClusterCredential `json:"items"`
}
