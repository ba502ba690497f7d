package replicaset

import (
	"cmp"
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// snapshot is all that a pass decides from.
type snapshot struct {
	set        *workv1alpha1.ManifestWorkReplicaSet
	placements []placement
	// works are all that have the set's label. Nobody may change them.
	works []*workv1.ManifestWork
	// contents are what its clusters are to have.
	contents contents
}

// placement is what a placement that the set names has selected.
type placement struct {
	name     string
	strategy clusterv1alpha1.RolloutStrategy
	selection.Placed
}

// refused are the clusters of the decisions that get no work.
func (s snapshot) refused() (names []string) {
	for _, p := range s.placements {
		for _, r := range p.Refused {
			names = append(names, r.Cluster)
		}
	}
	return names
}

func (c *Controller) snapshot(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) (snapshot, error) {
	s := snapshot{set: set}
	named := sets.Set[string]{}
	for _, ref := range set.Spec.PlacementRefs {
		if named.Has(ref.Name) {
			continue // a second strategy would contradict the first
		}
		named.Insert(ref.Name)
		p, err := c.placement(ctx, set.Namespace, ref)
		if err != nil {
			return s, err
		}
		s.placements = append(s.placements, p)
	}
	var err error
	if s.works, err = c.cached(ctx, set); err != nil {
		return s, err
	}
	s.contents, err = c.contents(ctx, set, s.selected())
	return s, err
}

// selected are the clusters of all placements, sorted.
func (s snapshot) selected() []string {
	all := sets.Set[string]{}
	for _, p := range s.placements {
		all = all.Union(p.Clusters)
	}
	return sets.List(all)
}

func (c *Controller) placement(ctx context.Context, namespace string, ref workv1alpha1.LocalPlacementReference) (placement, error) {
	placed, err := selection.Place(ctx, c.client, c.rule, types.NamespacedName{Namespace: namespace, Name: ref.Name})
	return placement{name: ref.Name, strategy: ref.RolloutStrategy, Placed: placed}, err
}

// plan is what to do in a pass, and what there is to report about it.
type plan struct {
	writes   []write
	deletes  []*workv1.ManifestWork
	outcomes []outcome
	// recheck is when time alone may change the plan; 0 if never.
	recheck time.Duration
	// gates says whether the rollout goes on; nil where there are no gates.
	gates *metav1.Condition
	// overridden says whether each cluster has its own content; nil where there is no
	// override.
	overridden *metav1.Condition
	// template makes the content of each cluster; nil where there is no override.
	template *override.Template
}

// write gives a cluster its content.
type write struct {
	cluster   string
	placement int // the outcome that it belongs to
	// work is the cluster's, which has another content or other labels, or nil
	// where there is none.
	work *workv1.ManifestWork
}

// outcome is the state of a placement's clusters.
type outcome struct {
	placement
	// works are those that have the content of their cluster, and are to stay.
	works []*workv1.ManifestWork
	// succeeded counts the clusters that are done with it.
	succeeded int
}

// decide plans a pass. It depends on nothing but its arguments.
func decide(s snapshot, now time.Time, needsProgressing bool) plan {
	d := decider{set: s.set, contents: s.contents, now: now, needsProgressing: needsProgressing}
	d.gated, d.unreadable = rollout.ReadGates(s.set.Annotations)
	byPlacement := map[string][]*workv1.ManifestWork{}
	for _, w := range s.works {
		name := w.Labels[work.PlacementNameLabel]
		byPlacement[name] = append(byPlacement[name], w)
	}
	stop := false
	for _, p := range s.placements {
		// Without one of its placements a set goes no further: what those after
		// it are given stays as it is.
		stop = stop || p.Missing
		d.placement(p, byPlacement[p.name], stop)
		delete(byPlacement, p.name)
	}
	for _, list := range byPlacement { // of placements that the set does not name any more
		for _, w := range list {
			d.remove(w)
		}
	}
	d.plan.gates = d.gates()
	d.plan.overridden, d.plan.template = s.contents.condition(), s.contents.template
	slices.SortFunc(d.plan.deletes, func(a, b *workv1.ManifestWork) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return d.plan
}

type decider struct {
	set              *workv1alpha1.ManifestWorkReplicaSet
	contents         contents
	now              time.Time
	needsProgressing bool
	gated            rollout.Gated
	// unreadable is why the gates can't be read: nobody knows then what they hold back.
	unreadable error
	holds      []*rollout.Hold

	plan plan
}

// placement plans for the clusters of one placement. stop says that nothing is
// to be handed out.
func (d *decider) placement(p placement, present []*workv1.ManifestWork, stop bool) {
	o := outcome{placement: p}
	keeping := stop || p.Problem != nil
	kept := d.sort(p, present, keeping)
	var existing []rollout.ClusterStatus
	for _, w := range kept {
		if d.contents.problem != nil && w.DeletionTimestamp.IsZero() {
			o.works = append(o.works, w) // what it is to have is not known, and it stays as it is
		}
		if !d.has(w) {
			continue
		}
		status := rollout.OfWork(w, d.needsProgressing)
		if w.DeletionTimestamp.IsZero() {
			o.works = append(o.works, w)
			if status.Status == rollout.Succeeded {
				o.succeeded++
			}
		} else {
			// It has to go before its cluster can have another.
			status = rollout.ClusterStatus{Cluster: w.Namespace, Status: rollout.ToApply}
		}
		existing = append(existing, status)
	}
	if !keeping && d.contents.problem == nil {
		for _, cluster := range d.contents.without() {
			if p.Clusters.Has(cluster) { // its work, if it has one, stays as it is
				existing = append(existing, rollout.ClusterStatus{Cluster: cluster, Status: rollout.Failed})
			}
		}
		result, err := rollout.Decide(p.strategy, p.Groups, existing, d.now)
		o.Problem = err
		d.holdBack(&result, p.Groups, kept)
		for _, s := range result.ToRollout {
			if s.Status == rollout.ToApply {
				d.handOut(p.name, s.Cluster, kept[s.Cluster])
			}
		}
		if r := result.RecheckAfter; r > 0 && (d.plan.recheck == 0 || r < d.plan.recheck) {
			d.plan.recheck = r
		}
	}
	d.plan.outcomes = append(d.plan.outcomes, o)
}

// holdBack takes out of a result what waits for a gate.
func (d *decider) holdBack(result *rollout.Result, groups []rollout.Group, kept map[string]*workv1.ManifestWork) {
	has := func(cluster string) bool { return kept[cluster] != nil && d.has(kept[cluster]) }
	if d.unreadable != nil {
		result.ToRollout = slices.DeleteFunc(result.ToRollout,
			func(s rollout.ClusterStatus) bool { return !has(s.Cluster) })
		return
	}
	if hold := d.gated.Hold(result, groups, override.Content(d.set), has, d.now); hold != nil {
		d.holds = append(d.holds, hold)
	}
}

// gates says whether the rollout goes on. The first placement that waits speaks for all.
func (d *decider) gates() *metav1.Condition {
	c := metav1.Condition{Type: muster.ConditionGatesOpen, Status: metav1.ConditionFalse}
	switch {
	case d.unreadable != nil:
		c.Reason, c.Message = muster.ReasonGatesUnreadable, "nothing is handed out: "+d.unreadable.Error()
		return &c
	case len(d.gated.Gates) == 0 && !d.gated.Paused:
		return nil
	case len(d.holds) > 0:
		c.Reason, c.Message = d.holds[0].Reason(), d.holds[0].Message(d.set.Namespace+"/"+d.set.Name)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, muster.ReasonNothingHeldBack,
			"no cluster waits for a gate"
	}
	if approved := d.gated.Approved(override.Content(d.set)); approved != "" {
		c.Message += "; " + approved
	}
	return &c
}

// sort chooses the work of each cluster, and removes the works of clusters that
// are not selected any more, and second works of a cluster: two hubs at a time,
// or an earlier version, may have made them. keeping removes none. While a
// placement is not settled, its decisions are being rewritten: a cluster that
// moves from one to another is in none for a moment, and keeps its work.
func (d *decider) sort(p placement, present []*workv1.ManifestWork, keeping bool) map[string]*workv1.ManifestWork {
	present = slices.Clone(present)
	slices.SortFunc(present, func(a, b *workv1.ManifestWork) int { // the living before the dying, the oldest first
		return cmp.Or(compareBool(!a.DeletionTimestamp.IsZero(), !b.DeletionTimestamp.IsZero()),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	kept := map[string]*workv1.ManifestWork{}
	for _, w := range present {
		_, twice := kept[w.Namespace]
		switch {
		case keeping && !twice:
			kept[w.Namespace] = w
		case keeping:
		case twice, p.Settled && !p.Clusters.Has(w.Namespace):
			d.remove(w)
		default:
			kept[w.Namespace] = w
		}
	}
	return kept
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (d *decider) remove(w *workv1.ManifestWork) {
	if w.DeletionTimestamp.IsZero() {
		d.plan.deletes = append(d.plan.deletes, w)
	}
}

// has reports whether a work has the content of its cluster.
func (d *decider) has(w *workv1.ManifestWork) bool {
	return workdigest.Of(w.Spec) == d.contents.of(w.Namespace)
}

// handOut plans to give a cluster its content, unless it has it already. A work
// that is being deleted has to go first.
func (d *decider) handOut(placement, cluster string, have *workv1.ManifestWork) {
	if have != nil && !have.DeletionTimestamp.IsZero() {
		return
	}
	if have != nil && d.has(have) && hasLabels(have, labelsOf(d.set, placement)) {
		return
	}
	d.plan.writes = append(d.plan.writes, write{cluster: cluster, placement: len(d.plan.outcomes), work: have})
}

func hasLabels(w *workv1.ManifestWork, labels map[string]string) bool {
	for k, v := range labels {
		if have, ok := w.Labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}
