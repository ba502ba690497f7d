package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// RolloutFacts are what a hub knows of a ManifestWorkReplicaSet.
type RolloutFacts struct {
	Set *workv1alpha1.ManifestWorkReplicaSet
	// Decisions are those of the set's namespace, and Works those of the set;
	// Read says that both could be read.
	Decisions []clusterv1beta1.PlacementDecision
	Works     []workv1.ManifestWork
	Read      bool
	// Clusters are by name, as far as they could be read.
	Clusters map[string]*clusterv1.ManagedCluster
	// Own is the digest of what a cluster is to have of a set with an override, and "" of one
	// that lacks something; nil for sets without one.
	Own func(*clusterv1.ManagedCluster) string
	Now time.Time
}

// RolloutState says in a sentence how a replica set is. It needs nothing but its status.
func RolloutState(s *workv1alpha1.ManifestWorkReplicaSet) (Level, string) {
	what := fmt.Sprintf("The replica set %s/%s", s.Namespace, s.Name)
	sum := s.Status.Summary
	verified := meta.FindStatusCondition(s.Status.Conditions, work.ConditionPlacementVerified)
	applied := meta.FindStatusCondition(s.Status.Conditions, work.ConditionManifestworkApplied)
	switch {
	case !s.DeletionTimestamp.IsZero():
		return Waiting, what + " is being deleted."
	case verified == nil:
		return Waiting, what + " has not been looked at by the hub yet."
	case verified.Status == metav1.ConditionFalse && verified.Reason == work.ReasonPlacementDecisionEmpty:
		return Warning, what + " has no clusters: its placements select none."
	case lacking(s) != nil:
		return Problem, fmt.Sprintf("%s does not reach all clusters: %s.", what,
			rollout.SaidOfOverride(lacking(s).Message))
	case verified.Status == metav1.ConditionFalse:
		return Problem, what + " is not rolled out: its placements can't be used."
	case sum.Degraded > 0:
		return Problem, fmt.Sprintf("%s has failed in %d of %s.", what, sum.Degraded, plural(sum.Total, "cluster"))
	case heldBack(s) != nil && heldBack(s).Reason == muster.ReasonGatesUnreadable:
		return Problem, what + " is not rolled out: its gates can't be read."
	case heldBack(s) != nil:
		return Waiting, fmt.Sprintf("%s is held back: %s.", what, heldBack(s).Message)
	case sum.Applied < sum.Total:
		return Warning, fmt.Sprintf("%s is applied in %d of the %s that have got it.", what, sum.Applied,
			plural(sum.Total, "cluster"))
	case !meta.IsStatusConditionTrue(s.Status.Conditions, work.ConditionPlacementRolledOut):
		return Waiting, fmt.Sprintf("%s is rolling out: %s got it, and it is available in %d.",
			what, hasOrHave(sum.Total, "cluster"), sum.Available)
	case applied != nil && applied.Status == metav1.ConditionFalse:
		return Warning, what + " is rolled out, and not all of it is available."
	case verified.Message != "":
		return Warning, what + " is rolled out, but for clusters that get nothing."
	}
	return OK, fmt.Sprintf("%s is rolled out to %s.", what, plural(sum.Total, "cluster"))
}

// heldBack is the condition that says what gate a replica set waits for; nil when none.
func heldBack(s *workv1alpha1.ManifestWorkReplicaSet) *metav1.Condition {
	c := meta.FindStatusCondition(s.Status.Conditions, muster.ConditionGatesOpen)
	if c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	return c
}

// lacking is the condition that says what clusters lack of an override; nil when none does.
func lacking(s *workv1alpha1.ManifestWorkReplicaSet) *metav1.Condition {
	c := meta.FindStatusCondition(s.Status.Conditions, muster.ConditionOverridden)
	if c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	return c
}

// gate is why a replica set does not go on that is held back; none when it is not.
func (f *RolloutFacts) gate() []Cause {
	held := heldBack(f.Set)
	if held == nil {
		return nil
	}
	name := f.Set.Namespace + "/" + f.Set.Name
	c := Cause{Level: Waiting, Evidence: []string{says(held, f.Now)}}
	switch held.Reason {
	case muster.ReasonAwaitingApproval:
		c.Summary = "Somebody has to approve the next group of clusters."
		c.Next = []Step{{Do: "approve the group, which needs the verb " + muster.VerbApprove,
			Command: "muster rollout approve " + name + " GROUP"}}
	case muster.ReasonWaitingForWindow:
		c.Summary = "The next group of clusters gets it when its window opens."
	case muster.ReasonPaused:
		c.Summary = "Somebody has paused it."
		c.Next = []Step{{Do: "let it go on", Command: "muster rollout pause --undo " + name}}
	default:
		c.Level, c.Summary = Problem, "Its gates can't be read, so nothing is handed out."
		c.Next = []Step{f.edit("correct the annotation")}
	}
	return []Cause{c}
}

// Rollout explains a ManifestWorkReplicaSet.
func Rollout(f RolloutFacts) Explanation {
	s := f.Set
	level, state := RolloutState(s)
	e := Explanation{Kind: "ManifestWorkReplicaSet", Namespace: s.Namespace, Name: s.Name, Level: level, State: state}
	if !s.DeletionTimestamp.IsZero() {
		e.add(f.deletion())
		return e
	}
	verified := meta.FindStatusCondition(s.Status.Conditions, work.ConditionPlacementVerified)
	switch {
	case verified == nil:
		e.add(Cause{Level: Waiting,
			Summary: "The hub does so within a second if its controllers run, and if its feature gate " +
				"ManifestWorkReplicaSet is on.",
			Next: []Step{{Do: "if this lasts, see whether the hub is ready", Command: hubReady}}})
	case verified.Status == metav1.ConditionFalse || verified.Message != "":
		c := Cause{Level: level, Evidence: []string{says(verified, f.Now)}}
		c.Summary = "Its placements select no clusters, or can't be used."
		if verified.Status == metav1.ConditionTrue {
			c.Summary = "Decisions of its placements name clusters that get nothing."
		}
		for _, ref := range s.Spec.PlacementRefs {
			c.Next = append(c.Next, Step{Do: "see what the placement selects",
				Command: fmt.Sprintf("muster explain placement %s/%s",
					s.Namespace, ref.Name)})
		}
		e.add(c)
	}
	if applied := meta.FindStatusCondition(s.Status.Conditions, work.ConditionManifestworkApplied); applied != nil &&
		applied.Status == metav1.ConditionFalse && applied.Message != "" {
		e.add(Cause{Level: Problem, Summary: "The hub could not write all works.",
			Evidence: []string{says(applied, f.Now)}})
	}
	e.add(f.overridden()...)
	e.add(f.gate()...)
	if f.Read {
		e.add(f.troubles()...)
		for _, ref := range s.Spec.PlacementRefs {
			e.add(f.progress(ref)...)
		}
	}
	return e
}

// groups are the decision groups of a placement.
func (f *RolloutFacts) groups(placement string) []rollout.Group {
	var out []rollout.Group
	for i := range f.Decisions {
		d := &f.Decisions[i]
		if d.Namespace != f.Set.Namespace || d.Labels[cluster.PlacementLabel] != placement {
			continue
		}
		index, _ := strconv.ParseInt(d.Labels[cluster.DecisionGroupIndexLabel], 10, 32)
		g := rollout.Group{Index: int32(index), Name: d.Labels[cluster.DecisionGroupNameLabel]}
		for _, c := range d.Status.Decisions {
			g.Clusters = append(g.Clusters, c.ClusterName)
		}
		out = append(out, g)
	}
	slices.SortStableFunc(out, func(a, b rollout.Group) int { return int(a.Index - b.Index) })
	return out
}

// has reports whether a work has what its cluster is to have.
func (f *RolloutFacts) has(w *workv1.ManifestWork) bool {
	if f.Own != nil && f.Clusters[w.Namespace] != nil {
		return workdigest.Of(w.Spec) == f.Own(f.Clusters[w.Namespace])
	}
	return workdigest.Of(w.Spec) == workdigest.Of(f.Set.Spec.ManifestWorkTemplate)
}

// overridden is why clusters don't get what they are to have; none when all do.
func (f *RolloutFacts) overridden() []Cause {
	c := lacking(f.Set)
	if c == nil {
		return nil
	}
	shown := *c
	shown.Message = rollout.SaidOfOverride(c.Message)
	cause := Cause{Level: Problem, Evidence: []string{says(&shown, f.Now)},
		Summary: "What its clusters are to have can't be worked out, so nothing is handed out.",
		Next:    []Step{f.edit("correct the override, or what it names")}}
	if c.Reason == muster.ReasonClustersWithout {
		cause.Summary = "Clusters lack a value of its override, and get nothing new."
		cause.Next = []Step{{Do: "give the cluster the label, or the value a default",
			Command: "kubectl label managedcluster CLUSTER LABEL=VALUE"}}
	}
	return []Cause{cause}
}

// progress says how far the template is in the clusters of a placement.
func (f *RolloutFacts) progress(ref workv1alpha1.LocalPlacementReference) []Cause {
	groups := f.groups(ref.Name)
	status := map[string]rollout.Status{}
	var existing []rollout.ClusterStatus
	for i := range f.Works {
		w := &f.Works[i]
		if w.Labels[work.PlacementNameLabel] == ref.Name && w.DeletionTimestamp.IsZero() &&
			f.has(w) {
			s := rollout.OfWork(w, false)
			existing, status[w.Namespace] = append(existing, s), s.Status
		}
	}
	result, err := rollout.Decide(ref.RolloutStrategy, groups, existing, f.Now)
	if err != nil {
		return []Cause{{Level: Problem,
			Summary: fmt.Sprintf("The rollout strategy of the placement %s can't be used: %v.", ref.Name, err),
			Next:    []Step{f.edit("correct rolloutStrategy")}}}
	}
	for _, list := range [][]rollout.ClusterStatus{result.TimedOut, result.ToRollout} {
		for _, s := range list {
			if _, has := status[s.Cluster]; has {
				status[s.Cluster] = s.Status
			}
		}
	}
	by := map[rollout.Status][]string{}
	var without []string
	total, at := 0, ""
	for _, g := range groups {
		total += len(g.Clusters)
		for _, c := range g.Clusters {
			s, has := status[c]
			if !has {
				without = append(without, c)
			} else {
				by[s] = append(by[s], c)
			}
			if at == "" && (!has || s != rollout.Succeeded) {
				at = fmt.Sprintf("decision group %d", g.Index)
				if g.Name != "" {
					at += " (" + g.Name + ")"
				}
			}
		}
	}
	if at == "" {
		return nil // all are done
	}
	failed := slices.Concat(by[rollout.Failed], by[rollout.TimeOut])
	evidence := []string{fmt.Sprintf("done are %d of %s of the placement %s", len(by[rollout.Succeeded]),
		plural(total, "cluster"), ref.Name)}
	for _, x := range []struct {
		what  string
		names []string
	}{
		{"failed", by[rollout.Failed]}, {"timed out", by[rollout.TimeOut]}, {"under way", by[rollout.Progressing]},
		{"not applied there yet", by[rollout.ToApply]}, {"not begun, or still with the template from before", without},
	} {
		if len(x.names) > 0 {
			evidence = append(evidence, fmt.Sprintf("%s: %s", x.what, some(x.names)))
		}
	}
	resume := []Step{
		{Do: "if the manifests are wrong, correct and apply them: the rollout starts again with the first clusters"},
		{Do: "if the clusters were at fault and are repaired, resume",
			Command: fmt.Sprintf("muster resume-rollout %s/%s --rolled-out", f.Set.Namespace, f.Set.Name)},
	}
	if len(failed) > 0 {
		look := Step{Do: "see why the first one failed",
			Command: fmt.Sprintf("muster explain work %s/%s", failed[0], f.nameIn(failed[0]))}
		resume = append([]Step{look}, resume...)
	}
	switch {
	case result.MaxFailureBreach && len(without) > 0:
		return []Cause{{
			Level: Problem, Evidence: evidence, Next: resume,
			Summary: fmt.Sprintf("The rollout has stopped at %s: %s failed or timed out, and the strategy allows %d.",
				at, hasOrHave(len(failed), "cluster"), rollout.Tolerated(ref.RolloutStrategy, total)),
		}}
	case len(failed) > 0:
		return []Cause{{
			Level: Problem, Evidence: evidence, Next: resume,
			Summary: fmt.Sprintf("%s failed or timed out, at %s. The others go on as far as the strategy allows.",
				hasOrHave(len(failed), "cluster"), at),
		}}
	}
	c := Cause{Level: Waiting,
		Evidence: evidence, Summary: fmt.Sprintf("The rollout is at %s, and waits for its clusters.", at)}
	if result.RecheckAfter > 0 {
		c.Evidence = append(c.Evidence, fmt.Sprintf("time alone changes something in %s (deadline or time to prove "+
			"itself)", lasted(result.RecheckAfter)))
	}
	if under := slices.Concat(by[rollout.ToApply], by[rollout.Progressing]); len(under) > 0 {
		c.Next = []Step{{Do: "see what the first of them waits for",
			Command: fmt.Sprintf("muster explain work %s/%s", under[0], f.nameIn(under[0]))}}
	}
	return []Cause{c}
}

// nameIn is the name of the set's work in a cluster.
func (f *RolloutFacts) nameIn(cluster string) string {
	for i := range f.Works {
		if f.Works[i].Namespace == cluster {
			return f.Works[i].Name
		}
	}
	return f.Set.Name
}

// troubles are why works of the set are not as they should be, those with the same
// reason together.
func (f *RolloutFacts) troubles() []Cause {
	var order []string
	where, levels, first := map[string][]string{}, map[string]Level{}, map[string]*workv1.ManifestWork{}
	for i := range f.Works {
		w := &f.Works[i]
		facts := WorkFacts{Work: w, Cluster: f.Clusters[w.Namespace], Now: f.Now}
		e := Work(facts)
		if e.Level.Rank() < Warning.Rank() || len(e.Causes) == 0 {
			continue
		}
		what := e.Causes[0].Summary
		if len(e.Causes[0].Evidence) > 0 && facts.agent() != nil {
			_, what = ClusterState(f.Clusters[w.Namespace], f.Now)
			what = strings.Replace(what, w.Namespace, "the cluster", 1)
			what, _, _ = strings.Cut(what, " since ")
			what = strings.TrimSuffix(what, ".") + "."
		}
		if len(where[what]) == 0 {
			order = append(order, what)
			levels[what], first[what] = e.Level, w
		}
		where[what] = append(where[what], w.Namespace)
	}
	slices.SortStableFunc(order, func(a, b string) int { return len(where[b]) - len(where[a]) })
	var out []Cause
	for _, what := range order[:min(len(order), maxListed)] {
		out = append(out, Cause{
			Level: levels[what], Summary: fmt.Sprintf("In %s: %s", plural(len(where[what]), "cluster"), what),
			Evidence: []string{"clusters: " + some(where[what])},
			Next: []Step{{Do: "see more of the first one", Command: fmt.Sprintf("muster explain work %s/%s",
				first[what].Namespace, first[what].Name)}},
		})
	}
	return out
}

func (f *RolloutFacts) edit(do string) Step {
	return Step{Do: do + " (in Terraform: its muster_manifest_work_replica_set)",
		Command: fmt.Sprintf("kubectl -n %s edit manifestworkreplicaset %s", f.Set.Namespace, f.Set.Name)}
}

func (f *RolloutFacts) deletion() Cause {
	c := Cause{
		Level: Waiting, Summary: "The hub deletes its works, and their agents what these have made.",
		Evidence: []string{"asked for at " + ago(f.Set.DeletionTimestamp.Time, f.Now), "its finalizers are " +
			some(f.Set.Finalizers)},
	}
	var away []string
	for i := range f.Works {
		w := &f.Works[i]
		if m := f.Clusters[w.Namespace]; m != nil && stageOf(m) != available {
			away = append(away, w.Namespace)
		}
	}
	if len(f.Works) > 0 {
		c.Evidence = append(c.Evidence, isOrAre(len(f.Works), "work")+" left")
		c.Next = []Step{{Do: "see what the first one waits for", Command: fmt.Sprintf("muster explain work %s/%s",
			f.Works[0].Namespace, f.Works[0].Name)}}
	}
	if len(away) > 0 {
		c.Level = Problem
		c.Evidence = append(c.Evidence, "clusters that are not available: "+some(away))
		c.Next = append(c.Next, Step{Do: "if one of them is gone for good",
			Command: "muster detach " + away[0] + " --force"})
	}
	return c
}

func hasOrHave(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " has"
	}
	return plural(n, noun) + " have"
}
