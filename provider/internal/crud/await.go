package crud

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

// Await is all that the creation and the update of a resource do that only waits:
// a failure is an error, which taints nothing but the wait, and is waited for again
// by the next apply. wait says what is wrong if the wait was not met; it ends with
// waiting.
func (r *Resource) Await(
	ctx context.Context, plan Model, timeout time.Duration, state *tfsdk.State, identity *tfsdk.ResourceIdentity, diags *diag.Diagnostics,
	wait func(waiting context.Context, client *kube.Client) (summary, problem string),
) {
	client := r.Hub.Client(diags)
	if diags.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if summary, problem := wait(waiting, client); problem != "" {
		diags.AddError(summary, problem)
		return
	}
	Save(ctx, plan, state, identity, diags)
}
