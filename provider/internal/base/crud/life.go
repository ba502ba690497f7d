package crud

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
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
func Save(
	ctx context.Context, model Model, state *tfsdk.State, identity *tfsdk.ResourceIdentity, diags *diag.Diagnostics,
) {
	diags.Append(state.Set(ctx, stored(model))...)
	diags.Append(identity.Set(ctx, model.Identity())...)
}

// ReadObject brings the state up to date with the object on the hub, and warns if
// that is another's by now. observe takes over what was read. A resource whose
// object is gone is removed from the state.
func (r *Resource) ReadObject(
	ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse, state Model, object kube.Object,
	observe func() error,
) {
	r.Refresh(ctx, req, resp, state, object, func() error {
		r.Recognize(ctx, object, state.What(), req.Private, resp.Private, &resp.Diagnostics)
		return observe()
	})
}

// Refresh is ReadObject for resources that do not own the object.
func (r *Resource) Refresh(
	ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse, state Model, object kube.Object,
	observe func() error,
) {
	resp.Diagnostics.Append(load(ctx, req.State, state)...)
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
		resp.Diagnostics.Append(resp.State.Set(ctx, stored(state))...)
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
		claim := importedClaim(object)
		if claim.Borrowed {
			resp.Diagnostics.AddWarning(ofAnother+state.What(),
				fmt.Sprintf("It was %s. The import changes nothing. A change of it will fail here, unless adopt = "+
					"true; then the other resource reports in its next plan that it was taken over. "+
					"If that resource is still in a state, remove it there (terraform state rm); if its state is "+
					"lost, nothing more is needed.",
					DescribeWriters(object, hub.FieldManager, time.Now())))
		}
		KeepClaim(ctx, resp.Private, claim, &resp.Diagnostics)
		Save(ctx, state, &resp.State, resp.Identity, &resp.Diagnostics)
	}
}

// importedClaim is the claim on an object that an import takes over. What people have
// set with kubectl is in the state then, so that the first write takes it over:
// otherwise removing it from the configuration would not remove it on the hub.
func importedClaim(object kube.Object) Claim {
	claim := claimAsFound(object)
	if claim.Owner == "" && FieldsOf(object, hub.FieldManager).None() {
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
	ctx context.Context, object kube.Object, state Model, timeout time.Duration, was PrivateReader,
	diags *diag.Diagnostics,
	late func(client *kube.Client) (summary, detail string),
) {
	r.DestroyWith(ctx, object, state, timeout, was, diags, nil, late)
}

// DestroyWith is Destroy of an object for which agents of clusters have to clean up:
// what is going lets go of clusters that are given up.
func (r *Resource) DestroyWith(
	ctx context.Context, object kube.Object, state Model, timeout time.Duration, was PrivateReader,
	diags *diag.Diagnostics,
	going *Going, late func(client *kube.Client) (summary, detail string),
) {
	client := r.Hub.WriteClient(diags)
	if client == nil {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if going != nil {
		defer ReleaseLost(waiting, client, *going)(diags)
	}
	namespace, name := state.Key()
	err := r.DeleteObject(waiting, client, object, namespace, name, state.What(), was, diags)
	switch {
	case err == nil:
	case kube.IsUnanswered(err):
		hub.AddAPIError(diags, client, "delete "+state.What(), err)
	case errors.Is(err, context.Canceled) && object.GetDeletionTimestamp() != nil:
		diags.AddError("Interrupted: the deletion of "+state.What(), fmt.Sprintf("Terraform was interrupted while it "+
			"waited for the object to go.\n%s\n\n"+
			"The resource stays in the state. Destroy again to go on.", hub.DescribeDeletion(object, time.Now())))
	case hub.IsTimeout(err):
		diags.AddError(held(client, object, state.What(), timeout, late))
	default:
		hub.AddAPIError(diags, client, "delete "+state.What(), err)
	}
}

// held says what keeps an object that should be gone. late tells what the fleet has to
// do first; where only somebody else's finalizer is left, nothing is.
func held(
	client *kube.Client, object kube.Object, what string, timeout time.Duration,
	late func(client *kube.Client) (summary, detail string),
) (summary, detail string) {
	summary = "Cannot delete " + what
	detail = fmt.Sprintf("It was still there after %s.\n%s", timeout, hub.DescribeDeletion(object, time.Now()))
	if late != nil {
		title, text := late(client)
		if summary = title; !hub.HeldByOthersOnly(object) {
			detail = text
		}
	}
	resource := "KIND"
	if mapped, err := client.ResourceOf(object); err == nil {
		resource = mapped
	}
	if release := hub.ReleaseByOthers(object, resource); release != "" {
		detail += "\n\n" + release
	}
	return summary, detail
}

// InCluster writes into the namespace of a managed cluster. The namespace of a cluster
// that is just being accepted may not be there yet: that is waited for, but only for a
// cluster that exists. It reports whether that went well.
func InCluster(
	ctx context.Context, client *kube.Client, namespace, doing string, timeout time.Duration, diags *diag.Diagnostics,
	write func() error,
) bool {
	for {
		err := write()
		if err == nil {
			return true
		}
		if !kube.IsNamespaceNotFound(err, namespace) {
			hub.AddAPIError(diags, client, doing, err)
			return false
		}
		managed := &clusterv1.ManagedCluster{}
		switch err := client.Get(ctx, managed, "", namespace); {
		case kube.IsNotFound(err, namespace):
			diags.AddError("Cannot "+doing, fmt.Sprintf("The hub %s has no managed cluster %q. Create it with "+
				"muster_managed_cluster and refer to that resource's name, or correct managed_cluster.",
				client.Host(), namespace))
			return false
		case err != nil:
			hub.AddAPIError(diags, client, doing, err)
			return false
		}
		there := func(exists bool) (bool, error) { return exists, nil }
		err = client.Wait(ctx, &corev1.Namespace{}, "", namespace, there)
		if hub.IsTimeout(err) {
			diags.AddError("Cannot "+doing, fmt.Sprintf("The managed cluster %q exists, but the hub gave it no "+
				"namespace within %s, which it does when the cluster is accepted. "+
				"Add a muster_cluster_acceptance for it and let this resource depend on that. Conditions:\n%s", namespace, timeout,
				hub.DescribeConditions(managed.Status.Conditions, time.Now())))
			return false
		}
		if err != nil {
			hub.AddAPIError(diags, client, doing, err)
			return false
		}
	}
}

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
		fmt.Sprintf("The provider block's %s will only be known after apply, so the state was not compared with the "+
			"hub.", strings.Join(r.Hub.Unknown, ", ")))
	return true
}

// Find reads an object. ok is false after an error; found is false when the
// object itself does not exist.
func (r *Resource) Find(
	ctx context.Context, object kube.Object, namespace, name, doing string, diags *diag.Diagnostics,
) (found, ok bool) {
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
func (r *Resource) Existing(
	ctx context.Context, object kube.Object, namespace, name, doing string, diags *diag.Diagnostics,
) bool {
	found, ok := r.Find(ctx, object, namespace, name, doing, diags)
	if ok && !found {
		diags.AddError("Cannot "+doing, "It does not exist on the hub. Check its name, or let Terraform create it.")
	}
	return ok && found
}
