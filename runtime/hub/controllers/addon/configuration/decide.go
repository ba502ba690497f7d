package configuration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// snapshot is all that a pass decides from. Nobody may change what is in it.
type snapshot struct {
	definition *v1alpha1.ClusterManagementAddOn
	// placed are the selections of the add-on's placements, in their order.
	placed []selection.Placed
	// addOns are the add-on in clusters.
	addOns []*v1alpha1.ManagedClusterAddOn
	// objects are the configuration objects of an add-on that the hub manages: one
	// from a template. It is nil for others.
	objects *objects
}

// plan is what to write.
type plan struct {
	status  v1alpha1.ClusterManagementAddOnStatus
	changes []change
	// refused says which clusters the decisions of placements name and get nothing,
	// where that is news.
	refused []string
	// approved says who has approved a group of the rollout, where that is news.
	approved string
	// recheck is when time alone may change the plan; 0 if never.
	recheck time.Duration
}

// change is what a ManagedClusterAddOn's status is to say.
type change struct {
	addOn      *v1alpha1.ManagedClusterAddOn
	references []v1alpha1.ConfigReference
	configured bool
	// kinds are the kinds of configuration that the add-on understands; nil leaves
	// what is there.
	kinds []v1alpha1.ConfigGroupResource
	// restart has the deadline of the rollout count from now. Upstream counts from
	// when the add-on began to progress with an earlier configuration, if it still
	// does, and may give up on the new one at once.
	restart bool
}

func (x change) condition() metav1.Condition {
	if x.configured {
		return metav1.Condition{Type: addon.ConditionConfigured, Status: metav1.ConditionTrue,
			Reason: addon.ReasonConfigurationsConfigured, Message: addon.MessageConfigurationsConfigured}
	}
	return metav1.Condition{Type: addon.ConditionConfigured, Status: metav1.ConditionFalse,
		Reason: addon.ReasonConfigurationsNotConfigured, Message: addon.MessageConfigurationsNotConfigured}
}

// put puts the change into a status.
func (x change) put(status *v1alpha1.ManagedClusterAddOnStatus, at time.Time) {
	status.ConfigReferences = x.references
	if x.kinds != nil {
		status.SupportedConfigs = x.kinds
	}
	now := metav1.NewTime(at)
	condition := x.condition()
	condition.LastTransitionTime = now
	meta.SetStatusCondition(&status.Conditions, condition)
	progressing := meta.FindStatusCondition(status.Conditions, addon.ConditionProgressing)
	if x.restart && progressing != nil {
		progressing.LastTransitionTime = now
	}
}

// differs reports whether the status says something else yet.
func (x change) differs() bool {
	have, want := meta.FindStatusCondition(x.addOn.Status.Conditions, addon.ConditionConfigured), x.condition()
	if have == nil || have.Status != want.Status || have.Reason != want.Reason || have.Message != want.Message {
		return true
	}
	return !apiequality.Semantic.DeepEqual(x.addOn.Status.ConfigReferences, x.references) ||
		x.kinds != nil && !apiequality.Semantic.DeepEqual(x.addOn.Status.SupportedConfigs, x.kinds)
}

// decide plans a pass. It depends on nothing but its arguments.
//
// Upstream configures nothing at all when one of the placements does not exist or
// has a decision without a group. Here that concerns the placement's own clusters.
func decide(s snapshot, now time.Time) (plan, error) {
	a := s.definition
	p := plan{status: v1alpha1.ClusterManagementAddOnStatus{
		DefaultConfigReferences: configs.DefaultReferences(a), InstallProgressions: a.DeepCopy().Status.InstallProgressions,
	}}
	selfManaged := configs.SelfManaged(a)
	if !selfManaged {
		p.status.InstallProgressions = configs.Progressions(a)
	}
	if err := s.hash(&p.status); err != nil || selfManaged {
		return p, err
	}
	d := decider{snapshot: s, plan: p, now: now, byCluster: map[string]*v1alpha1.ManagedClusterAddOn{}}
	for _, x := range s.addOns {
		d.byCluster[x.Namespace] = x
	}
	if a.Spec.InstallStrategy.Type != v1alpha1.InstallStrategyPlacements {
		defaults := configs.OfDefaults(p.status)
		for _, x := range s.addOns {
			if err := d.settle(x, defaults, true); err != nil {
				return p, err
			}
		}
		return d.plan, nil
	}
	last := lastOf(s.placed)
	for i := range s.placed {
		mine := func(cluster string) bool { return last[cluster] == i }
		if err := d.placement(i, mine); err != nil {
			return p, err
		}
	}
	return d.plan, nil
}

// lastOf are the placements that the clusters go by, by their place in the list: a
// cluster that several select goes by the last of them.
func lastOf(placed []selection.Placed) map[string]int {
	out := map[string]int{}
	for i, p := range placed {
		for _, g := range p.Groups {
			for _, cluster := range g.Clusters {
				out[cluster] = i
			}
		}
	}
	return out
}

type decider struct {
	snapshot
	plan      plan
	now       time.Time
	byCluster map[string]*v1alpha1.ManagedClusterAddOn
}

// placement rolls out to the clusters of a placement. An add-on in a cluster that
// none selects any more is left as it is: it is about to be removed. Upstream gives
// it the defaults until then, which may move its agent just before its end.
func (d *decider) placement(i int, mine func(cluster string) bool) error {
	placed, strategy := d.placed[i], d.definition.Spec.InstallStrategy.Placements[i].RolloutStrategy
	progression := &d.plan.status.InstallProgressions[i]
	if problem := problemOf(placed, d.definition.Spec.InstallStrategy.Placements[i]); problem != nil {
		setFailed(progression, problem, d.now)
		return nil
	}
	base := configs.OfProgression(*progression)
	groups, statuses, err := d.gather(placed, base, settled(*progression), mine)
	if err != nil {
		return err
	}
	var existing []rollout.ClusterStatus
	for _, status := range statuses {
		if status.Status != rollout.ToApply {
			existing = append(existing, status)
		}
	}
	result, err := rollout.Decide(withDefaults(strategy, placed), groups, existing, d.now)
	if err != nil {
		setFailed(progression, err, d.now)
		return nil
	}
	hold := d.holdBack(&result, groups, statuses)
	under := map[string]bool{}
	for _, s := range result.ToRollout {
		under[s.Cluster] = true
	}
	timedOut := map[string]bool{}
	for _, s := range result.TimedOut {
		timedOut[s.Cluster] = true
	}
	n, soak := counts{selected: len(placed.Clusters)}, soakOf(strategy)
	for _, cluster := range slices.Sorted(maps.Keys(statuses)) {
		n.total++
		x, there := d.byCluster[cluster]
		if !there {
			continue
		}
		n.count(statuses[cluster], under[cluster], timedOut[cluster], soak, d.now)
		if err := d.settle(x, base, under[cluster]); err != nil {
			return err
		}
	}
	explanation := placed.Explain(progression.Namespace)
	if before := meta.FindStatusCondition(progression.Conditions, addon.ConditionProgressing); explanation != "" &&
		(before == nil || !strings.HasSuffix(before.Message, explanation)) {
		d.plan.refused = append(d.plan.refused, fmt.Sprintf("placement %s/%s: %s", progression.Namespace, progression.Name, explanation))
	}
	before := ""
	if c := meta.FindStatusCondition(progression.Conditions, addon.ConditionProgressing); c != nil {
		before = c.Message
	}
	said := strings.TrimSpace(strings.Join([]string{hold, explanation}, " "))
	n.report(progression, said, d.now)
	if approved := rollout.NewlyApproved(hold, before); approved != "" {
		d.plan.approved = approved
	}
	if r := result.RecheckAfter; r > 0 && (d.plan.recheck == 0 || r < d.plan.recheck) {
		d.plan.recheck = r
	}
	return nil
}

// holdBack takes out of a result what waits for a gate, and says what it waits for, and who
// has approved what.
func (d *decider) holdBack(result *rollout.Result, groups []rollout.Group,
	statuses map[string]rollout.ClusterStatus) string {
	has := func(cluster string) bool { return statuses[cluster].Status != rollout.ToApply }
	gated, err := rollout.ReadGates(d.definition.Annotations)
	if err != nil {
		result.ToRollout = slices.DeleteFunc(result.ToRollout,
			func(s rollout.ClusterStatus) bool { return !has(s.Cluster) })
		return "Nothing is handed out: " + err.Error() + "."
	}
	content := configs.Content(d.plan.status.InstallProgressions)
	var said []string
	if hold := gated.Hold(result, groups, content, has, d.now); hold != nil {
		said = append(said, hold.Message(d.definition.Name))
	}
	if approved := gated.Approved(content); approved != "" && len(gated.Gates) > 0 {
		said = append(said, approved)
	}
	return strings.Join(said, "; ")
}

// gather are the clusters that go by a placement, in its groups, and how far they
// are.
func (d *decider) gather(placed selection.Placed, base configs.Set, settled bool, mine func(cluster string) bool) ([]rollout.Group, map[string]rollout.ClusterStatus, error) {
	statuses := map[string]rollout.ClusterStatus{}
	var groups []rollout.Group
	for _, g := range placed.Groups {
		own := rollout.Group{Index: g.Index, Name: g.Name}
		for _, cluster := range g.Clusters {
			if _, twice := statuses[cluster]; twice || !mine(cluster) {
				continue
			}
			own.Clusters = append(own.Clusters, cluster)
			status, err := d.statusOf(cluster, base)
			if err != nil {
				return nil, nil, err
			}
			statuses[cluster] = lasting(status, d.byCluster[cluster], settled)
		}
		groups = append(groups, own)
	}
	return groups, statuses, nil
}

// statusOf is how far a cluster is; one without the add-on has yet to begin.
func (d *decider) statusOf(cluster string, base configs.Set) (rollout.ClusterStatus, error) {
	x, there := d.byCluster[cluster]
	if !there {
		return rollout.ClusterStatus{Cluster: cluster, Status: rollout.ToApply}, nil
	}
	x, err := d.refreshed(x)
	if err != nil {
		return rollout.ClusterStatus{}, err
	}
	want, err := d.wanted(x, base)
	return configs.RolloutStatus(x, want), err
}

// lasting is the status of an add-on that had its configuration applied and then got into
// trouble, such as a canary that crashes after a while: it is under way again as long as
// the rollout lasts, so that the next clusters wait. When all clusters were done once,
// later troubles of pods are none of the rollout's.
func lasting(s rollout.ClusterStatus, x *v1alpha1.ManagedClusterAddOn, settled bool) rollout.ClusterStatus {
	if s.Status != rollout.Succeeded || !underWay(x) {
		return s
	}
	if settled {
		s.Since = x.CreationTimestamp.Time
		return s
	}
	progressing := meta.FindStatusCondition(x.Status.Conditions, addon.ConditionProgressing)
	s.Status, s.Since = rollout.Progressing, progressing.LastTransitionTime.Time
	return s
}

// settled reports whether all clusters of a placement were done with its configurations
// once.
func settled(p v1alpha1.InstallProgression) bool {
	return !slices.ContainsFunc(p.ConfigReferences, func(r v1alpha1.InstallConfigReference) bool {
		return !apiequality.Semantic.DeepEqual(r.DesiredConfig, r.LastKnownGoodConfig)
	})
}

// settle plans what a ManagedClusterAddOn's status is to say. go says that it is its
// turn to be configured.
func (d *decider) settle(x *v1alpha1.ManagedClusterAddOn, base configs.Set, turn bool) error {
	is, err := d.refreshed(x)
	if err != nil {
		return err
	}
	want, err := d.wanted(is, base)
	if err != nil {
		return err
	}
	c := change{addOn: x, references: is.Status.ConfigReferences, configured: true}
	if d.objects != nil {
		c.kinds = configs.TemplateKinds()
	}
	if configs.RolloutStatus(is, want).Status == rollout.ToApply {
		c.configured = turn
		if turn {
			c.references = configs.References(c.references, want)
			c.restart = underWay(x)
			err = d.observe(c.references)
		}
	}
	d.plan.changes = append(d.plan.changes, c)
	return err
}

// underWay reports whether a deadline counts from when an add-on's condition
// Progressing became what it is.
func underWay(x *v1alpha1.ManagedClusterAddOn) bool {
	progressing := meta.FindStatusCondition(x.Status.Conditions, addon.ConditionProgressing)
	return progressing != nil && (progressing.Reason == addon.ReasonProgressing || progressing.Reason == addon.ReasonFailed)
}

// counts are the clusters of a placement, by how far they are.
type counts struct {
	// selected are all that the placement selects, total those that go by it and by
	// no later one.
	selected, total                int
	underWay, done, failed, gaveUp int
}

// count adds a cluster that has the add-on. One that has succeeded is done when it
// has been well for long enough; one that fails while its turn lasts is under way.
func (n *counts) count(s rollout.ClusterStatus, underWay, timedOut bool, soak time.Duration, now time.Time) {
	switch {
	case timedOut:
		n.gaveUp++
	case underWay:
		n.underWay++
	case s.Status == rollout.Failed:
		n.failed++
	case s.Status == rollout.Succeeded && (soak == 0 || !s.Since.IsZero() && !now.Before(s.Since.Add(soak))):
		n.done++
	}
}

// report says how far the placement is. When all of its clusters are done, what was
// wanted is what was applied and is known to be good. The explanation, which may be
// empty, says which clusters of the decisions get nothing.
func (n counts) report(p *v1alpha1.InstallProgression, explanation string, now time.Time) {
	condition := metav1.Condition{Type: addon.ConditionProgressing, LastTransitionTime: metav1.NewTime(now)}
	if n.total == 0 || n.done != n.total {
		condition.Status, condition.Reason = metav1.ConditionTrue, addon.ReasonProgressing
		condition.Message = fmt.Sprintf("selected clusters %d. configured addons %d/%d progressing..., %d failed %d timeout.",
			n.selected, n.underWay+n.done, n.total, n.failed, n.gaveUp)
	} else {
		condition.Status, condition.Reason = metav1.ConditionFalse, addon.ReasonCompleted
		condition.Message = fmt.Sprintf("selected clusters %d. configured addons %d/%d completed with no errors, %d failed %d timeout.",
			n.selected, n.done, n.total, n.failed, n.gaveUp)
		for i := range p.ConfigReferences {
			r := &p.ConfigReferences[i]
			r.LastAppliedConfig, r.LastKnownGoodConfig = r.DesiredConfig.DeepCopy(), r.DesiredConfig.DeepCopy()
		}
	}
	if explanation != "" {
		condition.Message += " " + explanation
	}
	meta.SetStatusCondition(&p.Conditions, condition)
}

// setFailed reports why a placement's clusters can't be configured.
func setFailed(p *v1alpha1.InstallProgression, problem error, now time.Time) {
	meta.SetStatusCondition(&p.Conditions, metav1.Condition{
		Type: addon.ConditionProgressing, Status: metav1.ConditionFalse, Reason: addon.ReasonFailed, Message: problem.Error(),
		LastTransitionTime: metav1.NewTime(now),
	})
}

// problemOf is why a placement's clusters can't be configured.
func problemOf(placed selection.Placed, p v1alpha1.PlacementStrategy) error {
	if placed.Missing {
		return fmt.Errorf("there is no placement %s/%s: create it, or take it out of spec.installStrategy.placements", p.Namespace, p.Name)
	}
	return placed.Problem
}

// withDefaults is a strategy with what applies where its author says nothing: all
// clusters at once, or of a progressive one as many as a decision group of the
// placement has.
func withDefaults(s clusterv1alpha1.RolloutStrategy, placed selection.Placed) clusterv1alpha1.RolloutStrategy {
	switch s.Type {
	case "":
		s.Type = clusterv1alpha1.RolloutTypeAll
	case clusterv1alpha1.RolloutTypeProgressive:
		s = *s.DeepCopy()
		if s.Progressive == nil {
			s.Progressive = &clusterv1alpha1.RolloutProgressive{}
		}
		if s.Progressive.MaxConcurrency == (intstr.IntOrString{}) {
			s.Progressive.MaxConcurrency = placed.ClustersPerGroup
		}
	}
	return s
}

// soakOf is how long a cluster has to be well before it counts as done. A strategy
// that can't be read has been refused before.
func soakOf(s clusterv1alpha1.RolloutStrategy) time.Duration {
	var config clusterv1alpha1.RolloutConfig
	switch {
	case s.Type == clusterv1alpha1.RolloutTypeProgressive && s.Progressive != nil:
		config = s.Progressive.RolloutConfig
	case s.Type == clusterv1alpha1.RolloutTypeProgressivePerGroup && s.ProgressivePerGroup != nil:
		config = s.ProgressivePerGroup.RolloutConfig
	}
	soak, _ := config.SuccessTime()
	return soak
}
