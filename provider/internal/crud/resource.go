package crud

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

// Resource is what all resources have in common: the hub.
type Resource struct {
	Hub *hub.Hub
}

// Configure implements resource.ResourceWithConfigure.
func (r *Resource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.Hub = hub.Configured(req.ProviderData, &resp.Diagnostics)
}

// SkipRead reports whether the hub can't be asked because it is not known yet.
// The state then stays as it is.
func (r *Resource) SkipRead(diags *diag.Diagnostics) bool {
	if r.Hub == nil || !r.Hub.IsUnknown() {
		return false
	}
	diags.AddWarning("The hub is not known yet",
		fmt.Sprintf("The provider block's %s will only be known after apply, so the state was not compared with the hub.", strings.Join(r.Hub.Unknown, ", ")))
	return true
}

// Find reads an object. ok is false after an error; found is false when the
// object itself does not exist.
func (r *Resource) Find(ctx context.Context, object kube.Object, namespace, name, doing string, diags *diag.Diagnostics) (found, ok bool) {
	client := r.Hub.Client(diags)
	if client == nil {
		return false, false
	}
	found, err := find(ctx, client.Get, object, namespace, name)
	if err != nil {
		hub.AddAPIError(diags, client, doing, err)
	}
	return found, err == nil
}

// find reads an object with a method of a client, and reports whether it exists.
func find(
	ctx context.Context, read func(ctx context.Context, object kube.Object, namespace, name string) error,
	object kube.Object, namespace, name string,
) (bool, error) {
	err := read(ctx, object, namespace, name)
	if kube.IsNotFound(err, name) {
		return false, nil
	}
	return err == nil, err
}

// Existing reads an object that has to exist, as for an import.
func (r *Resource) Existing(ctx context.Context, object kube.Object, namespace, name, doing string, diags *diag.Diagnostics) bool {
	found, ok := r.Find(ctx, object, namespace, name, doing, diags)
	if ok && !found {
		diags.AddError("Cannot "+doing, "It does not exist on the hub. Check its name, or let Terraform create it.")
	}
	return ok && found
}
