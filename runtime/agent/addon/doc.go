// Package addon gets the agents of add-ons their credentials, and tells the hub how the
// add-ons are.
//
// For each registration in the status of a ManagedClusterAddOn of the cluster it gets a
// client certificate or a token from the hub and keeps it in a Secret of the managed
// cluster, under the names that upstream's agents use. It renews it in good time and
// when something about it changes, and removes it when it is wanted no more. For an
// add-on whose health is told by a Lease it watches that Lease.
//
// A pass goes in one direction: the mirrors of both sides are read, what is missing is
// asked for or written, and what has come of it is reported with one write of the
// add-on's status. What a pass remembers is the key of a certificate request that is
// under way, and a credential whose namespace does not exist yet. Everything else it
// reads from both sides, so that an agent can be killed at any write.
//
// The hub is not trusted with the Secrets of the managed cluster: place.go says where
// none is written, and secret.go which are overwritten and deleted.
//
// Of the agent, the package imports the mirrors, the loop, and the certificate requests
// of registration.
package addon
