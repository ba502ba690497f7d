package inspect

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Progress is how far an object is on its way to what its spec asks for.
type Progress struct {
	Moving   bool   // it is not there yet
	Degraded bool   // and will not get there by itself
	Why      string // in words, when either
}

// ProgressOf reads the progress of an object of a well-known kind from its
// status. Other kinds are there as soon as they exist.
//
// A degraded object counts as moving, too: a rollout takes what does not move for
// a success.
//
// kstatus knows more kinds, but it would change what is on the wire: its messages
// are others, and rollouts would begin to wait for custom resources with a
// condition Ready. It would also bring the module cli-utils for these few kinds.
func ProgressOf(object *unstructured.Unstructured) Progress {
	switch object.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return deploymentProgress(object)
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return statefulSetProgress(object)
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return daemonSetProgress(object)
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		return replicaSetProgress(object)
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return jobProgress(object)
	case schema.GroupKind{Kind: "Pod"}:
		return podProgress(object)
	}
	return Progress{}
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

// unseen reports whether the controller of an object has yet to see its spec.
func unseen(object *unstructured.Unstructured) bool {
	return number(object, 0, "status", "observedGeneration") < object.GetGeneration()
}

func deploymentProgress(o *unstructured.Unstructured) Progress {
	if unseen(o) {
		return moving("its controller has not seen the spec yet")
	}
	if c, ok := condition(o, "Progressing"); ok && c["status"] == "False" && c["reason"] == "ProgressDeadlineExceeded" {
		return stuck("%v", c["message"])
	}
	want := number(o, 1, "spec", "replicas")
	updated, available := number(o, 0, "status", "updatedReplicas"), number(o, 0, "status", "availableReplicas")
	all := number(o, 0, "status", "replicas")
	switch {
	case updated < want:
		return replicaFailure(o, moving("%d of %d replicas are updated", updated, want))
	case all > updated:
		return replicaFailure(o, moving("%d old replicas are still there", all-updated))
	case available < updated:
		return replicaFailure(o, moving("%d of %d replicas are available", available, want))
	}
	return Progress{}
}

// replicaFailure makes a delay one that does not pass by itself when pods cannot
// be made at all.
func replicaFailure(o *unstructured.Unstructured, p Progress) Progress {
	if c, ok := condition(o, "ReplicaFailure"); ok && c["status"] == "True" {
		return stuck("%v", c["message"])
	}
	return p
}

func statefulSetProgress(o *unstructured.Unstructured) Progress {
	if unseen(o) {
		return moving("its controller has not seen the spec yet")
	}
	want := number(o, 1, "spec", "replicas")
	// Replicas below the partition stay as they are.
	toUpdate := max(0, want-number(o, 0, "spec", "updateStrategy", "rollingUpdate", "partition"))
	if kind, _, _ := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type"); kind == "OnDelete" {
		toUpdate = 0 // who deletes the pods decides when
	}
	updated, ready := number(o, 0, "status", "updatedReplicas"), number(o, 0, "status", "readyReplicas")
	switch {
	case updated < toUpdate:
		return moving("%d of %d replicas are updated", updated, toUpdate)
	case ready < want:
		return moving("%d of %d replicas are ready", ready, want)
	}
	return Progress{}
}

func daemonSetProgress(o *unstructured.Unstructured) Progress {
	if unseen(o) {
		return moving("its controller has not seen the spec yet")
	}
	want := number(o, 0, "status", "desiredNumberScheduled")
	updated, available := number(o, 0, "status", "updatedNumberScheduled"), number(o, 0, "status", "numberAvailable")
	if kind, _, _ := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type"); kind == "OnDelete" {
		updated = want
	}
	switch {
	case updated < want:
		return moving("%d of %d pods are updated", updated, want)
	case available < want:
		return moving("%d of %d pods are available", available, want)
	}
	return Progress{}
}

func replicaSetProgress(o *unstructured.Unstructured) Progress {
	if unseen(o) {
		return moving("its controller has not seen the spec yet")
	}
	want, available := number(o, 1, "spec", "replicas"), number(o, 0, "status", "availableReplicas")
	if available < want {
		return replicaFailure(o, moving("%d of %d replicas are available", available, want))
	}
	return Progress{}
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
