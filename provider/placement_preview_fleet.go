package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

const (
	// fleetFresh is how long a snapshot serves the placements that are planned
	// side by side.
	fleetFresh = 5 * time.Second
	// fleetAway is how long a hub that did not answer is not asked again, so that
	// a plan of many placements does not wait for it with each.
	fleetAway = time.Minute
	// impatient keeps a plan from waiting for a hub that is away.
	impatient = time.Millisecond
)

// fleetCache is the last snapshot of the fleet.
type fleetCache struct {
	mu     sync.Mutex
	client *kube.Client
	fleet  *fleet
	err    error
	until  time.Time
}

// liveFleet is a snapshot of the fleet, a few seconds old at most. It gives up
// soon when the hub does not answer.
func (h *hub) liveFleet(ctx context.Context) (*fleet, error) {
	c := &h.fleets
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) {
		return c.fleet, c.err
	}
	if c.client == nil {
		var diags diag.Diagnostics
		if h.client(&diags) == nil {
			return nil, errors.New(diags[0].Detail())
		}
		client, err := newClient(h.connection, h.version, impatient)
		if err != nil {
			return nil, err
		}
		c.client = client
	}
	c.fleet, c.err = h.readFleet(ctx, c.client)
	c.until = time.Now().Add(fleetFresh)
	if c.err != nil {
		c.until = time.Now().Add(fleetAway)
	}
	return c.fleet, c.err
}

// readFleet takes a snapshot of the fleet.
func (h *hub) readFleet(ctx context.Context, client *kube.Client) (*fleet, error) {
	f := &fleet{now: time.Now()}
	var err error
	if f.spreads, err = h.has(ctx, client, hubinfo.TokenScope); err != nil { // Every hub of muster's has that.
		return nil, err
	}
	if f.options.PreferNoSelect, err = h.has(ctx, client, hubinfo.PreferNoSelect); err != nil {
		return nil, err
	}
	f.options.Expressions = scheduling.NewExpressions()
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
	f.clusters, f.sets, f.bindings, f.decisions, f.scores = clusters.Items, sets.Items, bindings.Items, decisions.Items, scores.Items
	return f, nil
}
