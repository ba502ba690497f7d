package logicalcloud

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

const (
	// shownClusters is how many clusters a status names.
	shownClusters = 10
	// listedClusters is how many a message names.
	listedClusters = 3
)

// report writes the state of the cloud into its status.
func (c *Controller) report(ctx context.Context, lc *v1alpha1.LogicalCloud, s *situation, p plan) error {
	_, err := patch.Status(ctx, c.client, lc, func() bool {
		before := lc.Status.DeepCopy()
		lc.Status.Clusters = p.count()
		for _, condition := range p.conditions(s) {
			condition.ObservedGeneration = lc.Generation
			condition.LastTransitionTime = metav1.NewTime(c.clock.Now())
			meta.SetStatusCondition(&lc.Status.Conditions, condition)
		}
		return !apiequality.Semantic.DeepEqual(*before, lc.Status)
	})
	return patch.Explain(err, "report on the LogicalCloud %s", client.ObjectKeyFromObject(lc))
}

// count counts the clusters, and names some that need attention: those that have
// failed first.
func (p plan) count() v1alpha1.CloudClusters {
	var out v1alpha1.CloudClusters
	var named []*step
	for _, st := range p.clusters {
		if st.selected {
			out.Selected++
		}
		if st.selected && st.ready {
			out.Ready++
		}
		if st.failed {
			out.Failed++
		}
		if st.reason != "" {
			named = append(named, st)
		}
	}
	slices.SortStableFunc(named, func(a, b *step) int { return cmp.Compare(rank(a), rank(b)) })
	for _, st := range named[:min(len(named), shownClusters)] {
		out.Failing = append(out.Failing, v1alpha1.FailingCluster{
			Name: st.name, Reason: st.reason, Message: text.Cut(st.message, limits.ClusterMessage),
		})
	}
	return out
}

func rank(st *step) int {
	if st.failed {
		return 0
	}
	return 1
}

// conditions are those of a cloud.
func (p plan) conditions(s *situation) []metav1.Condition {
	if !s.cloud.DeletionTimestamp.IsZero() {
		return []metav1.Condition{p.deleting()}
	}
	return []metav1.Condition{p.selectedCondition(s), p.applied(), p.readyCondition()}
}

func condition(kind string, status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func (p plan) selectedCondition(s *situation) metav1.Condition {
	n := len(s.selection.Clusters)
	switch {
	case len(s.selection.Missing) > 0:
		return condition(muster.ConditionSelected, metav1.ConditionFalse, muster.ReasonPlacementNotFound,
			"there is no placement %s in the namespace %s: create it, or take it out of spec.placements", strings.Join(s.selection.Missing, ", "), s.cloud.Namespace)
	case n == 0 && s.selection.Strangers.Len() > 0:
		return condition(muster.ConditionSelected, metav1.ConditionFalse, muster.ReasonNoClusters,
			"the decisions of the placements name no cluster of a cluster set that is bound to the namespace %s", s.cloud.Namespace)
	case n == 0:
		return condition(muster.ConditionSelected, metav1.ConditionFalse, muster.ReasonNoClusters, "the placements select no cluster; their conditions say why")
	}
	return condition(muster.ConditionSelected, metav1.ConditionTrue, muster.ReasonClustersSelected, "%s selected", clusters(n))
}

// applied reports whether the cloud's objects are in all selected clusters.
func (p plan) applied() metav1.Condition {
	var failed, waiting []*step
	n := 0
	for _, st := range p.clusters {
		switch {
		case !st.selected:
			continue
		case st.failed:
			failed = append(failed, st)
		case !st.ready:
			waiting = append(waiting, st)
		}
		n++
	}
	switch {
	case len(failed) > 0:
		return condition(muster.ConditionApplied, metav1.ConditionFalse, muster.ReasonClustersFailed, "%s of %d failed: %s", clusters(len(failed)), n, describe(failed))
	case len(waiting) > 0:
		return condition(muster.ConditionApplied, metav1.ConditionFalse, muster.ReasonInProgress, "%s of %d not ready yet: %s", clusters(len(waiting)), n, describe(waiting))
	case n == 0:
		return condition(muster.ConditionApplied, metav1.ConditionFalse, muster.ReasonNoClusters, "no cluster is selected")
	}
	return condition(muster.ConditionApplied, metav1.ConditionTrue, muster.ReasonAllClusters, "everything is applied in %s", clusters(n))
}

// readyCondition reports whether access can be had to all selected clusters.
func (p plan) readyCondition() metav1.Condition {
	applied := p.applied()
	var unable, full []*step
	for _, st := range p.clusters {
		if st.selected && st.unable {
			unable = append(unable, st)
		}
		if st.leftOut > 0 {
			full = append(full, st)
		}
	}
	switch {
	case applied.Status != metav1.ConditionTrue:
		applied.Type = muster.ConditionReady
		return applied
	case len(p.problems) > 0:
		return condition(muster.ConditionReady, metav1.ConditionFalse, muster.ReasonGrantsFailed, "%s: grant another role, or ask an administrator of the hub for it", strings.Join(p.problems, "; "))
	case len(full) > 0:
		return condition(muster.ConditionReady, metav1.ConditionFalse, muster.ReasonTooManyKeys, "%s", describe(full))
	case len(unable) > 0:
		return condition(muster.ConditionReady, metav1.ConditionFalse, muster.ReasonAgentUnable,
			"the agents of %s give users no access: start them with --user-access (%s)", clusters(len(unable)), names(unable))
	}
	return condition(muster.ConditionReady, metav1.ConditionTrue, muster.ReasonAllClusters, "access can be had to %s", applied.Message[len("everything is applied in "):])
}

// deleting describes what a deletion waits for.
func (p plan) deleting() metav1.Condition {
	if len(p.clusters) == 0 {
		return condition(muster.ConditionDeleting, metav1.ConditionTrue, muster.ReasonInProgress, "nothing is left in clusters")
	}
	return condition(muster.ConditionDeleting, metav1.ConditionTrue, muster.ReasonClustersLeft,
		"the agents of %s have not removed yet what the cloud has there (%s); of a cluster that is gone for good delete the ManagedCluster", clusters(len(p.clusters)), names(p.clusters))
}

// clusters counts clusters in words.
func clusters(n int) string {
	if n == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", n)
}

// names lists some clusters.
func names(steps []*step) string {
	var out []string
	for _, st := range steps {
		out = append(out, st.name)
	}
	return text.List(out, listedClusters)
}

// describe lists some clusters with their reasons.
func describe(steps []*step) string {
	var out []string
	for _, st := range steps {
		out = append(out, fmt.Sprintf("%s (%s: %s)", st.name, st.reason, st.message))
	}
	return strings.Join(text.First(out, listedClusters), "; ")
}
