// Package applier brings objects of any kind in the managed cluster to the state
// that their manifests ask for, by the update strategy of each, and removes them. It
// also asks the cluster what the executor of a work, a service account, may do
// there; answers may be cached until a role or binding changes.
//
// It does not decide whether something has to be applied, see package decide, and
// does not report anything.
package applier
