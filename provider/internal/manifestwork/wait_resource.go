package manifestwork

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

type waitResourceModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
	waitModel
	Generation types.Int64    `tfsdk:"generation"`
	Timeouts   timeouts.Value `tfsdk:"timeouts"`
}

type workIdentity struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
}

// NewWait is muster_manifest_work_wait.
func NewWait() resource.Resource {
	return &crud.WaitResource{
		Type: "manifest_work_wait", Keys: []string{"managed_cluster", "name"},
		Description: "Waits until the agent has reported conditions of a manifest work, and fails the run when it " +
			"does not. It creates nothing and destroys nothing. Let everything depend on it that needs the work's " +
			"objects.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but neither the work nor " +
			"its objects are touched, and the next apply waits again. `wait` of `muster_manifest_work` can't do " +
			"that after a creation. With `generation` it waits again for each change of the work. When the agent " +
			"can't apply the work, the wait ends before its timeout, as there. A work that fails later does not " +
			"change the plan.",
		Attributes: waitResourceAttributes,
		Options:    waitOptions,
		Model:      func() crud.WaitModel { return &waitResourceModel{} },
		Object:     func() kube.Object { return &workv1.ManifestWork{} },
	}
}

func waitResourceAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"managed_cluster": attribute.Identifying("Name of the managed cluster.", attribute.ValidClusterName()),
		"name":            attribute.Identifying("Name of the work.", attribute.ValidObjectName("work name")),
		"generation":      workload.GenerationToWaitFor("muster_manifest_work"),
	}
}

// Wait implements crud.WaitModel.
func (m *waitResourceModel) Wait(
	waiting context.Context, client *kube.Client, timeout time.Duration,
) (summary, problem string) {
	object := &workv1.ManifestWork{}
	object.Namespace, object.Name = m.Key()
	summary, problem = m.waitModel.wait(client, object, timeout, nil).Run(waiting)
	return summary, content().Live(object).Masked(problem)
}

// Key implements crud.Model.
func (m *waitResourceModel) Key() (namespace, name string) {
	return m.ManagedCluster.ValueString(), m.Name.ValueString()
}

// Identity implements crud.Model.
func (m *waitResourceModel) Identity() any {
	return workIdentity{ManagedCluster: m.ManagedCluster, Name: m.Name}
}

// Limits implements crud.WaitModel.
func (m *waitResourceModel) Limits() timeouts.Value { return m.Timeouts }

// What implements crud.Model.
func (m *waitResourceModel) What() string {
	return fmt.Sprintf("the wait for manifest work %q", m.ManagedCluster.ValueString()+"/"+m.Name.ValueString())
}
