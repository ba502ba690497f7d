// Package useraccess is the user's side of access to the clusters of a logical
// cloud: keys, the request, what has become of it, and the kubeconfig that is made
// of the answer. It talks to nobody: the provider and the commands of muster, which
// share it, have clients of their own.
//
// It follows the section "User access" of docs/security.md.
package useraccess

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Ask is what a user asks for: access to one cluster of a logical cloud.
type Ask struct {
	// Namespace and Cloud are the logical cloud.
	Namespace, Cloud string
	// Cluster is one of its clusters.
	Cluster string
	// User is the user of the hub that gets access, and HubID the hub's short name:
	// both are in the subject of the certificate request.
	User, HubID string
	// Groups are those of a user that is not the requester.
	Groups []string
	// Mode is how the user proves who it is.
	Mode v1alpha1.AccessMode
	// Lifetime is how long access lasts; 0 is the cloud's default.
	Lifetime time.Duration
}

// What names the access in messages: access to cluster "paris" of logical cloud
// "team-a/prod".
func (a Ask) What() string {
	return fmt.Sprintf("access to cluster %q of logical cloud %q", a.Cluster, a.Namespace+"/"+a.Cloud)
}

// Request is the access request, under a name of its own.
func (a Ask) Request(keys Keys) (*v1alpha1.AccessRequest, error) {
	request := &v1alpha1.AccessRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: NewName(a.Cluster)},
		Spec: v1alpha1.AccessRequestSpec{
			LogicalCloud: a.Cloud, ManagedCluster: a.Cluster, User: a.User, Mode: a.Mode,
			ExpirationSeconds: int32(a.Lifetime / time.Second), //nolint:gosec // at most a year
			Requester:         v1alpha1.Requester{Groups: a.Groups},
		},
	}
	if a.Mode != v1alpha1.AccessToken {
		var err error
		if request.Spec.Request, err = access.NewRequest(keys.Certificate, a.HubID, a.User); err != nil {
			return nil, err
		}
	}
	if a.Mode != v1alpha1.AccessCertificate {
		request.Spec.SealTo = keys.Token.PublicKey().Bytes()
	}
	return request, nil
}

// NewName makes up the name of an access request for a cluster.
func NewName(cluster string) string {
	var random [5]byte
	_, _ = rand.Read(random[:]) // Never fails.
	return cluster + "-" + hex.EncodeToString(random[:])
}

// MinLifetime and MaxLifetime are the limits of the API for how long access lasts.
const (
	MinLifetime = 10 * time.Minute
	MaxLifetime = 365 * 24 * time.Hour
)

// CheckLifetime refuses lifetimes that the API does not take; 0 is the cloud's
// default.
func CheckLifetime(d time.Duration) error {
	if d != 0 && (d < MinLifetime || d > MaxLifetime || d%time.Second != 0) {
		return fmt.Errorf("%s is not a lifetime of access: it takes whole seconds, from 10m to 8760h", d)
	}
	return nil
}

// SplitCloud reads a logical cloud as namespace/name.
func SplitCloud(text string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("%q does not name a logical cloud: write its namespace on the hub and its name, as in team-a/prod", text)
	}
	return namespace, name, nil
}

// ModeFor is the mode to ask a logical cloud in: the one that it allows, or all that
// there are. Who may use a cloud and not read it gives nil.
func ModeFor(c *v1alpha1.LogicalCloud) v1alpha1.AccessMode {
	if c != nil && len(c.Spec.Access.Modes) == 1 {
		return c.Spec.Access.Modes[0]
	}
	return v1alpha1.AccessAuto
}

// State is what has become of a request.
type State int

// What has become of a request.
const (
	// Waiting is for the hub or for the cluster's agent.
	Waiting State = iota
	// Issued says that there is a certificate or a token.
	Issued
	// Refused says that there will be none.
	Refused
)

// grace is how long a refusal for want of a grant or a cluster may still turn: the
// cloud may have been made a moment ago.
const grace = 20 * time.Second

// Progress says what has become of a request, in a state and in words: what it waits
// for, or why there will be nothing and what to do about it.
func Progress(request *v1alpha1.AccessRequest, now time.Time) (state State, text string) {
	find := func(kind string) *metav1.Condition { return meta.FindStatusCondition(request.Status.Conditions, kind) }
	is := func(c *metav1.Condition, status metav1.ConditionStatus) bool { return c != nil && c.Status == status }
	approved, issued, failed := find(muster.ConditionApproved), find(muster.ConditionIssued), find(muster.ConditionFailed)
	switch {
	case request.DeletionTimestamp != nil:
		return Refused, "the request is being deleted, so access is withdrawn"
	case is(find(muster.ConditionRevoked), metav1.ConditionTrue):
		return Refused, "access was withdrawn"
	case is(find(muster.ConditionExpired), metav1.ConditionTrue):
		return Refused, "access has ended; ask for it again"
	case is(failed, metav1.ConditionTrue) && failed.Reason != muster.ReasonAgentOffline:
		return Refused, explain(failed)
	case is(approved, metav1.ConditionFalse) && (lasting(approved.Reason) || now.Sub(request.CreationTimestamp.Time) > grace):
		return Refused, explain(approved)
	case is(issued, metav1.ConditionTrue) && len(request.Status.Certificate)+len(request.Status.SealedToken) > 0:
		return Issued, ""
	case is(failed, metav1.ConditionTrue):
		return Waiting, explain(failed)
	case is(approved, metav1.ConditionFalse):
		return Waiting, explain(approved)
	case issued != nil:
		return Waiting, explain(issued)
	case is(approved, metav1.ConditionTrue):
		return Waiting, "the hub has approved it; the cluster's agent has not answered yet"
	}
	return Waiting, "the hub has not decided yet"
}

// lasting finds the reasons that do not go away by waiting.
func lasting(reason string) bool {
	switch reason {
	case muster.ReasonNotGranted, muster.ReasonClusterNotSelected, muster.ReasonClusterNotAccepted, muster.ReasonAgentOffline:
		return false
	}
	return true
}

// explain is a condition in words, with what to do about it.
func explain(c *metav1.Condition) string {
	text := fmt.Sprintf("%s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
	if remedy := remedy(c.Reason); remedy != "" {
		text += ". " + remedy
	}
	return text
}

func remedy(reason string) string {
	switch reason {
	case muster.ReasonNotGranted:
		return "Have a grant of the logical cloud name the user, or one of the user's groups"
	case muster.ReasonClusterNotSelected:
		return "Choose a cluster that the cloud's placements select"
	case muster.ReasonClusterNotAccepted:
		return "The hub has to accept the cluster first"
	case muster.ReasonKeyRevoked:
		return "Use a new key"
	case muster.ReasonAgentUnable:
		return "The cluster's owner has to start its agent with --user-access"
	case muster.ReasonAgentOffline:
		return "It goes on when the cluster's agent is back"
	case muster.ReasonRefusedByPolicy:
		return "Ask the cluster's owner, who limits access by the config map " + muster.PolicyConfigMap
	case muster.ReasonSignerSilent, muster.ReasonSignerIgnoredLifetime:
		return "Ask for a token instead (mode Token or Auto), if the cloud allows tokens"
	case muster.ReasonNamespaceExists:
		return "The cloud needs another namespace, or existing = \"Adopt\""
	case muster.ReasonAccountNamespaceExists:
		return "Ask the cluster's owner, or for a certificate (mode Certificate) of a cloud that allows no tokens"
	}
	return ""
}

// Credential is what a user has got: the way into one cluster.
type Credential struct {
	// Cluster is the cluster, and User the user of the hub.
	Cluster, User string
	// Endpoint is where the cluster's API server is.
	Endpoint v1alpha1.Endpoint
	// Certificate is a client certificate with its chain, and Key its key, in PEM.
	Certificate, Key []byte
	// Token is a bearer token, in place of a certificate.
	Token string
	// NotAfter is when access ends.
	NotAfter time.Time
}

// ErrNoEndpoint says that nobody knows where a cluster's API server is.
var ErrNoEndpoint = errors.New("the hub does not know where the cluster's API server is: " +
	"its agent has to report it (--spoke-external-server-urls, or --tunnels where nobody reaches it)")

// noEndpointError is ErrNoEndpoint for a request, in the words of the hub where it says why
// there is none, such as an annotation that can't be read.
type noEndpointError struct{ why string }

func (e noEndpointError) Error() string { return e.why }
func (noEndpointError) Unwrap() error   { return ErrNoEndpoint }

// NoEndpoint is why a request that is issued has no endpoint. It is an ErrNoEndpoint.
func NoEndpoint(request *v1alpha1.AccessRequest) error {
	if issued := meta.FindStatusCondition(request.Status.Conditions, muster.ConditionIssued); issued != nil {
		if _, why, found := strings.Cut(issued.Message, muster.ReasonEndpointUnknown+": "); found {
			return noEndpointError{why}
		}
	}
	return ErrNoEndpoint
}

// Open makes a credential of a request that is issued. A certificate that is not for
// the key and the user, and a token that is not sealed to the key, are refused. Where
// the hub does not know the cluster's address, the error is ErrNoEndpoint, and the
// credential complete but for it.
func Open(request *v1alpha1.AccessRequest, keys Keys, hubID string) (Credential, error) {
	spec, status := request.Spec, request.Status
	c := Credential{Cluster: spec.ManagedCluster, User: spec.User}
	if status.NotAfter != nil {
		c.NotAfter = status.NotAfter.Time
	}
	switch {
	case len(status.Certificate) > 0:
		hash, err := access.KeyHash(keys.Certificate.Public())
		if err != nil {
			return c, err
		}
		leaf, err := access.ReadCertificate(status.Certificate, hubID, spec.User, hash)
		if err != nil {
			return c, fmt.Errorf("the hub handed out a certificate that was not asked for, and it is not used: %w", err)
		}
		c.Certificate, c.NotAfter = status.Certificate, leaf.NotAfter
		if c.Key, err = keys.KeyPEM(); err != nil {
			return c, err
		}
	case len(status.SealedToken) > 0:
		token, err := access.Open(keys.Token, status.SealedToken, string(request.UID))
		if err != nil {
			return c, err
		}
		c.Token = string(token)
	default:
		return c, errors.New("there is neither a certificate nor a token in the answer")
	}
	if len(status.Endpoints) == 0 {
		return c, NoEndpoint(request)
	}
	c.Endpoint = status.Endpoints[0]
	return c, nil
}

// Entry is the way into one cluster, in a kubeconfig.
type Entry struct {
	Cluster, User string
	Endpoint      v1alpha1.Endpoint
	Auth          clientcmdapi.AuthInfo
}

// Entry is the credential in a kubeconfig.
func (c Credential) Entry() Entry {
	return Entry{
		Cluster: c.Cluster, User: c.User, Endpoint: c.Endpoint,
		Auth: clientcmdapi.AuthInfo{ClientCertificateData: c.Certificate, ClientKeyData: c.Key, Token: c.Token},
	}
}

// ContextName is the name of a context.
func ContextName(user, cluster string) string { return user + "@" + cluster }

// Config is a kubeconfig with a context USER@CLUSTER for each entry, in a namespace.
// The first one is the current one. The cluster is called CLUSTER and the user USER,
// as in the kubeconfigs of EMCO's DCM; where there are several clusters, whose
// credentials differ, the users are called as their contexts.
func Config(entries []Entry, namespace string) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	for i := range entries {
		e := &entries[i]
		context := ContextName(e.User, e.Cluster)
		user := e.User
		if len(entries) > 1 {
			user = context
		}
		config.Clusters[e.Cluster] = &clientcmdapi.Cluster{Server: e.Endpoint.URL, CertificateAuthorityData: e.Endpoint.CABundle}
		config.AuthInfos[user] = &e.Auth
		config.Contexts[context] = &clientcmdapi.Context{Cluster: e.Cluster, AuthInfo: user, Namespace: namespace}
		if config.CurrentContext == "" {
			config.CurrentContext = context
		}
	}
	return config
}

// Kubeconfig is Config as a file's content.
func Kubeconfig(entries []Entry, namespace string) ([]byte, error) {
	text, err := clientcmd.Write(*Config(entries, namespace))
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	return text, nil
}

// privateKeyType is the PEM block of a key in PKCS 8.
const privateKeyType = "PRIVATE KEY"

// Keys are what a user proves with who it is. They never leave the user's machine.
type Keys struct {
	// Certificate is the key of the client certificate: ECDSA P-256.
	Certificate *ecdsa.PrivateKey
	// Token is what tokens are sealed to: X25519.
	Token *ecdh.PrivateKey
}

// NewKeys makes keys.
func NewKeys() (Keys, error) {
	certificate, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Keys{}, fmt.Errorf("make a key: %w", err)
	}
	token, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return Keys{}, fmt.Errorf("make a key: %w", err)
	}
	return Keys{Certificate: certificate, Token: token}, nil
}

// KeyPEM is the key of the certificate in PEM.
func (k Keys) KeyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.Certificate)
	if err != nil {
		return nil, fmt.Errorf("write the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateKeyType, Bytes: der}), nil
}

// ParseKey reads what KeyPEM has written.
func ParseKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != privateKeyType {
		return nil, errors.New("it is not a private key in PEM (PKCS 8)")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	own, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the private key is a %T, and must be an ECDSA key", key)
	}
	return own, nil
}
