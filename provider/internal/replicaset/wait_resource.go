package replicaset

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

var (
	_ resource.ResourceWithConfigure      = (*waitResource)(nil)
	_ resource.ResourceWithIdentity       = (*waitResource)(nil)
	_ resource.ResourceWithValidateConfig = (*waitResource)(nil)
)

type waitResource struct{ crud.WaitResource }

type waitResourceModel struct {
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"name"`
	replicaSetWaitModel
	Generation types.Int64    `tfsdk:"generation"`
	Timeouts   timeouts.Value `tfsdk:"timeouts"`
}

// NewWait is muster_manifest_work_replica_set_wait.
func NewWait() resource.Resource {
	return &waitResource{crud.WaitResource{
		Model:  func() crud.Waiting { return &waitResourceModel{} },
		Object: func() kube.Object { return &workv1alpha1.ManifestWorkReplicaSet{} },
	}}
}

func (r *waitResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_manifest_work_replica_set_wait"
}

func (r *waitResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("namespace", "name")
}

func (r *waitResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := replicaSetWaitAttributes()
	maps.Copy(attributes, map[string]schema.Attribute{
		"namespace":  attribute.Identifying("Namespace of the replica set.", attribute.ValidName("namespace")),
		"name":       attribute.Identifying("Name of the replica set.", replicaSetNameValidator{}),
		"generation": workload.GenerationToWaitFor("muster_manifest_work_replica_set"),
	})
	resp.Schema = schema.Schema{
		MarkdownDescription: "Waits until a manifest work replica set is rolled out, or has conditions, and fails the run when it is not. It creates nothing and destroys nothing. Let everything depend on it that needs the objects in the clusters.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but neither the replica set nor its works are touched, and the next apply waits again. " +
			"`wait` of `muster_manifest_work_replica_set` can't do that after a creation. With `generation` it waits again for each change of the replica set. " +
			"It relies on the generation that a muster hub notes in its conditions: on a hub that does not, use `wait` of the replica set.",
		Attributes: attributes,
		Blocks:     crud.WaitTimeouts(ctx),
	}
}

// ValidateConfig refuses a wait for nothing.
func (r *waitResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var rolledOut types.Bool
	var conditions types.Set
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("rolled_out"), &rolledOut)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("conditions"), &conditions)...)
	if !resp.Diagnostics.HasError() {
		checkWait(path.Root("rolled_out"), rolledOut, conditions, &resp.Diagnostics)
	}
}

// Limits implements crud.Waiting.
func (m *waitResourceModel) Limits() timeouts.Value { return m.Timeouts }

// Wait implements crud.Waiting.
func (m *waitResourceModel) Wait(waiting context.Context, client *kube.Client, _ time.Duration) (summary, problem string) {
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	object.Namespace, object.Name = m.Key()
	began := time.Now()
	err := waitForReplicaSet(waiting, client, object, &m.replicaSetWaitModel, nil)
	summary = fmt.Sprintf("Not ready: manifest work replica set %q", object.Namespace+"/"+object.Name)
	switch {
	case err == nil:
		return "", ""
	case hub.IsTimeout(err):
		return summary, describeReplicaSet(waiting, client, object, m.what(), time.Since(began).Round(time.Second))
	default:
		return summary, hub.Explain(client.Host(), "wait for it", err)
	}
}

// Key implements crud.Model.
func (m *waitResourceModel) Key() (namespace, name string) {
	return m.Namespace.ValueString(), m.Name.ValueString()
}

// Identity implements crud.Model.
func (m *waitResourceModel) Identity() any {
	return attribute.NamespacedIdentity{Namespace: m.Namespace, Name: m.Name}
}

// What implements crud.Model.
func (m *waitResourceModel) What() string {
	return fmt.Sprintf("the wait for manifest work replica set %q", m.Namespace.ValueString()+"/"+m.Name.ValueString())
}
