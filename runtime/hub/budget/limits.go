package budget

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// Rate is a token bucket: AtOnce may be used at any time, and PerSecond comes back.
type Rate struct{ AtOnce, PerSecond float64 }

// Kind is what an owner may have of one kind.
type Kind struct {
	// Creations is how many objects may be created; the owner's rate where it is zero.
	Creations Rate
	// Object is the greatest size of an object that is created or grown, in bytes.
	Object int
	// Objects and Bytes are what one namespace may hold for the owner to add to it.
	Objects int
	Bytes   int64
	// Reported is for kinds whose objects others create, and the owner reports on. Then
	// specs don't count, and Bytes grow with each object, by reportBytes and by the size
	// of its spec: who was given much to do has much to report.
	Reported bool
}

// Owner is what one owner may have.
type Owner struct {
	// Written are bytes: of whole objects, at each write that changes them. It bounds
	// the versions that store and caches keep for some minutes.
	Written Rate
	// Default is for each kind that is not in Kinds, now and later.
	Default Kind
	Kinds   map[schema.GroupResource]Kind
	// Full is the part of the store's quota above which the owner may create and grow
	// nothing.
	Full float64
}

// Limits are the budgets of all that the hub does not trust with its store.
type Limits struct {
	// Cluster is for the agents, add-ons and service accounts of one managed cluster,
	// together. Token is for one bootstrap token, User for everybody else: one user, or
	// all service accounts of one namespace.
	Cluster, Token, User Owner
}

const (
	kib = 1 << 10
	mib = 1 << 20

	// smallObject is what an object may grow to while the store is filling up, in
	// bytes: a heartbeat, or the status of an add-on, gets no larger by it.
	smallObject = 4 * kib
	// reportBytes is the room for the report on an object, beside its spec's size.
	reportBytes = 8 * kib
	// slack is how much an object of more than its greatest size may still grow, in
	// bytes: by a finalizer, or the record of a field manager.
	slack = kib

	// recountAfter is how long a count of what a namespace holds is believed once the
	// budget is used up, so that requests over the budget do not cost a count each.
	recountAfter = 10 * time.Second
	// sizeAge is how old the known size of the store may be.
	sizeAge = 5 * time.Second
	// maxRetry is the longest time for which a client is asked to wait. Clients wait
	// with the request in their hands, up to ten times.
	maxRetry = 10 * time.Second
)

// Default are the limits of a hub. They leave room for the largest honest loads that
// are known: 500 add-ons in a cluster, each with its lease, its certificate request and
// its events; the status of a work with 300 manifests and all the feedback that the API
// takes, about 1 MB; an agent that starts again, whose writes change nothing and
// therefore cost nothing; the 2,000 clusters of a token that join at once. An object in
// memory takes ten to thirty times its size in the store, the most when it has many small
// fields, and its versions are kept for a minute and more. So 300 MB of memory are some 8
// MB of writes at once for a cluster; a user's objects have fewer fields.
func Default() Limits {
	reported := func(object int, bytes int64) Kind {
		return Kind{Object: object, Objects: 2000, Bytes: bytes, Reported: true}
	}
	return Limits{
		Cluster: Owner{
			Written: Rate{8 * mib, 256 * kib},
			Default: Kind{Creations: Rate{2000, 5}, Object: 256 * kib, Objects: 2000, Bytes: 8 * mib},
			Full:    0.5,
			Kinds: map[schema.GroupResource]Kind{
				// An event with a message of 1 KiB has less than 3. They live for an hour.
				{Resource: "events"}: {Creations: Rate{500, 2}, Object: 8 * kib, Objects: 10000, Bytes: 16 * mib},
				// A request with a key of RSA 4096 has less than 4 KiB. Those that nobody
				// answers stay for a day.
				{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {Creations: Rate{600, 1.0 / 30}, Object: 8 * kib},
				{Group: "coordination.k8s.io", Resource: "leases"}:                     {Creations: Rate{1000, 1}, Object: 8 * kib, Objects: 2000, Bytes: 4 * mib},
				{Group: cluster.GroupName, Resource: "managedclusters"}:                {Object: 256 * kib},
				{Group: work.GroupName, Resource: "manifestworks"}:                     reported(1536*kib, 3*mib),
				{Group: addon.GroupName, Resource: "managedclusteraddons"}:             reported(256*kib, 3*mib),
				{Group: muster.GroupName, Resource: "workpreviews"}:                    reported(1536*kib, 3*mib),
			},
		},
		Token: Owner{
			Written: Rate{8 * mib, 512 * kib},
			// What a token creates is small, and of kinds without a namespace.
			Default: Kind{Creations: Rate{2000, 10}, Object: 16 * kib, Objects: 2000, Bytes: 4 * mib},
			Full:    0.5,
			Kinds: map[schema.GroupResource]Kind{
				{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {Object: 8 * kib},
				// With the authorities of the cluster's API server, of which there may be many.
				{Group: cluster.GroupName, Resource: "managedclusters"}: {Object: 64 * kib},
			},
		},
		User: Owner{
			Written: Rate{12 * mib, 1 * mib},
			Default: Kind{Creations: Rate{10000, 100}, Object: 1536 * kib, Objects: 10000, Bytes: 12 * mib},
			Full:    0.75,
			Kinds: map[schema.GroupResource]Kind{
				{Resource: "events"}: {Creations: Rate{1000, 10}, Object: 16 * kib, Objects: 20000, Bytes: 16 * mib},
				// Their authors may have works in all namespaces of clusters.
				{Group: work.GroupName, Resource: "manifestworks"}: {Creations: Rate{10000, 100}, Object: 1536 * kib, Objects: 20000, Bytes: 16 * mib},
			},
		},
	}
}

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
