package crud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

var (
	_ resource.ResourceWithConfigure      = (*kindResource[kube.Object])(nil)
	_ resource.ResourceWithIdentity       = (*kindResource[kube.Object])(nil)
	_ resource.ResourceWithModifyPlan     = (*kindResource[kube.Object])(nil)
	_ resource.ResourceWithMoveState      = (*kindResource[kube.Object])(nil)
	_ resource.ResourceWithValidateConfig = (*kindResource[kube.Object])(nil)
	_ resource.ResourceWithImportState    = (*importable[kube.Object])(nil)
)

// Resource is what all resources have in common: the hub.
type Resource struct {
	Hub *hub.Hub
}

// Configure implements resource.ResourceWithConfigure.
func (r *Resource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.Hub = hub.Configured(req.ProviderData, &resp.Diagnostics)
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
	err := client.Get(ctx, object, namespace, name)
	if kube.IsNotFound(err, name) {
		return false, true
	}
	if err != nil {
		hub.AddAPIError(diags, client, doing, err)
	}
	return err == nil, err == nil
}

// kindResource is the resource of a kind.
type kindResource[O kube.Object] struct {
	Resource
	kind *Kind[O]
}

// importable is the resource of a kind that can be imported.
type importable[O kube.Object] struct{ kindResource[O] }

// Metadata implements resource.Resource.
func (r *kindResource[O]) Metadata(
	_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_" + r.kind.Type
	resp.ResourceBehavior.MutableIdentity = r.kind.Make != nil
}

// IdentitySchema implements resource.ResourceWithIdentity.
func (r *kindResource[O]) IdentitySchema(
	_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse,
) {
	resp.IdentitySchema = attribute.IdentitySchema(r.kind.keyNames()...)
}

// Schema implements resource.Resource.
func (r *kindResource[O]) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.kind.schema(ctx)
}

// ValidateConfig implements resource.ResourceWithValidateConfig.
func (r *kindResource[O]) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	if r.kind.Validate != nil {
		r.kind.Validate(ctx, req.Config, &resp.Diagnostics)
	}
}

// Create implements resource.Resource.
func (r *kindResource[O]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	defer r.mask(ctx, req.Plan, req.Config, &resp.Diagnostics)
	plan := instanceOf(ctx, r.kind, req.Plan, &resp.Diagnostics)
	c := &Change[O]{Config: req.Config, NewPrivate: resp.Private, Diagnostics: &resp.Diagnostics}
	limit, cancel := r.begin(ctx, c, plan, r.kind.Timeouts.Create, timeouts.Value.Create)
	defer cancel()
	written := r.write(limit, c, plan, "create", func(o Owned) error {
		return o.Create(limit, c.Client, resp.Private, &resp.Diagnostics)
	})
	if written {
		r.settle(ctx, limit, c, plan, &resp.State, resp.Identity)
	}
}

// Update implements resource.Resource.
func (r *kindResource[O]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	defer r.mask(ctx, req.Plan, req.Config, &resp.Diagnostics)
	plan := instanceOf(ctx, r.kind, req.Plan, &resp.Diagnostics)
	c := &Change[O]{
		Config: req.Config, Private: req.Private, NewPrivate: resp.Private, Diagnostics: &resp.Diagnostics,
		Prior:   instanceOf(ctx, r.kind, req.State, &resp.Diagnostics).values,
		Changes: attribute.ChangesBetween(req.Plan.Raw, req.State.Raw),
	}
	limit, cancel := r.begin(ctx, c, plan, r.kind.Timeouts.Update, timeouts.Value.Update)
	defer cancel()
	written := r.write(limit, c, plan, "update", func(o Owned) error {
		if !c.Changes.Beyond(r.kind.unwritten()...) {
			return c.Client.Get(limit, c.Object, c.Object.GetNamespace(), c.Object.GetName())
		}
		return o.Update(limit, c.Client, req.Private, resp.Private, &resp.Diagnostics)
	})
	if written {
		r.settle(ctx, limit, c, plan, &resp.State, resp.Identity)
	}
}

// begin completes a change to what is wanted. The context ends with the timeout, if the
// operation has one: takes says what takes the time, and of is the configuration's.
func (r *kindResource[O]) begin(
	ctx context.Context, c *Change[O], wanted *instance[O], takes string, of timeoutOf,
) (context.Context, context.CancelFunc) {
	c.Resource, c.Client, c.Began = &r.Resource, r.Hub.WriteClient(c.Diagnostics), time.Now()
	c.What, c.Keys = wanted.what(), wanted.keys
	r.kind.describe(ctx, wanted.keys)
	standard := cmp.Or(r.kind.Timeouts.Standard, attribute.DefaultWait)
	c.Timeout = wanted.timeout(ctx, of, standard, c.Diagnostics)
	c.Plan = wanted.values
	c.TakeReports = func() { wanted.report(c.Object) }
	if takes == "" {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.Timeout)
}

// write writes the object, and reports whether that went well. verb is what is done.
func (r *kindResource[O]) write(
	ctx context.Context, c *Change[O], wanted *instance[O], verb string, write func(o Owned) error,
) bool {
	k, doing := r.kind, verb+" "+c.What
	if c.Diagnostics.HasError() {
		return false
	}
	c.Object = wanted.object()
	if k.Complete != nil {
		k.Complete(ctx, c.Plan, c.Config, c.Object, c.Diagnostics)
	}
	if c.Diagnostics.HasError() || k.BeforeWrite != nil && !k.BeforeWrite(ctx, c) {
		return false
	}
	o := k.owned(wanted, c.Object)
	if k.Part != nil {
		if !k.Part.Write(ctx, c) {
			return false
		}
	} else if k.InCluster {
		namespace, writing := c.Object.GetNamespace(), func() error { return write(o) }
		if !inCluster(ctx, c.Client, namespace, doing, c.Timeout, c.Diagnostics, writing) {
			return false
		}
	} else if err := write(o); err != nil {
		if k.Explain != nil {
			err = k.Explain(c, doing, err)
		}
		hub.AddAPIError(c.Diagnostics, c.Client, doing, err)
		return false
	}
	ok := k.AfterWrite == nil || k.AfterWrite(ctx, c)
	c.TakeReports()
	return ok
}

// settle saves what was written, and waits as the kind does. A creation is saved before
// the wait, too, so that an interruption does not lose the object; and a wait that is not
// met only warns then: an error would make Terraform destroy the object and create it
// again. waiting ends with the timeout.
func (r *kindResource[O]) settle(
	ctx, waiting context.Context, c *Change[O], wanted *instance[O],
	state *tfsdk.State, identity *tfsdk.ResourceIdentity,
) {
	save := func() {
		c.Diagnostics.Append(state.Set(ctx, wanted.stored())...)
		c.Diagnostics.Append(identity.Set(ctx, wanted.identity())...)
	}
	defer save()
	if r.kind.Follow == nil {
		return
	}
	f := r.kind.Follow(waiting, c)
	if f.Report == nil {
		f.Report = c.TakeReports
	}
	due := f.begin(c.Plan)
	if c.Prior == nil {
		save()
	}
	summary, problem := f.run(waiting, c.Plan, due)
	switch {
	case problem == "":
	case c.Prior == nil:
		c.Diagnostics.AddWarning(summary, problem+"\n\n"+f.Attribute.afterCreation())
	default:
		c.Diagnostics.AddError(summary, problem)
	}
}

// inCluster writes into the namespace of a managed cluster. The namespace of a cluster
// that is just being accepted may not be there yet: that is waited for, but only for a
// cluster that exists. It reports whether that went well.
func inCluster(
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
		if err = client.Get(ctx, managed, "", namespace); kube.IsNotFound(err, namespace) {
			diags.AddError("Cannot "+doing, fmt.Sprintf("The hub %s has no managed cluster %q. Create it with "+
				"muster_managed_cluster and refer to that resource's name, or correct managed_cluster.",
				client.Host(), namespace))
			return false
		}
		if err == nil {
			there := func(exists bool) (bool, error) { return exists, nil }
			err = client.Wait(ctx, &corev1.Namespace{}, "", namespace, there)
			if hub.IsTimeout(err) {
				diags.AddError("Cannot "+doing, fmt.Sprintf("The managed cluster %q exists, but the hub gave it no "+
					"namespace within %s, which it does when the cluster is accepted. Add a "+
					"muster_cluster_acceptance for it and let this resource depend on that. Conditions:\n%s",
					namespace, timeout, hub.DescribeConditions(managed.Status.Conditions, time.Now())))
				return false
			}
		}
		if err != nil {
			hub.AddAPIError(diags, client, doing, err)
			return false
		}
	}
}

// Read implements resource.Resource. It warns if the object is another's by now. A resource
// whose object is gone is removed from the state.
func (r *kindResource[O]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	k, diags := r.kind, &resp.Diagnostics
	defer func() { r.mask(ctx, resp.State, resp.State, diags) }()
	state := instanceOf(ctx, k, req.State, diags)
	diags.Append(resp.Identity.Set(ctx, state.identity())...)
	if diags.HasError() {
		return
	}
	if r.Hub != nil && r.Hub.IsUnknown() {
		diags.AddWarning("The hub is not known yet", fmt.Sprintf("The provider block's %s will only be known after "+
			"apply, so the state was not compared with the hub.", strings.Join(r.Hub.Unknown, ", ")))
		return
	}
	client := r.Hub.ReadClient(diags)
	if client == nil {
		return
	}
	reading, cancel := context.WithTimeout(ctx, hub.ReadTimeout)
	defer cancel()
	object, what := k.empty(), state.what()
	k.describe(ctx, state.keys)
	namespace, name := k.locate(state.keys)
	if err := client.Lookup(reading, object, namespace, name); kube.IsNotFound(err, name) {
		resp.State.RemoveResource(ctx)
		return
	} else if err != nil {
		r.Hub.AddReadError(diags, client, "read "+what, err)
		return
	}
	if k.Part == nil {
		r.recognize(ctx, object, what, req.Private, resp.Private, diags)
	}
	if k.Reading != nil {
		k.Reading(ctx, &Change[O]{
			Resource: &r.Resource, What: what, Keys: state.keys, Prior: state.values, Object: object,
			Diagnostics: diags, Private: req.Private,
		})
	}
	k.Table.Observe(state.values, state.object(), state.shown(object))
	if k.AlsoRead != nil {
		if err := k.AlsoRead(ctx, client, state.values, object); err != nil {
			hub.AddAPIError(diags, client, "read "+what, err)
		}
	}
	if !diags.HasError() {
		diags.Append(resp.State.Set(ctx, state.stored())...)
	}
}

// Delete implements resource.Resource.
func (r *kindResource[O]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	k, diags := r.kind, &resp.Diagnostics
	state := instanceOf(ctx, k, req.State, diags)
	k.describe(ctx, state.keys)
	c := &Change[O]{
		Resource: &r.Resource, Client: r.Hub.WriteClient(diags), Began: time.Now(), Diagnostics: diags,
		What: state.what(), Keys: state.keys, Prior: state.values, Object: k.empty(), Private: req.Private,
		Timeout: state.timeout(ctx, timeouts.Value.Delete, attribute.DefaultDelete, diags),
	}
	if diags.HasError() || k.BeforeDelete != nil && !k.BeforeDelete(ctx, c) || k.Part != nil {
		return
	}
	r.destroy(ctx, c)
	if k.AfterDelete != nil && !diags.HasError() {
		k.AfterDelete(ctx, c)
	}
}

// destroy deletes the object and waits until it is gone. What goes with it lets go of
// clusters that are given up. c.Object holds what was seen last.
func (r *kindResource[O]) destroy(ctx context.Context, c *Change[O]) {
	waiting, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if r.kind.Going != nil {
		if going := r.kind.Going(c); going != nil {
			defer ReleaseLost(waiting, c.Client, *going)(c.Diagnostics)
		}
	}
	namespace, name := r.kind.locate(c.Keys)
	claim := ClaimOf(ctx, c.Private, c.Diagnostics)
	err := Left(c.Client, c.What, deleteAndWait(waiting, c.Client, c.Object, namespace, name, claim), c.Diagnostics)
	switch {
	case err == nil:
	case hub.IsTimeout(err) && !kube.IsUnanswered(err):
		c.Diagnostics.AddError(r.held(ctx, c))
	case errors.Is(err, context.Canceled) && !kube.IsUnanswered(err) && c.Object.GetDeletionTimestamp() != nil:
		c.Diagnostics.AddError("Interrupted: the deletion of "+c.What, fmt.Sprintf("Terraform was interrupted while "+
			"it waited for the object to go.\n%s\n\nThe resource stays in the state. Destroy again to go on.",
			hub.DescribeDeletion(c.Object, time.Now())))
	default:
		hub.AddAPIError(c.Diagnostics, c.Client, "delete "+c.What, err)
	}
}

// held says what keeps an object that should be gone. The kind says what the fleet has to
// do first; where only somebody else's finalizer is left, nothing is.
func (r *kindResource[O]) held(ctx context.Context, c *Change[O]) (summary, detail string) {
	summary = "Cannot delete " + c.What
	detail = fmt.Sprintf("It was still there after %s.\n%s", c.Timeout, hub.DescribeDeletion(c.Object, time.Now()))
	if r.kind.Late != nil {
		title, text := r.kind.Late(ctx, c)
		if summary = title; !hub.HeldByOthersOnly(c.Object) {
			detail = text
		}
	}
	resource := "KIND"
	if mapped, err := c.Client.ResourceOf(c.Object); err == nil {
		resource = mapped
	}
	if release := hub.ReleaseByOthers(c.Object, resource); release != "" {
		detail += "\n\n" + release
	}
	return summary, detail
}

// ImportState implements resource.ResourceWithImportState. The import changes nothing on
// the hub.
func (r *importable[O]) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	k, diags := r.kind, &resp.Diagnostics
	keys := attribute.ImportedNames(ctx, req, diags, k.keyNames()...)
	if diags.HasError() {
		return
	}
	object, what := k.empty(), k.what(keys)
	namespace, name := k.locate(keys)
	found, ok := r.Find(ctx, object, namespace, name, "import "+what, diags)
	if !ok {
		return
	}
	if !found {
		diags.AddError("Cannot import "+what,
			"It does not exist on the hub. Check its name, or let Terraform create it.")
		return
	}
	state, err := k.imported(object)
	if err != nil {
		hub.AddAPIError(diags, r.Hub.Client(diags), "import "+what, err)
		return
	}
	switch {
	case k.Part == nil:
		claim := importedClaim(object)
		if claim.Borrowed {
			diags.AddWarning(ofAnother+what,
				fmt.Sprintf("It was %s. The import changes nothing. A change of it will fail here, unless adopt = "+
					"true; then the other resource reports in its next plan that it was taken over. "+
					"If that resource is still in a state, remove it there (terraform state rm); if its state is "+
					"lost, nothing more is needed.",
					DescribeWriters(object, hub.FieldManager, time.Now())))
		}
		KeepClaim(ctx, resp.Private, claim, diags)
	case k.Part.Claim != nil:
		KeepClaim(ctx, resp.Private, k.Part.Claim(object), diags)
	}
	diags.Append(resp.State.Set(ctx, state.stored())...)
	diags.Append(resp.Identity.Set(ctx, state.identity())...)
}

// mask hides in diagnostics what is secret.
func (r *kindResource[O]) mask(ctx context.Context, from, config Source, diags *diag.Diagnostics) {
	if r.kind.Mask != nil {
		r.kind.Mask(ctx, from, config, diags)
	}
}
