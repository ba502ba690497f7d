package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// PlacementFacts are what a hub knows of a placement.
type PlacementFacts struct {
	Placement *clusterv1beta1.Placement
	// Fleet is what the placement chooses from; nil when it may not be read. Then only
	// the placement's status is explained.
	Fleet *scheduling.Snapshot
	// Decided is what the placement would select of Fleet, with the explanations.
	Decided scheduling.Result
	Now     time.Time
}

// PlacementState says in a sentence how a placement is. It needs nothing but its status.
func PlacementState(p *clusterv1beta1.Placement) (Level, string) {
	what := fmt.Sprintf("The placement %s/%s", p.Namespace, p.Name)
	n := int(p.Status.NumberOfSelectedClusters)
	satisfied := meta.FindStatusCondition(p.Status.Conditions, cluster.ConditionPlacementSatisfied)
	switch {
	case !p.DeletionTimestamp.IsZero():
		return Waiting, what + " is being deleted."
	case meta.IsStatusConditionTrue(p.Status.Conditions, cluster.ConditionPlacementMisconfigured):
		return Problem, what + " is misconfigured."
	case satisfied == nil || satisfied.ObservedGeneration != 0 && satisfied.ObservedGeneration < p.Generation:
		return Waiting, what + " has not been decided yet."
	case n == 0 && p.Spec.NumberOfClusters != nil && *p.Spec.NumberOfClusters == 0:
		return OK, what + " selects no clusters, as it asks for 0."
	case n == 0:
		return Problem, what + " selects no clusters."
	case satisfied.Status != metav1.ConditionTrue && p.Spec.NumberOfClusters != nil:
		return Warning, fmt.Sprintf("%s selects %s, and asks for %d.", what, plural(n, "cluster"),
			*p.Spec.NumberOfClusters)
	}
	return OK, fmt.Sprintf("%s selects %s.", what, plural(n, "cluster"))
}

// Placement explains a placement.
func Placement(f PlacementFacts) Explanation {
	p := f.Placement
	level, state := PlacementState(p)
	e := Explanation{Kind: "Placement", Namespace: p.Namespace, Name: p.Name, Level: level, State: state}
	if p.Annotations[cluster.SchedulingDisabledAnnotation] == "true" {
		e.add(Cause{
			Level:   Warning,
			Summary: "Its decisions are frozen by the annotation " + cluster.SchedulingDisabledAnnotation + ".",
			Next: []Step{{Do: "let the hub decide again",
				Command: fmt.Sprintf("kubectl -n %s annotate placement %s %s-",
					p.Namespace, p.Name, cluster.SchedulingDisabledAnnotation)}},
		})
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, cluster.ConditionPlacementMisconfigured); c != nil &&
		c.Status == metav1.ConditionTrue {
		e.add(Cause{Level: Problem, Summary: oneLine(c.Message), Evidence: []string{says(c, f.Now)},
			Next: []Step{f.edit("correct it")}})
		return e
	}
	satisfied := meta.FindStatusCondition(p.Status.Conditions, cluster.ConditionPlacementSatisfied)
	if satisfied == nil {
		e.add(Cause{
			Level: Waiting, Summary: "The hub has not decided. It does so within a second if its controllers run.",
			Next: []Step{{Do: "if this lasts, see whether the hub is ready", Command: hubReady}},
		})
		return e
	}
	e.add(f.sets(level, satisfied)...)
	e.add(f.excluded(level)...)
	if strings.Contains(satisfied.Message, "was given up because it costs") {
		e.add(Cause{Level: Warning,
			Summary:  "An expression costs too much on some clusters, and counts as false there.",
			Evidence: []string{says(satisfied, f.Now)}, Next: []Step{f.edit("loop over less of the cluster")}})
	}
	return e
}

func (f *PlacementFacts) edit(do string) Step {
	return Step{Do: do + " (in Terraform: its muster_placement)",
		Command: fmt.Sprintf("kubectl -n %s edit placement %s", f.Placement.Namespace, f.Placement.Name)}
}

// bind is the step that binds a set to the placement's namespace.
func (f *PlacementFacts) bind(set string) Step {
	return Step{Do: "bind a set to the namespace (in Terraform: a muster_managed_cluster_set_binding)",
		Command: fmt.Sprintf("clusteradm clusterset bind %s --namespace %s", set, f.Placement.Namespace)}
}

// sets are what is wrong with the sets that the placement may choose from.
func (f *PlacementFacts) sets(level Level, satisfied *metav1.Condition) []Cause {
	p := f.Placement
	evidence := []string{says(satisfied, f.Now)}
	wanted := cluster.DefaultSet
	if len(p.Spec.ClusterSets) > 0 {
		wanted = p.Spec.ClusterSets[0]
	}
	var unknown, known []string
	if f.Fleet != nil {
		for _, s := range f.Fleet.Sets {
			known = append(known, s.Name)
		}
		for _, b := range f.Fleet.Bindings {
			if b.Namespace == p.Namespace && !slices.Contains(known, b.Name) {
				unknown = append(unknown, b.Name)
			}
		}
		evidence = append(evidence, "bound to the namespace are the sets: "+cmp.Or(some(f.Fleet.Input(p).Sets.Bound),
			"none"))
		if len(unknown) > 0 {
			evidence = append(evidence, "bindings name sets that do not exist: "+some(unknown))
		}
	}
	switch satisfied.Reason {
	case cluster.ReasonNoManagedClusterSetBindings:
		return []Cause{{Level: level, Evidence: evidence, Next: []Step{f.bind(wanted)},
			Summary: fmt.Sprintf("No cluster set is bound to the namespace %s, so there are no clusters to choose "+
				"from.", p.Namespace)}}
	case cluster.ReasonNoIntersection:
		return []Cause{{Level: level, Evidence: evidence,
			Next: []Step{f.bind(wanted), f.edit("or name another set in clusterSets")},
			Summary: fmt.Sprintf("The placement names the sets %s, and none of them is bound to the namespace %s.",
				some(p.Spec.ClusterSets), p.Namespace)}}
	case cluster.ReasonAllManagedClusterSetsEmpty:
		return []Cause{{Level: level,
			Evidence: evidence, Summary: "The sets that the placement chooses from have no clusters.",
			Next: []Step{{Do: "put clusters into one of them (in Terraform: cluster_set of muster_managed_cluster)",
				Command: fmt.Sprintf("kubectl label managedcluster NAME %s=%s --overwrite", cluster.ClusterSetLabel,
					wanted)}}}}
	}
	return nil
}

// excluded says why clusters of the sets are not selected, those with the same reason
// together.
func (f *PlacementFacts) excluded(level Level) []Cause {
	if f.Fleet == nil {
		return nil
	}
	type why struct{ filter, reasons string }
	groups := map[why][]string{}
	for _, x := range f.Decided.Explanations {
		if x.Selected {
			continue
		}
		reasons := x.Reasons
		if x.Rank > 0 { // each has a rank of its own
			reasons = slices.Concat([]string{"others rank higher, and only so many are asked for"}, reasons[1:])
		}
		key := why{x.Filter, strings.Join(reasons, "; ")}
		groups[key] = append(groups[key], x.Cluster)
	}
	if level == OK || level == Waiting {
		level = OK
	}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b why) int {
		return cmp.Or(len(groups[b])-len(groups[a]), strings.Compare(a.reasons, b.reasons))
	})
	var out []Cause
	for i, key := range keys {
		if i == maxListed {
			rest := 0
			for _, k := range keys[i:] {
				rest += len(groups[k])
			}
			out = append(out, Cause{Level: level, Summary: fmt.Sprintf("%s not selected for %d other reasons.",
				isOrAre(rest, "further cluster"), len(keys)-i)})
			break
		}
		names := groups[key]
		c := Cause{Level: level, Evidence: []string{key.reasons, "clusters: " + some(names)}}
		of := fmt.Sprintf("Of %s in its sets, %s", plural(len(f.Decided.Explanations), "cluster"), oneIs(len(names)))
		switch {
		case strings.Contains(key.reasons, "untolerated taint"):
			c.Summary = of + " left out, for a taint that the placement does not tolerate."
			c.Next = []Step{
				{Do: "see where the taint of the first one comes from", Command: "muster explain cluster " + names[0]},
				f.edit("or tolerate the taint"),
			}
		case key.filter != "":
			c.Summary = of + " left out, matching none of its predicates."
			c.Next = []Step{
				{Do: "compare with the labels of the clusters", Command: "kubectl get managedclusters --show-labels"},
				f.edit("correct the predicates"),
			}
		default:
			c.Level, c.Summary = OK, of+" left out, as others come first."
			c.Next = []Step{f.edit("to select more of them, raise numberOfClusters")}
		}
		out = append(out, c)
	}
	return out
}

func oneIs(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}
