package report

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klog "k8s.io/klog/v2"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Remainder is an object that is being deleted and still there.
type Remainder struct {
	Resource   workv1.AppliedManifestResourceMeta
	Finalizers []string // what holds it, where that is known
	Hidden     bool     // the work's executor may not get it
}

// NameOf names an applied object in messages: its resource, namespace and name.
func NameOf(r workv1.AppliedManifestResourceMeta) string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	return resource + " " + klog.KRef(r.Namespace, r.Name).String()
}

// waitingFor says in words what objects are waited for, and who holds them.
func waitingFor(left []Remainder) string {
	var out []string
	hidden := 0
	for _, r := range left {
		if r.Hidden {
			hidden++
			continue
		}
		text := NameOf(r.Resource)
		switch len(r.Finalizers) {
		case 0:
		case 1:
			text += ", held by the finalizer " + r.Finalizers[0]
		default:
			text += ", held by the finalizers " + strings.Join(r.Finalizers, ", ")
		}
		out = append(out, text)
	}
	slices.Sort(out)
	switch {
	case hidden == 0:
		return some(out)
	case len(out) == 0:
		return fmt.Sprintf("%d objects", hidden)
	}
	return fmt.Sprintf("%s; and %d more", some(out), hidden)
}

// SetPruned says in a work's conditions which objects that it no longer holds
// are still there; it says nothing once they are gone.
func SetPruned(conditions *[]metav1.Condition, left []Remainder, generation int64) {
	if len(left) == 0 {
		meta.RemoveStatusCondition(conditions, work.ConditionPruned)
		return
	}
	set(conditions, metav1.Condition{
		Type: work.ConditionPruned, Status: metav1.ConditionFalse, ObservedGeneration: generation,
		Reason:  work.ReasonResourcesHeld,
		Message: "Waiting for objects that the work no longer holds: " + waitingFor(left),
	})
}

// DeletingMessage says what a deleted work waits for.
func DeletingMessage(left []Remainder) string {
	if len(left) == 0 {
		return work.MessageDeleting
	}
	return fmt.Sprintf("%s: waiting for %s", work.MessageDeleting, waitingFor(left))
}
