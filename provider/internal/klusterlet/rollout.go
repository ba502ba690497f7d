package klusterlet

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// stuckPatience is how long a pod may be in a state that does not pass by itself
// before a wait for it ends.
const stuckPatience = 30 * time.Second

// stuckError is why an agent's pod will not run.
type stuckError string

func (e stuckError) Error() string { return string(e) }

// agentRolledOut reports whether the Deployment runs as it was written last. A pod
// that is restarted or moved later does not undo that.
func agentRolledOut(d *appsv1.Deployment) bool {
	if d.Status.ObservedGeneration < d.Generation {
		return false
	}
	want := ptr.Deref(d.Spec.Replicas, 1)
	if d.Status.UpdatedReplicas == want && d.Status.Replicas == want && d.Status.AvailableReplicas >= want {
		return true
	}
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionTrue && c.Reason == "NewReplicaSetAvailable"
	})
}

// certified reports whether the agent's Secret has a certificate of the cluster
// that can be used.
func certified(secret *corev1.Secret, name string, now time.Time) bool {
	if len(secret.Data[cluster.KubeconfigKey]) == 0 {
		return false
	}
	block, _ := pem.Decode(secret.Data[cluster.TLSCertKey])
	if block == nil {
		return false
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return false
	}
	of, _, ok := cluster.ParseCommonName(certificate.Subject.CommonName)
	return ok && of == name && now.Before(certificate.NotAfter)
}

// hopeless tells why the newest of some pods will not run unless somebody acts;
// empty when it runs, or may still.
func hopeless(pods []corev1.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	newest := slices.MaxFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, c := range newest.Status.ContainerStatuses {
		if c.State.Waiting == nil {
			continue
		}
		switch c.State.Waiting.Reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
			"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff":
			return describeContainer(newest.Name, c)
		}
	}
	return ""
}

// describeContainer tells what a container waits for, and how it ended before.
func describeContainer(pod string, c corev1.ContainerStatus) string {
	text := fmt.Sprintf("pod %s, image %s", pod, c.Image)
	if w := c.State.Waiting; w != nil {
		text += ": " + w.Reason
		if w.Message != "" {
			text += ": " + w.Message
		}
	}
	if t := c.LastTerminationState.Terminated; t != nil {
		text += fmt.Sprintf(" (it ended with code %d", t.ExitCode)
		if message := strings.TrimSpace(t.Message); message != "" {
			text += ": " + message
		}
		text += ")"
	}
	return text
}

// await waits until the agent is rolled out and holds a certificate from the hub, of
// its new bootstrap kubeconfig if it has got one. A pod that is stuck ends it early,
// with a stuckError. Where need be, the agent's request is approved meanwhile.
func (in *installation) await(ctx context.Context) error {
	a, j := in.agent, in.joining
	ctx, fail := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer fail(nil)
	beside.Go(func() { a.watchPods(ctx, fail) })
	if in.approve && j != nil {
		beside.Go(func() {
			if err := j.approve(ctx, bearerOf(in.kubeconfig)); err != nil && ctx.Err() == nil {
				fail(fmt.Errorf("the agent's certificate request was not approved: %w", err))
			}
		})
	}
	deployment := &appsv1.Deployment{}
	err := a.client.Wait(ctx, deployment, a.options.Namespace, klusterlet.Name, func(exists bool) (bool, error) {
		return exists && agentRolledOut(deployment), nil
	})
	if err == nil {
		secret := &corev1.Secret{}
		err = a.client.Wait(ctx, secret, a.options.Namespace, cluster.HubKubeconfigSecret, func(exists bool) (bool, error) {
			return exists && certified(secret, a.name, time.Now()) && in.leadsTo(secret), nil
		})
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// leadsTo reports whether an agent's identity is one of the hub that the new
// bootstrap kubeconfig leads to. An agent that chooses among several hubs may have
// another one.
func (in *installation) leadsTo(secret *corev1.Secret) bool {
	want, ok := endpointOf(in.kubeconfig)
	if !ok || in.agent.choosesHub() {
		return true
	}
	got, _ := endpointOf(secret.Data[cluster.KubeconfigKey])
	return got.Equal(want)
}

// choosesHub reports whether the agent is started with several hubs.
func (a *agent) choosesHub() bool {
	return slices.ContainsFunc(a.options.Args, func(arg string) bool { return strings.HasPrefix(arg, "--bootstrap-kubeconfigs") })
}

// deletesBootstrap reports whether the agent is started to delete its bootstrap Secret
// once it has registered.
func (a *agent) deletesBootstrap() bool {
	return slices.ContainsFunc(a.options.Args, func(arg string) bool {
		return arg == "--delete-bootstrap-secret" || arg == "--delete-bootstrap-secret=true"
	})
}

// watchPods fails a wait once the newest pod has been stuck for a while.
func (a *agent) watchPods(ctx context.Context, fail context.CancelCauseFunc) {
	var mu sync.Mutex
	var why string
	var patience *time.Timer
	pods := &corev1.PodList{}
	// Who may not look at pods learns less.
	_ = a.client.WaitList(ctx, pods, &corev1.Pod{}, a.pods(), func() (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		why = hopeless(pods.Items)
		switch {
		case why == "" && patience != nil:
			patience.Stop()
			patience = nil
		case why != "" && patience == nil:
			patience = time.AfterFunc(stuckPatience, func() {
				mu.Lock()
				defer mu.Unlock()
				if why != "" {
					fail(stuckError(why))
				}
			})
		}
		return false, nil
	})
	mu.Lock()
	defer mu.Unlock()
	if patience != nil {
		patience.Stop()
	}
}

func (a *agent) pods() kube.ListOptions {
	return kube.ListOptions{Namespace: a.options.Namespace, LabelSelector: klusterlet.AppLabel + "=" + klusterlet.Name}
}

// explainWait is the title and the text about a wait that ended with an error.
func (a *agent) explainWait(ctx context.Context, j *joining, err error, timeout time.Duration) (summary, detail string) {
	var stuck stuckError
	lines := []string{}
	switch {
	case errors.As(err, &stuck):
		summary = fmt.Sprintf("The agent in cluster %q does not run", a.name)
		lines = append(lines, fmt.Sprintf("Its objects are in place, but its newest pod has been stuck for %s: %s.", stuckPatience, strings.TrimSuffix(stuck.Error(), ".")),
			"An agent that ran before goes on running. Correct image or args, or make the image available in the cluster, and apply again.")
	case hub.IsTimeout(err):
		summary = fmt.Sprintf("The agent in cluster %q has no certificate from the hub", a.name)
		lines = append(lines, fmt.Sprintf("Its objects are in place, but within %s it was not rolled out with a certificate. The next apply waits again.", timeout))
	default:
		summary = fmt.Sprintf("The agent in cluster %q was not waited for until the end", a.name)
		lines = append(lines, fmt.Sprintf("Its objects are in place. %s.", attribute.Capitalize(err.Error())))
	}
	lines = append(lines, "", "In the managed cluster:")
	lines = append(lines, a.describe(ctx)...)
	if j != nil && stuck == "" {
		lines = append(append(lines, ""), registration.DescribeJoining(ctx, j.client, a.name)...)
	}
	lines = append(lines, "", "Next:",
		fmt.Sprintf("  kubectl -n %s get pods; kubectl -n %s logs deployment/%s    # in the managed cluster", a.options.Namespace, a.options.Namespace, klusterlet.Name),
		fmt.Sprintf("  kubectl describe csr -l %s=%s    # on the hub", cluster.NameLabel, a.name),
		"A cluster is accepted by muster_cluster_acceptance, which must not depend on this resource. To install without waiting, set wait_for_bootstrap = false.")
	return summary, attribute.JoinLines(lines)
}

// describe tells how the agent's Deployment and pods fare, if the cluster says
// so soon.
func (a *agent) describe(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
	defer cancel()
	deployment := &appsv1.Deployment{}
	if err := a.client.Get(ctx, deployment, a.options.Namespace, klusterlet.Name); err != nil {
		return []string{fmt.Sprintf("  its Deployment can't be read: %s", err)}
	}
	status := deployment.Status
	lines := []string{fmt.Sprintf("  Deployment: %d of %d pods are ready, %d are of the last change", status.ReadyReplicas, status.Replicas, status.UpdatedReplicas)}
	for _, c := range status.Conditions {
		lines = append(lines, fmt.Sprintf("  %s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message))
	}
	pods := &corev1.PodList{}
	if err := a.client.List(ctx, pods, a.pods()); err != nil {
		return lines
	}
	for _, pod := range pods.Items {
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Waiting != nil {
				lines = append(lines, "  "+describeContainer(pod.Name, c))
			}
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
				lines = append(lines, fmt.Sprintf("  pod %s is not scheduled (%s): %s", pod.Name, c.Reason, c.Message))
			}
		}
	}
	return lines
}
