package replicaset

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// Wait is muster_manifest_work_replica_set_wait.
func Wait() crud.Declared {
	return crud.WaitResource[replicaSet]{
		Type: "manifest_work_replica_set_wait", Noun: "manifest work replica set",
		Empty: &workv1alpha1.ManifestWorkReplicaSet{},
		Description: "Waits until a manifest work replica set is rolled out, or has conditions, and fails the run " +
			"when it is not. It creates nothing and destroys nothing. Let everything depend on it that needs the " +
			"objects in the clusters.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but neither the replica " +
			"set nor its works are touched, and the next apply waits again. `wait` of " +
			"`muster_manifest_work_replica_set` can't do that after a creation. With `generation` it waits again " +
			"for each change of the replica set. It relies on the generation that a muster hub notes in its " +
			"conditions: on a hub that does not, use `wait` of the replica set. " +
			earlyEnd,
		Keys: []crud.Key{
			{Name: "namespace", Description: "Namespace of the replica set.", Valid: attribute.ValidName("namespace")},
			{Name: "name", Description: "Name of the replica set.", Valid: validName()},
		},
		Options: waitOptions(),
		Again:   workload.GenerationToWaitFor[replicaSet]("muster_manifest_work_replica_set"),
		Wait: func(ctx context.Context, c *change, options types.Object) (summary, problem string) {
			wait := attribute.As[*waitModel](options)
			summary, problem = wait.wait(c.Client, c.Object, nil, c.Timeout).Run(ctx)
			return summary, content().Live(c.Object).Masked(problem)
		},
	}.Kind()
}
