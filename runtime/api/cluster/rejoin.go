package cluster

import (
	"strings"
	"time"
)

// Annotations by which a cluster that has joined before joins again. They are
// muster's own; an upstream hub takes no notice of them.
const (
	// RejoinAnnotation on the Secret of a bootstrap token names the cluster, one
	// that the token is bound to, that may join with it again although it has
	// joined before. A user who may write the Secrets of bootstrap tokens allows it,
	// and the hub takes the annotation away with the first request that it
	// approves by it.
	RejoinAnnotation = "muster-fleet.io/token-rejoin"
	// RejoinedAnnotation on the Secret of a bootstrap token is the UID of the
	// certificate request that was approved by RejoinAnnotation. The hub keeps it.
	RejoinedAnnotation = "muster-fleet.io/token-rejoined"
	// RejoinUIDAnnotation on the Secret of a bootstrap token with RejoinAnnotation
	// is the UID of the cluster that registered with it by a client ID first, which
	// takes the place of the one from before. The hub keeps it, so that the token
	// brings no third one.
	RejoinUIDAnnotation = "muster-fleet.io/token-rejoin-cluster-uid"

	// AgentAnnotation on a ManagedCluster names the one agent of the cluster that
	// the hub serves, once an agent has taken another one's place. Without it
	// every agent of the cluster is served. The hub keeps it.
	AgentAnnotation = "muster-fleet.io/agent"
	// AgentSinceAnnotation on a ManagedCluster is when that agent's certificate
	// request was approved and, behind a comma, when it was made, both in RFC 3339
	// and UTC, so that later texts sort behind earlier ones. The hub keeps it.
	AgentSinceAnnotation = "muster-fleet.io/agent-since"
)

// VoidedAnnotation on the namespace of a cluster is when a cluster of that name was
// deleted that was denied, or whose agent was replaced, in RFC 3339 and UTC. What its
// identities got until then is void for the next cluster of the name. The hub keeps it.
const VoidedAnnotation = "muster-fleet.io/identities-void-until"

// backdated is how far before its issue a certificate of the hub's signer is valid. A
// signer of somebody else's has to do it no further.
const backdated = 5 * time.Minute

// IssuedAt is when a certificate of the hub was issued, to the second, going by the time
// from which it is valid.
func IssuedAt(notBefore time.Time) time.Time { return notBefore.Add(backdated) }

// takeOverTakes is how long it may take until the whole hub knows that an agent was
// replaced.
const takeOverTakes = time.Second

// VoidUntil is the time until which the credentials of a cluster's add-ons are void, as
// another agent has taken the place of the one that got them. It is zero when all are
// good. annotations are those of the ManagedCluster.
func VoidUntil(annotations map[string]string) time.Time {
	if annotations[AgentAnnotation] == "" {
		return time.Time{}
	}
	approved, _, _ := strings.Cut(annotations[AgentSinceAnnotation], ",")
	since, err := time.Parse(time.RFC3339, approved)
	if err != nil {
		return time.Time{} // somebody has named the agent by hand
	}
	return since.Add(takeOverTakes)
}

// Replaced reports whether another agent has taken the place of this one.
// annotations are those of the ManagedCluster.
func Replaced(annotations map[string]string, agent string) bool {
	current := annotations[AgentAnnotation]
	return current != "" && current != agent
}

// TakeOver is what the annotations of a ManagedCluster become when the request
// of an agent, made at one time, is approved at another. changed is false when
// they name this agent already, or one that was let in later: of several
// requests that are approved in the same second, the one made last counts.
func TakeOver(annotations map[string]string, agent string, made, approved time.Time) (set map[string]string, changed bool) {
	since := approved.UTC().Format(time.RFC3339) + "," + made.UTC().Format(time.RFC3339)
	if annotations[AgentAnnotation] == agent || since < annotations[AgentSinceAnnotation] {
		return nil, false
	}
	return map[string]string{AgentAnnotation: agent, AgentSinceAnnotation: since}, true
}
