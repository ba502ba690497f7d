package manifestwork

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
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
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
	Labels         types.Map    `tfsdk:"labels"`
	Annotations    types.Map    `tfsdk:"annotations"`
	workload.Content
	DeleteOption    *DeleteOptionModel    `tfsdk:"delete_option"`
	ManifestConfigs []ManifestConfigModel `tfsdk:"manifest_configs"`
	Executor        *ExecutorModel        `tfsdk:"executor"`
	Placement       *workPlacementModel   `tfsdk:"placement"`
	Wait            *waitModel            `tfsdk:"wait"`
	Ready           types.Bool            `tfsdk:"ready"`
	Generation      types.Int64           `tfsdk:"generation"`
	Conditions      types.List            `tfsdk:"conditions"`
	Feedback        types.List            `tfsdk:"feedback"`
	Adopt           types.Bool            `tfsdk:"adopt"`
	ForceConflicts  types.Bool            `tfsdk:"force_conflicts"`
	Timeouts        timeouts.Value        `tfsdk:"timeouts"`
}

type workIdentity struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
}

// New is muster_manifest_work.
func New() resource.Resource { return &manifestWorkResource{} }

func (r *manifestWorkResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_manifest_work"
}

func (r *manifestWorkResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("managed_cluster", "name")
}

func (r *manifestWorkResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := workload.Attributes()
	maps.Copy(attributes, workAttributes())
	resp.Schema = schema.Schema{
		MarkdownDescription: "Kubernetes objects for one managed cluster. Its agent applies them there, keeps them as described, reports on them, and deletes them with the work.\n\n" +
			"Planning and applying need the hub only: a cluster that is unavailable gets the work when it is back. To wait until the objects are in place, set `wait`. " +
			"Destroying waits until the agent has removed the objects.",
		Attributes: attributes,
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("creating, with `wait`,", attribute.DefaultWait),
				Update: true, UpdateDescription: attribute.TimeoutText("changing, with `wait`,", attribute.DefaultWait),
				Delete: true, DeleteDescription: attribute.TimeoutText("removing the objects from the cluster", attribute.DefaultDelete),
			}),
		},
	}
}

// workAttributes are those of the work, without its objects.
func workAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"managed_cluster": attribute.Identifying("Name of the managed cluster. It has to be accepted. Changing it moves the work: the objects are removed from the old cluster.",
			attribute.ValidClusterName()),
		"name": attribute.Identifying("Name of the work, unique for its cluster. Changing it replaces the work.",
			attribute.ValidObjectName("work name")),
		"labels":           attribute.Labels("Labels of the work itself.", nil),
		"annotations":      attribute.Annotations("Annotations of the work itself."),
		"delete_option":    DeleteOptionAttribute(),
		"manifest_configs": ManifestConfigsAttribute(),
		"executor":         ExecutorAttribute(),
		"placement":        workPlacementAttribute(),
		"wait":             waitAttribute(),
		"generation":       workload.Generation("work"),
		"ready":            attribute.Ready("Whether the conditions that `wait` names were met; null without `wait`."),
		"conditions":       workConditionsAttribute(),
		"feedback":         feedbackAttribute(),
		"adopt":            attribute.AdoptAttribute(),
		"force_conflicts":  attribute.ForceAttribute(),
	}
}

func (r *manifestWorkResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan manifestWorkModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	defer func() { plan.MaskWith(ctx, req.Config, &resp.Diagnostics) }()
	timeout, diags := plan.Timeouts.Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	object := plan.complete(ctx, req.Config, &resp.Diagnostics)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !plan.Placement.waitUntilChosen(waiting, client, plan.ManagedCluster.ValueString(), timeout, &resp.Diagnostics) {
		return
	}
	o := plan.owned(object)
	if !crud.InCluster(waiting, client, object.Namespace, "create "+plan.What(), timeout, &resp.Diagnostics, func() error {
		return o.Create(waiting, client, resp.Private, &resp.Diagnostics)
	}) {
		return
	}
	report := plan.written(object)
	plan.follow(ctx, waiting, client, object, timeout, plan.PlacesWith(ctx, req.Config), report).Created(ctx, &plan, resp)
}

func (r *manifestWorkResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state manifestWorkModel
	object := &workv1.ManifestWork{}
	defer func() { state.Mask(&resp.Diagnostics) }()
	r.ReadObject(ctx, req, resp, &state, object, func() error {
		state.warnOfFailure(object, &resp.Diagnostics)
		return state.observe(object)
	})
}

func (r *manifestWorkResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan manifestWorkModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	defer func() { plan.MaskWith(ctx, req.Config, &resp.Diagnostics) }()
	timeout, diags := plan.Timeouts.Update(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	object := plan.complete(ctx, req.Config, &resp.Diagnostics)
	client := r.Hub.WriteClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	o := plan.owned(object)
	if !crud.InCluster(waiting, client, object.Namespace, "update "+plan.What(), timeout, &resp.Diagnostics, func() error {
		if !attribute.ChangesBetween(req.Plan.Raw, req.State.Raw).Beyond(local...) {
			return client.Get(waiting, object, object.Namespace, object.Name)
		}
		return o.Update(waiting, client, req.Private, resp.Private, &resp.Diagnostics)
	}) {
		return
	}
	report := plan.written(object)
	plan.follow(ctx, waiting, client, object, timeout, plan.PlacesWith(ctx, req.Config), report).Updated(ctx, &plan, resp)
}

func (r *manifestWorkResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state manifestWorkModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, attribute.DefaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	object := &workv1.ManifestWork{}
	r.Destroy(ctx, object, &state, timeout, req.Private, &resp.Diagnostics, func(client *kube.Client) (summary, detail string) {
		return "Not removed yet: " + state.What(), describeWorkDeletion(ctx, client, object, timeout)
	})
}

func (r *manifestWorkResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &workv1.ManifestWork{}
	named := func(names []string) crud.Model {
		return &manifestWorkModel{ManagedCluster: types.StringValue(names[0]), Name: types.StringValue(names[1])}
	}
	r.ImportObject(ctx, req, resp, []string{"managed_cluster", "name"}, object, named, func() (crud.Model, error) {
		state, err := importWork(object)
		return &state, err
	})
}

// What implements crud.Model.
func (m *manifestWorkModel) What() string {
	return fmt.Sprintf("manifest work %q", m.ManagedCluster.ValueString()+"/"+m.Name.ValueString())
}

// Identity implements crud.Model.
func (m *manifestWorkModel) Identity() any {
	return workIdentity{ManagedCluster: m.ManagedCluster, Name: m.Name}
}

// complete is the work to write, with the objects that are in the configuration
// alone.
func (m *manifestWorkModel) complete(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) *workv1.ManifestWork {
	object := m.object()
	m.Put(ctx, config, object, &object.Spec.Workload, diags)
	return object
}

// report takes over what the agent has reported so far.
func (m *manifestWorkModel) report(object *workv1.ManifestWork) {
	m.Conditions, m.Feedback = WorkConditionsValue(object.Status.Conditions), feedbackValue(object)
}

// written takes over what was only known after the write, and returns what does
// so after the wait. What the plan has shown stays as it was.
func (m *manifestWorkModel) written(object *workv1.ManifestWork) (report func()) {
	if m.Generation.IsUnknown() {
		m.Generation = types.Int64Value(object.Generation)
	}
	if !m.Conditions.IsUnknown() {
		return func() {}
	}
	m.report(object)
	return func() { m.report(object) }
}

// Key implements crud.Model.
func (m *manifestWorkModel) Key() (namespace, name string) {
	return m.ManagedCluster.ValueString(), m.Name.ValueString()
}

// follow is what comes after the work was written. waiting ends with the timeout,
// ctx does not.
func (m *manifestWorkModel) follow(ctx, waiting context.Context, client *kube.Client, object *workv1.ManifestWork, timeout time.Duration, places workload.Places, report func()) crud.Follow {
	f := crud.Follow{Waits: m.Wait != nil, Ready: &m.Ready, Kind: "work", Report: report, Failing: "muster_manifest_work_wait"}
	if m.Wait == nil || !m.Ready.IsUnknown() {
		return f
	}
	f.Wait = func() (summary, problem string) {
		wanted := m.Wait.conditions()
		err := waitForWork(waiting, client, object, wanted, patience)
		switch {
		case err == nil:
			return "", ""
		case hub.IsTimeout(err), isFailure(err):
			return "Not ready: " + m.What(), describeWork(ctx, client, object, wanted, timeout, err, places)
		default:
			return "Not ready: " + m.What(), hub.Explain(client.Host(), "wait for it", err)
		}
	}
	return f
}
