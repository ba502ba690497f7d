package admission

import (
	"context"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// untracked removes the managed fields of objects that only programs write, and that a
// fleet has many of: works of replica sets and of add-ons, decisions of placements, leases.
// Managed fields are a quarter of such a work and half of a lease, and each write decodes,
// compares and encodes them.
//
// An object without managed fields gets none until its first server-side apply, as one
// that is older than they are. The API server then counts all earlier fields as those of
// before-first-apply. An object that somebody has applied keeps its managed fields.
type untracked struct{ writes }

// Admit removes the managed fields.
func (untracked) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	object, err := meta.Accessor(a.GetObject())
	if err == nil && ofPrograms(a.GetResource().GroupResource(), object) && !isApplied(object) {
		object.SetManagedFields(nil)
	}
	return nil // an object without metadata is none of these
}

// ofPrograms reports whether an object is one that only programs write.
func ofPrograms(resource schema.GroupResource, object metav1.Object) bool {
	switch resource {
	case coordinationv1.Resource("leases"),
		clusterv1beta1.GroupVersion.WithResource("placementdecisions").GroupResource():
		return true
	case workv1.GroupVersion.WithResource("manifestworks").GroupResource():
		labels := object.GetLabels()
		return labels[work.ReplicaSetLabel] != "" || labels[cluster.AddOnNameLabel] != ""
	}
	return false
}

// isApplied reports whether somebody has applied an object on the server. The entries of
// custom resources are read as they are: to convert them for each write would cost more.
func isApplied(object metav1.Object) bool {
	if u, ok := object.(*unstructured.Unstructured); ok {
		entries, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
		list, _ := entries.([]any)
		return slices.ContainsFunc(list, func(entry any) bool {
			fields, _ := entry.(map[string]any)
			return fields["operation"] == string(metav1.ManagedFieldsOperationApply)
		})
	}
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Operation == metav1.ManagedFieldsOperationApply
	})
}
