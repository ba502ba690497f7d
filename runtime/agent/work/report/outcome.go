package report

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/rolloutstatus"
)

// Outcome is what became of one manifest, as far as it is reported.
type Outcome struct {
	// Applied is why the manifest could not be applied; nil when it was.
	Applied error
	// Kept says that the work is complete: what was said about applying it stays.
	Kept bool
	// Contested says that others keep changing the object back, and Rivals are the
	// works among them, as far as that is known.
	Contested bool
	Rivals    []string
	Observed
}

// Observed is what was read of a manifest's object.
type Observed struct {
	// Fetched is why the object could not be read; nil when it was, or when there
	// is none.
	Fetched error
	// Hidden says that it was not read, as the work's executor may not get it.
	Hidden bool
	Exists bool
	// UID and ResourceVersion are those of the object; empty when there is none.
	UID             types.UID
	ResourceVersion string
	Progress        Progress
	Findings        Findings
	// Waits is how long the work's rules are not yet evaluated on the object, as
	// there was no time for them; 0 when they were.
	Waits time.Duration
	// Problem is what is wrong with the pods of a workload that is moving; empty when
	// nothing is, or nothing is known. PodsAgain is how soon they are to be read again,
	// as they are not watched; 0 when that need not be.
	Problem   string
	PodsAgain time.Duration
}

// ObservedOf is what is reported of an object besides what the work's rules yield.
// The object is nil when there is none.
func ObservedOf(live *unstructured.Unstructured) Observed {
	if live == nil {
		return Observed{}
	}
	return Observed{
		Exists: true, UID: live.GetUID(), ResourceVersion: live.GetResourceVersion(), Progress: progressOf(live),
	}
}

// Progress is how far an object is on its way to what its spec asks for.
type Progress struct {
	Moving   bool   // it is not there yet
	Degraded bool   // and will not get there by itself
	Why      string // in words, when either
	// Selector selects the pods of a workload.
	Selector string
}

// progressOf reads the progress of an object of a well-known kind from its
// status. Other kinds are there as soon as they exist.
//
// A degraded object counts as moving, too: a rollout takes what does not move for
// a success.
//
// kstatus knows more kinds, but it would change what is on the wire: its messages
// are others, and rollouts would begin to wait for custom resources with a
// condition Ready. It would also bring the module cli-utils for these few kinds.
func progressOf(object *unstructured.Unstructured) Progress {
	switch object.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return jobProgress(object)
	case schema.GroupKind{Kind: "Pod"}:
		return podProgress(object)
	}
	s := rolloutstatus.Of(object)
	p := Progress{Moving: s.State != rolloutstatus.Done, Degraded: s.State == rolloutstatus.Failing, Why: s.Why}
	if p.Moving {
		p.Selector = selectorOf(object)
	}
	return p
}

// selectorOf selects the pods of a workload; empty when it has no selector.
func selectorOf(object *unstructured.Unstructured) string {
	fields, found, err := unstructured.NestedMap(object.Object, "spec", "selector")
	if !found || err != nil {
		return ""
	}
	var selector metav1.LabelSelector
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &selector) != nil {
		return ""
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return ""
	}
	return parsed.String()
}

func moving(format string, args ...any) Progress {
	return Progress{Moving: true, Why: fmt.Sprintf(format, args...)}
}

func stuck(format string, args ...any) Progress {
	return Progress{Moving: true, Degraded: true, Why: fmt.Sprintf(format, args...)}
}

// number reads an integer; absent is what a missing one means.
func number(object *unstructured.Unstructured, absent int64, path ...string) int64 {
	n, found, err := unstructured.NestedInt64(object.Object, path...)
	if !found || err != nil {
		return absent
	}
	return n
}

func jobProgress(o *unstructured.Unstructured) Progress {
	if c, ok := condition(o, "Failed"); ok && c["status"] == "True" {
		return stuck("%v", c["message"])
	}
	if isTrue(o, "Complete") || isTrue(o, "Suspended") {
		return Progress{}
	}
	return moving("it is not finished: %d pods have succeeded", number(o, 0, "status", "succeeded"))
}

func podProgress(o *unstructured.Unstructured) Progress {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	switch {
	case phase == "Failed":
		message, _, _ := unstructured.NestedString(o.Object, "status", "message")
		return stuck("it has failed: %s", message)
	case phase == "Succeeded", phase == "Running" && isTrue(o, "Ready"):
		return Progress{}
	case phase == "Running":
		return moving("it is not ready")
	case phase == "":
		return moving("nobody has taken it yet")
	}
	return moving("it is %s", phase)
}
