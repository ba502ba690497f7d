// Package addon gets the agents of add-ons their credentials, and reports to the hub how
// the add-ons are.
//
// For each registration in the status of a ManagedClusterAddOn of the cluster it gets a
// client certificate or a token from the hub and keeps it in a Secret of the managed
// cluster, under the names that upstream's agents use. It renews it in good time and
// when something about it changes, and removes it when it is no longer wanted. For an
// add-on whose health shows in a Lease it watches that Lease.
//
// A reconcile goes in one direction: the add-on and what the managed cluster has of it
// are read, what is missing is asked for or written, and the outcome is reported with
// one write of the add-on's status. What is remembered of an add-on is the key of a
// certificate request that is under way, and a credential whose namespace does not
// exist yet. Everything else is read from both sides, so that an agent can be killed at
// any write.
//
// The hub is not trusted with the Secrets of the managed cluster: place.go says where
// none is written, and secret.go which are overwritten and deleted.
package addon
