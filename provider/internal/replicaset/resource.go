package replicaset

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
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
	attributes["fields"] = schema.MapAttribute{
		MarkdownDescription: "All values in the manifests, so that a plan shows what changes in them: by object, such as `apps/v1/Deployment shop/web`, then by path, such as `spec.template.spec.containers[0].image`. " +
			"Values of Secrets read `(sensitive, version 1)`, with a version that goes up when the value changes. Of texts over 200 characters the first 100 are shown, and a checksum. " +
			"What is sensitive for another reason, such as a variable with a password in the environment of a Deployment, is **not** masked here: put it into a Secret.",
		Computed:    true,
		ElementType: manifestwork.FieldsElement(),
	}
	attributes["wait"] = replicaSetWaitAttribute()
	attributes["ready"] = schema.BoolAttribute{
		MarkdownDescription: "Whether what `wait` asks for was met; null without `wait`.",
		Computed:            true,
	}
	attributes["adopt"] = attribute.AdoptAttribute()
	attributes["force_conflicts"] = attribute.ForceAttribute()
	resp.Schema = schema.Schema{
		MarkdownDescription: "The same Kubernetes objects for every cluster that placements select: the hub keeps a manifest work in each of them, makes and deletes works as the selection changes, and rolls changes out as carefully as is asked for.\n\n" +
			"The hub needs its feature gate `ManifestWorkReplicaSet`: `muster hub --feature-gates ManifestWorkReplicaSet=true`. " +
			"Planning and applying need no managed cluster. To see to it that a change has arrived everywhere before Terraform goes on, set `wait`.",
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
	deleteOption.MarkdownDescription = "What becomes of a work's objects in the end. Left out, they are deleted with the work. " +
		"A work that the hub deletes by `ttl_seconds_after_finished` is made anew by the replica set."
	return map[string]schema.Attribute{
		"namespace": schema.StringAttribute{
			MarkdownDescription: "Namespace on the hub, that of the placements. It has to exist. Changing it makes another replica set.",
			Required:            true,
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators:          []validator.String{attribute.ValidName("namespace")},
		},
		"name": schema.StringAttribute{
			MarkdownDescription: "Name of the replica set, without dots. `<namespace>.<name>` becomes a label of the works, hence at most 63 characters together. The works' names begin with it. Changing it makes another replica set.",
			Required:            true,
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators:          []validator.String{replicaSetNameValidator{}},
		},
		"labels": schema.MapAttribute{
			MarkdownDescription: "Labels of the replica set. A work gets them too, the next time its manifests are rolled out.",
			Optional:            true,
			ElementType:         types.StringType,
			Validators:          []validator.Map{attribute.ValidLabels(nil)},
		},
		"annotations": schema.MapAttribute{
			MarkdownDescription: "Annotations of the replica set. The works don't get them.",
			Optional:            true,
			ElementType:         types.StringType,
			Validators:          []validator.Map{attribute.ValidAnnotations()},
		},
		"manifests": schema.ListAttribute{
			MarkdownDescription: "The objects, each as YAML or JSON, for example from `yamlencode` or `file`. A text may hold several YAML documents. Each object needs apiVersion, kind and metadata.name; " +
				"all together may take up to 500 KiB. Only what they mean is compared: notation, comments and the order of keys make no difference.",
			Required:    true,
			Sensitive:   true,
			ElementType: types.StringType,
			Validators:  []validator.List{listvalidator.SizeAtLeast(1), manifestwork.ManifestsValidator{Described: "Kubernetes objects as YAML or JSON, up to 500 KiB in all"}},
		},
		"delete_option":    deleteOption,
		"manifest_configs": manifestwork.ManifestConfigsAttribute(),
		"executor":         manifestwork.ExecutorAttribute(),
		"placements":       placementRefsAttribute(),
		"cascade_deletion_policy": schema.StringAttribute{
			MarkdownDescription: "How deleting goes about. The works are deleted either way. `Background`: the replica set is gone at once. `Foreground`: it stays until they are gone, and with it `terraform destroy`. Defaults to `Background`.",
			Optional:            true, Computed: true, Default: stringdefault.StaticString(string(workv1alpha1.CascadeDeletionPolicyBackground)),
			Validators: attribute.OneOf(workv1alpha1.CascadeDeletionPolicyBackground, workv1alpha1.CascadeDeletionPolicyForeground),
		},
	}
}

func (r *replicaSetResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan replicaSetModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, object, written := r.write(&plan, "create", &resp.Diagnostics, func(client *kube.Client, o crud.Owned) error {
		return o.Create(waiting, client, resp.Private, &resp.Diagnostics)
	})
	if resp.Diagnostics.HasError() {
		return
	}
	plan.Fields = manifestFields(plan.Manifests, types.ListNull(types.StringType), types.MapNull(manifestwork.FieldsElement()))
	// Saved before the wait, so that an interruption does not lose the replica
	// set.
	plan.replicaSetStatusModel = replicaSetStatus(object, written)
	plan.Ready = types.BoolNull()
	if plan.Wait != nil {
		plan.Ready = types.BoolValue(false)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
	if plan.Wait == nil {
		return
	}
	err := waitForReplicaSet(waiting, client, object, plan.Wait, written)
	plan.Ready = types.BoolValue(err == nil)
	plan.replicaSetStatusModel = replicaSetStatus(object, written)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	switch {
	case err == nil:
	case hub.IsTimeout(err):
		resp.Diagnostics.AddWarning(fmt.Sprintf("Not ready: %s", plan.what()), describeReplicaSet(ctx, client, object, plan.Wait.what(), timeout)+
			"\n\nThe replica set stays as it is, and the next apply waits again.")
	default:
		resp.Diagnostics.AddWarning(fmt.Sprintf("Not ready: %s", plan.what()), hub.Explain(client.Host(), "wait for it", err))
	}
}

func (r *replicaSetResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state replicaSetModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
	written := noted(ctx, req.Private, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || r.SkipRead(&resp.Diagnostics) {
		return
	}
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	switch found, ok := r.Find(ctx, object, state.Namespace.ValueString(), state.Name.ValueString(), "read "+state.what(), &resp.Diagnostics); {
	case !ok:
		return
	case !found:
		resp.State.RemoveResource(ctx)
		return
	}
	r.Recognize(ctx, object, state.what(), req.Private, resp.Private, &resp.Diagnostics)
	if err := state.observe(object, written); err != nil {
		hub.AddAPIError(&resp.Diagnostics, r.Hub.Client(&resp.Diagnostics), "read "+state.what(), err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

func (r *replicaSetResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state replicaSetModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := plan.Timeouts.Update(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	written := noted(ctx, req.Private, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, object, mark := r.write(&plan, "update", &resp.Diagnostics, func(client *kube.Client, o crud.Owned) error {
		return o.Update(waiting, client, req.Private, resp.Private, &resp.Diagnostics)
	})
	if resp.Diagnostics.HasError() {
		return
	}
	if !sameWorks(&state, &plan) {
		written = mark
		resp.Diagnostics.Append(note(ctx, resp.Private, mark)...)
	}
	plan.Fields = manifestFields(plan.Manifests, state.Manifests, state.Fields)
	plan.Ready = types.BoolNull()
	if plan.Wait != nil {
		err := waitForReplicaSet(waiting, client, object, plan.Wait, written)
		plan.Ready = types.BoolValue(err == nil)
		switch {
		case err == nil:
		case hub.IsTimeout(err):
			resp.Diagnostics.AddError(fmt.Sprintf("Not ready: %s", plan.what()), describeReplicaSet(ctx, client, object, plan.Wait.what(), timeout))
		default:
			hub.AddAPIError(&resp.Diagnostics, client, "wait for "+plan.what(), err)
		}
	}
	plan.replicaSetStatusModel = replicaSetStatus(object, written)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
}

func (r *replicaSetResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state replicaSetModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	client := r.Hub.Client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := r.DeleteObject(waiting, client, object, state.Namespace.ValueString(), state.Name.ValueString(), state.what(), req.Private, &resp.Diagnostics)
	switch {
	case err == nil:
	case hub.IsTimeout(err):
		resp.Diagnostics.AddError(fmt.Sprintf("Not removed yet: %s", state.what()), describeReplicaSetDeletion(ctx, client, object, timeout))
	default:
		hub.AddAPIError(&resp.Diagnostics, client, "delete "+state.what(), err)
	}
}

func (r *replicaSetResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	names := attribute.ImportedNames(ctx, req, &resp.Diagnostics, "namespace", "name")
	if resp.Diagnostics.HasError() {
		return
	}
	doing := fmt.Sprintf("import manifest work replica set %q", names[0]+"/"+names[1])
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	if !r.Existing(ctx, object, names[0], names[1], doing, &resp.Diagnostics) {
		return
	}
	state, err := importReplicaSet(object)
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, r.Hub.Client(&resp.Diagnostics), doing, err)
		return
	}
	crud.KeepClaim(ctx, resp.Private, ownership.Imported(object), &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
}

// owned is the replica set as an object of the hub. Its manifests may hold
// secrets.
func (m *replicaSetModel) owned(object *workv1alpha1.ManifestWorkReplicaSet) crud.Owned {
	o := crud.Own(object, m.what(), m.Namespace.ValueString()+"/"+m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	o.Discreet = true
	return o
}

// write makes the plan so on the hub by own. verb is create or update. mark is what to
// tell the reports by that come after it.
func (r *replicaSetResource) write(plan *replicaSetModel, verb string, diags *diag.Diagnostics, own func(*kube.Client, crud.Owned) error) (*kube.Client, *workv1alpha1.ManifestWorkReplicaSet, *replicaSetMark) {
	if diags.HasError() {
		return nil, nil, nil
	}
	object, err := plan.object()
	if err != nil {
		diags.AddAttributeError(path.Root("manifests"), "Invalid manifest", attribute.Capitalize(err.Error())+".")
		return nil, nil, nil
	}
	client := r.Hub.Client(diags)
	if client == nil {
		return nil, nil, nil
	}
	doing := verb + " " + plan.what()
	err = own(client, plan.owned(object))
	switch {
	case err == nil:
	case strings.Contains(err.Error(), work.RefusedReplicaSet):
		diags.AddError("Cannot "+doing, fmt.Sprintf("The hub %s makes no works of replica sets. %s", client.Host(), replicaSetGateRemedy()))
		return nil, nil, nil
	default:
		hub.AddAPIError(diags, client, doing, err)
		return nil, nil, nil
	}
	mark, err := markOf(object)
	if err != nil {
		hub.AddAPIError(diags, client, doing, err)
	}
	return client, object, mark
}
