// Package report makes the status of a ManifestWork. It evaluates what the work says
// about its objects: values of their status (feedback), conditions by rules, and how
// far they have progressed. From the outcomes of the manifests it makes the status,
// and makes it fit into the store.
//
// It is pure: values in, values out. It sends no requests and remembers nothing.
// What the author of a work has evaluated costs that work: there are budgets, and
// costly works take turns.
package report
