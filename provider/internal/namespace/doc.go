// Package namespace has the resource muster_namespace: the namespaces on the hub
// that hold bindings, placements and replica sets.
package namespace
