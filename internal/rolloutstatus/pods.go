package rolloutstatus

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
)

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
