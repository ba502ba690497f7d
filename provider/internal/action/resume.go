package action

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/replicaset"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// resumeRollout is muster_resume_rollout.
func resumeRollout() declaration {
	return declaration{
		name: "resume_rollout",
		description: "Resumes the rollout of a manifest work replica set that has stopped because clusters failed. " +
			"The hub goes on when the works that have failed recover, so the action has their agents apply them once " +
			"more, or the hub make them again (`recreate`), " +
			"and waits until none of them fails any more. It tells the state of each, and how far the rollout is.\n\n" +
			"It does not change how many failures are tolerated: that is `max_failures` of the rollout strategy. " +
			"Other manifests begin a rollout of their own.",
		attributes: map[string]schema.Attribute{
			"namespace": attribute.Required("Namespace of the replica set.", attribute.ValidName("namespace")),
			"name":      attribute.Required("Name of the replica set.", attribute.ValidObjectName("replica set name")),
			"managed_clusters": someClusters("Names of the clusters whose works are tried again. If omitted, all " +
				"that have failed: the work could not be applied, is `Degraded`, or has been `Progressing` for " +
				"longer than the strategy's `progress_deadline`."),
			"recreate": attribute.OptionalFlag("Whether to delete the works that have failed, so that the hub makes " +
				"them again. **Their objects are removed from the clusters and created again.** This is for objects " +
				"that can't recover, such as a Job that has used up its attempts."),
			"rolled_out": attribute.OptionalFlag("Whether to wait until the rollout has reached all clusters, " +
				"beyond the recovery of those that have failed."),
		},
		takes: "the wait", timeout: attribute.DefaultWait,
		doing: "resume the rollout of replica set", to: []string{"namespace", "name"},
		do: func(ctx context.Context, r *run) error {
			return (&resuming{
				run: r, namespace: r.Text("namespace"), set: r.Text("name"), clusters: r.Texts("managed_clusters"),
				recreate: r.Bool("recreate"), rolledOut: r.Bool("rolled_out"), reported: map[string]string{},
				object: &workv1alpha1.ManifestWorkReplicaSet{},
			}).resume(ctx)
		},
	}
}

// resume tries the works of a replica set again that have failed, which is what a
// rollout stops at, and waits until none of them fails any more.
func (r *resuming) resume(ctx context.Context) error {
	list := &workv1alpha1.ManifestWorkReplicaSetList{}
	if err := r.find(ctx, r.object, list, "replica set", r.namespace, r.set); err != nil {
		return err
	}
	if r.object.DeletionTimestamp != nil {
		return refuse(fmt.Sprintf("The replica set %q is being deleted", r.name()), "Its works are removed from all "+
			"clusters.\n%s", hub.DescribeDeletion(r.object, time.Now()))
	}
	works, err := replicaset.Works(ctx, r.client, r.namespace, r.set)
	if err != nil {
		return err
	}
	if err := r.choose(works); err != nil {
		return err
	}
	if done, _ := r.over(); done && len(r.retried) == 0 {
		r.say("The rollout of %s is complete. Nothing is to be resumed.", r.name())
		return nil
	}
	if len(r.retried) == 0 {
		r.say("No work of %s has failed: its rollout has not stopped.", r.name())
		if !r.rolledOut {
			return nil
		}
	}
	if err := r.retry(ctx); err != nil {
		return err
	}
	err = r.wait(ctx, nil, r.await, func() error { return r.tooLate(ctx) },
		"The works that have failed were tried again, and nobody waits for the rollout any more. The hub goes on "+
			"with it as it can.")
	switch {
	case err == nil && r.rolledOut:
		r.say("The rollout of %s is complete.", r.name())
	case err == nil:
		r.say("The rollout of %s goes on: %s.", r.name(), replicaset.DescribeSummary(r.object.Status.Summary))
	}
	return err
}

// resuming is one rollout.
type resuming struct {
	*run
	namespace, set string
	// clusters are those whose works are tried again; all that have failed by default.
	clusters            []string
	recreate, rolledOut bool
	object              *workv1alpha1.ManifestWorkReplicaSet
	// retried are the works that are tried again.
	retried []workv1.ManifestWork

	mu       sync.Mutex
	reported map[string]string
}

func (r *resuming) name() string { return r.namespace + "/" + r.set }

// choose finds the works that are to be tried again.
func (r *resuming) choose(works []workv1.ManifestWork) error {
	var clusters []string
	for i := range works {
		w := &works[i]
		clusters = append(clusters, w.Namespace)
		if w.DeletionTimestamp == nil && (len(r.clusters) == 0 || slices.Contains(r.clusters, w.Namespace)) &&
			r.failed(w) {
			r.retried = append(r.retried, *w)
		}
	}
	for _, name := range r.clusters {
		if !slices.Contains(clusters, name) {
			return refuse(fmt.Sprintf("The replica set %q has no work in the cluster %q", r.name(), name),
				"Its works are in these clusters. %s", orElse(name, "work", slices.Compact(clusters)))
		}
	}
	return nil
}

// failed reports whether a work is one that stops a rollout: it could not be
// applied, is in trouble, or has been on its way for longer than it may.
func (r *resuming) failed(w *workv1.ManifestWork) bool {
	is := func(kind string, status metav1.ConditionStatus) *metav1.Condition {
		c := meta.FindStatusCondition(w.Status.Conditions, kind)
		if c == nil || c.Status != status || c.ObservedGeneration != 0 && c.ObservedGeneration < w.Generation {
			return nil
		}
		return c
	}
	if is(work.ConditionApplied, metav1.ConditionFalse) != nil ||
		is(work.ConditionDegraded, metav1.ConditionTrue) != nil {
		return true
	}
	progressing := is(work.ConditionProgressing, metav1.ConditionTrue)
	if progressing == nil {
		return false
	}
	for _, ref := range r.object.Spec.PlacementRefs {
		if ref.Name != w.Labels[work.PlacementNameLabel] {
			continue
		}
		deadline, limited, err := rollout.Deadline(ref.RolloutStrategy)
		return err == nil && limited && time.Since(progressing.LastTransitionTime.Time) >= deadline
	}
	return false
}

// retry has the works tried again.
func (r *resuming) retry(ctx context.Context) error {
	for i := range r.retried {
		w := r.retried[i].DeepCopy()
		if r.recreate {
			r.say("The work %s/%s is deleted, and the hub makes it again (%s).", w.Namespace, w.Name,
				replicaset.WorkTrouble(w))
			if _, err := r.client.Delete(ctx, w, w.Namespace, w.Name, w.UID); err != nil {
				return err
			}
			continue
		}
		what := fmt.Sprintf("apply the work %s once more (%s)", w.Name, replicaset.WorkTrouble(w))
		if err := r.ask(ctx, w, work.ReplayAnnotation, w.Namespace, what); err != nil {
			return err
		}
	}
	return nil
}

// await follows the works and the replica set.
func (r *resuming) await(ctx context.Context) error {
	selector := kube.ListOptions{LabelSelector: work.ReplicaSetLabel + "=" + r.namespace + "." + r.set}
	err := r.client.WaitObjects(ctx, &workv1.ManifestWorkList{}, &workv1.ManifestWork{}, selector,
		func(objects map[string]kube.Object) (bool, error) {
			return r.recovered(objects), nil
		})
	if err != nil {
		return err
	}
	return r.client.Wait(ctx, r.object, r.namespace, r.set, func(exists bool) (bool, error) {
		if !exists || r.object.DeletionTimestamp != nil {
			return false, refuse(fmt.Sprintf("The replica set %q is being deleted", r.name()), "Somebody deleted it "+
				"while its rollout was to go on.")
		}
		done, said := r.over()
		if !done {
			r.say("%s", said)
		}
		return done || !r.rolledOut, nil
	})
}

// recovered reports whether none of the works that are tried again fails.
func (r *resuming) recovered(objects map[string]kube.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := true
	for i := range r.retried {
		was := &r.retried[i]
		text, done := "", false
		for _, object := range objects {
			w, ok := object.(*workv1.ManifestWork)
			same := ok && w.Namespace == was.Namespace &&
				w.Labels[work.PlacementNameLabel] == was.Labels[work.PlacementNameLabel]
			if !same || r.recreate && w.UID == was.UID {
				continue
			}
			text = replicaset.WorkTrouble(w)
			done = w.Annotations[work.ReplayAnnotation] == "" && !r.failed(w) &&
				meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied) != nil
		}
		switch {
		case done:
			text = "the work has recovered"
		case text == "":
			text = "there is no new work yet"
		}
		if r.reported[was.Namespace+was.Name] != text {
			r.reported[was.Namespace+was.Name] = text
			r.say("%s: %s.", was.Namespace, strings.TrimSuffix(text, "."))
		}
		all = all && done
	}
	return all
}

// over reports whether the rollout has reached all clusters, or how far it is.
func (r *resuming) over() (bool, string) {
	c := meta.FindStatusCondition(r.object.Status.Conditions, work.ConditionPlacementRolledOut)
	done := c != nil && c.Status == metav1.ConditionTrue &&
		(c.ObservedGeneration == 0 || c.ObservedGeneration >= r.object.Generation)
	var reported []string
	for _, p := range r.object.Status.PlacementsSummary {
		reported = append(reported, fmt.Sprintf("placement %s: %s; %s", p.Name, p.AvailableDecisionGroups,
			replicaset.DescribeSummary(p.Summary)))
	}
	return done, strings.Join(reported, "; ")
}

func (r *resuming) tooLate(ctx context.Context) error {
	advice := "The failures may need another manifest: apply a corrected one, and the rollout begins again with it."
	if !r.recreate {
		advice += " Objects that can't recover, such as a Job that has used up its attempts, are created again with " +
			"recreate."
	}
	detail := replicaset.DescribeHeldUp(ctx, r.client, r.object)
	return refuse(fmt.Sprintf("The rollout of replica set %q has not gone on within %s", r.name(), r.timeout),
		"%s\n\n%s", attribute.JoinLines(detail), advice)
}
