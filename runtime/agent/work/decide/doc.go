// Package decide decides what to do about a work and its manifests: whether one
// has to be applied, which objects to watch, what to write down, what to remove,
// what to evict, and when to look again.
//
// It is pure: values in, values out, the time included. It sends no requests.
package decide
