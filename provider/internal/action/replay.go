package action

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// replayWork is muster_replay_work.
func replayWork() declaration {
	return declaration{
		name: "replay_work",
		description: "Has the agent apply all manifests of a manifest work once more, now, and waits for its report. " +
			"The agent forgets what it knows of the objects, and any pause after a quarrel with another controller " +
			"or a lack of rights. " +
			"It fails when the manifests still can't be applied, with the reasons.\n\n" +
			"The action puts the annotation `" + work.ReplayAnnotation + "` on the ManifestWork, which the agent " +
			"removes when it has reported. " +
			"Agents of Open Cluster Management apply the work then as well, and do not answer: the action says so " +
			"after a while, takes the annotation back and fails.",
		attributes: map[string]schema.Attribute{
			clusterName: required("Name of the managed cluster.", attribute.ValidClusterName()),
			"name":      required("Name of the manifest work.", attribute.ValidObjectName("work name")),
			"lift_complete": flag("Whether to apply also a work that is `Complete`, whose objects the agent " +
				"otherwise leaves alone. As long as its condition rules say so, it is complete again afterwards. " +
				"A finished Job that still exists stays finished; delete it in the cluster first."),
		},
		takes: "the agent", timeout: defaultAnswer,
		doing: "replay the manifest work", to: []string{clusterName, "name"},
		do: func(ctx context.Context, r *run) error { return (&replaying{run: r, work: r.Text("name")}).replay(ctx) },
	}
}

// replay has the agent apply all manifests of a work once more, and waits for its
// report.
func (r *replaying) replay(ctx context.Context) error {
	object, err := r.find(ctx)
	if err != nil {
		return err
	}
	of := fmt.Sprintf("work %q of managed cluster %q", r.work, r.cluster)
	if object.DeletionTimestamp != nil {
		return refuse("The "+of+" is being deleted", "Its objects are being removed from the cluster, so that none "+
			"is applied.\n%s", hub.DescribeDeletion(object, r.Clock.Now()))
	}
	if meta.IsStatusConditionTrue(object.Status.Conditions, work.ConditionComplete) {
		if err := r.lift(ctx, object); err != nil {
			return err
		}
	}
	asked, err := r.ask(ctx, object, work.ReplayAnnotation)
	if err != nil {
		return err
	}
	if asked {
		r.say("The agent of %s is asked to apply the work %s once more.", r.cluster, r.work)
	} else {
		r.say("Somebody has asked the agent of %s to apply the work %s once more already.", r.cluster, r.work)
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
				"the request. "+
				"Agents of Open Cluster Management don't answer, and apply each work at every change and every few "+
				"minutes: what they last said of it:\n%s",
			hub.DescribeConditions(object.Status.Conditions, r.Clock.Now()))
	}
	leaves := fmt.Sprintf("The request to apply the work %q once more was taken back. The agent may have done so in "+
		"the meantime.", r.work)
	if err := r.answer(ctx, object, work.ReplayAnnotation, r.reportSilence, judge, late, leaves); err != nil {
		return err
	}
	return r.outcome(object)
}

// replaying is the replay of one work.
type replaying struct {
	*run
	work string
}

// find reads the work, which has to exist.
func (r *replaying) find(ctx context.Context) (*workv1.ManifestWork, error) {
	object := &workv1.ManifestWork{}
	err := r.client.Get(ctx, object, r.cluster, r.work)
	if !kube.IsNotFound(err, r.work) {
		return object, err
	}
	if _, err := find(ctx, r.client, r.cluster); err != nil {
		return nil, err
	}
	names := namesIn(ctx, r.client, &workv1.ManifestWorkList{}, kube.ListOptions{Namespace: r.cluster})
	advice := "The cluster has none at all."
	if len(names) > 0 {
		advice = orElse(r.work, "work", names)
	}
	return nil, refuse(fmt.Sprintf("There is no work %q of managed cluster %q", r.work, r.cluster), "The hub %s has "+
		"no ManifestWork of this name in the cluster's namespace. %s", r.client.Host(), advice)
}

// lift removes the condition by which the agent leaves a complete work alone.
func (r *replaying) lift(ctx context.Context, object *workv1.ManifestWork) error {
	if !r.Bool("lift_complete") {
		return refuse(fmt.Sprintf("The work %q of managed cluster %q is complete", r.work, r.cluster),
			"A condition rule says that it has done what it is for, so the agent leaves its objects alone, and would "+
				"apply nothing. "+
				"To apply it all the same, set lift_complete. A finished Job that still exists stays finished: "+
				"delete it in the cluster first to run it again.")
	}
	object = object.DeepCopy()
	meta.RemoveStatusCondition(&object.Status.Conditions, work.ConditionComplete)
	if err := r.client.UpdateSubresource(ctx, object, "status", requestManager); err != nil {
		return err
	}
	r.say("The work %s is no longer marked as complete.", r.work)
	return nil
}

// reportCluster says when the agent can't answer at present.
func (r *replaying) reportCluster(ctx context.Context) {
	object := &clusterv1.ManagedCluster{}
	if r.client.Get(ctx, object, "", r.cluster) != nil {
		return
	}
	if s := standingOf(object, false); !s.reached {
		r.say("%s %s. Its agent answers when that has changed.", r.cluster, s.text)
	}
}

// outcome says what the agent reported.
func (r *replaying) outcome(object *workv1.ManifestWork) error {
	applied := meta.FindStatusCondition(object.Status.Conditions, work.ConditionApplied)
	if applied != nil && applied.Status == metav1.ConditionTrue && applied.ObservedGeneration == object.Generation {
		r.say("The agent has applied the work %s once more: %s", r.work, plural(len(object.Spec.Workload.Manifests),
			"manifest")+".")
		return nil
	}
	return refuse(fmt.Sprintf("The work %q of managed cluster %q could not be applied", r.work, r.cluster),
		"The agent has tried once more, and goes on trying. It says:\n%s", lines(failures(object, r.Clock.Now())...))
}

// failures are the conditions of a work, and what went wrong with its manifests.
func failures(object *workv1.ManifestWork, now time.Time) []string {
	reported := []string{hub.DescribeConditions(object.Status.Conditions, now)}
	for _, m := range object.Status.ResourceStatus.Manifests {
		if c := meta.FindStatusCondition(m.Conditions, work.ConditionApplied); c != nil &&
			c.Status != metav1.ConditionTrue {
			reported = append(reported, fmt.Sprintf("  %s %s: %s", m.ResourceMeta.Kind,
				strings.TrimPrefix(m.ResourceMeta.Namespace+
					"/"+m.ResourceMeta.Name, "/"), c.Message))
		}
	}
	return append(reported[:min(len(reported), 6)],
		fmt.Sprintf("Next:\n  kubectl describe manifestwork -n %s %s", object.Namespace, object.Name))
}
