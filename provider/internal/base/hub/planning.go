package hub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// planningClient is the hub's client for what a plan asks beside the way: it
// does not wait for a hub that is away, and leaves it alone for a while then.
type planningClient struct {
	mu     sync.Mutex
	client *kube.Client
	away   time.Time // until when the hub is not asked
}

// PlanClient is the client for a plan's questions, or nil when the hub is not
// known, not configured or was away a moment ago.
func (h *Hub) PlanClient() *kube.Client {
	if h == nil || h.IsUnknown() {
		return nil
	}
	c := &h.planning
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.away) {
		return nil
	}
	if c.client == nil {
		var diags diag.Diagnostics
		patient := h.Client(&diags)
		if patient == nil {
			return nil // The apply will tell.
		}
		c.client = patient.WithRetryBudget(PlanRetryBudget)
	}
	return c.client
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
	mu     sync.Mutex
	client *kube.Client
	fleet  *Fleet
	err    error
	until  time.Time
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
	if c.client == nil {
		var diags diag.Diagnostics
		patient := h.Client(&diags)
		if patient == nil {
			return nil, errors.New(diags[0].Detail())
		}
		c.client = patient.WithRetryBudget(PlanRetryBudget)
	}
	c.fleet, c.err = ReadRecentFleet(ctx, c.client, h.Has)
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
