package replicaset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// When a replica set is what a wait waits for.

type waitModel struct {
	RolledOut  types.Bool     `tfsdk:"rolled_out"`
	Conditions []types.String `tfsdk:"conditions"`
}

func waitAttribute() crud.WaitAttribute {
	return crud.WaitAttribute{
		Kind: "replica set", Failing: "muster_manifest_work_replica_set_wait",
		Lost:    "the replica set and all of its works",
		Notes:   earlyEnd,
		Options: waitOptions(),
	}
}

// earlyEnd says when a wait ends before its timeout.
const earlyEnd = "A wait for the rollout ends before its timeout when its outcome is certain: 3 seconds after a " +
	"cluster has refused an object for good, such as for a field that its API server does not take; 30 seconds " +
	"after one has refused an object for a reason that somebody may put right; when the rollout has stopped, " +
	"because more clusters have failed than `max_failures` allows, and none has recovered within 30 seconds; and 3 " +
	"seconds after `progress_deadline` has passed in clusters that hold it up. A missing namespace, a webhook that " +
	"does not answer, and a cluster that is away are waited for."

// waitOf is the attribute wait; nil without one.
func waitOf(values attribute.Values) *waitModel { return attribute.As[*waitModel](values["wait"]) }

// waitOptions are what there is to wait for.
func waitOptions() crud.WaitOptions {
	return crud.WaitOptions{
		crud.WaitFlag("rolled_out", "Whether to wait until the manifests have succeeded in every cluster that the "+
			"placements select, as `rolled_out` of the replica set reports. It also waits for placements that select "+
			"no cluster."),
		crud.WaitConditions("Conditions of the replica set to wait for, each as its type, which then has to be true, " +
			"or as `type=status`, such as `ManifestworkApplied` or `PlacementVerified=True`."),
	}
}

// wait waits for a replica set. written is the last write, about which older conditions
// say nothing; nil if there is none.
func (m *waitModel) wait(
	client *kube.Client, object replicaSet, written *replicaSetMark, timeout time.Duration,
) *crud.Wait {
	w := &crud.Wait{
		Client: client, Object: object, Timeout: timeout,
		What: what(object), Resource: "manifestworkreplicaset",
		Missing:    func() []string { return m.missing(object, written) },
		GivenUp:    whyGivenUp,
		Conditions: func() []metav1.Condition { return object.Status.Conditions },
		Details:    func(ctx context.Context) []string { return describeRollout(ctx, client, object) },
		Next:       []string{listWorks(object)},
	}
	if m.needsWorks() {
		a := &awaited{client: client, object: object}
		w.Follow, w.Troubles = a.follow, a.troubles
	}
	return w
}

// needsWorks reports whether the wait is met only when all works are done.
func (m *waitModel) needsWorks() bool {
	return slices.ContainsFunc(m.wanted(), func(c attribute.WaitCondition) bool {
		return c.Status == metav1.ConditionTrue &&
			(c.Type == work.ConditionPlacementRolledOut || c.Type == work.ConditionManifestworkApplied)
	})
}

// wanted are the conditions to wait for.
func (m *waitModel) wanted() []attribute.WaitCondition {
	return attribute.WaitConditionsAnd(m.Conditions, m.RolledOut, work.ConditionPlacementRolledOut)
}

// missing lists what is not as the wait wants it. muster's hub notes the generation in
// conditions. Upstream's does not: there, a condition is about the present unless it stood
// before the last write and nothing was reported since.
//
// With no clusters the hub calls the rollout complete, as there is nothing left to do;
// but a placement that has not been decided yet looks the same, so that the placements
// have to be in order as well.
func (m *waitModel) missing(object replicaSet, written *replicaSetMark) []string {
	have := object.Status.Conditions
	var missing []string
	for _, c := range m.wanted() {
		why := c.Unmet(have, object.Generation, "the hub")
		if why == "" && written != nil && meta.FindStatusCondition(have, c.Type).ObservedGeneration == 0 &&
			!written.supersededBy(object) {
			why = "it was reported before the last change"
		}
		if why != "" {
			missing = append(missing, c.String()+": "+why)
		}
	}
	if !override.Reported(object) {
		missing = append(missing,
			muster.ConditionOverridden+": the hub has yet to look at the last change of the override")
	}
	if m.RolledOut.ValueBool() && meta.IsStatusConditionFalse(have, work.ConditionPlacementVerified) {
		missing = append(missing, "rolled_out: "+work.ConditionPlacementVerified+" is False")
	}
	return missing
}

// rolledOut reports whether the present template has succeeded in every cluster.
func rolledOut(object replicaSet, written *replicaSetMark) bool {
	return len((&waitModel{RolledOut: types.BoolValue(true)}).missing(object, written)) == 0
}

// awaited is a replica set that is waited for, with its works.
type awaited struct {
	client *kube.Client

	mu     sync.Mutex
	object replicaSet
	// template is the digest of the template of this generation; empty before the
	// replica set was seen.
	template   string
	generation int64
	// own are the digests of what each cluster is to have of a replica set with an
	// override; nil where that is the template.
	own   map[string]string
	works []*workv1.ManifestWork
}

// follow looks at each change of the replica set and of its works.
func (a *awaited) follow(ctx context.Context, look func() (bool, error)) error {
	namespace, name := a.object.Namespace, a.object.Name
	return kube.First(ctx,
		func(ctx context.Context) error {
			seen := &workv1alpha1.ManifestWorkReplicaSet{}
			return a.client.Wait(ctx, seen, namespace, name, func(exists bool) (bool, error) {
				if !exists {
					return false, errors.New("it was deleted meanwhile")
				}
				template := override.Content(seen)
				var own map[string]string
				if a.template != template { // nobody else writes it
					own = ownDigests(ctx, a.client, seen)
				}
				a.mu.Lock()
				defer a.mu.Unlock()
				*a.object = *seen.DeepCopy()
				if a.template != template || a.generation != seen.Generation {
					a.template, a.generation = template, seen.Generation
					a.own = own
				}
				return look()
			})
		},
		func(ctx context.Context) error {
			options, ok := worksOf(namespace, name)
			if !ok {
				<-ctx.Done()
				return ctx.Err()
			}
			return FollowWorks(ctx, a.client, options, func(works []*workv1.ManifestWork) (bool, error) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.works = works
				if a.template == "" {
					return false, nil
				}
				return look()
			})
		},
	)
}

// ownDigests are the digests of what the clusters of the fleet get of a set with an override:
// none for clusters that get nothing, and nil for a set without one.
func ownDigests(ctx context.Context, client *kube.Client, set replicaSet) map[string]string {
	template, err := templateOf(ctx, client, set)
	if template == nil && err == nil {
		return nil
	}
	own := map[string]string{}
	clusters := &clusterv1.ManagedClusterList{}
	if err != nil || client.List(ctx, clusters, kube.ListOptions{}) != nil {
		return own
	}
	for i := range clusters.Items {
		own[clusters.Items[i].Name] = template.DigestFor(ctx, &clusters.Items[i])
	}
	return own
}

// FollowWorks shows works, by cluster and name and without their objects, whenever one
// of them changes, until look says that the wait is met. Where works may not be read, it
// shows none, and ends with ctx.
func FollowWorks(
	ctx context.Context, client *kube.Client, options kube.ListOptions, look func([]*workv1.ManifestWork) (bool, error),
) error {
	all, one := &workv1.ManifestWorkList{}, &workv1.ManifestWork{}
	if client.WaitObjects(ctx, all, one, options, func(objects map[string]kube.Object) (bool, error) {
		var works []*workv1.ManifestWork
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if w, ok := objects[key].(*workv1.ManifestWork); ok {
				makeLean(w)
				works = append(works, w)
			}
		}
		return look(works)
	}) == nil {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// troubles are why the works will not be done. Works that have yet to get the present
// template say nothing about it. The caller holds the lock.
func (a *awaited) troubles() []kube.Trouble {
	if a.template == "" {
		return nil
	}
	var present []*workv1.ManifestWork
	for _, w := range a.works {
		wanted := a.template
		if a.own != nil {
			wanted = a.own[w.Namespace]
		}
		if w.DeletionTimestamp == nil && workdigest.Of(w.Spec) == wanted {
			present = append(present, w)
		}
	}
	return troublesOf(a.object, present, time.Now())
}

// troublesOf are why works that have the present template will not be done: what their
// agents can't apply, and rollouts that have stopped.
func troublesOf(set replicaSet, works []*workv1.ManifestWork, now time.Time) []kube.Trouble {
	var troubles []kube.Trouble
	c := meta.FindStatusCondition(set.Status.Conditions, muster.ConditionOverridden)
	if c != nil && c.Status == metav1.ConditionFalse && override.Reported(set) {
		troubles = append(troubles, kube.Trouble{
			Text: rollout.SaidOfOverride(c.Message), After: workload.LastingPatience,
		})
	}
	byPlacement := map[string][]rollout.ClusterStatus{}
	for _, w := range works {
		troubles = append(troubles, workload.TroublesIn(w)...)
		placement := w.Labels[work.PlacementNameLabel]
		byPlacement[placement] = append(byPlacement[placement], rollout.OfWork(w, false))
	}
	for _, ref := range set.Spec.PlacementRefs {
		if t, ok := stopped(set, ref, byPlacement[ref.Name], now); ok {
			troubles = append(troubles, t)
		}
	}
	return troubles
}

// stoppedIn begins the text of a rollout that has stopped.
const stoppedIn = "the rollout has stopped in placement"

// stopped tells that a rollout goes no further in a placement, and how soon that is
// certain: a cluster that fails may recover, and one that makes progress has until its
// deadline. A cluster that has not taken the change in yet is waited for, unless too
// many have failed already.
func stopped(
	set replicaSet, ref workv1alpha1.LocalPlacementReference, clusters []rollout.ClusterStatus, now time.Time,
) (kube.Trouble, bool) {
	deadline, limited, err := rollout.Deadline(ref.RolloutStrategy)
	if err != nil {
		return kube.Trouble{}, false
	}
	failed, underWay := 0, false
	var certain, due time.Duration
	for _, c := range clusters {
		timed := limited && !c.Since.IsZero()
		left := workload.DefinitePatience + max(0, c.Since.Add(deadline).Sub(now))
		switch {
		case c.Status == rollout.Succeeded:
		case c.Status == rollout.ToApply, c.Status == rollout.Progressing && !timed:
			underWay = true
		case c.Status == rollout.Progressing && left > workload.DefinitePatience:
			due = max(due, left)
		case timed:
			failed, certain = failed+1, max(certain, min(left, workload.LastingPatience))
		default:
			failed, certain = failed+1, workload.LastingPatience
		}
	}
	total, known := selected(set, ref.Name)
	switch {
	case known && failed > rollout.Tolerated(ref.RolloutStrategy, total):
	case underWay, failed == 0 && due == 0:
		return kube.Trouble{}, false
	default:
		certain = max(certain, due)
	}
	return kube.Trouble{Text: fmt.Sprintf("%s %s: %v", stoppedIn, ref.Name, clusters), After: certain}, true
}

// applied is how the hub counts the clusters of a placement.
var applied = regexp.MustCompile(`\((\d+) / (\d+) clusters applied\)`)

// selected is how many clusters a placement has selected, as far as the hub says.
func selected(set replicaSet, placement string) (n int, known bool) {
	for _, p := range set.Status.PlacementsSummary {
		if counts := applied.FindStringSubmatch(p.AvailableDecisionGroups); p.Name == placement && counts != nil {
			n, err := strconv.Atoi(counts[2])
			return n, err == nil
		}
	}
	return 0, false
}

// Wait is muster_manifest_work_replica_set_wait.
func Wait() crud.Declared {
	return crud.WaitResource[replicaSet]{
		Type: "manifest_work_replica_set_wait", Noun: "manifest work replica set",
		Empty: &workv1alpha1.ManifestWorkReplicaSet{},
		Description: "Waits until a manifest work replica set is rolled out, or has conditions, and fails the run " +
			"when it is not. It creates nothing and destroys nothing. Let everything depend on it that needs the " +
			"objects in the clusters.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but neither the replica " +
			"set nor its works are touched, and the next apply waits again. `wait` of " +
			"`muster_manifest_work_replica_set` can't do that after a creation. With `generation` it waits again " +
			"for each change of the replica set. It relies on the generation that a muster hub notes in its " +
			"conditions: on a hub that does not, use `wait` of the replica set. " +
			earlyEnd,
		Keys: []crud.Key{
			{Name: "namespace", Description: "Namespace of the replica set.", Valid: attribute.ValidName("namespace")},
			{Name: "name", Description: "Name of the replica set.", Valid: validName()},
		},
		Options: waitOptions(),
		Again:   workload.GenerationToWaitFor[replicaSet]("muster_manifest_work_replica_set"),
		Wait: func(ctx context.Context, c *change, options types.Object) (summary, problem string) {
			wait := attribute.As[*waitModel](options)
			summary, problem = wait.wait(c.Client, c.Object, nil, c.Timeout).Run(ctx)
			return summary, content().Live(c.Object).Masked(problem)
		},
	}.Kind()
}
