package hub

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Fleet is a snapshot of what placements depend on, and how the hub schedules
// them.
type Fleet struct {
	scheduling.Snapshot
	// Options are the hub's.
	Options scheduling.Options
	// Spreads is that the hub honours spread policies.
	Spreads bool
}

// Preview is what a placement would select.
type Preview struct {
	scheduling.Result
	// Clusters are the selected ones; Added and Dropped tell how they differ from
	// the present ones. All are sorted, and not nil.
	Clusters, Added, Dropped []string
}

// Preview tells what a placement would select. The clusters that a placement of
// that name has now count as its own.
func (f *Fleet) Preview(placement *clusterv1beta1.Placement, explain bool) Preview {
	if !f.Spreads {
		placement = placement.DeepCopy()
		placement.Spec.SpreadPolicy = clusterv1beta1.SpreadPolicy{}
	}
	in := f.Input(placement)
	in.Options, in.Explain = f.Options, explain
	p := Preview{Result: scheduling.Schedule(in), Clusters: []string{}}
	for _, group := range p.Groups {
		p.Clusters = append(p.Clusters, group.Clusters...)
	}
	slices.Sort(p.Clusters)
	var present []string
	for name := range in.Selected {
		present = append(present, name)
	}
	p.Added, p.Dropped = ClusterChanges(present, p.Clusters)
	return p
}

// Satisfied is the condition PlacementSatisfied as it would be.
func (p *Preview) Satisfied() metav1.Condition {
	if c := meta.FindStatusCondition(p.Conditions, cluster.ConditionPlacementSatisfied); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Misconfigured says what is wrong with the placement, or nothing.
func (p *Preview) Misconfigured() string {
	if c := meta.FindStatusCondition(p.Conditions, cluster.ConditionPlacementMisconfigured); c != nil &&
		c.Status == metav1.ConditionTrue {
		return c.Message
	}
	return ""
}

// ClusterChanges is what after has and before has not, and the reverse, both sorted
// and not nil.
func ClusterChanges(before, after []string) (added, dropped []string) {
	without := func(list, others []string) []string {
		rest := slices.DeleteFunc(append([]string{}, list...), func(name string) bool {
			return slices.Contains(others, name)
		})
		slices.Sort(rest)
		return rest
	}
	return without(after, before), without(before, after)
}

// ReadFleet takes a snapshot of the fleet as it is after all that the hub has acknowledged.
// has reports whether the hub has a feature.
func ReadFleet(ctx context.Context, client *kube.Client, has Features) (*Fleet, error) {
	f, err := beginFleet(ctx, client, has)
	if err != nil {
		return nil, err
	}
	list := func(ctx context.Context, list runtime.Object, namespace string) error {
		return client.List(ctx, list, kube.ListOptions{Namespace: namespace})
	}
	if err := f.Take(ctx, list, nil, time.Now()); err != nil {
		return nil, err
	}
	return f, nil
}

// ReadRecentFleet is Read for a caller who does not care for what was written a moment
// ago. Where the hub serves snapshots, it takes a fraction of the time.
func ReadRecentFleet(ctx context.Context, client *kube.Client, has Features) (*Fleet, error) {
	served, err := has(ctx, client, hubinfo.FleetSnapshot)
	if err != nil {
		return nil, err
	}
	if !served {
		return ReadFleet(ctx, client, has)
	}
	f, err := beginFleet(ctx, client, has)
	if err != nil {
		return nil, err
	}
	err = client.GetPath(ctx, hubinfo.SnapshotPath, &f.Snapshot)
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		// Perhaps the lists answer. If not, they say why in the words that users know.
		return ReadFleet(ctx, client, has)
	}
	f.Now = time.Now()
	return f, err
}

// Features reports whether a hub has a feature.
type Features func(ctx context.Context, client *kube.Client, feature string) (bool, error)

// beginFleet is a snapshot without objects.
func beginFleet(ctx context.Context, client *kube.Client, has Features) (*Fleet, error) {
	f := &Fleet{}
	var err error
	if f.Spreads, err = has(ctx, client, hubinfo.SpreadPolicy); err != nil {
		return nil, err
	}
	if f.Options.PreferNoSelect, err = has(ctx, client, hubinfo.PreferNoSelect); err != nil {
		return nil, err
	}
	f.Options.Expressions = scheduling.NewExpressions()
	return f, nil
}
