package manifestwork

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Wait is muster_manifest_work_wait.
func Wait() crud.Declared {
	return crud.WaitResource[manifestWork]{
		Type: "manifest_work_wait", Noun: "manifest work", Empty: &workv1.ManifestWork{},
		Description: "Waits until the agent has reported conditions of a manifest work, and fails the run when it " +
			"does not. It creates nothing and destroys nothing. Let everything depend on it that needs the work's " +
			"objects.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but neither the work nor " +
			"its objects are touched, and the next apply waits again. `wait` of `muster_manifest_work` can't do " +
			"that after a creation. With `generation` it waits again for each change of the work. When the agent " +
			"can't apply the work, the wait ends before its timeout, as there. A work that fails later does not " +
			"change the plan.",
		Keys: []crud.Key{
			{
				Name: "managed_cluster", Description: "Name of the managed cluster.",
				Valid: attribute.ValidClusterName(),
			},
			{Name: "name", Description: "Name of the work.", Valid: attribute.ValidObjectName("work name")},
		},
		Options: waitOptions(),
		Again:   workload.GenerationToWaitFor[manifestWork]("muster_manifest_work"),
		Wait: func(ctx context.Context, c *change, options types.Object) (summary, problem string) {
			wait := attribute.As[*waitModel](options)
			summary, problem = wait.wait(c.Client, c.Object, c.Timeout, nil).Run(ctx)
			return summary, content().Live(c.Object).Masked(problem)
		},
	}.Kind()
}
