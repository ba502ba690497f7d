package manifestwork

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

var (
	_ resource.ResourceWithConfigure      = (*manifestWorkResource)(nil)
	_ resource.ResourceWithImportState    = (*manifestWorkResource)(nil)
	_ resource.ResourceWithIdentity       = (*manifestWorkResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*manifestWorkResource)(nil)
	_ resource.ResourceWithValidateConfig = (*manifestWorkResource)(nil)
)

type manifestWorkResource struct{ crud.Resource }

type manifestWorkModel struct {
	ManagedCluster     types.String          `tfsdk:"managed_cluster"`
	Name               types.String          `tfsdk:"name"`
	Labels             types.Map             `tfsdk:"labels"`
	Annotations        types.Map             `tfsdk:"annotations"`
	Manifests          types.List            `tfsdk:"manifests"`
	Objects            types.Dynamic         `tfsdk:"objects"`
	ManifestsWO        types.List            `tfsdk:"manifests_wo"`
	ManifestsWOVersion types.Int64           `tfsdk:"manifests_wo_version"`
	Fields             types.Map             `tfsdk:"fields"`
	DeleteOption       *DeleteOptionModel    `tfsdk:"delete_option"`
	ManifestConfigs    []ManifestConfigModel `tfsdk:"manifest_configs"`
	Executor           *ExecutorModel        `tfsdk:"executor"`
	Placement          *workPlacementModel   `tfsdk:"placement"`
	Wait               *waitModel            `tfsdk:"wait"`
	Ready              types.Bool            `tfsdk:"ready"`
	Conditions         types.List            `tfsdk:"conditions"`
	Feedback           types.List            `tfsdk:"feedback"`
	Adopt              types.Bool            `tfsdk:"adopt"`
	ForceConflicts     types.Bool            `tfsdk:"force_conflicts"`
	Timeouts           timeouts.Value        `tfsdk:"timeouts"`
}

type workIdentity struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
}

func New() resource.Resource { return &manifestWorkResource{} }

func (r *manifestWorkResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_manifest_work"
}

func (r *manifestWorkResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("managed_cluster", "name")
}

func (r *manifestWorkResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Kubernetes objects for one managed cluster. Its agent applies them there, keeps them as described, reports on them, and deletes them with the work.\n\n" +
			"Planning and applying need the hub only: a cluster that is away gets the work when it is back. To see to it that the objects are in place before Terraform goes on, set `wait`. " +
			"Destroying waits until the agent has removed the objects.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": schema.StringAttribute{
				MarkdownDescription: "Name of the managed cluster. It has to be accepted. Changing it moves the work: the objects are removed from the old cluster.",
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:          []validator.String{attribute.ValidClusterName()},
			},
			"name": schema.StringAttribute{
				MarkdownDescription: "Name of the work, unique for its cluster. Changing it makes another work.",
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:          []validator.String{attribute.ValidObjectName("work name")},
			},
			"labels": schema.MapAttribute{
				MarkdownDescription: "Labels of the work itself.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Map{attribute.ValidLabels(nil)},
			},
			"annotations": schema.MapAttribute{
				MarkdownDescription: "Annotations of the work itself.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Map{attribute.ValidAnnotations()},
			},
			"manifests":            manifestsAttribute(),
			"objects":              objectsAttribute(),
			"manifests_wo":         writeOnlyAttribute(),
			"manifests_wo_version": writeOnlyVersionAttribute(),
			"fields":               fieldsAttribute(),
			"delete_option":        DeleteOptionAttribute(),
			"manifest_configs":     ManifestConfigsAttribute(),
			"executor":             ExecutorAttribute(),
			"placement":            workPlacementAttribute(),
			"wait":                 waitAttribute(),
			"ready": schema.BoolAttribute{
				MarkdownDescription: "Whether the conditions that `wait` names were met; null without `wait`.",
				Computed:            true,
			},
			"conditions":      workConditionsAttribute(),
			"feedback":        feedbackAttribute(),
			"adopt":           attribute.AdoptAttribute(),
			"force_conflicts": attribute.ForceAttribute(),
		},
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("creating, with `wait`,", attribute.DefaultWait),
				Update: true, UpdateDescription: attribute.TimeoutText("changing, with `wait`,", attribute.DefaultWait),
				Delete: true, DeleteDescription: attribute.TimeoutText("removing the objects from the cluster", attribute.DefaultDelete),
			}),
		},
	}
}

func (r *manifestWorkResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan manifestWorkModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	object := plan.withSecrets(ctx, req.Config, &resp.Diagnostics)
	client := r.Hub.Client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !plan.Placement.waitUntilChosen(waiting, client, plan.ManagedCluster.ValueString(), timeout, &resp.Diagnostics) {
		return
	}
	o := plan.owned(object)
	if !writeWork(waiting, client, object.Namespace, "create "+plan.what(), timeout, &resp.Diagnostics, func() error {
		return o.Create(waiting, client, resp.Private, &resp.Diagnostics)
	}) {
		return
	}
	// Saved before the wait, so that an interruption does not lose the work.
	plan.Ready = types.BoolNull()
	if plan.Wait != nil {
		plan.Ready = types.BoolValue(false)
	}
	plan.report(object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
	if plan.Wait == nil {
		return
	}
	err := waitForWork(waiting, client, object, plan.Wait.conditions(), failurePatience)
	plan.Ready = types.BoolValue(err == nil)
	plan.report(object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	switch {
	case err == nil:
	case hub.IsTimeout(err), isFailure(err):
		resp.Diagnostics.AddWarning(fmt.Sprintf("Not ready: %s", plan.what()), describeWork(ctx, client, object, plan.Wait.conditions(), timeout, err)+
			"\n\nThe work stays as it is, and the next apply waits again.")
	default:
		resp.Diagnostics.AddWarning(fmt.Sprintf("Not ready: %s", plan.what()), hub.Explain(client.Host(), "wait for it", err))
	}
}

func (r *manifestWorkResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state manifestWorkModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
	if resp.Diagnostics.HasError() || r.SkipRead(&resp.Diagnostics) {
		return
	}
	object := &workv1.ManifestWork{}
	switch found, ok := r.Find(ctx, object, state.ManagedCluster.ValueString(), state.Name.ValueString(), "read "+state.what(), &resp.Diagnostics); {
	case !ok:
		return
	case !found:
		resp.State.RemoveResource(ctx)
		return
	}
	r.Recognize(ctx, object, state.what(), req.Private, resp.Private, &resp.Diagnostics)
	if err := state.observe(object); err != nil {
		hub.AddAPIError(&resp.Diagnostics, r.Hub.Client(&resp.Diagnostics), "read "+state.what(), err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

func (r *manifestWorkResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan manifestWorkModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Update(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	object := plan.withSecrets(ctx, req.Config, &resp.Diagnostics)
	client := r.Hub.Client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	o := plan.owned(object)
	if !writeWork(waiting, client, object.Namespace, "update "+plan.what(), timeout, &resp.Diagnostics, func() error {
		return o.Update(waiting, client, req.Private, resp.Private, &resp.Diagnostics)
	}) {
		return
	}
	plan.Ready = types.BoolNull()
	if plan.Wait != nil {
		err := waitForWork(waiting, client, object, plan.Wait.conditions(), failurePatience)
		plan.Ready = types.BoolValue(err == nil)
		switch {
		case err == nil:
		case hub.IsTimeout(err), isFailure(err):
			resp.Diagnostics.AddError(fmt.Sprintf("Not ready: %s", plan.what()), describeWork(ctx, client, object, plan.Wait.conditions(), timeout, err))
		default:
			hub.AddAPIError(&resp.Diagnostics, client, "wait for "+plan.what(), err)
		}
	}
	plan.report(object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
}

func (r *manifestWorkResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state manifestWorkModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	client := r.Hub.Client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &workv1.ManifestWork{}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := r.DeleteObject(waiting, client, object, state.ManagedCluster.ValueString(), state.Name.ValueString(), state.what(), req.Private, &resp.Diagnostics)
	switch {
	case err == nil:
	case hub.IsTimeout(err):
		resp.Diagnostics.AddError(fmt.Sprintf("Not removed yet: %s", state.what()), describeWorkDeletion(ctx, client, object, timeout))
	default:
		hub.AddAPIError(&resp.Diagnostics, client, "delete "+state.what(), err)
	}
}

func (r *manifestWorkResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	names := attribute.ImportedNames(ctx, req, &resp.Diagnostics, "managed_cluster", "name")
	if resp.Diagnostics.HasError() {
		return
	}
	doing := fmt.Sprintf("import manifest work %q", names[0]+"/"+names[1])
	object := &workv1.ManifestWork{}
	if !r.Existing(ctx, object, names[0], names[1], doing, &resp.Diagnostics) {
		return
	}
	state, err := importWork(object)
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, r.Hub.Client(&resp.Diagnostics), doing, err)
		return
	}
	crud.KeepClaim(ctx, resp.Private, ownership.Imported(object), &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
}

func (m *manifestWorkModel) what() string {
	return fmt.Sprintf("manifest work %q", m.ManagedCluster.ValueString()+"/"+m.Name.ValueString())
}

func (m *manifestWorkModel) identity() workIdentity {
	return workIdentity{ManagedCluster: m.ManagedCluster, Name: m.Name}
}

// withSecrets is the work to write. The write-only manifests are in the
// configuration alone.
func (m *manifestWorkModel) withSecrets(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) *workv1.ManifestWork {
	var writeOnly types.List
	diags.Append(config.GetAttribute(ctx, path.Root("manifests_wo"), &writeOnly)...)
	if diags.HasError() {
		return nil
	}
	object, err := m.object(writeOnly)
	if err != nil {
		diags.AddError("Invalid manifest", attribute.Capitalize(err.Error())+".")
	}
	return object
}

// report takes over what the agent has reported so far.
func (m *manifestWorkModel) report(object *workv1.ManifestWork) {
	m.Conditions, m.Feedback = WorkConditionsValue(object.Status.Conditions), feedbackValue(object)
}
