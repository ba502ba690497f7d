// Package rolloutstatus says how far a workload is with the newest version of its spec:
// done, under way, or failing, by the numbers that its controller reports and by the
// state of its pods. It is pure. Agent, hub and provider ask it, so that they agree
// about when a rollout is done.
package rolloutstatus

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
)

// State is how far a workload is.
type State string

const (
	// Done says that all pods are of the newest version and available, and no others
	// are left.
	Done State = "Done"
	// Progressing says that it is on its way.
	Progressing State = "Progressing"
	// Failing says that its controller has given up, or can't create pods.
	Failing State = "Failing"
)

// Status is how far a workload is.
type Status struct {
	State State
	// Why says in words what is missing; empty when it is done.
	Why string
}

// Kinds of workloads of the group apps.
const (
	Deployment  = "Deployment"
	StatefulSet = "StatefulSet"
	DaemonSet   = "DaemonSet"
	ReplicaSet  = "ReplicaSet"
)

// Counts are the numbers by which a workload's progress is known.
type Counts struct {
	// Generation is of the spec, and Observed the one that the controller has seen.
	Generation, Observed int64
	// Want is how many pods there are to be.
	Want int64
	// ToUpdate is how many of them are to be of the newest version. It is smaller than
	// Want where a StatefulSet has a partition, or where pods are only replaced once somebody deletes them.
	ToUpdate int64
	// Total is how many pods there are, old ones included.
	Total int64
	// Updated are of the newest version, Ready and Available are so whatever their
	// version.
	Updated, Ready, Available int64
	// GaveUp is the controller's message when it has given up on the rollout, and
	// NoPods the message when pods can't be created, as with a quota.
	GaveUp, NoPods string
}

// IsWorkload reports whether a kind has a status that Of reads.
func IsWorkload(kind schema.GroupKind) bool {
	switch kind.Kind {
	case Deployment, StatefulSet, DaemonSet, ReplicaSet:
		return kind.Group == appsv1.GroupName
	}
	return false
}

// Of is the status of a Deployment, StatefulSet, DaemonSet or ReplicaSet. Other kinds
// are done as soon as they exist.
func Of(object *unstructured.Unstructured) Status {
	if !IsWorkload(object.GroupVersionKind().GroupKind()) {
		return Status{State: Done}
	}
	return OfCounts(object.GetKind(), CountsOf(object))
}

// OfDeployment is the status of a Deployment.
func OfDeployment(d *appsv1.Deployment) Status {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
	if err != nil {
		return Status{State: Progressing, Why: "it can't be read: " + err.Error()}
	}
	fields["kind"] = Deployment // typed objects may lack it
	return OfCounts(Deployment, CountsOf(&unstructured.Unstructured{Object: fields}))
}

// OfCounts is the status of a workload of a kind with these numbers.
func OfCounts(kind string, c Counts) Status {
	if c.Observed < c.Generation {
		return underWay("its controller has not seen the spec yet")
	}
	var s Status
	switch kind {
	case Deployment:
		s = deployment(c)
	case StatefulSet:
		s = pods(c, "replicas", "ready", c.Ready)
	case DaemonSet:
		s = pods(c, "pods", "available", c.Available)
	case ReplicaSet:
		c.ToUpdate = 0
		s = pods(c, "replicas", "available", c.Available)
	default:
		return Status{State: Done}
	}
	if s.State != Done && c.NoPods != "" {
		return Status{State: Failing, Why: c.NoPods}
	}
	return s
}

func deployment(c Counts) Status {
	switch {
	case c.GaveUp != "":
		return Status{State: Failing, Why: c.GaveUp}
	case c.Updated < c.Want:
		return underWay("%d of %d replicas are updated", c.Updated, c.Want)
	case c.Total > c.Updated:
		return underWay("%d old replicas are still there", c.Total-c.Updated)
	case c.Available < c.Want:
		return underWay("%d of %d replicas are available", c.Available, c.Want)
	}
	return Status{State: Done}
}

// pods is the status of what replaces its pods one by one. have of them are as good as
// they are to be.
func pods(c Counts, what, good string, have int64) Status {
	switch {
	case c.Updated < c.ToUpdate:
		return underWay("%d of %d %s are updated", c.Updated, c.ToUpdate, what)
	case have < c.Want:
		return underWay("%d of %d %s are %s", have, c.Want, what, good)
	}
	return Status{State: Done}
}

func underWay(format string, args ...any) Status {
	return Status{State: Progressing, Why: fmt.Sprintf(format, args...)}
}

// CountsOf reads the numbers from a workload's object.
func CountsOf(o *unstructured.Unstructured) Counts {
	c := Counts{
		Generation: o.GetGeneration(), Observed: number(o, 0, "status", "observedGeneration"),
		Want: number(o, 1, "spec", "replicas"), Total: number(o, 0, "status", "replicas"),
		Updated: number(o, 0, "status", "updatedReplicas"), Ready: number(o, 0, "status", "readyReplicas"),
		Available: number(o, 0, "status", "availableReplicas"),
		NoPods:    messageOf(o, "ReplicaFailure", string(corev1.ConditionTrue), ""),
	}
	strategy, _, _ := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type")
	c.ToUpdate = c.Want
	switch o.GetKind() {
	case Deployment:
		c.GaveUp = messageOf(o, string(appsv1.DeploymentProgressing), string(corev1.ConditionFalse), "ProgressDeadlineExceeded")
	case StatefulSet:
		c.ToUpdate = max(0, c.Want-number(o, 0, "spec", "updateStrategy", "rollingUpdate", "partition"))
	case DaemonSet:
		c.Want, c.Total = number(o, 0, "status", "desiredNumberScheduled"), number(o, 0, "status", "currentNumberScheduled")
		c.Updated, c.Ready = number(o, 0, "status", "updatedNumberScheduled"), number(o, 0, "status", "numberReady")
		c.Available, c.ToUpdate = number(o, 0, "status", "numberAvailable"), c.Want
	}
	if strategy == string(appsv1.OnDeleteStatefulSetStrategyType) {
		c.ToUpdate = 0
	}
	return c
}

// number reads an integer; absent is what a missing one means.
func number(o *unstructured.Unstructured, absent int64, path ...string) int64 {
	n, found, err := unstructured.NestedInt64(o.Object, path...)
	if !found || err != nil {
		return absent
	}
	return n
}

// messageOf is the message of a condition with this status, and with this reason if one
// is given; empty without such a condition.
func messageOf(o *unstructured.Unstructured, kind, status, reason string) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, each := range conditions {
		c, ok := each.(map[string]any)
		if !ok || c["type"] != kind || c["status"] != status || reason != "" && c["reason"] != reason {
			continue
		}
		if message, ok := c["message"].(string); ok && message != "" {
			return message
		}
		return kind + " is " + status
	}
	return ""
}

// Problem is why a pod does not run as it should.
type Problem struct {
	// Pod is the pod's name. Container and Image are those that it is about, and empty
	// for a pod that no node takes.
	Pod, Container, Image string
	// Reason is Kubernetes' word for it, such as ImagePullBackOff, CrashLoopBackOff or
	// Unschedulable; NotReady for a container that runs and is not ready.
	Reason string
	// Message is what Kubernetes says beside the reason.
	Message string
	// Ended is how the container ended before, if it did.
	Ended *corev1.ContainerStateTerminated
	// Stuck says that it does not pass by itself, and needs somebody to act.
	Stuck bool
}

// NotReady is the reason of a container that runs and is not ready.
const NotReady = "NotReady"

// String says it in one line.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString("pod " + p.Pod)
	if p.Image != "" {
		b.WriteString(", image " + p.Image)
	}
	b.WriteString(": " + p.Reason)
	if message := oneLine(p.Message); message != "" {
		b.WriteString(": " + message)
	}
	if p.Ended != nil {
		fmt.Fprintf(&b, " (it ended with code %d", p.Ended.ExitCode)
		if message := oneLine(p.Ended.Message); message != "" {
			b.WriteString(": " + message)
		}
		b.WriteString(")")
	}
	return b.String()
}

// maxText is how many bytes of a text from a cluster are repeated.
const maxText = 300

func oneLine(s string) string {
	return text.Cut(strings.Join(strings.Fields(s), " "), maxText)
}

// ProblemOf is what is wrong with the newest version of a workload, by its pods: those
// with the same template as the newest pod. Of several the one that is stuck counts. It
// is nil when nothing is wrong, or nothing is known.
func ProblemOf(pods []corev1.Pod) *Problem {
	var worst *Problem
	for _, pod := range newest(pods) {
		p := problemOf(&pod)
		if p != nil && (worst == nil || p.Stuck && !worst.Stuck) {
			worst = p
		}
	}
	return worst
}

// newest are the pods with the template of the pod that was created last, the newest
// first.
func newest(pods []corev1.Pod) []corev1.Pod {
	sorted := slices.Clone(pods)
	slices.SortFunc(sorted, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	sorted = slices.DeleteFunc(sorted, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(sorted) == 0 {
		return nil
	}
	hash := templateOf(sorted[0])
	return slices.DeleteFunc(sorted, func(p corev1.Pod) bool { return templateOf(p) != hash })
}

// templateOf identifies the template that a pod was made from, by the label that its
// controller gives it.
func templateOf(p corev1.Pod) string {
	return cmp.Or(p.Labels[appsv1.DefaultDeploymentUniqueLabelKey], p.Labels[appsv1.ControllerRevisionHashLabelKey])
}

func problemOf(pod *corev1.Pod) *Problem {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &Problem{Pod: pod.Name, Reason: cmp.Or(c.Reason, "Unschedulable"), Message: c.Message, Stuck: true}
		}
	}
	if pod.Status.Phase == corev1.PodSucceeded {
		return nil
	}
	if pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" {
		return &Problem{Pod: pod.Name, Reason: pod.Status.Reason, Message: pod.Status.Message, Stuck: true}
	}
	var worst *Problem
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		p := containerProblem(pod, c)
		if p != nil && (worst == nil || p.Stuck && !worst.Stuck) {
			worst = p
		}
	}
	return worst
}

func containerProblem(pod *corev1.Pod, c corev1.ContainerStatus) *Problem {
	p := &Problem{Pod: pod.Name, Container: c.Name, Image: c.Image, Ended: c.LastTerminationState.Terminated}
	switch {
	case c.State.Waiting != nil:
		p.Reason, p.Message = cmp.Or(c.State.Waiting.Reason, "Waiting"), c.State.Waiting.Message
		p.Stuck = isStuck(c.State.Waiting.Reason)
	case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
		p.Reason, p.Ended = cmp.Or(c.State.Terminated.Reason, "Error"), c.State.Terminated
	case c.State.Running != nil && !c.Ready && !isInit(pod, c.Name):
		p.Reason, p.Message = NotReady, "it runs, and its readiness probe does not succeed"
	default:
		return nil
	}
	return p
}

func isInit(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == container })
}

// isStuck reports whether a container that waits for this reason needs somebody to act.
func isStuck(reason string) bool {
	switch reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"RegistryUnavailable", "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff":
		return true
	}
	return false
}
