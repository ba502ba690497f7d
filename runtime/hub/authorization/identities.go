package authorization

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

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
	if isAgent && agent != c.agent || !isAgent && known && !issue.After(c.void) {
		return fmt.Sprintf("the agent %q has taken the place of this one in the managed cluster %q", c.agent, b.Cluster)
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

// issueOf is when the credential was issued that a user came with; a zero time is that
// of one that never expires. known is false when nobody says, such as for users whom an
// administrator impersonates.
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
