package fleet

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Read takes a snapshot of the fleet. has reports whether the hub has a
// feature.
func Read(ctx context.Context, client *kube.Client, has func(ctx context.Context, client *kube.Client, feature string) (bool, error)) (*Snapshot, error) {
	f := &Snapshot{Now: time.Now()}
	var err error
	if f.Spreads, err = has(ctx, client, hubinfo.TokenScope); err != nil { // Every hub of muster's has that.
		return nil, err
	}
	if f.Options.PreferNoSelect, err = has(ctx, client, hubinfo.PreferNoSelect); err != nil {
		return nil, err
	}
	f.Options.Expressions = scheduling.NewExpressions()
	clusters, sets, bindings := &clusterv1.ManagedClusterList{}, &clusterv1beta2.ManagedClusterSetList{}, &clusterv1beta2.ManagedClusterSetBindingList{}
	decisions, scores := &clusterv1beta1.PlacementDecisionList{}, &clusterv1alpha1.AddOnPlacementScoreList{}
	for _, l := range []struct {
		what string
		list runtime.Object
	}{
		{"the managed clusters", clusters}, {"the cluster sets", sets}, {"the bindings of cluster sets", bindings},
		{"the decisions of placements", decisions}, {"the scores of clusters", scores},
	} {
		if err := client.List(ctx, l.list, kube.ListOptions{}); err != nil {
			return nil, fmt.Errorf("listing %s: %w", l.what, err)
		}
	}
	f.Clusters, f.Sets, f.Bindings, f.decisions, f.scores = clusters.Items, sets.Items, bindings.Items, decisions.Items, scores.Items
	return f, nil
}
