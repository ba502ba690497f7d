package replicaset_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const waitAddress = "muster_manifest_work_replica_set_wait.test"

// waiter is a replica set with a wait of its own.
func waiter(hub *replicaSetHub, answer, wait, timeout string) string {
	return hub.config(strings.Replace(replicaSetBasic, `"42"`, fmt.Sprintf("%q", answer), 1)) + fmt.Sprintf(`
resource "muster_manifest_work_replica_set_wait" "test" {
  namespace  = muster_manifest_work_replica_set.test.namespace
  name       = muster_manifest_work_replica_set.test.name
  generation = muster_manifest_work_replica_set.test.generation
  %s
  timeouts {
    create = %q
    update = %[2]q
  }
}
`, wait, timeout)
}

// The wait of its own fails the run, taints neither the replica set nor itself after
// an update, and waits again: in the next apply, and for each change.
func TestAccManifestWorkReplicaSetWait(t *testing.T) {
	hub := newReplicaSetHub(t)
	hub.works = []workv1.ManifestWork{workIn("paris", said("Applied", metav1.ConditionTrue), said("Available", metav1.ConditionFalse))}
	const wait = "rolled_out = true"
	does := func(set, wait plancheck.ResourceActionType) resource.ConfigPlanChecks {
		return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
			plancheck.ExpectResourceAction(replicaSetAddress, set), plancheck.ExpectResourceAction(waitAddress, wait),
		}}
	}
	acctest.Run(t,
		resource.TestStep{Config: waiter(hub, "42", wait, "1s"), ExpectError: acctest.Saying(`Not ready: manifest work replica set "shop/web"`)},
		// The replica set stays as it is.
		resource.TestStep{
			PreConfig:        later(func() { hub.report(metav1.ConditionTrue, present) }),
			Config:           waiter(hub, "42", "", "30s"), // which waits for the rollout, too
			ConfigPlanChecks: does(plancheck.ResourceActionNoop, plancheck.ResourceActionCreate),
		},
		// What was reported before a change does not count, and the error names the cluster.
		resource.TestStep{
			Config:           waiter(hub, "43", wait, "1s"),
			ConfigPlanChecks: does(plancheck.ResourceActionUpdate, plancheck.ResourceActionUpdate),
			ExpectError:      acctest.Saying("1 of 1 works are not done: in paris: Available is False (Why): the reason"),
		},
		resource.TestStep{
			PreConfig:        later(func() { hub.report(metav1.ConditionTrue, present) }),
			Config:           waiter(hub, "43", wait, "30s"),
			ConfigPlanChecks: does(plancheck.ResourceActionNoop, plancheck.ResourceActionUpdate),
		},
		// A rollout that fails later is no change, and neither a further timeout nor
		// the wait's end waits.
		resource.TestStep{
			PreConfig:        func() { hub.report(metav1.ConditionFalse, present) },
			Config:           waiter(hub, "43", wait, "2s"),
			ConfigPlanChecks: does(plancheck.ResourceActionNoop, plancheck.ResourceActionUpdate),
		},
		resource.TestStep{Config: waiter(hub, "43", wait, "2s"), ConfigPlanChecks: does(plancheck.ResourceActionNoop, plancheck.ResourceActionNoop)},
		// Another condition is waited for.
		resource.TestStep{Config: waiter(hub, "43", `conditions = ["PlacementRolledOut=False"]`, "2s")},
		resource.TestStep{Config: waiter(hub, "43", `conditions = ["PlacementVerified"]`, "1s"), ExpectError: acctest.Saying("Within 1s generation 2 did not reach what is waited for: PlacementVerified: nobody has reported it")},
	)
}

// A replica set that is gone takes its wait along.
func TestAccManifestWorkReplicaSetWaitGoesWithIt(t *testing.T) {
	hub := newReplicaSetHub(t)
	acctest.Run(t,
		resource.TestStep{
			PreConfig: later(func() { hub.report(metav1.ConditionTrue, present) }),
			Config:    waiter(hub, "42", "rolled_out = true", "30s"),
		},
		resource.TestStep{
			PreConfig: func() { hub.remove(); later(func() { hub.report(metav1.ConditionTrue, present) })() },
			Config:    waiter(hub, "42", "rolled_out = true", "30s"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(replicaSetAddress, plancheck.ResourceActionCreate),
				plancheck.ExpectResourceAction(waitAddress, plancheck.ResourceActionCreate),
			}},
		},
	)
}

func TestAccManifestWorkReplicaSetWaitBadInput(t *testing.T) {
	hub := newReplicaSetHub(t)
	for wait, want := range map[string]string{
		"rolled_out = false":               "Nothing to wait for",
		"conditions = []":                  "conditions",
		`conditions = ["Ready=Sometimes"]`: "Sometimes",
	} {
		t.Run(wait, func(t *testing.T) {
			acctest.Run(t, resource.TestStep{Config: waiter(hub, "42", wait, "1s"), ExpectError: acctest.Saying(want), PlanOnly: true})
		})
	}
}
