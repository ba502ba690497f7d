package replicaset

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure      = (*replicaSetResource)(nil)
	_ resource.ResourceWithImportState    = (*replicaSetResource)(nil)
	_ resource.ResourceWithIdentity       = (*replicaSetResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*replicaSetResource)(nil)
	_ resource.ResourceWithValidateConfig = (*replicaSetResource)(nil)
)

type replicaSetResource struct{ crud.Resource }

// New is muster_manifest_work_replica_set.
func New() resource.Resource { return &replicaSetResource{} }

func (r *replicaSetResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_manifest_work_replica_set"
}

func (r *replicaSetResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("namespace", "name")
}

func (r *replicaSetResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := replicaSetAttributes()
	for name, attribute := range replicaSetStatusAttributes() {
		attributes[name] = attribute
	}
	maps.Copy(attributes, workload.Attributes())
	attributes["generation"] = workload.Generation("replica set")
	attributes["wait"] = replicaSetWaitAttribute()
	attributes["ready"] = attribute.Ready("Whether what `wait` asks for was met; null without `wait`.")
	attributes["adopt"] = attribute.AdoptAttribute()
	attributes["force_conflicts"] = attribute.ForceAttribute()
	resp.Schema = schema.Schema{
		MarkdownDescription: "The same Kubernetes objects for every cluster that placements select: the hub keeps a manifest work in each of them, creates and deletes works as the selection changes, and rolls out changes by the given strategy.\n\n" +
			"The hub's feature gate `ManifestWorkReplicaSet` has to be on, which is the default on a muster hub. " +
			"Planning and applying need no managed cluster. To wait until a change has arrived everywhere, set `wait`.",
		Attributes: attributes,
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("creating, with `wait`,", attribute.DefaultWait),
				Update: true, UpdateDescription: attribute.TimeoutText("changing, with `wait`,", attribute.DefaultWait),
				Delete: true, DeleteDescription: attribute.TimeoutText("deleting the replica set, with the policy `Foreground` its works too,", attribute.DefaultDelete),
			}),
		},
	}
}

// replicaSetAttributes are those of the replica set itself.
func replicaSetAttributes() map[string]schema.Attribute {
	deleteOption := manifestwork.DeleteOptionAttribute()
	deleteOption.MarkdownDescription = "What happens to a work's objects when it is deleted. If omitted, they are deleted with it. " +
		"A work that the hub deletes by `ttl_seconds_after_finished` is re-created by the replica set."
	return map[string]schema.Attribute{
		"namespace": attribute.Identifying("Namespace on the hub, that of the placements. It has to exist. Changing it replaces the replica set.",
			attribute.ValidName("namespace")),
		"name": attribute.Identifying("Name of the replica set, without dots. `<namespace>.<name>` becomes a label of the works, so both together have at most 63 characters. The names of the works begin with it. Changing it replaces the replica set.",
			replicaSetNameValidator{}),
		"labels":           attribute.Labels("Labels of the replica set. A work gets them too, the next time its manifests are rolled out.", nil),
		"annotations":      attribute.Annotations("Annotations of the replica set. The works don't get them."),
		"delete_option":    deleteOption,
		"manifest_configs": manifestwork.ManifestConfigsAttribute(),
		"executor":         manifestwork.ExecutorAttribute(),
		"placements":       placementRefsAttribute(),
		"cascade_deletion_policy": schema.StringAttribute{
			MarkdownDescription: "How the replica set is deleted. The works are deleted either way. `Background`: the replica set is gone at once. `Foreground`: it stays, and `terraform destroy` waits, until they are gone. Defaults to `Background`.",
			Optional:            true, Computed: true, Default: stringdefault.StaticString(string(workv1alpha1.CascadeDeletionPolicyBackground)),
			Validators: attribute.OneOf(workv1alpha1.CascadeDeletionPolicyBackground, workv1alpha1.CascadeDeletionPolicyForeground),
		},
	}
}

func (r *replicaSetResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan replicaSetModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	defer func() { plan.MaskWith(ctx, req.Config, &resp.Diagnostics) }()
	timeout, diags := plan.Timeouts.Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	object := plan.complete(ctx, req.Config, &resp.Diagnostics)
	client, written := r.write(&plan, object, "create", &resp.Diagnostics, func(client *kube.Client, o crud.Owned) error {
		return o.Create(waiting, client, resp.Private, &resp.Diagnostics)
	})
	if resp.Diagnostics.HasError() {
		return
	}
	report := plan.written(object, written)
	plan.follow(ctx, waiting, client, object, written, timeout, report).Created(ctx, &plan, resp)
}

func (r *replicaSetResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state replicaSetModel
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		return state.observe(object, noted(ctx, req.Private, &resp.Diagnostics))
	})
}

func (r *replicaSetResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state replicaSetModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	defer func() { plan.MaskWith(ctx, req.Config, &resp.Diagnostics) }()
	timeout, diags := plan.Timeouts.Update(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	written := noted(ctx, req.Private, &resp.Diagnostics)
	object := plan.complete(ctx, req.Config, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, mark := r.write(&plan, object, "update", &resp.Diagnostics, func(client *kube.Client, o crud.Owned) error {
		if !attribute.ChangesBetween(req.Plan.Raw, req.State.Raw).Beyond(local...) {
			return client.Get(waiting, object, object.Namespace, object.Name)
		}
		return o.Update(waiting, client, req.Private, resp.Private, &resp.Diagnostics)
	})
	if resp.Diagnostics.HasError() {
		return
	}
	if !sameWorks(&state, &plan) {
		written = mark
		resp.Diagnostics.Append(note(ctx, resp.Private, mark)...)
	}
	report := plan.written(object, written)
	plan.follow(ctx, waiting, client, object, written, timeout, report).Updated(ctx, &plan, resp)
}

// written takes over what was only known after the write, and returns what does
// so after the wait. What the plan has shown stays as it was.
func (m *replicaSetModel) written(object *workv1alpha1.ManifestWorkReplicaSet, mark *replicaSetMark) (report func()) {
	if m.Generation.IsUnknown() {
		m.Generation = types.Int64Value(object.Generation)
	}
	if !m.Conditions.IsUnknown() {
		return func() {}
	}
	report = func() { m.replicaSetStatusModel = replicaSetStatus(object, mark) }
	report()
	return report
}

func (r *replicaSetResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state replicaSetModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	r.Destroy(ctx, object, &state, timeout, req.Private, &resp.Diagnostics, func(client *kube.Client) (summary, detail string) {
		return "Not removed yet: " + state.What(), describeReplicaSetDeletion(ctx, client, object, timeout)
	})
}

func (r *replicaSetResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	named := func(names []string) crud.Model {
		return &replicaSetModel{Namespace: types.StringValue(names[0]), Name: types.StringValue(names[1])}
	}
	r.ImportObject(ctx, req, resp, []string{"namespace", "name"}, object, named, func() (crud.Model, error) {
		state, err := importReplicaSet(object)
		return &state, err
	})
}

// owned is the replica set as an object of the hub. Its manifests may hold
// secrets.
func (m *replicaSetModel) owned(object *workv1alpha1.ManifestWorkReplicaSet) crud.Owned {
	o := crud.Own(object, m.What(), m.Namespace.ValueString()+"/"+m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	o.Discreet = true
	o.Write.Unwanted = func(live kube.Object) [][]string {
		if set, ok := live.(*workv1alpha1.ManifestWorkReplicaSet); ok {
			return manifestwork.UnwantedOptions(&object.Spec.ManifestWorkTemplate, &set.Spec.ManifestWorkTemplate, "spec", "manifestWorkTemplate")
		}
		return nil
	}
	return o
}

// write makes the object of the plan so on the hub by own. verb is create or
// update. mark is what to tell the reports by that come after it.
func (r *replicaSetResource) write(
	plan *replicaSetModel, object *workv1alpha1.ManifestWorkReplicaSet, verb string, diags *diag.Diagnostics, own func(*kube.Client, crud.Owned) error,
) (*kube.Client, *replicaSetMark) {
	if diags.HasError() {
		return nil, nil
	}
	client := r.Hub.WriteClient(diags)
	if client == nil {
		return nil, nil
	}
	doing := verb + " " + plan.What()
	err := own(client, plan.owned(object))
	switch {
	case err == nil:
	case strings.Contains(err.Error(), work.RefusedReplicaSet):
		diags.AddError("Cannot "+doing, fmt.Sprintf("The hub %s makes no works of replica sets. %s", client.Host(), replicaSetGateRemedy()))
		return nil, nil
	default:
		hub.AddAPIError(diags, client, doing, err)
		return nil, nil
	}
	mark, err := markOf(object)
	if err != nil {
		hub.AddAPIError(diags, client, doing, err)
	}
	return client, mark
}

// follow is what comes after the replica set was written. waiting ends with the
// timeout, ctx does not.
func (m *replicaSetModel) follow(
	ctx, waiting context.Context, client *kube.Client, object *workv1alpha1.ManifestWorkReplicaSet, written *replicaSetMark, timeout time.Duration, report func(),
) crud.Follow {
	f := crud.Follow{Waits: m.Wait != nil, Ready: &m.Ready, Kind: "replica set", Report: report, Failing: "muster_manifest_work_replica_set_wait"}
	if m.Wait == nil || !m.Ready.IsUnknown() {
		return f
	}
	f.Wait = func() (summary, problem string) {
		err := waitForReplicaSet(waiting, client, object, m.Wait, written)
		switch {
		case err == nil:
			return "", ""
		case hub.IsTimeout(err):
			return "Not ready: " + m.What(), describeReplicaSet(ctx, client, object, m.Wait.what(), timeout)
		default:
			return "Not ready: " + m.What(), hub.Explain(client.Host(), "wait for it", err)
		}
	}
	return f
}
