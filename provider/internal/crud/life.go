package crud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
)

// Model is the plan or the state of a resource that keeps one object of the hub.
// It is a pointer to what the framework reads and writes.
type Model interface {
	// What names the object in messages: placement "default/p".
	What() string
	// Key is where the object is on the hub.
	Key() (namespace, name string)
	// Identity is the identity of the resource.
	Identity() any
}

// Save keeps a model in the state, with its identity.
func Save(ctx context.Context, model Model, state *tfsdk.State, identity *tfsdk.ResourceIdentity, diags *diag.Diagnostics) {
	diags.Append(state.Set(ctx, model)...)
	diags.Append(identity.Set(ctx, model.Identity())...)
}

// ReadObject brings the state up to date with the object on the hub, and warns if
// that is another's by now. observe takes over what was read. A resource whose
// object is gone is removed from the state.
func (r *Resource) ReadObject(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse, state Model, object kube.Object, observe func() error) {
	r.Refresh(ctx, req, resp, state, object, func() error {
		r.Recognize(ctx, object, state.What(), req.Private, resp.Private, &resp.Diagnostics)
		return observe()
	})
}

// Refresh is ReadObject for resources that do not own the object.
func (r *Resource) Refresh(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse, state Model, object kube.Object, observe func() error) {
	resp.Diagnostics.Append(req.State.Get(ctx, state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.Identity())...)
	if resp.Diagnostics.HasError() || r.SkipRead(&resp.Diagnostics) {
		return
	}
	doing := "read " + state.What()
	namespace, name := state.Key()
	client := r.Hub.ReadClient(&resp.Diagnostics)
	if client == nil {
		return
	}
	reading, cancel := context.WithTimeout(ctx, hub.ReadTimeout)
	defer cancel()
	switch found, err := find(reading, client.Lookup, object, namespace, name); {
	case err != nil:
		r.Hub.AddReadError(&resp.Diagnostics, client, doing, err)
		return
	case !found:
		resp.State.RemoveResource(ctx)
		return
	}
	if err := observe(); err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
	}
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
	}
}

// ImportObject takes an existing object over into the state. named is a model that
// has the names out of the import alone; attributes are those of the import's ID,
// in its order; adopt makes the state of the object that was read.
func (r *Resource) ImportObject(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
	attributes []string, object kube.Object, named func(names []string) Model, adopt func() (Model, error),
) {
	if state := r.Imported(ctx, req, resp, attributes, object, named, adopt); state != nil {
		KeepClaim(ctx, resp.Private, importedClaim(object), &resp.Diagnostics)
		Save(ctx, state, &resp.State, resp.Identity, &resp.Diagnostics)
	}
}

// importedClaim is the claim on an object that an import takes over. What people have
// set with kubectl is in the state then, so that the first write takes it over:
// otherwise removing it from the configuration would not remove it on the hub.
func importedClaim(object kube.Object) ownership.Claim {
	claim := ownership.Imported(object)
	if claim.Owner == "" && ownership.Of(object, hub.FieldManager).None() {
		claim.From = []string{"kubectl*"}
	}
	return claim
}

// Imported reads what an import names. It returns nil after an error.
func (r *Resource) Imported(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
	attributes []string, object kube.Object, named func(names []string) Model, adopt func() (Model, error),
) Model {
	names := attribute.ImportedNames(ctx, req, &resp.Diagnostics, attributes...)
	if resp.Diagnostics.HasError() {
		return nil
	}
	probe := named(names)
	doing := "import " + probe.What()
	namespace, name := probe.Key()
	if !r.Existing(ctx, object, namespace, name, doing, &resp.Diagnostics) {
		return nil
	}
	state, err := adopt()
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, r.Hub.Client(&resp.Diagnostics), doing, err)
		return nil
	}
	return state
}

// Destroy deletes an object and waits until it is gone. late, which may be nil,
// says what keeps an object that is still there after the timeout; object then
// holds what was seen last.
func (r *Resource) Destroy(
	ctx context.Context, object kube.Object, state Model, timeout time.Duration, was PrivateReader, diags *diag.Diagnostics,
	late func(client *kube.Client) (summary, detail string),
) {
	client := r.Hub.WriteClient(diags)
	if client == nil {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	namespace, name := state.Key()
	err := r.DeleteObject(waiting, client, object, namespace, name, state.What(), was, diags)
	switch {
	case err == nil:
	case kube.IsUnanswered(err):
		hub.AddAPIError(diags, client, "delete "+state.What(), err)
	case errors.Is(err, context.Canceled) && object.GetDeletionTimestamp() != nil:
		diags.AddError("Interrupted: the deletion of "+state.What(), fmt.Sprintf("Terraform was interrupted while it waited for the object to go.\n%s\n\n"+
			"The resource stays in the state. Destroy again to go on.", hub.DescribeDeletion(object, time.Now())))
	case hub.IsTimeout(err) && late != nil:
		diags.AddError(late(client))
	case hub.IsTimeout(err):
		diags.AddError("Cannot delete "+state.What(), fmt.Sprintf("It was still there after %s.\n%s", timeout, hub.DescribeDeletion(object, time.Now())))
	default:
		hub.AddAPIError(diags, client, "delete "+state.What(), err)
	}
}

// Follow is what comes after an object was written: the wait for it, if there is
// one, and the attributes that it fills in.
type Follow struct {
	// Waits says whether the configuration asks for the wait.
	Waits bool
	// Ready is the attribute that tells whether the wait was met.
	Ready *types.Bool
	// Wait waits, and says what is wrong if it was not met. It is nil where there is
	// nothing to wait for.
	Wait func() (summary, problem string)
	// Report takes over what was seen last, after the wait.
	Report func()
	// Kind is what the object is called in a message, such as "placement".
	Kind string
	// Failing is the resource that waits for the same, and whose failure fails the
	// run; empty where there is none.
	Failing string
}

// Created saves the plan, waits, and saves it again. It is saved before the wait, so
// that an interruption does not lose the object. A wait that is not met only warns:
// an error would make Terraform destroy the object and create it again.
func (f Follow) Created(ctx context.Context, plan Model, resp *resource.CreateResponse) {
	*f.Ready = types.BoolNull()
	if f.Waits {
		*f.Ready = types.BoolValue(false)
	}
	Save(ctx, plan, &resp.State, resp.Identity, &resp.Diagnostics)
	if f.Wait == nil {
		return
	}
	summary, problem := f.wait()
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if problem != "" {
		text := "The " + f.Kind + " stays as it is, and the next apply waits again. This run succeeds all the same, because Terraform would destroy what an error leaves behind. To make it fail, "
		if f.Failing != "" {
			text += "wait with " + f.Failing + ", or "
		}
		resp.Diagnostics.AddWarning(summary, problem+"\n\n"+text+"add a lifecycle postcondition on self.ready.")
	}
}

// Updated waits and saves the plan. A wait that is not met is an error.
func (f Follow) Updated(ctx context.Context, plan Model, resp *resource.UpdateResponse) {
	switch {
	case !f.Waits:
		*f.Ready = types.BoolNull()
	case f.Ready.IsUnknown():
		*f.Ready = types.BoolValue(false)
	}
	if f.Wait != nil {
		if summary, problem := f.wait(); problem != "" {
			resp.Diagnostics.AddError(summary, problem)
		}
	}
	Save(ctx, plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

func (f Follow) wait() (summary, problem string) {
	summary, problem = f.Wait()
	if f.Waits {
		*f.Ready = types.BoolValue(problem == "")
	}
	f.Report()
	return summary, problem
}
