package replicaset

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

type waitResourceModel struct {
	crud.NamespacedWait
	waitModel
	Generation types.Int64 `tfsdk:"generation"`
}

// NewWait is muster_manifest_work_replica_set_wait.
func NewWait() resource.Resource {
	return &crud.WaitResource{
		Type: "manifest_work_replica_set_wait", Keys: []string{"namespace", "name"},
		Description: "Waits until a manifest work replica set is rolled out, or has conditions, and fails the run " +
			"when it is not. It creates nothing and destroys nothing. Let everything depend on it that needs the " +
			"objects in the clusters.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but neither the replica " +
			"set nor its works are touched, and the next apply waits again. `wait` of " +
			"`muster_manifest_work_replica_set` can't do that after a creation. With `generation` it waits again " +
			"for each change of the replica set. It relies on the generation that a muster hub notes in its " +
			"conditions: on a hub that does not, use `wait` of the replica set. " +
			earlyEnd,
		Attributes: waitResourceAttributes,
		Options:    waitOptions,
		Model:      func() crud.WaitModel { return &waitResourceModel{} },
		Object:     func() kube.Object { return &workv1alpha1.ManifestWorkReplicaSet{} },
	}
}

func waitResourceAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"namespace":  attribute.Identifying("Namespace of the replica set.", attribute.ValidName("namespace")),
		"name":       attribute.Identifying("Name of the replica set.", validName()),
		"generation": workload.GenerationToWaitFor("muster_manifest_work_replica_set"),
	}
}

// Wait implements crud.WaitModel.
func (m *waitResourceModel) Wait(
	waiting context.Context, client *kube.Client, timeout time.Duration,
) (summary, problem string) {
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	object.Namespace, object.Name = m.Key()
	wait := m.waitModel
	if wait.RolledOut.IsNull() && wait.Conditions == nil {
		wait.RolledOut = types.BoolValue(true)
	}
	summary, problem = wait.wait(client, object, nil, timeout).Run(waiting)
	return summary, content().Live(object).Masked(problem)
}

// What implements crud.Model.
func (m *waitResourceModel) What() string {
	return fmt.Sprintf("the wait for manifest work replica set %q", m.Namespace.ValueString()+"/"+m.Name.ValueString())
}
