package crud

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

var (
	_ resource.ResourceWithConfigure      = (*kindResource[attribute.Values, kube.Object])(nil)
	_ resource.ResourceWithImportState    = (*kindResource[attribute.Values, kube.Object])(nil)
	_ resource.ResourceWithIdentity       = (*kindResource[attribute.Values, kube.Object])(nil)
	_ resource.ResourceWithModifyPlan     = (*kindResource[attribute.Values, kube.Object])(nil)
	_ resource.ResourceWithMoveState      = (*kindResource[attribute.Values, kube.Object])(nil)
	_ resource.ResourceWithValidateConfig = (*kindResource[attribute.Values, kube.Object])(nil)
)

// kindResource is the resource of a kind.
type kindResource[M any, O kube.Object] struct {
	Resource
	kind *Kind[M, O]
}

// Metadata implements resource.Resource.
func (r *kindResource[M, O]) Metadata(
	_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_" + r.kind.Type
	resp.ResourceBehavior.MutableIdentity = r.kind.Make != nil
}

// IdentitySchema implements resource.ResourceWithIdentity.
func (r *kindResource[M, O]) IdentitySchema(
	_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse,
) {
	resp.IdentitySchema = attribute.IdentitySchema(r.kind.keyNames()...)
}

// Schema implements resource.Resource.
func (r *kindResource[M, O]) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: r.kind.Description,
		Attributes:          r.kind.attributes(),
		Blocks:              r.kind.blocks(ctx),
	}
}

// ValidateConfig implements resource.ResourceWithValidateConfig.
func (r *kindResource[M, O]) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	if r.kind.Validate != nil {
		r.kind.Validate(ctx, req.Config, &resp.Diagnostics)
	}
}

// Create implements resource.Resource.
func (r *kindResource[M, O]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	defer r.mask(ctx, req.Plan, req.Config, &resp.Diagnostics)
	plan := instanceOf(ctx, r.kind, req.Plan, &resp.Diagnostics)
	c := r.change(plan, nil, &resp.Diagnostics)
	c.Config, c.NewPrivate = req.Config, resp.Private
	waiting, cancel := r.limited(ctx, plan, c, "create")
	defer cancel()
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.write(waiting, plan, c, "create", func(o Owned) error {
		return o.Create(waiting, c.Client, resp.Private, &resp.Diagnostics)
	}) {
		return
	}
	if r.kind.Follow == nil {
		Save(ctx, plan, &resp.State, resp.Identity, &resp.Diagnostics)
		return
	}
	r.follow(waiting, plan, c).Created(ctx, waiting, plan, resp)
}

// Read implements resource.Resource.
func (r *kindResource[M, O]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	state := &instance[M, O]{kind: r.kind}
	object, _ := kube.Fresh(r.kind.Empty).(O)
	defer func() { r.mask(ctx, resp.State, resp.State, &resp.Diagnostics) }()
	read := r.ReadObject
	if r.kind.Part != nil {
		read = r.Refresh
	}
	read(ctx, req, resp, state, object, func() error {
		if r.kind.Reading != nil {
			r.kind.Reading(ctx, &Change[M, O]{
				Resource: &r.Resource, What: state.What(), Keys: state.keys, Prior: state.model, Object: object,
				Diagnostics: &resp.Diagnostics, Private: req.Private,
			})
		}
		if r.kind.AfterRead != nil {
			r.kind.AfterRead(ctx, state.model, object, &resp.Diagnostics)
		}
		if r.kind.Warn != nil {
			r.kind.Warn(ctx, &r.Resource, state.model, object, &resp.Diagnostics)
		}
		if err := state.observe(object); err != nil || r.kind.AlsoRead == nil {
			return err
		}
		client := r.Hub.ReadClient(&resp.Diagnostics)
		if client == nil {
			return nil
		}
		return r.kind.AlsoRead(ctx, client, state.model, object)
	})
}

// Update implements resource.Resource.
func (r *kindResource[M, O]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	defer r.mask(ctx, req.Plan, req.Config, &resp.Diagnostics)
	plan := instanceOf(ctx, r.kind, req.Plan, &resp.Diagnostics)
	c := r.change(plan, instanceOf(ctx, r.kind, req.State, &resp.Diagnostics), &resp.Diagnostics)
	c.Config, c.Private, c.NewPrivate = req.Config, req.Private, resp.Private
	c.Changes = attribute.ChangesBetween(req.Plan.Raw, req.State.Raw)
	waiting, cancel := r.limited(ctx, plan, c, "update")
	defer cancel()
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.write(waiting, plan, c, "update", func(o Owned) error {
		if !c.Changes.Beyond(r.kind.unwritten()...) {
			return c.Client.Get(waiting, c.Object, c.Object.GetNamespace(), c.Object.GetName())
		}
		return o.Update(waiting, c.Client, req.Private, resp.Private, &resp.Diagnostics)
	}) {
		return
	}
	if r.kind.Follow == nil {
		Save(ctx, plan, &resp.State, resp.Identity, &resp.Diagnostics)
		return
	}
	r.follow(waiting, plan, c).Updated(ctx, waiting, plan, resp)
}

// Delete implements resource.Resource.
func (r *kindResource[M, O]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	state := instanceOf(ctx, r.kind, req.State, &resp.Diagnostics)
	c := r.change(nil, state, &resp.Diagnostics)
	c.Private = req.Private
	c.Timeout, _ = r.kind.limit(ctx, state, "delete", &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.kind.BeforeDelete != nil && !r.kind.BeforeDelete(ctx, c) {
		return
	}
	var going *Going
	if r.kind.Going != nil {
		going = r.kind.Going(c)
	}
	var late func(*kube.Client) (summary, detail string)
	if r.kind.Late != nil {
		late = func(*kube.Client) (summary, detail string) { return r.kind.Late(ctx, c) }
	}
	r.DestroyWith(ctx, c.Object, state, c.Timeout, req.Private, &resp.Diagnostics, going, late)
	if r.kind.AfterDelete != nil && !resp.Diagnostics.HasError() {
		r.kind.AfterDelete(ctx, c)
	}
}

// ImportState implements resource.ResourceWithImportState.
func (r *kindResource[M, O]) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	object, _ := kube.Fresh(r.kind.Empty).(O)
	named := func(names []string) Model { return &instance[M, O]{kind: r.kind, keys: names} }
	adopt := func() (Model, error) { return r.kind.imported(object) }
	if r.kind.Part == nil {
		r.ImportObject(ctx, req, resp, r.kind.keyNames(), object, named, adopt)
	} else if state := r.Imported(ctx, req, resp, r.kind.keyNames(), object, named, adopt); state != nil {
		if r.kind.Part.Claim != nil {
			KeepClaim(ctx, resp.Private, r.kind.Part.Claim(object), &resp.Diagnostics)
		}
		Save(ctx, state, &resp.State, resp.Identity, &resp.Diagnostics)
	}
}

// MoveState implements resource.ResourceWithMoveState.
func (r *kindResource[M, O]) MoveState(context.Context) []resource.StateMover {
	if r.kind.Part != nil {
		return nil
	}
	return MovedFrom(func(object O) (Model, error) { return r.kind.imported(object) })
}

// change is what hooks see. Either plan or state may be nil.
func (r *kindResource[M, O]) change(plan, state *instance[M, O], diags *diag.Diagnostics) *Change[M, O] {
	c := &Change[M, O]{Resource: &r.Resource, Client: r.Hub.WriteClient(diags), Began: time.Now(), Diagnostics: diags}
	if state != nil {
		c.Prior, c.What, c.Keys = state.model, state.What(), state.keys
		c.Object, _ = kube.Fresh(r.kind.Empty).(O)
	}
	if plan != nil {
		c.Plan, c.What, c.Keys = plan.model, plan.What(), plan.keys
		c.TakeReports = func() { plan.report(c.Object) }
		if !diags.HasError() {
			c.Object = plan.object()
		}
	}
	return c
}

// limited ends with the timeout of the operation, if it has one.
func (r *kindResource[M, O]) limited(
	ctx context.Context, plan *instance[M, O], c *Change[M, O], operation string,
) (context.Context, context.CancelFunc) {
	timeout, limited := r.kind.limit(ctx, plan, operation, c.Diagnostics)
	c.Timeout = timeout
	if !limited {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}

// write writes the object, and reports whether that went well. verb is what is done.
func (r *kindResource[M, O]) write(
	ctx context.Context, plan *instance[M, O], c *Change[M, O], verb string, write func(o Owned) error,
) bool {
	k, doing := r.kind, verb+" "+c.What
	if k.Complete != nil {
		k.Complete(ctx, c.Plan, c.Config, c.Object, c.Diagnostics)
	}
	if c.Diagnostics.HasError() {
		return false
	}
	if k.BeforeWrite != nil && !k.BeforeWrite(ctx, c) {
		return false
	}
	o := k.owned(plan)
	o.Write.Object = c.Object
	if k.Part != nil {
		if !k.Part.Write(ctx, c) {
			return false
		}
	} else if k.InCluster {
		namespace, writing := c.Object.GetNamespace(), func() error { return write(o) }
		if !InCluster(ctx, c.Client, namespace, doing, c.Timeout, c.Diagnostics, writing) {
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
	plan.report(c.Object)
	return ok
}

// follow is the wait after a write.
func (r *kindResource[M, O]) follow(ctx context.Context, plan *instance[M, O], c *Change[M, O]) Follow {
	f := r.kind.Follow(ctx, c)
	if f.Report == nil {
		f.Report = c.TakeReports
	}
	if values, ok := plan.values(); ok && f.Ready == nil {
		f.Ready = new(types.Bool)
		*f.Ready, _ = (*values)["ready"].(types.Bool)
		f.keep = func() { (*values)["ready"] = *f.Ready }
	}
	return f
}

// mask hides in diagnostics what is secret.
func (r *kindResource[M, O]) mask(ctx context.Context, from, config Source, diags *diag.Diagnostics) {
	if r.kind.Mask != nil {
		r.kind.Mask(ctx, from, config, diags)
	}
}
