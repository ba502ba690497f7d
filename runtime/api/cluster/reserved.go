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
	return refusedName(name, why)
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

// NewName says why no new managed cluster gets a name, in the words of ReservedName. It
// refuses more than that: names that only look like parts of the hub's own. Clusters that
// have such a name already stay what they are.
func NewName(name string) error {
	if err := ReservedName(name); err != nil {
		return err
	}
	why, ok := unsuitable[name]
	if !ok {
		return nil
	}
	return refusedName(name, why)
}

func refusedName(name, why string) error {
	return fmt.Errorf("no managed cluster can be called %q: %s: choose another name, such as %q", name, why, suggested(name))
}

// unsuitable are names that no new cluster gets. TestNewNamesCoverAllConstants derives
// them from the constants of runtime/api.
var unsuitable = map[string]string{
	muster.AccessKeyNamespace: "the namespace " + muster.AccessKeyNamespace + " is for the keys of users",

	clusterSegment: "names that begin with " + UserPrefix + clusterSegment + ": are those of add-ons' agents",
	addOnSegment:   "names that begin with " + UserPrefix + addOnSegment + ": are those of add-ons' agents",
	strings.TrimPrefix(BootstrapRole, groupPrefix):   "the cluster role " + BootstrapRole + " is that of bootstrap tokens",
	strings.Trim(rolePrefix[len(groupPrefix):], ":"): "cluster roles that begin with " + rolePrefix + " are those of all clusters",
	"klusterlet-addon": "the cluster role " + AddOnRole + " is that of agents",
	strings.Split(AddOnManagerAggregateRole, ":")[1]: "the cluster role " + AddOnManagerAggregateRole + " is that of the add-on manager",
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
