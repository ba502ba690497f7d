package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

// What a plan tells of an object that is to be created and exists.

// impatientClient is the hub's client for what a plan asks beside the way: it
// does not wait for a hub that is away, and leaves it alone for a while then.
type impatientClient struct {
	mu     sync.Mutex
	client *kube.Client
	away   time.Time // until when the hub is not asked
}

// impatiently is the client for a plan's questions, or nil when the hub is not
// known, not configured or was away a moment ago.
func (h *hub) impatiently() *kube.Client {
	if h == nil || h.isUnknown() {
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
		if h.client(&diags) == nil {
			return nil // The apply will tell.
		}
		client, err := newClient(h.connection, h.version, impatient)
		if err != nil {
			return nil
		}
		c.client = client
	}
	return c.client
}

// didNotAnswer notes that the hub is away, if err says so.
func (h *hub) didNotAnswer(err error) {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return
	}
	h.planning.mu.Lock()
	defer h.planning.mu.Unlock()
	h.planning.away = time.Now().Add(fleetAway)
}

// foresee warns of an object that is to be created although it exists and is
// different. It costs a read for each new object, and nothing for others. Where
// the hub does not answer or the configuration is not known it says nothing.
func (r *hubResource) foresee(ctx context.Context, req resource.ModifyPlanRequest, diags *diag.Diagnostics, wanted func(*diag.Diagnostics) (owned, bool)) {
	if !req.State.Raw.IsNull() || req.Plan.Raw.IsNull() || !req.Config.Raw.IsFullyKnown() || diags.HasError() {
		return
	}
	client := r.hub.impatiently()
	if client == nil {
		return
	}
	var problems diag.Diagnostics
	o, ok := wanted(&problems)
	claim := claimOf(ctx, req.Private, &problems)
	if !ok || problems.HasError() {
		return // Validation or the apply will tell.
	}
	ctx, cancel := context.WithTimeout(ctx, previewTimeout)
	defer cancel()
	live := kube.Fresh(o.write.Object)
	if err := client.Get(ctx, live, o.write.Object.GetNamespace(), o.write.Object.GetName()); err != nil {
		r.hub.didNotAnswer(err)
		return
	}
	// An object that is replaced is this resource's own.
	if live.GetDeletionTimestamp() != nil || (claim.Owner != "" && claim.Holds(live)) {
		return
	}
	differences, err := o.write.Compare(ctx, client, live)
	if err != nil && !apierrors.IsForbidden(err) {
		r.hub.didNotAnswer(err)
		return
	}
	if err == nil && len(differences) == 0 {
		return
	}
	text := o.exists(client, live, differences, time.Now())
	switch {
	case err != nil:
		diags.AddWarning("Exists already: "+o.what, fmt.Sprintf("The hub %s has %s already. Whether it is as this configuration says can't be told with the rights of this plan; "+
			"if it is not, the apply will fail, unless adopt = true.", client.Host(), o.what))
	case o.write.Adopt:
		diags.AddWarning("Will be taken over: "+o.what, text+" As adopt is true, the apply will overwrite that.")
	default:
		diags.AddWarning("Exists already: "+o.what, text+"\n\nThe apply will fail. "+o.ways())
	}
}
