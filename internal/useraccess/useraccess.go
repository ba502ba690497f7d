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

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
