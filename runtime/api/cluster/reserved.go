package cluster

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// ReservedName says why no managed cluster can have a name, in a sentence that
// ends with the remedy. It is nil when a cluster can. A cluster's name is the name of its
// namespace on the hub and a part of the names of its roles and groups: with a
// reserved one these would be those of the hub itself, or of all agents.
//
// It does not check whether the name is well-formed: that is a DNS label, as for
// every namespace.
func ReservedName(name string) error {
	why, ok := reserved[name]
	if !ok && strings.HasPrefix(name, Namespace+"-") {
		why, ok = "namespaces with the prefix "+Namespace+"- are those of the hub's and the agents' own components", true
	}
	if !ok {
		return nil
	}
	return fmt.Errorf("no managed cluster can be called %q: %s: choose another name, such as %q", name, why, suggested(name))
}

// IsReserved reports whether no managed cluster can have a name.
func IsReserved(name string) bool { return ReservedName(name) != nil }

// reserved are names, and why they are: by the object that a cluster of that
// name would share. TestReservedNamesCoverAllWellKnownOnes derives them from the
// well-known names.
var reserved = map[string]string{
	strings.TrimPrefix(WorkRole, rolePrefix):             "its cluster role " + WorkRole + " is the one that every agent is bound to",
	strings.TrimPrefix(RegistrationRole, rolePrefix):     "its cluster role " + RegistrationRole + " is the one that every agent is bound to",
	strings.TrimPrefix(ManagedClustersGroup, UserPrefix): "its group " + ManagedClustersGroup + " is that of all agents",

	"default":         "the namespace default is everybody's",
	"kube-system":     "the namespace kube-system is Kubernetes' own",
	"kube-public":     "the namespace kube-public is Kubernetes' own",
	"kube-node-lease": "the namespace kube-node-lease is Kubernetes' own",
	Namespace:         "the namespace " + Namespace + " is the hub's own",

	muster.ImportNamespace: "the namespace " + muster.ImportNamespace + " is for the kubeconfigs of clusters to import",
}

// suggested is a name near a reserved one that is free.
func suggested(name string) string {
	return "cluster-" + strings.TrimPrefix(name, Namespace+"-")
}

// NamespaceOf says why an existing namespace with a cluster's name and these
// labels is not the cluster's, in a sentence that ends with the remedies. It is nil
// when it is the cluster's. The hub labels the namespaces that it makes for clusters, and the
// label stays when a cluster goes; any other namespace has another owner until
// it gets the label.
func NamespaceOf(name string, labels map[string]string) error {
	if labels[NameLabel] == name {
		return nil
	}
	return fmt.Errorf("the namespace %q exists and is not a cluster's, and what is in it would be the agent's to read: choose another name for the cluster, or hand the namespace over with \"kubectl label namespace %[1]s %s=%[1]s --overwrite\"", name, NameLabel)
}

// SharedRole reports whether a cluster role is one that all agents are bound to,
// whatever cluster's role its name looks like.
func SharedRole(name string) bool { return name == WorkRole || name == RegistrationRole }

// AgentClusters are the clusters whose agents a user is one of, going by the
// user's groups: mostly one, none for users who are no agents. The group of all
// agents does not count, and neither do the groups of add-ons' agents.
func AgentClusters(groups []string) []string {
	var clusters []string
	for _, g := range groups {
		name, ok := strings.CutPrefix(g, UserPrefix)
		if !ok {
			name, ok = strings.CutPrefix(g, groupPrefix)
		}
		if ok && name != "" && !strings.Contains(name, ":") && g != ManagedClustersGroup {
			clusters = append(clusters, name)
		}
	}
	return clusters
}
