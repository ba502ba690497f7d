package budget

import (
	"slices"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Class is which of the limits hold for an owner.
type Class string

const (
	// OfCluster is a managed cluster: its agents, its add-ons, and the service accounts
	// in its namespace.
	OfCluster Class = "cluster"
	// OfToken is a bootstrap token, or another identity that registers clusters.
	OfToken Class = "token"
	// OfUser is everybody else.
	OfUser Class = "user"
)

// Name is whose requests and objects count together.
type Name struct {
	Class Class
	Name  string
}

// String is the owner in messages.
func (n Name) String() string {
	switch n.Class {
	case OfCluster:
		return "the managed cluster " + n.Name
	case OfToken:
		return "the bootstrap identity " + n.Name
	}
	return "the user " + n.Name
}

// Owners find out who answers for requests.
type Owners struct {
	// IsCluster reports whether a namespace is that of a managed cluster.
	IsCluster func(namespace string) bool
}

// Of is who answers for a user's requests. It is false for administrators and for the hub
// itself, who are not limited. All service accounts of a namespace are one owner, as who
// may make one can make many.
func (o Owners) Of(u user.Info) (Name, bool) {
	groups := u.GetGroups()
	if slices.Contains(groups, user.SystemPrivilegedGroup) || slices.Contains(groups, addon.ManagerGroup) {
		return Name{}, false
	}
	for _, b := range cluster.BelongsTo(u.GetName(), groups) {
		// Of the namespace of a service account, and of a group of an identity provider
		// that looks like a cluster's, the hub has to know a cluster.
		if b.Part != cluster.Account && !b.Plain || o.IsCluster(b.Cluster) {
			return Name{OfCluster, b.Cluster}, true
		}
	}
	if cluster.IsBootstrap(u.GetName(), groups) {
		return Name{OfToken, u.GetName()}, true
	}
	if namespace, _, err := serviceaccount.SplitUsername(u.GetName()); err == nil {
		return Name{OfUser, serviceaccount.MakeNamespaceGroupName(namespace)}, true
	}
	return Name{OfUser, u.GetName()}, true
}
