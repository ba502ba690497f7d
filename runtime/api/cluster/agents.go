package cluster

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// AgentClusters are the clusters whose agents' groups are among a user's
// groups: in prefixed those of Group, in plain those of GroupWithoutPrefix that
// are not in prefixed. The groups of add-ons' agents, which have more parts, and
// the group of all agents are none of them.
func AgentClusters(groups []string) (prefixed, plain []string) {
	for _, g := range groups {
		if name, ok := strings.CutPrefix(g, UserPrefix); ok && g != ManagedClustersGroup && isClusterName(name) && !slices.Contains(prefixed, name) {
			prefixed = append(prefixed, name)
		}
	}
	for _, g := range groups {
		if name, ok := strings.CutPrefix(g, GroupWithoutPrefix("")); ok && isClusterName(name) && !slices.Contains(prefixed, name) && !slices.Contains(plain, name) {
			plain = append(plain, name)
		}
	}
	return prefixed, plain
}

// isClusterName reports whether a cluster can have this name.
func isClusterName(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }
