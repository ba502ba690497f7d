package cluster

// What admission says when it refuses a write, after the user's name. Clients
// recognise the refusal by these words, as upstream's hubs give no other sign of
// the right that is missing.
const (
	// RefusedAcceptance is for changes of spec.hubAcceptsClient without the verb
	// update on managedclusters/accept.
	RefusedAcceptance = "cannot update the HubAcceptsClient field"
	// RefusedSetMembership precedes the quoted name of a set, for changes of a
	// cluster's set without the verb create on managedclustersets/join.
	RefusedSetMembership = "cannot add/remove a ManagedCluster to/from ManagedClusterSet"
	// RefusedSetBinding precedes the quoted name of a set, for bindings made without
	// the verb create on managedclustersets/bind.
	RefusedSetBinding = "is not allowed to bind cluster set"
	// RefusedUnregistered precedes the quoted name of a cluster, for certificate
	// requests with a token for certain client IDs by which nobody has registered the
	// cluster. An agent that has its name from an earlier token registers then.
	RefusedUnregistered = "has not registered the cluster"
)
