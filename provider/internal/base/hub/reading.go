package hub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// RefreshBudget is how long a hub may be away while a plan reads its state. Terraform
// shows nothing of a provider that waits, so a plan does not wait for long. Writes
// have kube.DefaultRetryBudget: an apply that has begun had better end.
const RefreshBudget = 10 * time.Second

// ReadTimeout is how long a refresh may take. A server that does not even refuse a
// connection, as behind a firewall, is not waited for any longer.
const ReadTimeout = 2 * RefreshBudget

// ReadClient is Client for a refresh: it waits for RefreshBudget only. Where there is
// no client, the first refresh gets the error, and where the hub was away for one,
// there is none for the others. One error fails the plan; the same one for every
// resource would hide it, and take as long again.
func (h *Hub) ReadClient(diags *diag.Diagnostics) *kube.Client {
	var problems diag.Diagnostics
	if h != nil && h.reported.Load() {
		return nil
	}
	client := h.Client(&problems)
	if client == nil {
		if h == nil || !h.reported.Swap(true) {
			diags.Append(problems...)
		}
		return nil
	}
	return h.readClient
}

// QueryClient is Client for a data source. Terraform reads it in a plan, and in an
// apply only after what it depends on was written.
func (h *Hub) QueryClient(diags *diag.Diagnostics) *kube.Client {
	client := h.Client(diags)
	if client == nil || h.HasWritten() {
		return client
	}
	return h.readClient
}

// AddReadError is AddAPIError for a refresh. That the hub is away is told by the
// first resource alone, as with ReadClient; the others keep their state.
func (h *Hub) AddReadError(diags *diag.Diagnostics, client *kube.Client, doing string, err error) {
	var status apierrors.APIStatus
	if errors.As(err, &status) || errors.Is(err, context.Canceled) || !h.reported.Swap(true) {
		AddAPIError(diags, client, doing, err)
	}
}

// planning is for what a plan asks beside the way: it does not wait for a hub that is
// away, and leaves it alone for a while then.
type planning struct {
	mu   sync.Mutex
	away time.Time // until when the hub is not asked
}

// PlanClient is the client for a plan's questions, or nil when the hub is not
// known, not configured or was away a moment ago.
func (h *Hub) PlanClient() *kube.Client {
	if h == nil || h.IsUnknown() {
		return nil
	}
	h.planning.mu.Lock()
	defer h.planning.mu.Unlock()
	if time.Now().Before(h.planning.away) || h.Client(&diag.Diagnostics{}) == nil {
		return nil // The apply will tell.
	}
	return h.planClient
}

// DidNotAnswer notes that the hub is away, if err says so.
func (h *Hub) DidNotAnswer(err error) {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return
	}
	h.planning.mu.Lock()
	defer h.planning.mu.Unlock()
	h.planning.away = time.Now().Add(fleetAway)
}

const (
	// fleetFresh is how long a snapshot serves the placements that are planned
	// side by side.
	fleetFresh = 5 * time.Second
	// fleetAway is how long a hub that did not answer is not asked again, so that
	// a plan of many placements does not wait for it with each.
	fleetAway = time.Minute
	// PlanRetryBudget keeps a plan from waiting for a hub that is away.
	PlanRetryBudget = time.Millisecond
)

// fleetCache is the last snapshot of the fleet.
type fleetCache struct {
	mu    sync.Mutex
	fleet *Fleet
	err   error
	until time.Time
}

// LiveFleet is a snapshot of the fleet, a few seconds old at most. It gives up
// soon when the hub does not answer.
func (h *Hub) LiveFleet(ctx context.Context) (*Fleet, error) {
	c := &h.fleets
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) {
		return c.fleet, c.err
	}
	var diags diag.Diagnostics
	if h.Client(&diags) == nil {
		return nil, errors.New(diags[0].Detail())
	}
	c.fleet, c.err = ReadRecentFleet(ctx, h.planClient, h.Has)
	c.until = time.Now().Add(fleetFresh)
	if c.err != nil {
		c.until = time.Now().Add(fleetAway)
	}
	return c.fleet, c.err
}

// Fleet is a snapshot of the fleet for a caller that waits for the hub. All previews
// of a plan share one. In an apply each gets its own: the apply changes the fleet.
func (h *Hub) Fleet(ctx context.Context, client *kube.Client) (*Fleet, error) {
	if h.HasWritten() {
		return ReadFleet(ctx, client, h.Has)
	}
	c := &h.fleets
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && time.Now().Before(c.until) {
		return c.fleet, nil
	}
	snapshot, err := ReadRecentFleet(ctx, client, h.Has)
	if err == nil {
		c.fleet, c.err, c.until = snapshot, nil, time.Now().Add(fleetFresh)
	}
	return snapshot, err
}

// PreviewTimeout is how long planning waits for the hub's answer.
const PreviewTimeout = 5 * time.Second

// clusterSets are the names of the hub's cluster sets, which a plan lists once.
type clusterSets struct {
	mu     sync.Mutex
	listed bool
	names  map[string]bool // nil where they can't be listed
}

// LacksSet reports whether the hub is known not to have a cluster set.
func (h *Hub) LacksSet(ctx context.Context, name string) bool {
	c := &h.sets
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.listed {
		c.listed = true
		var diags diag.Diagnostics
		client := h.ReadClient(&diags)
		if client == nil {
			return false
		}
		list := &clusterv1beta2.ManagedClusterSetList{}
		if err := client.List(ctx, list, kube.ListOptions{}); err != nil {
			return false // What needs the hub will tell.
		}
		c.names = map[string]bool{}
		for i := range list.Items {
			c.names[list.Items[i].Name] = true
		}
	}
	return c.names != nil && !c.names[name]
}
