package devcluster

import (
	"hash/fnv"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// nodeName is where every pod is scheduled. There is no such Node.
	nodeName = "devcluster"
	hostIP   = "127.0.0.1"

	// FailAnnotation on a pod makes its containers fail with the annotation's
	// value as the message, for trying out what happens then.
	FailAnnotation = "devcluster.muster-fleet.io/fail"

	reasonCreating  = "ContainerCreating"
	reasonCrashLoop = "CrashLoopBackOff"
	reasonCompleted = "Completed"
	reasonError     = "Error"
)

// action is what the simulator does next with a pod.
type action int

const (
	// leave: nothing, until the pod changes.
	leave action = iota
	// bind: give the pod its node.
	bind
	// finish: let a deleted pod go.
	finish
	// report: write the pod's status.
	report
)

// next decides what to do with a pod.
func next(pod *corev1.Pod) action {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, 0) == 0:
		return leave // only finalizers keep it, which others remove
	case pod.DeletionTimestamp != nil && !ended && len(pod.Finalizers) > 0:
		return report // what keeps it, such as a job, waits for its last status
	case pod.DeletionTimestamp != nil:
		return finish
	case len(pod.Spec.SchedulingGates) > 0 || ended:
		return leave
	case pod.Spec.NodeName == "":
		return bind
	}
	return report
}

// process is the state of the program in a pod's container.
type process struct {
	// running says that it runs, since startedAt.
	running   bool
	startedAt time.Time
	// ready says that its readiness probe succeeds.
	ready bool
	// failed says that it ran and ended; message says why, exitCode how.
	// When it neither runs nor failed it has not started yet, and message
	// says what it waits for.
	failed   bool
	message  string
	exitCode int32
	// restarts counts how often it was started again.
	restarts int32
}

// simulated is the process of a container in which nothing really runs.
func simulated(pod *corev1.Pod, now time.Time) process {
	if message, ok := pod.Annotations[FailAnnotation]; ok {
		return process{failed: true, message: message, exitCode: 1, startedAt: now}
	}
	return process{running: true, ready: true, startedAt: now}
}

// observe is the status that a pod has after one more step of its life.
// real is the process in agentContainer; all other containers are simulated. Both
// are zero for a pod without an agent.
func observe(pod *corev1.Pod, agentContainer string, real process, now time.Time) corev1.PodStatus {
	s := *pod.Status.DeepCopy()
	s.ObservedGeneration = pod.Generation
	if s.StartTime == nil {
		s.StartTime = ptr.To(metav1.NewTime(now).Rfc3339Copy())
	}
	s.HostIP, s.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	s.PodIP = podIP(pod)
	s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}

	once := pod.Spec.RestartPolicy != corev1.RestartPolicyAlways
	// A pod that runs to an end has been seen running first.
	ended := once && pod.Status.Phase == corev1.PodRunning || pod.DeletionTimestamp != nil
	ready, failed, started := true, false, false
	statuses := make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	for _, c := range pod.Spec.Containers {
		p := simulated(pod, s.StartTime.Time)
		if agentContainer != "" && c.Name == agentContainer {
			p = real
		}
		status := containerStatus(c, p, once, ended, find(pod.Status.ContainerStatuses, c.Name), now)
		ready = ready && status.Ready
		failed, started = failed || p.failed, started || p.running
		statuses = append(statuses, status)
	}
	s.ContainerStatuses = statuses
	s.InitContainerStatuses = initStatuses(pod, s.StartTime.Time)

	switch {
	case ended && failed, pod.DeletionTimestamp != nil:
		s.Phase = corev1.PodFailed
	case ended:
		s.Phase = corev1.PodSucceeded
	case ready || failed || started || pod.Status.Phase == corev1.PodRunning:
		s.Phase = corev1.PodRunning
	default:
		s.Phase = corev1.PodPending
	}
	setConditions(pod, &s, ready && !ended, now)
	return s
}

func containerStatus(c corev1.Container, p process, once, ended bool, old *corev1.ContainerStatus, now time.Time) corev1.ContainerStatus {
	startedAt := metav1.NewTime(p.startedAt).Rfc3339Copy()
	status := corev1.ContainerStatus{
		Name:         c.Name,
		Image:        c.Image,
		ImageID:      "simulated",
		RestartCount: p.restarts,
		Started:      ptr.To(p.running),
	}
	terminated := func() *corev1.ContainerStateTerminated {
		t := &corev1.ContainerStateTerminated{ExitCode: p.exitCode, Reason: reasonCompleted, Message: p.message, StartedAt: startedAt, FinishedAt: metav1.NewTime(now).Rfc3339Copy()}
		if p.exitCode != 0 {
			t.Reason = reasonError
		}
		return t
	}
	if old != nil {
		status.LastTerminationState = old.LastTerminationState
	}
	switch {
	case ended:
		status.Started = ptr.To(false)
		status.State.Terminated = terminated()
	case p.running:
		status.Ready = p.ready
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: startedAt}
	case p.failed && once:
		// It will end in the next step; until then it counts as running.
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: startedAt}
	case p.failed:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reasonCrashLoop, Message: p.message}
		if old == nil || old.State.Waiting == nil || old.State.Waiting.Reason != reasonCrashLoop || old.RestartCount != p.restarts {
			status.LastTerminationState.Terminated = terminated()
		}
	default:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reasonCreating, Message: p.message}
	}
	return status
}

// initStatuses let init containers be done, and sidecars be running.
func initStatuses(pod *corev1.Pod, started time.Time) []corev1.ContainerStatus {
	at := metav1.NewTime(started).Rfc3339Copy()
	var statuses []corev1.ContainerStatus
	for _, c := range pod.Spec.InitContainers {
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: "simulated", Ready: true, Started: ptr.To(false)}
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			status.Started = ptr.To(true)
			status.State.Running = &corev1.ContainerStateRunning{StartedAt: at}
		} else {
			status.State.Terminated = &corev1.ContainerStateTerminated{Reason: reasonCompleted, StartedAt: at, FinishedAt: at}
		}
		statuses = append(statuses, status)
	}
	return statuses
}

func setConditions(pod *corev1.Pod, s *corev1.PodStatus, containersReady bool, now time.Time) {
	reason := ""
	if !containersReady {
		reason = "ContainersNotReady"
		if s.Phase == corev1.PodSucceeded {
			reason = "PodCompleted"
		}
	}
	gates := slices.IndexFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		i := indexCondition(s.Conditions, g.ConditionType)
		return i < 0 || s.Conditions[i].Status != corev1.ConditionTrue
	})
	set := func(t corev1.PodConditionType, ok bool, reason string) {
		c := corev1.PodCondition{Type: t, Status: corev1.ConditionFalse, Reason: reason, ObservedGeneration: pod.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy()}
		if ok {
			c.Status = corev1.ConditionTrue
		}
		i := indexCondition(s.Conditions, t)
		if i < 0 {
			s.Conditions = append(s.Conditions, c)
			return
		}
		if s.Conditions[i].Status == c.Status {
			c.LastTransitionTime = s.Conditions[i].LastTransitionTime
		}
		s.Conditions[i] = c
	}
	set(corev1.PodReadyToStartContainers, true, "")
	set(corev1.PodInitialized, true, "")
	set(corev1.ContainersReady, containersReady, reason)
	if containersReady && gates >= 0 {
		set(corev1.PodReady, false, "ReadinessGatesNotReady")
		return
	}
	set(corev1.PodReady, containersReady, reason)
}

func indexCondition(conditions []corev1.PodCondition, t corev1.PodConditionType) int {
	return slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == t })
}

func find(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

// podIP is an address of the pod's own, always the same one.
func podIP(pod *corev1.Pod) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod.UID)) // never fails
	sum := h.Sum32()
	return net.IPv4(10, 244+byte(sum>>16)%4, byte(sum>>8), 1+byte(sum)%254).String()
}

// same reports whether writing the status would change nothing.
func same(a, b *corev1.PodStatus) bool { return apiequality.Semantic.DeepEqual(a, b) }
