package devcluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// pod is one with a single container, of a Deployment unless it is changed.
func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid-1"},
		Spec: corev1.PodSpec{
			NodeName:      nodeName,
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "main", Image: "img"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func once(p *corev1.Pod)      { p.Spec.RestartPolicy = corev1.RestartPolicyNever }
func unbound(p *corev1.Pod)   { p.Spec.NodeName = "" }
func running(p *corev1.Pod)   { p.Status.Phase = corev1.PodRunning }
func succeeded(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
func held(p *corev1.Pod)      { p.Finalizers = []string{"example.org/hold"} }
func gated(p *corev1.Pod)     { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }
func failing(p *corev1.Pod)   { p.Annotations = map[string]string{FailAnnotation: "no such image"} }
func deleted(grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(noon)), ptr.To(grace)
	}
}

func TestNext(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want action
	}{
		{"new", pod(unbound), bind},
		{"held back by a scheduling gate", pod(unbound, gated), leave},
		{"on its node", pod(), report},
		{"running", pod(running), report},
		{"at its end", pod(once, succeeded), leave},
		{"deleted", pod(running, deleted(30)), finish},
		{"deleted, and its job wants to know how it ended", pod(running, held, deleted(30)), report},
		{"deleted after its end, though still held", pod(succeeded, held, deleted(30)), finish},
		{"released, only held", pod(running, held, deleted(0)), leave},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := next(tc.pod); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	sidecar := func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar", Image: "img"})
	}
	readinessGate := func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.org/ready"}}
	}
	gateOpen := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: "example.org/ready", Status: corev1.ConditionTrue}}
	}
	up := process{running: true, ready: true, startedAt: noon}
	alone := process{running: true, startedAt: noon}
	crashed := process{failed: true, message: "boom", exitCode: 1, startedAt: noon}
	for _, tc := range []struct {
		name    string
		pod     *corev1.Pod
		agent   process
		agentIn string

		phase   corev1.PodPhase
		ready   bool
		waiting string // reason, of the first container
		message string
	}{
		{name: "a server runs and is ready", pod: pod(), phase: corev1.PodRunning, ready: true},
		{name: "a server goes on running", pod: pod(running), phase: corev1.PodRunning, ready: true},
		{name: "a task is seen running first", pod: pod(once), phase: corev1.PodRunning, ready: true},
		{name: "a task then ends well", pod: pod(once, running), phase: corev1.PodSucceeded},
		{name: "a failing task is seen running first", pod: pod(once, failing), phase: corev1.PodRunning},
		{name: "a failing task then fails", pod: pod(once, failing, running), phase: corev1.PodFailed},
		{name: "a failing server crashes again and again", pod: pod(failing), phase: corev1.PodRunning, waiting: "CrashLoopBackOff", message: "no such image"},
		{name: "a deleted pod that is held has failed", pod: pod(running, held, deleted(30)), phase: corev1.PodFailed},
		{name: "a readiness gate holds back", pod: pod(readinessGate), phase: corev1.PodRunning},
		{name: "an open readiness gate does not", pod: pod(readinessGate, gateOpen), phase: corev1.PodRunning, ready: true},
		{name: "an agent not started yet", pod: pod(), agentIn: "main", agent: process{message: "no secret"}, phase: corev1.PodPending, waiting: "ContainerCreating", message: "no secret"},
		{name: "a running agent", pod: pod(), agentIn: "main", agent: up, phase: corev1.PodRunning, ready: true},
		{name: "an agent without a hub", pod: pod(), agentIn: "main", agent: alone, phase: corev1.PodRunning},
		{name: "an agent that ended", pod: pod(running), agentIn: "main", agent: crashed, phase: corev1.PodRunning, waiting: "CrashLoopBackOff", message: "boom"},
		{name: "an ended agent beside a simulated container", pod: pod(running, sidecar), agentIn: "main", agent: crashed, phase: corev1.PodRunning, waiting: "CrashLoopBackOff", message: "boom"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := observe(tc.pod, tc.agentIn, tc.agent, noon)
			if s.Phase != tc.phase {
				t.Errorf("phase %s, want %s", s.Phase, tc.phase)
			}
			i := indexCondition(s.Conditions, corev1.PodReady)
			if ready := s.Conditions[i].Status == corev1.ConditionTrue; ready != tc.ready {
				t.Errorf("ready %t, want %t: %+v", ready, tc.ready, s.Conditions)
			}
			reason, message := "", ""
			if w := s.ContainerStatuses[0].State.Waiting; w != nil {
				reason, message = w.Reason, w.Message
			}
			if reason != tc.waiting || message != tc.message {
				t.Errorf("waiting %q %q, want %q %q", reason, message, tc.waiting, tc.message)
			}
			if len(s.ContainerStatuses) != len(tc.pod.Spec.Containers) {
				t.Errorf("%d container statuses", len(s.ContainerStatuses))
			}
		})
	}
}

func TestObserveTwiceChangesNothing(t *testing.T) {
	crashed := process{failed: true, message: "boom", exitCode: 1, startedAt: noon}
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		in    string
		agent process
	}{
		"running":          {pod: pod()},
		"failing":          {pod: pod(failing)},
		"agent ended":      {pod: pod(), in: "main", agent: crashed},
		"agent not set up": {pod: pod(), in: "main"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.pod.Status = observe(tc.pod, tc.in, tc.agent, noon)
			again := observe(tc.pod, tc.in, tc.agent, noon.Add(time.Hour))
			if !same(&tc.pod.Status, &again) {
				t.Errorf("got %+v\nafter %+v", again, tc.pod.Status)
			}
		})
	}
}

func TestRestartsAreCountedAndTheLastEndIsKept(t *testing.T) {
	p := pod()
	p.Status = observe(p, "main", process{failed: true, message: "boom", exitCode: 1, startedAt: noon}, noon.Add(time.Second))
	p.Status = observe(p, "main", process{running: true, ready: true, startedAt: noon.Add(2 * time.Second), restarts: 1}, noon.Add(2*time.Second))
	c := p.Status.ContainerStatuses[0]
	if c.RestartCount != 1 || !c.Ready {
		t.Errorf("restarts %d, ready %t", c.RestartCount, c.Ready)
	}
	if last := c.LastTerminationState.Terminated; last == nil || last.Message != "boom" || last.ExitCode != 1 || !last.FinishedAt.Time.Equal(noon.Add(time.Second)) {
		t.Errorf("last state %+v", last)
	}
}

func TestInitContainersAreDoneAndSidecarsRun(t *testing.T) {
	p := pod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
	})
	s := observe(p, "", process{}, noon).InitContainerStatuses
	if len(s) != 2 || s[0].State.Terminated == nil || s[1].State.Running == nil || !s[0].Ready || !s[1].Ready {
		t.Errorf("got %+v", s)
	}
}

func TestPodAddressesAreSteadyAndApart(t *testing.T) {
	other := pod(func(p *corev1.Pod) { p.UID = "uid-2" })
	first, again := podIP(pod()), podIP(pod())
	if first != again || first == podIP(other) {
		t.Errorf("got %s, %s, and %s for another", first, again, podIP(other))
	}
}
