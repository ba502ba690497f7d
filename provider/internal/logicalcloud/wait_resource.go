package logicalcloud

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Wait is muster_logical_cloud_wait.
func Wait() crud.Declared {
	return crud.WaitResource[logicalCloud]{
		Type: "logical_cloud_wait", Noun: "logical cloud", Empty: &v1alpha1.LogicalCloud{},
		Description: "Waits until the clusters of a logical cloud are ready, and fails the run when they are not. " +
			"It creates nothing and destroys nothing. Let everything depend on it that needs the cloud's namespace " +
			"in the clusters.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but nobody's access is " +
			"touched, and the next apply waits again. `wait` of `muster_logical_cloud` can't do that after a creation.",
		Keys: []crud.Key{
			{
				Name: "namespace", Description: "Namespace of the logical cloud.",
				Valid: attribute.ValidName("namespace"),
			},
			{
				Name: "name", Description: "Name of the logical cloud.",
				Valid: attribute.ValidObjectName("logical cloud name"),
			},
		},
		Options: waitOptions(),
		Again: attribute.Table[logicalCloud]{attribute.Local[logicalCloud]("triggers", schema.MapAttribute{
			MarkdownDescription: "Values whose change makes it wait again, such as `{ grants = " +
				"jsonencode(muster_logical_cloud.prod.grants) }`.",
			Optional:    true,
			ElementType: types.StringType,
		})},
		Wait: func(ctx context.Context, c *cloudChange, options types.Object) (summary, problem string) {
			return attribute.As[*waitModel](options).wait(c.Client, c.Object, c.Timeout).Run(ctx)
		},
	}.Kind()
}
