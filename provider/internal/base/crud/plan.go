package crud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// ModifyPlan plans what the hub reports, and asks the hub what would come of the change.
func (r *kindResource[O]) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	k, writes := r.kind, true
	if k.Part == nil && req.State.Raw.IsNull() && !req.Plan.Raw.IsNull() {
		r.noteCreation(ctx, req.Plan)
	}
	defer func() { r.mask(ctx, resp.Plan, req.Config, &resp.Diagnostics) }()
	if !req.Plan.Raw.IsNull() {
		if !req.State.Raw.IsNull() {
			k.keepWording(ctx, req, resp)
		}
		if k.Waits != nil {
			writes = k.leaveOpen(ctx, req, resp)
		}
	}
	asks := k.Plan == nil || k.Plan(ctx, &r.Resource, req, resp)
	if req.Plan.Raw.IsNull() {
		r.previewDeletion(ctx, req, resp)
		return
	}
	if !asks || !writes || k.Part != nil {
		return
	}
	r.dryRun(ctx, req, resp)
}

// Previewing is a planned write or deletion whose effect in the clusters is previewed.
type Previewing[O kube.Object] struct {
	*Resource
	Client *kube.Client
	// Values are planned; of a deletion those of the state. Config is the configuration,
	// or the state.
	Values attribute.Values
	Config Source
	// Object is what will be written. Of a deletion only its name counts.
	Object      O
	Deletes     bool
	Diagnostics *diag.Diagnostics
}

// previewDeletion previews what a planned deletion does in the clusters.
func (r *kindResource[O]) previewDeletion(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	client := r.Hub.PlanClient()
	if r.kind.Preview == nil || client == nil || r.Hub.HasWritten() || resp.Diagnostics.HasError() {
		return
	}
	var problems diag.Diagnostics
	if i := instanceOf(ctx, r.kind, req.State, &problems); !problems.HasError() {
		deleted := i.object()
		r.kind.Preview(ctx, Previewing[O]{&r.Resource, client, i.values, req.State, deleted, true, &resp.Diagnostics})
	}
}

// noteCreation notes that the plan creates an object, for resources that would miss it.
func (r *kindResource[O]) noteCreation(ctx context.Context, plan Getter) {
	i := instanceOf(ctx, r.kind, plan, &diag.Diagnostics{})
	known := func(key Key) bool { return i.values[key.Name] != nil && !i.values[key.Name].IsUnknown() }
	if len(i.values) > 0 && !slices.ContainsFunc(r.kind.Keys, func(key Key) bool { return !known(key) }) {
		namespace, name := r.kind.locate(i.keys)
		r.Hub.NotePlanned(r.kind.Empty, namespace, name)
	}
}

// keepWording plans attributes as they are in the state where that means the same.
func (k *Kind[O]) keepWording(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if k.KeepWording != nil {
		k.KeepWording(ctx, req, resp)
	}
	planned := attribute.ValuesOf(ctx, resp.Plan, &resp.Diagnostics)
	prior := attribute.ValuesOf(ctx, req.State, &resp.Diagnostics)
	for name, value := range k.Table.Kept(planned, prior, k.empty) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
	}
}

// leaveOpen plans what is only known after the apply, and reports whether the plan
// writes to the hub.
func (k *Kind[O]) leaveOpen(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) (writes bool) {
	var wait types.Object
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("wait"), &wait)...)
	reported := append(k.Table.Reports(), k.Waits.Reported...)
	unmet := false
	if !req.State.Raw.IsNull() {
		var ready types.Bool
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("ready"), &ready)...)
		unmet = !wait.IsNull() && !ready.IsNull() && !ready.ValueBool()
		KeepReported(req, resp, append([]string{"ready"}, reported...)...)
	}
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	writes = changes.Beyond(append(k.unwritten(), "adopt", "force_conflicts")...)
	again := unmet || changes.In(k.Waits.Again...)
	if writes || again || changes.In("wait") {
		ready := types.BoolUnknown()
		if wait.IsNull() {
			ready = types.BoolNull()
		}
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ready"), ready)...)
	}
	if writes || again { // What was reported stays when only a wait is new, as after an import.
		PlanUnknown(resp, reported...)
	}
	return writes
}

// KeepReported plans attributes that the hub reports as they are in the state:
// what the user does not change does not show as changing.
func KeepReported(req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, attributes ...string) {
	var planned, known map[string]tftypes.Value
	if err := errors.Join(resp.Plan.Raw.As(&planned), req.State.Raw.As(&known)); err != nil {
		resp.Diagnostics.AddError("Cannot read the plan", err.Error())
		return
	}
	for _, name := range attributes {
		planned[name] = known[name]
	}
	resp.Plan.Raw = tftypes.NewValue(resp.Plan.Raw.Type(), planned)
}

// PlanUnknown plans attributes as known after the apply.
func PlanUnknown(resp *resource.ModifyPlanResponse, attributes ...string) {
	var planned map[string]tftypes.Value
	if err := resp.Plan.Raw.As(&planned); err != nil {
		resp.Diagnostics.AddError("Cannot read the plan", err.Error())
		return
	}
	for _, name := range attributes {
		planned[name] = tftypes.NewValue(planned[name].Type(), tftypes.UnknownValue)
	}
	resp.Plan.Raw = tftypes.NewValue(resp.Plan.Raw.Type(), planned)
}

// Getter is a plan or a state.
type Getter interface {
	Get(ctx context.Context, target any) diag.Diagnostics
}

// dryRun asks the hub what would come of the planned write, as the apply would make
// it. It costs one request for an object that is created or changed, two when that
// takes something from somebody, and nothing for others. Refusals that the apply
// would get, too, are errors; what would be taken from others is a warning. Where
// the hub does not answer, the identity has no right to write, or the configuration
// is not known, it says nothing.
func (r *kindResource[O]) dryRun(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() || resp.Plan.Raw.Equal(req.State.Raw) || !req.Config.Raw.IsFullyKnown() ||
		resp.Diagnostics.HasError() {
		return
	}
	client := r.Hub.PlanClient()
	if client == nil || r.Hub.HasWritten() {
		return // In an apply, the write itself comes right after.
	}
	var problems diag.Diagnostics
	i := instanceOf(ctx, r.kind, resp.Plan, &problems)
	if problems.HasError() {
		return
	}
	object := i.object()
	if r.kind.Complete != nil {
		r.kind.Complete(ctx, i.values, req.Config, object, &problems)
	}
	if problems.HasError() {
		return // Validation or the apply will tell.
	}
	p := planned{r.kind.owned(i, object), r.Hub, client, resp, ClaimOf(ctx, req.Private, &problems)}
	asking, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	if req.State.Raw.IsNull() {
		p.create(asking)
	} else if before := instanceOf(ctx, r.kind, req.State, &problems); slices.Equal(before.keys, i.keys) {
		p.update(asking)
	} else {
		return // Terraform plans again, for a new object.
	}
	if r.kind.Preview != nil && !resp.Diagnostics.HasError() {
		r.kind.Preview(ctx, Previewing[O]{&r.Resource, client, i.values, req.Config, object, false, &resp.Diagnostics})
	}
}

// planned is an object that is going to be written.
type planned struct {
	Owned
	hub    *hub.Hub
	client *kube.Client
	resp   *resource.ModifyPlanResponse
	claim  Claim
}

func (p *planned) create(ctx context.Context) {
	object := p.Write.Object
	if read, foreign := p.hub.WasRead(object, object.GetNamespace(), object.GetName()); read && !foreign {
		return // It replaces one of the same name.
	}
	run, err := p.Write.DryRunCreate(ctx, p.client, p.claim)
	var unmanageable *UnmanageableError
	switch {
	case errors.As(err, &unmanageable):
		hub.AddAPIError(&p.resp.Diagnostics, p.client, "create "+p.What, p.explained(p.client, err))
	case run.Live == nil || (err != nil && !hub.IsMissingRight(err)):
		p.refused(ctx, "create", err)
	case err != nil:
		p.resp.Diagnostics.AddWarning("Exists already: "+p.What, fmt.Sprintf("The hub %s has %s already. The rights "+
			"of this plan do not allow to compare it with this configuration; "+
			"if it differs, the apply will fail, unless adopt = true.", p.client.Host(), p.What))
	case len(run.Differences) == 0:
	case p.Write.Adopt:
		p.resp.Diagnostics.AddWarning("Will be taken over: "+p.What,
			p.Exists(p.client, run.Live, run.Differences, time.Now())+" As adopt is true, the apply will overwrite "+
				"that.")
	default:
		p.resp.Diagnostics.AddWarning("Exists already: "+p.What,
			p.Exists(p.client, run.Live, run.Differences, time.Now())+"\n\nThe apply will fail. "+p.ways())
	}
}

func (p *planned) update(ctx context.Context) {
	object := p.Write.Object
	read, foreign := p.hub.WasRead(object, object.GetNamespace(), object.GetName())
	if foreign && !p.Write.Adopt {
		return // The refresh has told. An error would keep the resource from being destroyed, which is the way out.
	}
	run, err := p.Write.DryRunUpdate(ctx, p.client, p.claim)
	if err != nil {
		p.refused(ctx, "update", err)
		return
	}
	if run.Borrowed != nil {
		p.resp.Diagnostics.AddWarning(ofAnother+p.What,
			p.Exists(p.client, run.Borrowed, run.Differences, time.Now())+"\n\nThe apply will fail. "+waysOfBorrowed)
		return
	}
	if len(run.Taken) > 0 && read { // Not once more in the apply, which reads nothing before.
		p.resp.Diagnostics.AddWarning("Takes fields from another owner: "+p.What,
			fmt.Sprintf("Other field managers have set these fields on the hub %s to other values, which the apply "+
				"overwrites:\n%s\n\n"+
				"To leave a field to its owner, remove it from the configuration or, where leaving it out means "+
				"something, name it in lifecycle.ignore_changes. With force_conflicts = false, a plan that takes "+
				"fields from others fails.",
				p.client.Host(), hub.ListConflicts(run.Taken)))
	}
}

func (p *planned) refused(ctx context.Context, verb string, err error) {
	if err != nil {
		(&Resource{p.hub}).Refused(ctx, p.resp, p.client, p.Owned, verb, err)
	}
}

// Refused adds the error of a dry run of o, if the apply would get it, too. verb is
// what was tried.
func (r *Resource) Refused(
	ctx context.Context, resp *resource.ModifyPlanResponse, client *kube.Client, o Owned, verb string, err error,
) {
	r.Hub.DidNotAnswer(err)
	if !hub.RefusesForGood(err) {
		return
	}
	summary := "The hub refuses " + o.What
	if len(kube.Conflicts(err)) > 0 {
		summary = "Fields of another owner: " + o.What
	}
	detail := hub.ExplainDryRun(client.Host(), verb+" "+o.What, err)
	if at := attributeOf(ctx, resp.Plan.Schema, o.Places, err.Error()); at != nil {
		resp.Diagnostics.AddAttributeError(*at, summary, detail)
		return
	}
	resp.Diagnostics.AddError(summary, detail)
}
