package authorization

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// Standing is the state of a cluster's membership in the fleet.
type Standing uint8

const (
	// Absent is a cluster that is not on the hub.
	Absent Standing = iota
	// Unaccepted is a cluster that waits for its acceptance, or was denied.
	Unaccepted
	// Accepted is a member of the fleet.
	Accepted
	// Leaving is an accepted cluster that is being deleted.
	Leaving
	// Refused is a cluster that no hub accepts, because its name is reserved.
	Refused
)

// String is the name of the standing in messages.
func (s Standing) String() string {
	switch s {
	case Unaccepted:
		return "is not accepted"
	case Accepted:
		return "is accepted"
	case Leaving:
		return "is being deleted"
	case Refused:
		return "has a name that is reserved"
	}
	return "does not exist"
}

// Decide is what the agent of a cluster with this standing may do. It allows
// what agents of accepted clusters do all day, so that RBAC need not search the
// hub's role bindings. It denies, whatever the bindings say, everything that
// the agent of a cluster with another standing does not need to clean up. It
// has no opinion about the rest, which role bindings decide.
func Decide(name string, s Standing, a authorizer.Attributes) authorizer.Decision {
	if isOpen(a) {
		return authorizer.DecisionNoOpinion
	}
	switch s {
	case Accepted:
		if isDaily(name, a) {
			return authorizer.DecisionAllow
		}
		return authorizer.DecisionNoOpinion
	case Leaving:
		// The hub withdraws the agent's cluster role at once. A restarted agent
		// has to read its cluster, or it would wait to be accepted.
		if readsItself(name, a) {
			return authorizer.DecisionAllow
		}
		if worksOn(name, a, "get", "list", "watch", "update", "patch") || reportsEvents(name, a) {
			return authorizer.DecisionNoOpinion
		}
	case Unaccepted:
		// No watch: it would show works that are created later. Get and list
		// only show works that are being deleted.
		if readsItself(name, a) || worksOn(name, a, "get", "list", "update", "patch") {
			return authorizer.DecisionNoOpinion
		}
	}
	return authorizer.DecisionDeny
}

// DecideMember is what somebody may do who belongs to a cluster with this standing and is
// not its agent: the agent of an add-on, or a service account. In an accepted cluster role
// bindings decide, and in one that is being deleted those in its own namespace, as what
// runs before the end of an add-on may need the hub.
func DecideMember(name string, s Standing, a authorizer.Attributes) authorizer.Decision {
	if isOpen(a) || s == Accepted || s == Leaving && a.GetNamespace() == name {
		return authorizer.DecisionNoOpinion
	}
	return authorizer.DecisionDeny
}

// isOpen reports whether a request is one that every user may make: the API's
// description, questions about oneself, and where the hub is.
func isOpen(a authorizer.Attributes) bool {
	if !a.IsResourceRequest() {
		first, _, _ := strings.Cut(strings.TrimPrefix(a.GetPath(), "/"), "/")
		return slices.Contains([]string{"", "api", "apis", "openapi", "version", "healthz", "livez", "readyz"}, first)
	}
	switch a.GetAPIGroup() {
	case authenticationv1.GroupName:
		return a.GetResource() == "selfsubjectreviews"
	case authorizationv1.GroupName:
		return a.GetResource() == "selfsubjectaccessreviews" || a.GetResource() == "selfsubjectrulesreviews"
	case "":
		return a.GetResource() == "configmaps" && a.GetSubresource() == "" && a.GetNamespace() == metav1.NamespacePublic && a.GetVerb() == "get"
	}
	return false
}

// isDaily reports whether the request is allowed by the roles that the hub
// gives to the agent of an accepted cluster: those of the package
// managedcluster, outside its namespace, and of the package clusterrole, inside
// it; or is one of muster's own kinds.
func isDaily(name string, a authorizer.Attributes) bool {
	switch a.GetAPIGroup() {
	case cluster.GroupName:
		switch resourceOf(a) {
		case "managedclusters":
			return a.GetName() == name && hasVerb(a, "get", "list", "update", "watch")
		case "managedclusters/status":
			return a.GetName() == name && hasVerb(a, "patch", "update")
		}
	case cluster.RegisterGroupName:
		return resourceOf(a) == "managedclusters/clientcertificates" && hasVerb(a, "renew")
	case certificatesv1.GroupName:
		return resourceOf(a) == "certificatesigningrequests" && hasVerb(a, "create", "get", "list", "watch")
	case coordinationv1.GroupName:
		return a.GetNamespace() == name && resourceOf(a) == "leases" && hasVerb(a, "get", "list", "watch", "update")
	case addon.GroupName:
		if a.GetNamespace() != name {
			return false
		}
		switch resourceOf(a) {
		case "managedclusteraddons":
			return hasVerb(a, "get", "list", "watch")
		case "managedclusteraddons/status":
			return hasVerb(a, "patch", "update")
		}
	case work.GroupName:
		return worksOn(name, a, "get", "list", "watch", "update", "patch")
	case muster.GroupName:
		return answersUsers(name, a)
	}
	return reportsEvents(name, a)
}

func readsItself(name string, a authorizer.Attributes) bool {
	return a.GetAPIGroup() == cluster.GroupName && resourceOf(a) == "managedclusters" && a.GetName() == name && hasVerb(a, "get", "list", "watch")
}

// worksOn reports whether the request uses one of the verbs on works in the
// cluster's namespace, or reports the status of one.
func worksOn(name string, a authorizer.Attributes, verbs ...string) bool {
	if a.GetAPIGroup() != work.GroupName || a.GetNamespace() != name {
		return false
	}
	switch resourceOf(a) {
	case "manifestworks":
		return hasVerb(a, verbs...)
	case "manifestworks/status":
		return hasVerb(a, "patch", "update")
	}
	return false
}

// answersUsers reports whether the request reads what the cluster's agent is asked
// to issue to users or to preview for them, or answers it. There is no role for it,
// unlike for OCM's kinds: hubs without this authorizer do not have the kinds.
func answersUsers(name string, a authorizer.Attributes) bool {
	if a.GetNamespace() != name {
		return false
	}
	switch resourceOf(a) {
	case "clustercredentials", "workpreviews":
		return hasVerb(a, "get", "list", "watch") ||
			resourceOf(a) == "clustercredentials" && hasVerb(a, muster.VerbTunnel)
	case "clustercredentials/status", "workpreviews/status":
		return hasVerb(a, "patch", "update")
	}
	return false
}

func reportsEvents(name string, a authorizer.Attributes) bool {
	return (a.GetAPIGroup() == "" || a.GetAPIGroup() == eventsv1.GroupName) && a.GetNamespace() == name &&
		resourceOf(a) == "events" && hasVerb(a, "create", "patch", "update")
}

// resourceOf is the resource as RBAC rules write it.
func resourceOf(a authorizer.Attributes) string {
	if a.GetSubresource() == "" {
		return a.GetResource()
	}
	return a.GetResource() + "/" + a.GetSubresource()
}

func hasVerb(a authorizer.Attributes, verbs ...string) bool {
	return slices.Contains(verbs, a.GetVerb())
}

// clustersOf are the clusters that a user may belong to, going by the user's names. An
// administrator belongs to none.
func clustersOf(u user.Info) []cluster.Belonging {
	if u == nil || slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return nil
	}
	all := cluster.BelongsTo(u.GetName(), u.GetGroups())
	return slices.DeleteFunc(all, func(b cluster.Belonging) bool {
		return b.Part == cluster.Account && cluster.IsReserved(b.Cluster)
	})
}

// counts reports whether a belonging is one, as far as names alone can't say: not every
// namespace is a cluster's. The caller holds the lock.
func (g *Agents) counts(b cluster.Belonging) bool {
	switch {
	case b.Part == cluster.Account:
		_, ok := g.namespaces[b.Cluster]
		return ok
	case b.Plain: // identity providers have other groups with this beginning
		return g.clusters[b.Cluster].standing != Absent
	}
	return true
}

// decide combines what a user may do who belongs to several clusters: one that denies is
// enough, and one that allows outweighs others without an opinion. The caller holds the
// lock.
func (g *Agents) decide(clusters []cluster.Belonging, a authorizer.Attributes) (authorizer.Decision, string) {
	together := authorizer.DecisionNoOpinion
	for _, b := range clusters {
		if !g.counts(b) {
			continue
		}
		c := g.clusters[b.Cluster]
		if why := g.void(b, a.GetUser()); why != "" && !isOpen(a) {
			return authorizer.DecisionDeny, why
		}
		decide := DecideMember
		if b.Part == cluster.Agent {
			decide = Decide
		}
		switch decision := decide(b.Cluster, c.standing, a); decision {
		case authorizer.DecisionDeny:
			return decision, fmt.Sprintf("the managed cluster %q %s", b.Cluster, c.standing)
		case authorizer.DecisionAllow:
			together = decision
		}
	}
	return together, ""
}

// void says why nothing that a user has counts any more, although the cluster is in good
// standing: another agent has taken the place of the one that got it, or it is that of an
// earlier cluster of the same name. The caller holds the lock.
func (g *Agents) void(b cluster.Belonging, u user.Info) string {
	c := g.clusters[b.Cluster]
	issue, known := issueOf(u)
	if why := g.ofEarlier(b, u); why != "" {
		return why
	}
	if b.Part == cluster.Account && u.GetExtra()[extension.IssuedAtKey] != nil && issue.IsZero() {
		return fmt.Sprintf("the token of the service account never expires, "+
			"which does not count in the namespace of the managed cluster %q: use one that \"kubectl create token\" makes", b.Cluster)
	}
	if c.agent == "" {
		return ""
	}
	of, agent, isAgent := cluster.ParseCommonName(u.GetName())
	isAgent = isAgent && of == b.Cluster
	switch {
	case isAgent && agent != c.agent:
		return cluster.Replacement(c.agent, agent, b.Cluster)
	case !isAgent && known && !issue.After(c.void):
		return fmt.Sprintf("the credential is of an agent whose place %q has taken in the managed cluster %q: "+
			"get another one", c.agent, b.Cluster)
	}
	return ""
}

// ofEarlier says why a credential counts as one of an earlier cluster of the same name. The
// caller holds the lock.
func (g *Agents) ofEarlier(b cluster.Belonging, u user.Info) string {
	issue, known := issueOf(u)
	until := g.namespaces[b.Cluster]
	if !known || until.IsZero() || issue.After(until) {
		return ""
	}
	return fmt.Sprintf("the credential is from before %s, and of an earlier managed cluster %q, which was deleted: "+
		"the agent has to join again", until.UTC().Format(time.RFC3339), b.Cluster)
}

// issueOf is when the user's credential was issued; the zero time for one that never
// expires. known is false when that is not known, such as for impersonated users.
func issueOf(u user.Info) (issue time.Time, known bool) {
	values := u.GetExtra()[extension.IssuedAtKey]
	if len(values) == 0 {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return time.Time{}, true
	}
	return time.Unix(seconds, 0), true
}
