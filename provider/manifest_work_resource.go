package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

var (
	_ resource.ResourceWithConfigure   = (*manifestWorkResource)(nil)
	_ resource.ResourceWithImportState = (*manifestWorkResource)(nil)
	_ resource.ResourceWithIdentity    = (*manifestWorkResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*manifestWorkResource)(nil)
)

type manifestWorkResource struct{ hubResource }

type manifestWorkModel struct {
	ManagedCluster  types.String          `tfsdk:"managed_cluster"`
	Name            types.String          `tfsdk:"name"`
	Labels          types.Map             `tfsdk:"labels"`
	Annotations     types.Map             `tfsdk:"annotations"`
	Manifests       types.List            `tfsdk:"manifests"`
	DeleteOption    *deleteOptionModel    `tfsdk:"delete_option"`
	ManifestConfigs []manifestConfigModel `tfsdk:"manifest_configs"`
	Executor        *executorModel        `tfsdk:"executor"`
	Placement       *workPlacementModel   `tfsdk:"placement"`
	Wait            *waitModel            `tfsdk:"wait"`
	Ready           types.Bool            `tfsdk:"ready"`
	ForceConflicts  types.Bool            `tfsdk:"force_conflicts"`
	Timeouts        timeouts.Value        `tfsdk:"timeouts"`
}

type waitModel struct {
	Conditions []types.String `tfsdk:"conditions"`
}

type workIdentity struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
}

func newManifestWorkResource() resource.Resource { return &manifestWorkResource{} }

func (r *manifestWorkResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_manifest_work"
}

func (r *manifestWorkResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identitySchema("managed_cluster", "name")
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
				Validators:          []validator.String{nameValidator{"cluster name"}},
			},
			"name": schema.StringAttribute{
				MarkdownDescription: "Name of the work, unique for its cluster. Changing it makes another work.",
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:          []validator.String{objectNameValidator{"work name"}},
			},
			"labels": schema.MapAttribute{
				MarkdownDescription: "Labels of the work itself.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Map{labelsValidator{described: "Kubernetes labels"}},
			},
			"annotations": schema.MapAttribute{
				MarkdownDescription: "Annotations of the work itself.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Map{labelsValidator{described: "Kubernetes annotations", annotations: true}},
			},
			"manifests": schema.ListAttribute{
				MarkdownDescription: "The objects, each as YAML or JSON, for example from `yamlencode` or `file`. A text may hold several YAML documents. Each object needs apiVersion, kind and metadata.name; " +
					"all together may take up to 500 KiB. Only what they mean is compared: notation, comments and the order of keys make no difference.",
				Required:    true,
				ElementType: types.StringType,
				Validators:  []validator.List{listvalidator.SizeAtLeast(1), manifestsValidator{"Kubernetes objects as YAML or JSON, up to 500 KiB in all"}},
			},
			"delete_option":    deleteOptionAttribute(),
			"manifest_configs": manifestConfigsAttribute(),
			"executor":         executorAttribute(),
			"placement":        workPlacementAttribute(),
			"wait": schema.SingleNestedAttribute{
				MarkdownDescription: "Waits, after creating or changing the work, until the agent has reported these conditions. " +
					"A wait in vain fails an update. After a creation it only warns and leaves `ready` false, because an error would make Terraform destroy and create the work anew; " +
					"the next apply waits again. To stop there, add a `postcondition` on `self.ready`.",
				Optional: true,
				Attributes: map[string]schema.Attribute{
					"conditions": schema.SetAttribute{
						MarkdownDescription: "Types of the conditions that have to be true: `Applied` (the agent wrote all objects), `Available` (they all exist), or one that `condition_rules` derive, such as `Complete`.",
						Required:            true,
						ElementType:         types.StringType,
						Validators:          []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(stringvalidator.LengthAtLeast(1))},
					},
				},
			},
			"ready": schema.BoolAttribute{
				MarkdownDescription: "Whether the conditions that `wait` names were met; null without `wait`.",
				Computed:            true,
			},
			"force_conflicts": forceAttribute(),
		},
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: timeoutText("creating, with `wait`,", defaultWait),
				Update: true, UpdateDescription: timeoutText("changing, with `wait`,", defaultWait),
				Delete: true, DeleteDescription: timeoutText("removing the objects from the cluster", defaultDelete),
			}),
		},
	}
}

// ModifyPlan keeps the manifests' old wording where the new one means the same,
// and plans a wait where one is due.
func (r *manifestWorkResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var waits types.Object
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("wait"), &waits)...)
	ready := types.BoolUnknown()
	if waits.IsNull() {
		ready = types.BoolNull()
	}
	if req.State.Raw.IsNull() {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ready"), ready)...)
		return
	}
	var planned, prior types.List
	var was types.Bool
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("manifests"), &planned)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("manifests"), &prior)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("ready"), &was)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if sameManifests(planned, prior) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("manifests"), prior)...)
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ready"), was)...)
	vain := !waits.IsNull() && !was.IsNull() && !was.ValueBool()
	if vain || !resp.Plan.Raw.Equal(req.State.Raw) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ready"), ready)...)
	}
}

func (r *manifestWorkResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan manifestWorkModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, defaultWait)
	resp.Diagnostics.Append(diags...)
	object, err := plan.object()
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("manifests"), "Invalid manifest", capitalize(err.Error())+".")
	}
	client := r.hub.client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !plan.Placement.waitUntilChosen(waiting, client, plan.ManagedCluster.ValueString(), timeout, &resp.Diagnostics) {
		return
	}
	if !applyWork(waiting, client, object, "create "+plan.what(), force(plan.ForceConflicts, false), timeout, &resp.Diagnostics) {
		return
	}
	// Saved before the wait, so that an interruption does not lose the work.
	plan.Ready = types.BoolNull()
	if plan.Wait != nil {
		plan.Ready = types.BoolValue(false)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
	if plan.Wait == nil {
		return
	}
	switch err := waitForWork(waiting, client, object, plan.Wait.types()); {
	case err == nil:
		plan.Ready = types.BoolValue(true)
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	case isTimeout(err):
		resp.Diagnostics.AddWarning(fmt.Sprintf("Not ready: %s", plan.what()), describeWork(ctx, client, object, plan.Wait.types(), timeout)+
			"\n\nThe work stays as it is, and the next apply waits again.")
	default:
		resp.Diagnostics.AddWarning(fmt.Sprintf("Not ready: %s", plan.what()), explain(client.Host(), "wait for it", err))
	}
}

func (r *manifestWorkResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state manifestWorkModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
	if resp.Diagnostics.HasError() || r.skipRead(&resp.Diagnostics) {
		return
	}
	object := &workv1.ManifestWork{}
	switch found, ok := r.find(ctx, object, state.ManagedCluster.ValueString(), state.Name.ValueString(), "read "+state.what(), &resp.Diagnostics); {
	case !ok:
		return
	case !found:
		resp.State.RemoveResource(ctx)
		return
	}
	if err := state.observe(object); err != nil {
		addAPIError(&resp.Diagnostics, r.hub.client(&resp.Diagnostics), "read "+state.what(), err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

func (r *manifestWorkResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan manifestWorkModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Update(ctx, defaultWait)
	resp.Diagnostics.Append(diags...)
	object, err := plan.object()
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("manifests"), "Invalid manifest", capitalize(err.Error())+".")
	}
	client := r.hub.client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !applyWork(waiting, client, object, "update "+plan.what(), force(plan.ForceConflicts, true), timeout, &resp.Diagnostics) {
		return
	}
	plan.Ready = types.BoolNull()
	if plan.Wait != nil {
		err := waitForWork(waiting, client, object, plan.Wait.types())
		plan.Ready = types.BoolValue(err == nil)
		switch {
		case err == nil:
		case isTimeout(err):
			resp.Diagnostics.AddError(fmt.Sprintf("Not ready: %s", plan.what()), describeWork(ctx, client, object, plan.Wait.types(), timeout))
		default:
			addAPIError(&resp.Diagnostics, client, "wait for "+plan.what(), err)
		}
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
}

func (r *manifestWorkResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state manifestWorkModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, defaultDelete)
	resp.Diagnostics.Append(diags...)
	client := r.hub.client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &workv1.ManifestWork{}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := client.DeleteAndWait(waiting, object, state.ManagedCluster.ValueString(), state.Name.ValueString())
	switch {
	case err == nil:
	case isTimeout(err):
		resp.Diagnostics.AddError(fmt.Sprintf("Not removed yet: %s", state.what()), describeWorkDeletion(ctx, client, object, timeout))
	default:
		addAPIError(&resp.Diagnostics, client, "delete "+state.what(), err)
	}
}

func (r *manifestWorkResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	names := importedNames(ctx, req, &resp.Diagnostics, "managed_cluster", "name")
	if resp.Diagnostics.HasError() {
		return
	}
	doing := fmt.Sprintf("import manifest work %q", names[0]+"/"+names[1])
	object := &workv1.ManifestWork{}
	if !r.existing(ctx, object, names[0], names[1], doing, &resp.Diagnostics) {
		return
	}
	state, err := importWork(object)
	if err != nil {
		addAPIError(&resp.Diagnostics, r.hub.client(&resp.Diagnostics), doing, err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
}

func (m *manifestWorkModel) what() string {
	return fmt.Sprintf("manifest work %q", m.ManagedCluster.ValueString()+"/"+m.Name.ValueString())
}

func (m *manifestWorkModel) identity() workIdentity {
	return workIdentity{ManagedCluster: m.ManagedCluster, Name: m.Name}
}

func (m *waitModel) types() []string {
	var names []string
	for _, condition := range m.Conditions {
		names = append(names, condition.ValueString())
	}
	return sorted(names)
}

// manifestsValidator checks the objects while planning: what the hub or the
// agent would refuse later.
type manifestsValidator struct{ described }

func (manifestsValidator) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	var objects []manifest.Object
	for i, element := range req.ConfigValue.Elements() {
		text, ok := element.(types.String)
		if !ok || text.IsUnknown() {
			continue
		}
		parsed, err := manifest.Parse(text.ValueString())
		if err != nil {
			resp.Diagnostics.AddAttributeError(req.Path.AtListIndex(i), "Invalid manifest", fmt.Sprintf("The manifest can't be applied: %s.", err))
			continue
		}
		objects = append(objects, parsed...)
	}
	if twice, found := manifest.Duplicate(objects); found {
		resp.Diagnostics.AddAttributeError(req.Path, "Duplicate manifest",
			fmt.Sprintf("%s appears twice, so the two would overwrite each other. Remove one of them.", twice))
	}
	if size := manifest.Size(objects); size > work.DefaultManifestLimit {
		resp.Diagnostics.AddAttributeError(req.Path, "Too large",
			fmt.Sprintf("The manifests take %d bytes, more than the %d that a hub accepts in one work. Divide them among several works.", size, work.DefaultManifestLimit))
	}
}

// sameManifests reports whether two lists of manifests, both known, mean the
// same.
func sameManifests(a, b types.List) bool {
	if a.IsNull() || b.IsNull() || !known(a) || !known(b) {
		return false
	}
	x, err := manifest.ParseAll(stringList(a))
	if err != nil {
		return false
	}
	y, err := manifest.ParseAll(stringList(b))
	return err == nil && manifest.Equal(x, y)
}
