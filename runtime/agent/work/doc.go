// Package work carries out ManifestWorks in a managed cluster: it applies their
// manifests, restores what others change, reports on them, and removes what it
// made when a work is deleted.
//
// What a work has made is recorded in the managed cluster itself, in an
// AppliedManifestWork that owns the objects. So the agent can be killed at any
// moment, and the hub can be away or lose its memory, without an object being
// orphaned or deleted by mistake.
//
// This package holds the two controllers, for ManifestWorks on the hub and for
// AppliedManifestWorks in the managed cluster, and the requests for these two
// kinds. A pass over a work has four stages: read, decide, apply and report. The
// packages below go in one direction: manifest reads the manifests, report makes
// the status, decide makes the plan, applier applies the manifests, and watches
// says which objects have changed. None of them imports this one.
package work
