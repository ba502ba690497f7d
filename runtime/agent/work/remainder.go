package work

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// remainder is an object that is being deleted and still there.
type remainder struct {
	resource   workv1.AppliedManifestResourceMeta
	finalizers []string // what holds it, where that is known
	hidden     bool     // the work's executor may not get it
}

func remains(r workv1.AppliedManifestResourceMeta, live *unstructured.Unstructured) *remainder {
	return &remainder{resource: r, finalizers: live.GetFinalizers()}
}

// tellable is what a work may be told of remainders: nothing of those that its
// executor may not get. Only what a message names is asked about.
func (a *agent) tellable(ctx context.Context, executor *workv1.ManifestWorkExecutor, left []remainder) []remainder {
	if executor == nil {
		return left
	}
	left = slices.Clone(left)
	slices.SortFunc(left, func(x, y remainder) int { return cmp.Compare(nameOf(x.resource), nameOf(y.resource)) })
	for i := range left {
		r := left[i].resource
		gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
		left[i].hidden = i >= namedObjects || a.objects.mayRead(ctx, executor, gvr, r.Namespace, r.Name) != nil
	}
	return left
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
	hidden := 0
	for _, r := range left {
		if r.hidden {
			hidden++
			continue
		}
		text := nameOf(r.resource)
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
	switch {
	case hidden == 0:
		return some(out)
	case len(out) == 0:
		return fmt.Sprintf("%d objects", hidden)
	}
	return fmt.Sprintf("%s; and %d more", some(out), hidden)
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
