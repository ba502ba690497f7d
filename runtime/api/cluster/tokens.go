package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
)

// Annotations on the Secret of a bootstrap token. They are muster's own; an
// upstream hub takes no notice of them.
const (
	// TokenClusterLabelsAnnotation holds the labels, as "key=value,key=value",
	// that every ManagedCluster gets which is created with the token.
	TokenClusterLabelsAnnotation = "muster-fleet.io/token-cluster-labels"
	// TokenMaxClustersAnnotation limits how many clusters may be registered with
	// the token. Without it there is no limit.
	TokenMaxClustersAnnotation = "muster-fleet.io/token-max-clusters"
	// TokenUsedByAnnotation lists the clusters, separated by commas, that were
	// registered with the token. The hub keeps it.
	TokenUsedByAnnotation = "muster-fleet.io/token-used-by"
	// TokenClientIDsAnnotation lists the client IDs, separated by commas, that
	// agents with the token may register by, and no others. Such a token is good
	// for the clusters of these IDs only, and proves that its holder may take over
	// one that somebody has prepared.
	TokenClientIDsAnnotation = "muster-fleet.io/token-client-ids"
	// TokenAllowedLabelsAnnotation lists the keys of labels, separated by commas,
	// that agents with the token may choose for the clusters that they register by
	// a client ID. A key that ends with * stands for all that begin like it. Without
	// it agents choose none.
	TokenAllowedLabelsAnnotation = "muster-fleet.io/token-allowed-labels"
)

// TokenRevocationAnnotation with the value RevokeRequests on a token's Secret
// makes the hub delete, together with the Secret, the certificate requests that
// were made with the token and are neither approved nor denied. Requests of other
// tokens stay.
const (
	TokenRevocationAnnotation = "muster-fleet.io/token-revocation"
	RevokeRequests            = "requests"
)

// RequestTokenAnnotation on a certificate request that was made with a bootstrap
// token whose Secret says RevokeRequests holds the UID of that Secret, and
// RequestExpiryAnnotation when the token expires, as in its Secret: RFC 3339.
// By these the hub knows of a Secret that is gone whether the request goes, too.
// The hub sets them, whatever the request says.
const (
	RequestTokenAnnotation  = "muster-fleet.io/bootstrap-token-uid"
	RequestExpiryAnnotation = "muster-fleet.io/bootstrap-token-expiration"
)

// TokenSecretPrefix is what the names of tokens' Secrets in kube-system begin
// with; the token's public half follows.
const TokenSecretPrefix = "bootstrap-token-"

// TokenLabel on a ManagedCluster names the bootstrap token, by its public half,
// that created it.
const TokenLabel = "muster-fleet.io/bootstrap-token"

// MaxTokenClusters is how many clusters can be counted for one token, and the
// highest limit. Beyond it an unlimited token goes on uncounted.
const MaxTokenClusters = 1000

// bootstrapUserPrefix is what the user names of bootstrap tokens begin with.
const bootstrapUserPrefix = "system:bootstrap:"

// TokenUser is the user name of a bootstrap token, given its public half.
func TokenUser(id string) string { return bootstrapUserPrefix + id }

// TokenOfUser is the public half of the bootstrap token that a user name stands
// for.
func TokenOfUser(name string) (id string, ok bool) {
	id, ok = strings.CutPrefix(name, bootstrapUserPrefix)
	return id, ok && id != ""
}

// TokenScope is what a bootstrap token may be used for, beyond its groups.
type TokenScope struct {
	// Labels are put on every ManagedCluster that is created with the token.
	Labels map[string]string
	// MaxClusters limits the clusters that may be registered; 0 means no limit.
	MaxClusters int
	// UsedBy are the clusters that were registered, by name.
	UsedBy []string
	// ClientIDs are those that agents may register by; empty means any, none of
	// which the token proves.
	ClientIDs []string
	// AllowedLabels are the keys of labels that agents may choose, and with a * at
	// the end the beginnings of such keys.
	AllowedLabels []string
}

// ParseTokenScope reads the scope from the annotations of a token's Secret.
func ParseTokenScope(annotations map[string]string) (TokenScope, error) {
	var s TokenScope
	if text := annotations[TokenClusterLabelsAnnotation]; text != "" {
		set, err := labels.ConvertSelectorToLabelsMap(text)
		if err != nil {
			return TokenScope{}, fmt.Errorf("the annotation %s is %q, which is not of the form key=value,key=value: %w", TokenClusterLabelsAnnotation, text, err)
		}
		s.Labels = set
	}
	if text := annotations[TokenMaxClustersAnnotation]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > MaxTokenClusters {
			return TokenScope{}, fmt.Errorf("the annotation %s is %q: it must be a number from 1 to %d", TokenMaxClustersAnnotation, text, MaxTokenClusters)
		}
		s.MaxClusters = n
	}
	s.UsedBy = listed(annotations[TokenUsedByAnnotation])
	s.ClientIDs = listed(annotations[TokenClientIDsAnnotation])
	if err := CheckClientIDs(s.ClientIDs); err != nil {
		return TokenScope{}, fmt.Errorf("the annotation %s: %w", TokenClientIDsAnnotation, err)
	}
	s.AllowedLabels = listed(annotations[TokenAllowedLabelsAnnotation])
	if err := CheckAllowedLabels(s.AllowedLabels); err != nil {
		return TokenScope{}, fmt.Errorf("the annotation %s: %w", TokenAllowedLabelsAnnotation, err)
	}
	return s, nil
}

// listed are the elements of a list that is separated by commas, sorted.
func listed(text string) []string {
	var list []string
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			list = append(list, element)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Annotations is the scope as annotations; the list of clusters is left to the
// hub.
func (s TokenScope) Annotations() map[string]string {
	out := map[string]string{}
	if len(s.Labels) > 0 {
		out[TokenClusterLabelsAnnotation] = labels.FormatLabels(s.Labels)
	}
	if s.MaxClusters > 0 {
		out[TokenMaxClustersAnnotation] = strconv.Itoa(s.MaxClusters)
	}
	if len(s.ClientIDs) > 0 {
		out[TokenClientIDsAnnotation] = strings.Join(s.ClientIDs, ",")
	}
	if len(s.AllowedLabels) > 0 {
		out[TokenAllowedLabelsAnnotation] = strings.Join(s.AllowedLabels, ",")
	}
	return out
}

// Use notes that a cluster is registered with the token. changed reports whether
// that is news, ok whether the token may be used for the cluster.
func (s *TokenScope) Use(cluster string) (changed, ok bool) {
	at, found := slices.BinarySearch(s.UsedBy, cluster)
	switch {
	case found:
		return false, true
	case s.MaxClusters > 0 && len(s.UsedBy) >= s.MaxClusters:
		return false, false
	case len(s.UsedBy) >= MaxTokenClusters:
		return false, true
	}
	s.UsedBy = slices.Insert(s.UsedBy, at, cluster)
	return true, true
}

// UsedUp says why a token that Use refuses may not be used for another cluster.
func (s *TokenScope) UsedUp(id string) error {
	const shown = 5
	limit := "1 cluster"
	if s.MaxClusters != 1 {
		limit = fmt.Sprintf("%d clusters", s.MaxClusters)
	}
	return fmt.Errorf("the bootstrap token %q may register %s and was used for %s: use another token, or raise its limit",
		id, limit, text.List(s.UsedBy, shown))
}

// BoundClusters are the clusters that a user's groups bind it to; none when it
// is not bound.
func BoundClusters(groups []string) []string {
	var bound []string
	for _, g := range groups {
		if c, ok := BoundCluster(g); ok {
			bound = append(bound, c)
		}
	}
	return bound
}

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

// Replacement says that an agent has taken the place of an earlier one in a cluster, and how
// the earlier one gets it back.
func Replacement(agent, earlier, cluster string) string {
	return fmt.Sprintf("the agent %q has taken the place of %q in the managed cluster %q: "+
		"to let %[2]q in again, such as after a restore of the hub, "+
		"set the annotation %[4]s of the ManagedCluster to its name",
		agent, earlier, cluster, AgentAnnotation)
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
