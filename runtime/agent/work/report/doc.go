// Package report makes the status of a ManifestWork from the outcomes of its
// manifests, and makes it fit into the store.
//
// It is pure: values in, values out. It sends no requests and remembers nothing.
package report
