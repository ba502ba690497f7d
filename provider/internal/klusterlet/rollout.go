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
	"github.com/muster-fleet/terraform-provider-muster/internal/rolloutstatus"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// patience is how long a wait for an agent goes on beside a problem of its newest pod.
type patience struct {
	// stuck is for a state that does not pass by itself; half a minute.
	stuck time.Duration
	// contact is how long the agent may run without an answer of the hub, and so without
	// being ready; a minute.
	contact time.Duration
}

// with is the trouble that a problem is; none for one that may pass.
func (p patience) with(problem *rolloutstatus.Problem) []kube.Trouble {
	switch {
	case problem == nil:
	case problem.Stuck:
		return []kube.Trouble{{Text: "stuck", After: p.stuck}}
	case problem.Reason == rolloutstatus.NotReady && problem.Container == klusterlet.Name:
		return []kube.Trouble{{Text: "no contact", After: p.contact}}
	}
	return nil
}

// stuckError is why an agent's pod will not run, or not become ready.
type stuckError struct{ rolloutstatus.Problem }

func (e stuckError) Error() string { return e.String() }

// agentRolledOut reports whether the Deployment has come to run as it was written last.
// A pod that is restarted or moved later does not undo that; its condition says so, but
// it may be of the former version while there are other pods than the newest.
func agentRolledOut(d *appsv1.Deployment) bool {
	if rolloutstatus.OfDeployment(d).State == rolloutstatus.Done {
		return true
	}
	want := ptr.Deref(d.Spec.Replicas, 1)
	if d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != want || d.Status.Replicas != want {
		return false
	}
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionTrue &&
			c.Reason == "NewReplicaSetAvailable"
	})
}

// certified reports whether the agent's Secret has a certificate of the cluster
// that can be used.
func certified(secret *corev1.Secret, name string, now time.Time) bool {
	of, _, until := identityOf(secret)
	return len(secret.Data[cluster.KubeconfigKey]) > 0 && of == name && now.Before(until)
}

// identityOf is what the agent's certificate says: its cluster, its own ID, and when it
// ends. All are empty without a certificate of an agent.
func identityOf(secret *corev1.Secret) (of, id string, until time.Time) {
	block, _ := pem.Decode(secret.Data[cluster.TLSCertKey])
	if block == nil {
		return "", "", time.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", "", time.Time{}
	}
	of, id, _ = cluster.ParseCommonName(certificate.Subject.CommonName)
	return of, id, certificate.NotAfter
}

// await waits until the agent is rolled out and holds a certificate from the hub, of
// its new bootstrap kubeconfig if it has got one. A pod that is stuck ends it early,
// with a stuckError. Where need be, the agent's request is approved meanwhile.
func (in *installation) await(ctx context.Context) error {
	var last rolloutstatus.Problem
	err := kube.WaitOrGiveUp(ctx, func(ctx context.Context, note func(...kube.Trouble)) error {
		ctx, fail := context.WithCancelCause(ctx)
		var beside sync.WaitGroup
		defer beside.Wait()
		defer fail(nil)
		beside.Go(func() {
			pods := &corev1.PodList{}
			// Who may not look at pods learns less.
			_ = in.client.WaitList(ctx, pods, &corev1.Pod{}, in.pods(), func() (bool, error) {
				problem := rolloutstatus.ProblemOf(pods.Items)
				troubles := in.patience.with(problem)
				if len(troubles) > 0 {
					last = *problem
				}
				note(troubles...)
				return false, nil
			})
		})
		if in.approve && in.joining != nil {
			beside.Go(func() {
				if err := in.joining.approve(ctx, bearerOf(in.kubeconfig)); err != nil && ctx.Err() == nil {
					fail(fmt.Errorf("the agent's certificate request was not approved: %w", err))
				}
			})
		}
		err := in.follow(ctx)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return cause
		}
		return err
	})
	if _, ok := errors.AsType[*kube.GaveUpError](err); ok {
		return stuckError{last}
	}
	return err
}

// follow waits until the agent is rolled out and holds a certificate. One of an agent that
// chooses among several hubs may be of another hub than the new bootstrap kubeconfig's.
func (in *installation) follow(ctx context.Context) error {
	deployment, secret, namespace := &appsv1.Deployment{}, &corev1.Secret{}, in.options.Namespace
	err := in.client.Wait(ctx, deployment, namespace, klusterlet.Name, func(exists bool) (bool, error) {
		return exists && rolloutstatus.OfDeployment(deployment).State == rolloutstatus.Done, nil
	})
	if err != nil {
		return err
	}
	to := endpointOf(in.kubeconfig)
	return in.client.Wait(ctx, secret, namespace, cluster.HubKubeconfigSecret, func(exists bool) (bool, error) {
		return exists && certified(secret, in.name, time.Now()) &&
			(to.Server == "" || in.choosesHub() || to.Equal(endpointOf(secret.Data[cluster.KubeconfigKey]))), nil
	})
}

// choosesHub reports whether the agent is started with several hubs.
func (a *agent) choosesHub() bool {
	return slices.ContainsFunc(a.options.Args, func(arg string) bool {
		return strings.HasPrefix(arg, "--bootstrap-kubeconfigs")
	})
}

// deletesBootstrap reports whether the agent is started to delete its bootstrap Secret
// once it has registered.
func (a *agent) deletesBootstrap() bool {
	return slices.ContainsFunc(a.options.Args, func(arg string) bool {
		return arg == "--delete-bootstrap-secret" || arg == "--delete-bootstrap-secret=true"
	})
}

func (a *agent) pods() kube.ListOptions {
	return kube.ListOptions{Namespace: a.options.Namespace, LabelSelector: klusterlet.AppLabel + "=" + klusterlet.Name}
}

// explainWait is the title and the text about a wait that ended with an error.
func (a *agent) explainWait(
	ctx context.Context, j *joining, err error, timeout time.Duration) (summary, detail string,
) {
	var stuck stuckError
	lines := []string{}
	switch {
	case errors.As(err, &stuck) && stuck.Reason == rolloutstatus.NotReady:
		summary = fmt.Sprintf("The new agent in cluster %q cannot reach the hub", a.name)
		lines = append(lines, fmt.Sprintf("Its objects are in place and its newest pod %s, image %s, runs, "+
			"but it is not ready after %s. An agent is ready when the hub has answered it once since it was started.",
			stuck.Pod, stuck.Image, a.patience.contact))
		if last := a.lastLogged(ctx, stuck.Pod); last != "" {
			lines = append(lines, "Its log ends with: "+last)
		}
		lines = append(lines, a.before()+" Correct env (such as HTTPS_PROXY), host_network, args or the bootstrap "+
			"kubeconfig, or see to the hub, and apply again.")
	case errors.As(err, &stuck):
		summary = fmt.Sprintf("The agent in cluster %q does not run", a.name)
		lines = append(lines, fmt.Sprintf("Its objects are in place, but its newest pod has been stuck "+
			"for %s: %s.", a.patience.stuck, strings.TrimSuffix(stuck.Error(), ".")),
			a.before()+" Correct image or args, or make the image available in the cluster, and apply again.")
	case hub.IsTimeout(err):
		summary = fmt.Sprintf("The agent in cluster %q has no certificate from the hub", a.name)
		lines = append(lines, fmt.Sprintf("Its objects are in place, but within %s it was not rolled out with a "+
			"certificate. The next apply waits again.", timeout))
	default:
		summary = fmt.Sprintf("The agent in cluster %q was not waited for until the end", a.name)
		lines = append(lines, fmt.Sprintf("Its objects are in place. %s.", attribute.Capitalize(err.Error())))
	}
	lines = append(lines, "", "In the managed cluster:")
	lines = append(lines, a.describe(ctx)...)
	if j != nil && (stuck.Pod == "" || stuck.Reason == rolloutstatus.NotReady) {
		lines = append(append(lines, ""), registration.DescribeJoining(ctx, j.client, a.name)...)
	}
	lines = append(lines, "", "Next:",
		fmt.Sprintf("  kubectl -n %s get pods; kubectl -n %s logs deployment/%s    # in the "+
			"managed cluster", a.options.Namespace, a.options.Namespace, klusterlet.Name),
		fmt.Sprintf("  kubectl describe csr -l %s=%s    # on the hub", cluster.NameLabel, a.name),
		"A cluster is accepted by muster_cluster_acceptance, which must not depend on this resource. To install "+
			"without waiting, set wait_for_bootstrap = false.")
	return summary, attribute.JoinLines(lines)
}

// before says what became of an agent from before.
func (a *agent) before() string {
	if a.options.HostNetwork {
		return "An agent that ran before has been ended: with host_network two can't run side by side."
	}
	return "An agent that ran before goes on running."
}

// lastLogged is the last line that a pod's agent has logged; empty when it can't be read.
func (a *agent) lastLogged(ctx context.Context, pod string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
	defer cancel()
	text, err := a.client.Log(ctx, a.options.Namespace, pod, klusterlet.Name, 1)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// describe says how the agent's Deployment and pods fare, if the cluster says
// so soon.
func (a *agent) describe(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
	defer cancel()
	deployment := &appsv1.Deployment{}
	if err := a.client.Get(ctx, deployment, a.options.Namespace, klusterlet.Name); err != nil {
		return []string{fmt.Sprintf("  its Deployment can't be read: %s", err)}
	}
	status := deployment.Status
	lines := []string{fmt.Sprintf("  Deployment: %d of %d pods are ready, %d are of the "+
		"last change", status.ReadyReplicas, status.Replicas, status.UpdatedReplicas)}
	for _, c := range status.Conditions {
		lines = append(lines, fmt.Sprintf("  %s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message))
	}
	pods := &corev1.PodList{}
	if err := a.client.List(ctx, pods, a.pods()); err != nil {
		return lines
	}
	if p := rolloutstatus.ProblemOf(pods.Items); p != nil {
		lines = append(lines, "  "+p.String())
	}
	return lines
}
