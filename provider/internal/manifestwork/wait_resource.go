package manifestwork

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

var (
	_ resource.ResourceWithConfigure = (*workWaitResource)(nil)
	_ resource.ResourceWithIdentity  = (*workWaitResource)(nil)
)

type workWaitResource struct{ crud.WaitResource }

type workWaitModel struct {
	ManagedCluster types.String   `tfsdk:"managed_cluster"`
	Name           types.String   `tfsdk:"name"`
	Conditions     []types.String `tfsdk:"conditions"`
	Generation     types.Int64    `tfsdk:"generation"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
}

// NewWait is muster_manifest_work_wait.
func NewWait() resource.Resource {
	return &workWaitResource{crud.WaitResource{
		Model:  func() crud.Waiting { return &workWaitModel{} },
		Object: func() kube.Object { return &workv1.ManifestWork{} },
	}}
}

func (r *workWaitResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_manifest_work_wait"
}

func (r *workWaitResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("managed_cluster", "name")
}

func (r *workWaitResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := map[string]schema.Attribute{
		"managed_cluster": attribute.Identifying("Name of the managed cluster.", attribute.ValidClusterName()),
		"name":            attribute.Identifying("Name of the work.", attribute.ValidObjectName("work name")),
		"generation":      workload.GenerationToWaitFor("muster_manifest_work"),
		"conditions":      waitConditionsAttribute(),
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Waits until the agent has reported conditions of a manifest work, and fails the run when it does not. It creates nothing and destroys nothing. Let everything depend on it that needs the work's objects.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but neither the work nor its objects are touched, and the next apply waits again. " +
			"`wait` of `muster_manifest_work` can't do that after a creation. With `generation` it waits again for each change of the work. " +
			"When the agent can't apply the work, the wait ends before its timeout, as there. A work that fails later does not change the plan.",
		Attributes: attributes,
		Blocks:     crud.WaitTimeouts(ctx),
	}
}

// Limits implements crud.Waiting.
func (m *workWaitModel) Limits() timeouts.Value { return m.Timeouts }

// Wait implements crud.Waiting.
func (m *workWaitModel) Wait(waiting context.Context, client *kube.Client, _ time.Duration) (summary, problem string) {
	object := &workv1.ManifestWork{}
	object.Namespace, object.Name = m.Key()
	wanted := attribute.WaitConditions(m.Conditions)
	began := time.Now()
	err := waitForWork(waiting, client, object, wanted, patience)
	summary = fmt.Sprintf("Not ready: manifest work %q", object.Namespace+"/"+object.Name)
	switch {
	case err == nil:
		return "", ""
	case hub.IsTimeout(err), isFailure(err):
		text := describeWork(context.WithoutCancel(waiting), client, object, wanted, time.Since(began).Round(time.Second), err, nil)
		return summary, liveContent(object).Masked(text)
	default:
		return summary, hub.Explain(client.Host(), "wait for it", err)
	}
}

// Key implements crud.Model.
func (m *workWaitModel) Key() (namespace, name string) {
	return m.ManagedCluster.ValueString(), m.Name.ValueString()
}

// Identity implements crud.Model.
func (m *workWaitModel) Identity() any {
	return workIdentity{ManagedCluster: m.ManagedCluster, Name: m.Name}
}

// What implements crud.Model.
func (m *workWaitModel) What() string {
	return fmt.Sprintf("the wait for manifest work %q", m.ManagedCluster.ValueString()+"/"+m.Name.ValueString())
}
