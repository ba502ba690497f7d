package provider

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// What a placement would select. The hub's own scheduling decides it, on a
// snapshot of the fleet.

// fleet is a snapshot of what placements depend on.
type fleet struct {
	clusters  []clusterv1.ManagedCluster
	sets      []clusterv1beta2.ManagedClusterSet
	bindings  []clusterv1beta2.ManagedClusterSetBinding
	decisions []clusterv1beta1.PlacementDecision
	scores    []clusterv1alpha1.AddOnPlacementScore
	// options are how the hub schedules.
	options scheduling.Options
	// spreads tells whether it heeds spread policies.
	spreads bool
	now     time.Time

	scoreOnce sync.Once
	scoreOf   map[scoreKey]*clusterv1alpha1.AddOnPlacementScore
}

type scoreKey struct{ cluster, resource string }

// score looks up a cluster's AddOnPlacementScore; nil when there is none.
func (f *fleet) score(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore {
	f.scoreOnce.Do(func() {
		f.scoreOf = make(map[scoreKey]*clusterv1alpha1.AddOnPlacementScore, len(f.scores))
		for i := range f.scores {
			f.scoreOf[scoreKey{f.scores[i].Namespace, f.scores[i].Name}] = &f.scores[i]
		}
	})
	return f.scoreOf[scoreKey{clusterName, resourceName}]
}

// placementPreview is what a placement would select.
type placementPreview struct {
	scheduling.Result
	// Clusters are the selected ones; Added and Dropped tell how they differ from
	// the present ones. All are sorted, and not nil.
	Clusters, Added, Dropped []string
}

// preview tells what a placement would select. The clusters that a placement of
// that name has now count as its own.
func (f *fleet) preview(placement *clusterv1beta1.Placement, explain bool) placementPreview {
	if !f.spreads {
		placement = placement.DeepCopy()
		placement.Spec.SpreadPolicy = clusterv1beta1.SpreadPolicy{}
	}
	in := f.input(placement)
	in.Explain = explain
	p := placementPreview{Result: scheduling.Schedule(in), Clusters: []string{}}
	for _, group := range p.Groups {
		p.Clusters = append(p.Clusters, group.Clusters...)
	}
	p.Clusters = sorted(p.Clusters)
	var present []string
	for name := range in.Selected {
		present = append(present, name)
	}
	p.Added, p.Dropped = difference(present, p.Clusters)
	return p
}

// input is the scheduler's view of the snapshot for one placement.
func (f *fleet) input(placement *clusterv1beta1.Placement) scheduling.Input {
	in := scheduling.Input{Placement: placement, Now: f.now, Selected: map[string]bool{}, Elsewhere: map[string]int{}, Score: f.score, Options: f.options}
	var bound []string
	for _, b := range f.bindings {
		if b.Namespace == placement.Namespace {
			bound = append(bound, b.Name)
		}
	}
	exists := func(name string) bool {
		return slices.ContainsFunc(f.sets, func(s clusterv1beta2.ManagedClusterSet) bool { return s.Name == name })
	}
	in.Sets.Bound, in.Sets.Eligible = membership.Eligible(bound, exists, placement.Spec.ClusterSets)
	var eligible []*clusterv1beta2.ManagedClusterSet
	for i := range f.sets {
		if slices.Contains(in.Sets.Eligible, f.sets[i].Name) {
			eligible = append(eligible, &f.sets[i])
		}
	}
	all := make([]*clusterv1.ManagedCluster, 0, len(f.clusters))
	for i := range f.clusters {
		all = append(all, &f.clusters[i])
	}
	in.Clusters = membership.Clusters(eligible, all)
	for i := range f.decisions {
		own := decidedFor(&f.decisions[i], placement)
		for _, d := range f.decisions[i].Status.Decisions {
			if own {
				in.Selected[d.ClusterName] = true
			} else {
				in.Elsewhere[d.ClusterName]++
			}
		}
	}
	return in
}

// decidedFor reports whether a decision is a placement's: by its label or, as the
// hub takes it too where somebody edited the label, by its name.
func decidedFor(d *clusterv1beta1.PlacementDecision, p *clusterv1beta1.Placement) bool {
	if d.Namespace != p.Namespace || p.Name == "" {
		return false
	}
	if d.Labels[cluster.PlacementLabel] == p.Name {
		return true
	}
	number, ok := strings.CutPrefix(d.Name, p.Name+"-decision-")
	_, err := strconv.ParseUint(number, 10, 32)
	return ok && err == nil
}

// satisfied is the condition PlacementSatisfied as it would be.
func (p *placementPreview) satisfied() metav1.Condition {
	if c := meta.FindStatusCondition(p.Conditions, cluster.ConditionPlacementSatisfied); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// misconfigured says what is wrong with the placement, or nothing.
func (p *placementPreview) misconfigured() string {
	if c := meta.FindStatusCondition(p.Conditions, cluster.ConditionPlacementMisconfigured); c != nil && c.Status == metav1.ConditionTrue {
		return c.Message
	}
	return ""
}

// explanations tell of each cluster why it would be selected, or not.
func explanations(p placementPreview) []explanationModel {
	models := []explanationModel{}
	for _, e := range p.Explanations {
		m := explanationModel{
			Cluster: types.StringValue(e.Cluster), Selected: types.BoolValue(e.Selected), Reason: types.StringValue(strings.Join(e.Reasons, "; ")),
			Scores: types.MapNull(types.Int64Type),
		}
		if e.Rank > 0 {
			scores := map[string]attr.Value{}
			for _, s := range e.Scores {
				scores[s.Name] = types.Int64Value(s.Score)
			}
			m.Rank, m.Score, m.Scores = types.Int64Value(int64(e.Rank)), types.Int64Value(e.Total), types.MapValueMust(types.Int64Type, scores)
		}
		models = append(models, m)
	}
	return models
}
