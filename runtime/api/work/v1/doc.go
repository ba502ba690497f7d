// Package v1 holds the kinds of the API group work.open-cluster-management.io that
// carry workloads to managed clusters: ManifestWork and AppliedManifestWork.
//
// A ManifestWork lives on the hub in the namespace of one managed cluster. The
// work agent of that cluster pulls it, applies its manifests there, and reports
// into its status. Nothing on the hub connects to the cluster.
//
// An AppliedManifestWork is the agent's own record and lives in the managed
// cluster: one per ManifestWork, owner of every object that the agent applied for
// it. From it the agent knows what to delete when the work shrinks or is deleted,
// even after a restart, and even when the hub is gone.
//
// # Zero values on the wire
//
// Optional fields are left out when they are empty; those whose zero value says
// something of its own (DeleteOption.TTLSecondsAfterFinished, FieldValue) are
// pointers. Manifests are kept as raw JSON, so that no field of an unknown kind is
// lost or reordered on the way.
//
// +kubebuilder:object:generate=true
// +groupName=work.open-cluster-management.io
package v1
