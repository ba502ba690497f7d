package work

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// remainder is an object that is being deleted and still there.
type remainder struct {
	what       string
	finalizers []string // what holds it, where that is known
}

func remains(r workv1.AppliedManifestResourceMeta, live *unstructured.Unstructured) *remainder {
	return &remainder{nameOf(r), live.GetFinalizers()}
}

func nameOf(r workv1.AppliedManifestResourceMeta) string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	return resource + " " + qualified(r.Namespace, r.Name)
}

// waitingFor says in words what objects are waited for, and who holds them.
func waitingFor(left []remainder) string {
	var out []string
	for _, r := range left {
		text := r.what
		switch len(r.finalizers) {
		case 0:
		case 1:
			text += ", held by the finalizer " + r.finalizers[0]
		default:
			text += ", held by the finalizers " + strings.Join(r.finalizers, ", ")
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return some(out)
}

// setPruned says in a work's conditions which objects that it no longer holds
// are still there; it says nothing once they are gone.
func setPruned(conditions *[]metav1.Condition, left []remainder, generation int64) {
	if len(left) == 0 {
		meta.RemoveStatusCondition(conditions, work.ConditionPruned)
		return
	}
	set(conditions, metav1.Condition{
		Type: work.ConditionPruned, Status: metav1.ConditionFalse, Reason: work.ReasonResourcesHeld, ObservedGeneration: generation,
		Message: "Waiting for objects that the work no longer holds: " + waitingFor(left),
	})
}

// deletingMessage says what a deleted work waits for.
func deletingMessage(left []remainder) string {
	if len(left) == 0 {
		return work.MessageDeleting
	}
	return fmt.Sprintf("%s: waiting for %s", work.MessageDeleting, waitingFor(left))
}
