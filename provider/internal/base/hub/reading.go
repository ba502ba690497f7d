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

// RefreshBudget is how long a hub may be away while a plan reads its state. Terraform
// shows nothing of a provider that waits, so a plan does not wait for long. Writes
// have kube.DefaultRetryBudget: an apply that has begun had better end.
const RefreshBudget = 10 * time.Second

// readings are what the resources of one run have in common when they read.
type readings struct {
	mu     sync.Mutex
	client *kube.Client
	// reported says that a resource has told that the hub is away.
	reported bool
}

// ReadTimeout is how long a refresh may take. A server that does not even refuse a
// connection, as behind a firewall, is not waited for any longer.
const ReadTimeout = 2 * RefreshBudget

// ReadClient is Client for a refresh: it waits for RefreshBudget only. Where there is
// no client, the first refresh gets the error, and where the hub was away for one,
// there is none for the others. One error fails the plan; the same one for every
// resource would hide it, and take as long again.
func (h *Hub) ReadClient(diags *diag.Diagnostics) *kube.Client {
	var problems diag.Diagnostics
	if h.isReported() {
		return nil
	}
	client := h.Client(&problems)
	if client == nil {
		if h == nil || !h.reportedBefore() {
			diags.Append(problems...)
		}
		return nil
	}
	return h.withinBudget(client)
}

// QueryClient is Client for a data source. Terraform reads it in a plan, and in an
// apply only after what it depends on was written.
func (h *Hub) QueryClient(diags *diag.Diagnostics) *kube.Client {
	client := h.Client(diags)
	if client == nil || h.HasWritten() {
		return client
	}
	return h.withinBudget(client)
}

// withinBudget is the client with RefreshBudget.
func (h *Hub) withinBudget(patient *kube.Client) *kube.Client {
	h.readings.mu.Lock()
	defer h.readings.mu.Unlock()
	if h.readings.client == nil {
		h.readings.client = patient.WithRetryBudget(RefreshBudget)
	}
	return h.readings.client
}

// AddReadError is AddAPIError for a refresh. That the hub is away is told by the
// first resource alone, as with ReadClient; the others keep their state.
func (h *Hub) AddReadError(diags *diag.Diagnostics, client *kube.Client, doing string, err error) {
	var status apierrors.APIStatus
	if errors.As(err, &status) || errors.Is(err, context.Canceled) || !h.reportedBefore() {
		AddAPIError(diags, client, doing, err)
	}
}

// isReported reports whether a refresh has told that there is nobody to ask.
func (h *Hub) isReported() bool {
	if h == nil {
		return false
	}
	h.readings.mu.Lock()
	defer h.readings.mu.Unlock()
	return h.readings.reported
}

// reportedBefore reports whether it was called before.
func (h *Hub) reportedBefore() bool {
	h.readings.mu.Lock()
	defer h.readings.mu.Unlock()
	reported := h.readings.reported
	h.readings.reported = true
	return reported
}
