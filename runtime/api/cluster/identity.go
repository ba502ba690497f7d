package cluster

import (
	"slices"
	"strings"
)

// Part is what an identity is in the cluster that it belongs to.
type Part uint8

const (
	// Agent is the cluster's own agent, going by a group.
	Agent Part = iota
	// Member is anybody else whose name or group names the cluster: the agent of an
	// add-on, or a user with the name of an agent and without its group.
	Member
	// Account is a service account in the namespace of the cluster's name. It belongs
	// to the cluster only if that namespace is the cluster's, see NamespaceOf.
	Account
)

// Belonging is a cluster that an identity belongs to.
type Belonging struct {
	Cluster string
	Part    Part
	// Plain is true when only names without the prefix "system:" say so. Identity
	// providers have other groups with that beginning, so it counts only when the hub
	// has a cluster by the name.
	Plain bool
}

// Prefixes of the names of service accounts.
const (
	accountPrefix       = "system:serviceaccount:"
	accountsGroupPrefix = "system:serviceaccounts:"
)

// BelongsTo are the clusters that an identity belongs to: none for most, one for an
// agent, an add-on's agent and a service account, and several for an identity that
// somebody has put together. The groups of all agents, and of an add-on's agents in all
// clusters, name none, and neither do bootstrap tokens, which are bound to a cluster but
// are not in it.
func BelongsTo(user string, groups []string) []Belonging {
	var all []Belonging
	add := func(b Belonging, ok bool) {
		if !ok {
			return
		}
		at := slices.IndexFunc(all, func(other Belonging) bool {
			return other.Cluster == b.Cluster && (other.Part == Account) == (b.Part == Account)
		})
		if at < 0 {
			all = append(all, b)
			return
		}
		all[at].Part, all[at].Plain = min(all[at].Part, b.Part), all[at].Plain && b.Plain
	}
	for _, g := range groups {
		add(ofName(g, true))
	}
	add(ofName(user, false))
	return all
}

// AgentClusters are the clusters whose agents a user is one of, going by the user's
// groups.
func AgentClusters(groups []string) []string {
	var names []string
	for _, b := range BelongsTo("", groups) {
		if b.Part == Agent {
			names = append(names, b.Cluster)
		}
	}
	return names
}

// ofName is the cluster that the name of a group or user names.
func ofName(name string, isGroup bool) (Belonging, bool) {
	if namespace, ok := strings.CutPrefix(name, accountsGroupPrefix); ok && isGroup {
		return Belonging{Cluster: namespace, Part: Account}, namespace != ""
	}
	if rest, ok := strings.CutPrefix(name, accountPrefix); ok && !isGroup {
		namespace, _, _ := strings.Cut(rest, ":")
		return Belonging{Cluster: namespace, Part: Account}, namespace != ""
	}
	rest, ok := strings.CutPrefix(name, UserPrefix)
	plain := !ok
	if plain {
		if rest, ok = strings.CutPrefix(name, groupPrefix); !ok {
			return Belonging{}, false
		}
	}
	parts := strings.Split(rest, ":")
	b := Belonging{Cluster: parts[0], Part: Member, Plain: plain}
	switch {
	case name == ManagedClustersGroup, isGroup && parts[0] == addOnSegment && len(parts) > 1:
		return Belonging{}, false
	case parts[0] == clusterSegment && len(parts) >= 4 && parts[2] == addOnSegment:
		b.Cluster = parts[1]
	case isGroup && len(parts) == 1:
		b.Part = Agent
	case len(parts) == 1:
		return Belonging{}, false // a user by the name of a group
	}
	return b, b.Cluster != ""
}
