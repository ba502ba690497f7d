// Package useraccess is the user's side of access to the clusters of a logical
// cloud: keys, the request, what has become of it, and the kubeconfig that is made
// of the answer. It talks to nobody: the provider and the commands of muster, which
// share it, have clients of their own.
//
// It follows the section "User access" of docs/security.md.
package useraccess

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
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
