package action

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// The actions that ask agents to do something.

// requestManager is the field manager of requests to agents.
const requestManager = hub.FieldManager + "-request"

// patience is how long an agent that is there takes for an answer at most, before
// it is said that it may not know the request.
const patience = 30 * time.Second

// ask puts a request to the agent on an object, unless there is one already, which the agent
// answers as well. what is asked for goes on after "to".
func (r *run) ask(ctx context.Context, object kube.Object, annotation, agent, what string) error {
	if object.GetAnnotations()[annotation] != "" {
		r.say("Somebody has asked the agent of %s to %s already.", agent, what)
		return nil
	}
	now := time.Now()
	value := now.UTC().Format(time.RFC3339) + "-" + strconv.FormatInt(int64(now.Nanosecond()), 36)
	err := r.client.MergePatch(ctx, object, requestManager, map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "annotations": map[string]any{annotation: value},
	}})
	if err == nil {
		r.say("The agent of %s is asked to %s.", agent, what)
	}
	return err
}

// answer waits until judge says that the agent has answered the request. Without an
// answer the request is taken back. The rest is as in run.wait.
func (r *run) answer(
	ctx context.Context, object kube.Object, annotation string, look func(context.Context),
	judge func(exists bool) (bool, error), late func() error, leaves string,
) error {
	wait := func(ctx context.Context) error {
		err := r.client.Wait(ctx, object, object.GetNamespace(), object.GetName(), judge)
		if err != nil {
			r.withdraw(ctx, object, annotation)
		}
		return err
	}
	return r.wait(ctx, look, wait, late, leaves)
}

// withdraw takes an unanswered request back, so that no agent that learns of it
// later acts on it by surprise. object is as it was seen last.
func (r *run) withdraw(ctx context.Context, object kube.Object, annotation string) {
	if object.GetAnnotations()[annotation] == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
	defer cancel()
	// Whatever comes in between may be the answer.
	_ = r.client.MergePatch(ctx, object, requestManager, map[string]any{"metadata": map[string]any{
		"resourceVersion": object.GetResourceVersion(), "annotations": map[string]any{annotation: nil},
	}})
}

// reportSilence says when nothing is heard of the agent.
func (r *run) reportSilence(context.Context) {
	if time.Since(r.begun) >= patience {
		r.say("The agent of %s has not answered. Agents of Open Cluster Management, and muster's of earlier "+
			"versions, do not know the request.", r.cluster)
	}
}

// defaultAnswer is how long an agent may take to do what it is asked for.
const defaultAnswer = 5 * time.Minute

// rotateCertificate is muster_rotate_certificate.
func rotateCertificate() declaration {
	return declaration{
		name: "rotate_certificate",
		description: "Has the agent of a cluster renew its client certificate for the hub now, with a new key, and " +
			"waits for it. Agents renew by themselves when a fifth of the certificate's life is left; this is for " +
			"keys that may have leaked, and for hubs whose signer has changed.\n\n" +
			"The certificate from before **stays valid until it expires**, as API servers take no certificates " +
			"back. To shut out anyone who has its key, let the cluster join again with another agent (`muster " +
			"rejoin`): a muster hub then refuses the agent from before.\n\n" +
			"The action puts the annotation `" + cluster.RenewCertificateAnnotation + "` on the ManagedCluster, " +
			"which the agent removes when it is done. Agents of Open Cluster Management do not know it: the action " +
			"says so after a while, takes the annotation back and fails.",
		attributes: map[string]schema.Attribute{
			clusterName: attribute.Required("Name of the managed cluster. It has to be accepted and to have joined.",
				attribute.ValidClusterName()),
		},
		takes: "the renewal", timeout: defaultAnswer,
		doing: "rotate the certificate of managed cluster", to: []string{clusterName},
		do: func(ctx context.Context, r *run) error { return (&rotation{run: r}).rotate(ctx) },
	}
}

// rotate has the agent of a cluster renew its client certificate now, and waits for
// it. The certificate from before stays valid until it expires: API servers don't
// take certificates back.
func (r *rotation) rotate(ctx context.Context) error {
	object, err := r.findCluster(ctx)
	if err != nil {
		return err
	}
	if err := r.possible(object); err != nil {
		return err
	}
	r.before = rotated(object)
	if err := r.ask(ctx, object, cluster.RenewCertificateAnnotation, r.cluster, "renew its certificate"); err != nil {
		return err
	}
	if !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionAvailable) {
		r.say("The hub does not hear from %s at present. Its agent renews the certificate when it is back.", r.cluster)
	}
	err = r.answer(ctx, object, cluster.RenewCertificateAnnotation, r.look,
		func(exists bool) (bool, error) { return r.judge(object, exists) },
		func() error { return r.tooLate(ctx, object) },
		fmt.Sprintf("The request to the agent of %q was taken back. It may have renewed its certificate in the "+
			"meantime.", r.cluster))
	if err == nil {
		r.say("%s. The certificate from before stays valid until it expires.", rotated(object).Message)
	}
	return err
}

// rotation is the renewal of one certificate.
type rotation struct {
	*run
	before metav1.Condition

	mu sync.Mutex
	// requests are those that were told of.
	requests []string
	asking   bool
}

// possible says why the agent could not renew its certificate.
func (r *rotation) possible(object *clusterv1.ManagedCluster) error {
	summary := fmt.Sprintf("The agent of managed cluster %q can't renew its certificate", r.cluster)
	switch {
	case object.DeletionTimestamp != nil:
		return refuse(summary, "The cluster is being detached, and its agent has lost its rights.")
	case !object.Spec.AcceptsClient():
		return refuse(summary, "The cluster is not accepted, and the hub signs certificates for accepted ones only. "+
			"Accept it first, or have it join again with another agent: muster rejoin %s", r.cluster)
	case !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined):
		return refuse(summary, "The cluster has not joined, so that its agent has no certificate. Conditions:\n%s",
			hub.DescribeConditions(object.Status.Conditions, time.Now()))
	}
	return nil
}

// judge reports whether the agent has renewed its certificate: it says so in a
// condition, and has removed the request.
func (r *rotation) judge(object *clusterv1.ManagedCluster, exists bool) (bool, error) {
	if !exists {
		return false, refuse(fmt.Sprintf("Managed cluster %q is gone", r.cluster), "It was deleted while its agent "+
			"was to renew its certificate.")
	}
	if err := r.possible(object); err != nil {
		return false, err
	}
	r.mu.Lock()
	r.asking = object.Annotations[cluster.RenewCertificateAnnotation] != ""
	r.mu.Unlock()
	now := rotated(object)
	if now.Message == r.before.Message && now.Status == r.before.Status {
		return false, nil
	}
	if now.Status != metav1.ConditionTrue {
		r.say("The agent of %s tries again: %s", r.cluster, now.Message)
		return false, nil
	}
	return object.Annotations[cluster.RenewCertificateAnnotation] == "", nil
}

// look reports the agent's certificate request, and when nothing is heard.
func (r *rotation) look(ctx context.Context) {
	r.mu.Lock()
	asking := r.asking
	r.mu.Unlock()
	if !asking {
		return
	}
	pending, err := registration.PendingRequests(ctx, r.client, r.cluster)
	for _, name := range pending {
		if err == nil && !slices.Contains(r.requests, name) {
			r.requests = append(r.requests, name)
			r.say("The certificate request %s of %s waits for approval: kubectl certificate approve %s", name,
				r.cluster, name)
		}
	}
	if len(r.requests) == 0 {
		r.reportSilence(ctx)
	}
}

func (r *rotation) tooLate(ctx context.Context, object *clusterv1.ManagedCluster) error {
	looking, cancel := context.WithTimeout(ctx, hub.ReadBudget)
	defer cancel()
	return refuse(fmt.Sprintf("The agent of managed cluster %q has not renewed its certificate within %s", r.cluster,
		r.timeout),
		"The request was taken back. Either the agent does not run or can't reach the hub, or it does not know the "+
			"request: agents of Open Cluster Management renew by the time alone. "+
			"There, delete the Secret %s in the namespace %s of the managed cluster, which makes the agent ask for "+
			"another certificate, and approve it. Conditions:\n%s\n\n%s",
		cluster.HubKubeconfigSecret, cluster.AgentNamespace, hub.DescribeConditions(object.Status.Conditions,
			time.Now()),
		attribute.JoinLines(registration.DescribeWaitingRequests(looking, r.client, r.cluster, time.Now())))
}

// rotated is what the agent says of its certificate.
func rotated(object *clusterv1.ManagedCluster) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionCertificateRotated),
		metav1.Condition{})
}

// replayWork is muster_replay_work.
func replayWork() declaration {
	return declaration{
		name: "replay_work",
		description: "Has the agent apply all manifests of a manifest work once more, now, and waits for its report. " +
			"The agent forgets what it knows of the objects, and any pause after a quarrel with another controller " +
			"or a lack of rights. It fails when the manifests still can't be applied, with the reasons.\n\n" +
			"The action puts the annotation `" + work.ReplayAnnotation + "` on the ManifestWork, which the agent " +
			"removes when it has reported. Agents of Open Cluster Management apply the work then as well, and do not " +
			"answer: the action says so after a while, takes the annotation back and fails.",
		attributes: map[string]schema.Attribute{
			clusterName: attribute.Required("Name of the managed cluster.", attribute.ValidClusterName()),
			"name":      attribute.Required("Name of the manifest work.", attribute.ValidObjectName("work name")),
			"lift_complete": attribute.OptionalFlag("Whether to apply also a work that is `Complete`, whose objects " +
				"the agent otherwise leaves alone. As long as its condition rules say so, it is complete again " +
				"afterwards. A finished Job that still exists stays finished; delete it in the cluster first."),
		},
		takes: "the agent", timeout: defaultAnswer,
		doing: "replay the manifest work", to: []string{clusterName, "name"},
		do: replay,
	}
}

// replay has the agent apply all manifests of a work once more, and waits for its
// report.
func replay(ctx context.Context, r *run) error {
	object, name := &workv1.ManifestWork{}, r.Text("name")
	if err := r.find(ctx, object, &workv1.ManifestWorkList{}, "work", r.cluster, name); err != nil {
		if _, none := r.findCluster(ctx); none != nil {
			return none
		}
		return err
	}
	of := fmt.Sprintf("work %q of managed cluster %q", name, r.cluster)
	if object.DeletionTimestamp != nil {
		return refuse("The "+of+" is being deleted", "Its objects are being removed from the cluster, so that none "+
			"is applied.\n%s", hub.DescribeDeletion(object, time.Now()))
	}
	if meta.IsStatusConditionTrue(object.Status.Conditions, work.ConditionComplete) {
		if err := r.lift(ctx, object); err != nil {
			return err
		}
	}
	if err := r.ask(ctx, object, work.ReplayAnnotation, r.cluster, "apply the work "+name+" once more"); err != nil {
		return err
	}
	r.reportCluster(ctx)
	judge := func(exists bool) (bool, error) {
		if !exists || object.DeletionTimestamp != nil {
			return false, refuse("The "+of+" is being deleted", "Somebody deleted it while it was to be applied once "+
				"more.")
		}
		return object.Annotations[work.ReplayAnnotation] == "", nil
	}
	late := func() error {
		return refuse(fmt.Sprintf("The agent has not answered for the %s within %s", of, r.timeout),
			"The request was taken back. Either the agent does not run or can't reach the hub, or it does not know "+
				"the request. Agents of Open Cluster Management don't answer, and apply each work at every change "+
				"and every few minutes: what they last said of it:\n%s",
			hub.DescribeConditions(object.Status.Conditions, time.Now()))
	}
	leaves := fmt.Sprintf("The request to apply the work %q once more was taken back. The agent may have done so in "+
		"the meantime.", name)
	if err := r.answer(ctx, object, work.ReplayAnnotation, r.reportSilence, judge, late, leaves); err != nil {
		return err
	}
	return r.outcome(object)
}

// lift removes the condition by which the agent leaves a complete work alone.
func (r *run) lift(ctx context.Context, object *workv1.ManifestWork) error {
	if !r.Bool("lift_complete") {
		return refuse(fmt.Sprintf("The work %q of managed cluster %q is complete", object.Name, r.cluster),
			"A condition rule says that it has done what it is for, so the agent leaves its objects alone, and "+
				"would apply nothing. To apply it all the same, set lift_complete. A finished Job that still exists "+
				"stays finished: delete it in the cluster first to run it again.")
	}
	object = object.DeepCopy()
	meta.RemoveStatusCondition(&object.Status.Conditions, work.ConditionComplete)
	if err := r.client.UpdateSubresource(ctx, object, "status", requestManager); err != nil {
		return err
	}
	r.say("The work %s is no longer marked as complete.", object.Name)
	return nil
}

// reportCluster says when the agent can't answer at present.
func (r *run) reportCluster(ctx context.Context) {
	object := &clusterv1.ManagedCluster{}
	if r.client.Get(ctx, object, "", r.cluster) != nil {
		return
	}
	if s := standingOf(object, false); !s.reached {
		r.say("%s %s. Its agent answers when that has changed.", r.cluster, s.text)
	}
}

// outcome says what the agent reported.
func (r *run) outcome(object *workv1.ManifestWork) error {
	applied := meta.FindStatusCondition(object.Status.Conditions, work.ConditionApplied)
	if applied != nil && applied.Status == metav1.ConditionTrue && applied.ObservedGeneration == object.Generation {
		count := crud.Count(len(object.Spec.Workload.Manifests), "manifest")
		r.say("The agent has applied the work %s once more: %s.", object.Name, count)
		return nil
	}
	return refuse(fmt.Sprintf("The work %q of managed cluster %q could not be applied", object.Name, r.cluster),
		"The agent has tried once more, and goes on trying. It says:\n%s", attribute.JoinLines(failures(object)))
}

// failures are the conditions of a work, and what went wrong with its manifests.
func failures(object *workv1.ManifestWork) []string {
	reported := []string{hub.DescribeConditions(object.Status.Conditions, time.Now())}
	for _, m := range object.Status.ResourceStatus.Manifests {
		c := meta.FindStatusCondition(m.Conditions, work.ConditionApplied)
		if c != nil && c.Status != metav1.ConditionTrue {
			of := workload.Qualified(m.ResourceMeta.Namespace, m.ResourceMeta.Name)
			reported = append(reported, fmt.Sprintf("  %s %s: %s", m.ResourceMeta.Kind, of, c.Message))
		}
	}
	return append(reported[:min(len(reported), 6)],
		fmt.Sprintf("Next:\n  kubectl describe manifestwork -n %s %s", object.Namespace, object.Name))
}
