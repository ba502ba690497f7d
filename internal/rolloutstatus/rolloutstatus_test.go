package rolloutstatus_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/rolloutstatus"
)

func deployment(change func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)}}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}
	if change != nil {
		change(d)
	}
	return d
}

// A Deployment is done when its new pods are available and no others are left, whatever
// its condition says: that is of the former rollout when an old ReplicaSet is used again.
func TestDeployment(t *testing.T) {
	former := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}
	for name, x := range map[string]struct {
		change func(*appsv1.Deployment)
		want   rolloutstatus.State
		why    string
	}{
		"there":             {nil, rolloutstatus.Done, ""},
		"not seen":          {func(d *appsv1.Deployment) { d.Generation = 3 }, rolloutstatus.Progressing, "has not seen"},
		"only old pods run": {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 0 }, rolloutstatus.Progressing, "0 of 2 replicas are updated"},
		"a revision again": {func(d *appsv1.Deployment) {
			d.Status.Replicas, d.Status.UpdatedReplicas = 3, 1
			d.Status.Conditions = []appsv1.DeploymentCondition{former}
		}, rolloutstatus.Progressing, "1 of 2 replicas are updated"},
		"an old one left": {func(d *appsv1.Deployment) { d.Status.Replicas = 3 }, rolloutstatus.Progressing, "1 old replicas are still there"},
		"not available":   {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }, rolloutstatus.Progressing, "1 of 2 replicas are available"},
		"given up": {func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse,
				Reason: "ProgressDeadlineExceeded", Message: "has timed out"}}
		}, rolloutstatus.Failing, "has timed out"},
		"no pods": {func(d *appsv1.Deployment) {
			d.Status.UpdatedReplicas = 0
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"}}
		}, rolloutstatus.Failing, "exceeded quota"},
		"at zero": {func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Status = ptr.To[int32](0), appsv1.DeploymentStatus{ObservedGeneration: 2}
		}, rolloutstatus.Done, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := rolloutstatus.OfDeployment(deployment(x.change))
			if s.State != x.want || !strings.Contains(s.Why, x.why) || (s.Why == "") != (x.why == "") {
				t.Errorf("got %+v, want %s with %q", s, x.want, x.why)
			}
		})
	}
}

func pod(name, template string, age time.Duration, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: template},
		CreationTimestamp: metav1.NewTime(time.Unix(10000, 0).Add(-age))}}
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "img:" + template, Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if change != nil {
		change(&p)
	}
	return p
}

func waiting(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Status.ContainerStatuses[0]
		c.Ready, c.State = false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
}

func TestProblemOfPods(t *testing.T) {
	crashing := func(p *corev1.Pod) {
		waiting("CrashLoopBackOff", "back-off 20s")(p)
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3, Message: "no\nsuch flag"}
	}
	for name, x := range map[string]struct {
		pods  []corev1.Pod
		want  string
		stuck bool
	}{
		"none":          {nil, "", false},
		"all run":       {[]corev1.Pod{pod("a", "1", time.Hour, nil), pod("b", "2", 0, nil)}, "", false},
		"an image":      {[]corev1.Pod{pod("a", "1", time.Hour, nil), pod("b", "2", 0, waiting("ImagePullBackOff", "not found"))}, "pod b, image img:2: ImagePullBackOff: not found", true},
		"a crash":       {[]corev1.Pod{pod("b", "2", 0, crashing)}, "pod b, image img:2: CrashLoopBackOff: back-off 20s (it ended with code 3: no such flag)", true},
		"an older pod":  {[]corev1.Pod{pod("a", "1", time.Hour, crashing), pod("b", "2", 0, nil)}, "", false},
		"a brother":     {[]corev1.Pod{pod("a", "2", time.Minute, waiting("ErrImagePull", "")), pod("b", "2", 0, nil)}, "pod a, image img:2: ErrImagePull", true},
		"still created": {[]corev1.Pod{pod("b", "2", 0, waiting("ContainerCreating", ""))}, "pod b, image img:2: ContainerCreating", false},
		"not ready": {[]corev1.Pod{pod("b", "2", 0, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = false })},
			"pod b, image img:2: NotReady: it runs, and its readiness probe does not succeed", false},
		"no node": {[]corev1.Pod{pod("b", "2", 0, func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: "Unschedulable", Message: "0/3 nodes are available"}}}
		})}, "pod b: Unschedulable: 0/3 nodes are available", true},
		"evicted": {[]corev1.Pod{pod("b", "2", 0, func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}
		})}, "pod b: Evicted: low on memory", true},
		"one that ends": {[]corev1.Pod{pod("b", "2", 0, func(p *corev1.Pod) { crashing(p); p.DeletionTimestamp = &metav1.Time{} })}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := rolloutstatus.ProblemOf(x.pods)
			switch {
			case p == nil && x.want != "":
				t.Errorf("nothing was found, want %q", x.want)
			case p != nil && (p.String() != x.want || p.Stuck != x.stuck):
				t.Errorf("got %q, stuck %t, want %q, stuck %t", p, p.Stuck, x.want, x.stuck)
			}
		})
	}
}
