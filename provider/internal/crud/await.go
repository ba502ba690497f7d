package crud

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

// Waiting is the model of a resource that only waits. Its Key is that of the object
// that it waits for.
type Waiting interface {
	Model
	// Limits are its timeouts.
	Limits() timeouts.Value
	// Wait says what is wrong if the wait was not met. It ends with waiting, which
	// lasts for timeout.
	Wait(waiting context.Context, client *kube.Client, timeout time.Duration) (summary, problem string)
}

// WaitResource is the life of a resource that only waits for an object: a failure is
// an error, which taints nothing but the wait, and is waited for again by the next
// apply. The resource goes with the object.
type WaitResource struct {
	Resource
	// Model is an empty model, and Object an empty object of the kind.
	Model  func() Waiting
	Object func() kube.Object
}

// WaitTimeouts is the block of a resource that only waits.
func WaitTimeouts(ctx context.Context) map[string]schema.Block {
	return map[string]schema.Block{
		"timeouts": timeouts.Block(ctx, timeouts.Opts{
			Create: true, CreateDescription: attribute.TimeoutText("the first wait", attribute.DefaultWait),
			Update: true, UpdateDescription: attribute.TimeoutText("a wait for a change", attribute.DefaultWait),
		}),
	}
}

// Create waits for the first time.
func (r *WaitResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	plan := r.Model()
	resp.Diagnostics.Append(req.Plan.Get(ctx, plan)...)
	timeout, diags := plan.Limits().Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	r.await(ctx, plan, timeout, &resp.State, resp.Identity, &resp.Diagnostics)
}

// Read forgets the wait when its object is gone.
func (r *WaitResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	r.Refresh(ctx, req, resp, r.Model(), r.Object(), func() error { return nil })
}

// Update waits again, unless only a timeout has changed.
func (r *WaitResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	plan := r.Model()
	resp.Diagnostics.Append(req.Plan.Get(ctx, plan)...)
	if !attribute.ChangesBetween(req.Plan.Raw, req.State.Raw).Beyond("timeouts") {
		Save(ctx, plan, &resp.State, resp.Identity, &resp.Diagnostics)
		return
	}
	timeout, diags := plan.Limits().Update(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	r.await(ctx, plan, timeout, &resp.State, resp.Identity, &resp.Diagnostics)
}

// Delete forgets what was waited for.
func (r *WaitResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

func (r *WaitResource) await(
	ctx context.Context, plan Waiting, timeout time.Duration, state *tfsdk.State, identity *tfsdk.ResourceIdentity, diags *diag.Diagnostics,
) {
	client := r.Hub.Client(diags)
	if diags.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if summary, problem := plan.Wait(waiting, client, timeout); problem != "" {
		diags.AddError(summary, problem)
		return
	}
	Save(ctx, plan, state, identity, diags)
}
