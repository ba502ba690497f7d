package logicalcloud

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
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

type waitResourceModel struct {
	crud.NamespacedWait
	waitModel
	Triggers types.Map `tfsdk:"triggers"`
}

// NewWait is muster_logical_cloud_wait.
func NewWait() resource.Resource {
	return &crud.WaitResource{
		Type: "logical_cloud_wait", Keys: []string{"namespace", "name"},
		Description: "Waits until the clusters of a logical cloud are ready, and fails the run when they are not. " +
			"It creates nothing and destroys nothing. Let everything depend on it that needs the cloud's namespace " +
			"in the clusters.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but nobody's access is " +
			"touched, and the next apply waits again. `wait` of `muster_logical_cloud` can't do that after a creation.",
		Attributes: waitResourceAttributes,
		Options:    waitOptions,
		Model:      func() crud.WaitModel { return &waitResourceModel{} },
		Object:     func() kube.Object { return &v1alpha1.LogicalCloud{} },
	}
}

func waitResourceAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"namespace": attribute.Identifying("Namespace of the logical cloud.", attribute.ValidName("namespace")),
		"name": attribute.Identifying("Name of the logical cloud.", attribute.ValidObjectName("logical cloud "+
			"name")),
		"triggers": schema.MapAttribute{
			MarkdownDescription: "Values whose change makes it wait again, such as `{ grants = " +
				"jsonencode(muster_logical_cloud.prod.grants) }`.",
			Optional:    true,
			ElementType: types.StringType,
		},
	}
}

// Wait implements crud.WaitModel.
func (m *waitResourceModel) Wait(
	waiting context.Context, client *kube.Client, timeout time.Duration,
) (summary, problem string) {
	object := &v1alpha1.LogicalCloud{}
	object.Namespace, object.Name = m.Key()
	wait := m.waitModel
	if wait.Ready.IsNull() && wait.MinReady.IsNull() && wait.Conditions == nil {
		wait.Ready = types.BoolValue(true)
	}
	return wait.wait(client, object, timeout).Run(waiting)
}

// What implements crud.Model.
func (m *waitResourceModel) What() string {
	return fmt.Sprintf("the wait for logical cloud %q", m.Namespace.ValueString()+"/"+m.Name.ValueString())
}
