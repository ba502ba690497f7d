// Package applier brings objects of any kind in the managed cluster to the state
// that their manifests ask for, by the update strategy of each, and removes them.
//
// It does not decide whether that is necessary, see package decide, and does not
// remember or report anything.
package applier
