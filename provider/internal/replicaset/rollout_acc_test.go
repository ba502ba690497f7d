package replicaset_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// waitingFor is the body of a replica set that waits.
func waitingFor(wait, timeout, answer string) string {
	return strings.Replace(replicaSetBasic, `"42"`, fmt.Sprintf("%q", answer), 1) +
		fmt.Sprintf("\n  wait = { %s }\n  timeouts {\n    create = %q\n    update = %[2]q\n  }", wait, timeout)
}

func stateIs(attribute string, want knownvalue.Check) statecheck.StateCheck {
	return statecheck.ExpectKnownValue(replicaSetAddress, tfjsonpath.New(attribute), want)
}

func ready(want bool) []statecheck.StateCheck {
	return []statecheck.StateCheck{stateIs("ready", knownvalue.Bool(want)), stateIs("rolled_out", knownvalue.Bool(want))}
}

// later lets the hub report while Terraform waits.
func later(report func()) func() { return func() { time.AfterFunc(time.Second, report) } }

func TestAccManifestWorkReplicaSetWaits(t *testing.T) {
	hub := newReplicaSetHub(t)
	web := workIn("paris", said("Applied", metav1.ConditionTrue), said("Available", metav1.ConditionFalse))
	hub.works = []workv1.ManifestWork{web}
	body := func(timeout, answer string) string {
		return hub.config(waitingFor("rolled_out = true", timeout, answer))
	}
	acctest.Run(t,
		// A creation that is not rolled out in time is kept: the plan is to wait
		// again.
		resource.TestStep{Config: body("1s", "42"), ConfigStateChecks: ready(false), ExpectNonEmptyPlan: true},
		resource.TestStep{
			PreConfig:   func() { hub.report(metav1.ConditionFalse, present) },
			Config:      body("2s", "42"),
			ExpectError: acctest.Saying(`Not ready: manifest work replica set "shop/web"`),
		},
		resource.TestStep{
			PreConfig:         later(func() { hub.report(metav1.ConditionTrue, present) }),
			Config:            body("30s", "42"),
			ConfigPlanChecks:  planned(plancheck.ResourceActionUpdate),
			ConfigStateChecks: append(ready(true), stateIs("summary", knownvalue.ObjectPartial(map[string]knownvalue.Check{"total": knownvalue.Int64Exact(2), "degraded": knownvalue.Int64Exact(1)}))),
		},
		// What was reported before a change does not count.
		resource.TestStep{Config: body("1s", "43"), ExpectError: acctest.Saying("Within 1s generation 2 did not reach what is waited for: PlacementRolledOut: it is reported for generation 1 only")},
		resource.TestStep{
			PreConfig:         later(func() { hub.report(metav1.ConditionTrue, present) }),
			Config:            body("30s", "43"),
			ConfigStateChecks: ready(true),
		},
		// Later reports make no difference that would have to be applied.
		resource.TestStep{
			PreConfig:         func() { hub.report(metav1.ConditionFalse, present) },
			Config:            body("30s", "43"),
			ConfigPlanChecks:  planned(plancheck.ResourceActionNoop),
			ConfigStateChecks: []statecheck.StateCheck{stateIs("ready", knownvalue.Bool(true)), stateIs("rolled_out", knownvalue.Bool(false))},
		},
		resource.TestStep{
			Config:            hub.config(strings.Replace(replicaSetBasic, "42", "43", 1)),
			ConfigStateChecks: []statecheck.StateCheck{stateIs("ready", knownvalue.Null())},
		},
	)
}

// Upstream's hubs don't set the observed generation of conditions. One from before a
// change doesn't count then either; but where a change leaves the works alone,
// the hub has nothing new to report, and what stands is so.
func TestAccManifestWorkReplicaSetWaitsOnAnUpstreamHub(t *testing.T) {
	hub := newReplicaSetHub(t)
	body := func(timeout, answer string) string {
		return hub.config(waitingFor("rolled_out = true", timeout, answer))
	}
	acctest.Run(t,
		resource.TestStep{
			PreConfig:         later(func() { hub.report(metav1.ConditionTrue, unnoted) }),
			Config:            body("30s", "42"),
			ConfigStateChecks: ready(true),
		},
		resource.TestStep{
			Config:      body("2s", "43"),
			ExpectError: acctest.Saying("Within 2s generation 2 did not reach what is waited for: PlacementRolledOut: it was reported before the last change"),
		},
		// Not even in the next run, which changes nothing and only waits.
		resource.TestStep{
			PreConfig: func() {
				hub.change(func(object *workv1alpha1.ManifestWorkReplicaSet) {
					object.Annotations = map[string]string{"by": "somebody"}
				})
			},
			Config:      body("1s", "43"),
			ExpectError: acctest.Saying("PlacementRolledOut is True"),
		},
		resource.TestStep{
			PreConfig:         later(func() { hub.report(metav1.ConditionTrue, unnoted) }),
			Config:            body("30s", "43"),
			ConfigStateChecks: ready(true),
		},
		resource.TestStep{
			Config:            strings.Replace(body("2s", "43"), `name = "europe"`, `name = "europe", rollout_strategy = { type = "Progressive" }`, 1),
			ConfigPlanChecks:  planned(plancheck.ResourceActionUpdate),
			ConfigStateChecks: ready(true),
		},
	)
}

// A failed wait reports everything that is known.
func TestAccManifestWorkReplicaSetShowsWhatHoldsItUp(t *testing.T) {
	hub := newReplicaSetHub(t)
	applied := said("Applied", metav1.ConditionTrue)
	hub.works = []workv1.ManifestWork{
		workIn("rome", applied, said("Available", metav1.ConditionTrue), said("Progressing", metav1.ConditionFalse)),
		workIn("paris", applied, said("Available", metav1.ConditionFalse)),
	}
	body := func(answer string) string { return hub.config(waitingFor("rolled_out = true", "1s", answer)) }
	var steps []resource.TestStep
	for i, want := range []string{
		`PlacementRolledOut is False (Progressing, for 60m)`,
		`Placement europe: 1 (2 / 2 clusters applied); works: 2, applied 2, available 1, progressing 0, degraded 1`,
		`1 of 2 works are not done: in paris: Available is False (Why): the reason; the cluster is not available`,
		`kubectl describe manifestworkreplicaset -n shop web`,
		`kubectl get manifestworks -A -l work.open-cluster-management.io/manifestworkreplicaset=shop.web`,
	} {
		steps = append(steps, resource.TestStep{Config: body(fmt.Sprint(i)), ExpectError: acctest.Saying(want)})
	}
	steps[0].PreConfig = func() { hub.report(metav1.ConditionFalse, present) }
	acctest.Run(t, append([]resource.TestStep{{Config: hub.config(replicaSetBasic)}}, steps...)...)
}

// A wait ends as soon as it is certain that not all works will be done, and tells in
// which clusters, in the words of their API servers.
func TestAccManifestWorkReplicaSetEndsWhenItIsCertain(t *testing.T) {
	hub := newReplicaSetHub(t)
	body := func(answer string) string { return hub.config(waitingFor("rolled_out = true", "10m", answer)) }
	reporting := func(conditions []metav1.Condition, message string) func() {
		return later(func() {
			hub.mu.Lock()
			defer hub.mu.Unlock()
			hub.works = nil
			for _, cluster := range []string{"paris", "rome"} {
				w := workIn(cluster, conditions...)
				w.Spec = hub.object.Spec.ManifestWorkTemplate
				w.Labels = map[string]string{work.PlacementNameLabel: "europe"}
				if message != "" {
					w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
						ResourceMeta: workv1.ManifestResourceMeta{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"},
						Conditions:   []metav1.Condition{{Type: "Applied", Status: metav1.ConditionFalse, Message: message}},
					}}
				}
				hub.works = append(hub.works, w)
			}
		})
	}
	slow := said("Progressing", metav1.ConditionTrue)
	slow.LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
	acctest.Run(t,
		resource.TestStep{Config: hub.config(replicaSetBasic)},
		resource.TestStep{
			PreConfig:   reporting([]metav1.Condition{said("Applied", metav1.ConditionFalse)}, `ConfigMap "settings" is invalid: data: no`),
			Config:      body("43"),
			ExpectError: acctest.Saying("has reported the same errors for 3s", `in rome: it is not applied: ConfigMap shop/settings: ConfigMap "settings" is invalid: data: no`),
		},
		resource.TestStep{
			PreConfig:   reporting([]metav1.Condition{said("Applied", metav1.ConditionTrue), said("Available", metav1.ConditionTrue), slow}, ""),
			Config:      strings.Replace(body("44"), `{ name = "europe" }`, `{ name = "europe", rollout_strategy = { type = "All", progress_deadline = "10m" } }`, 1),
			ExpectError: acctest.Saying("The rollout has stopped", "in rome: Progressing is True (Why): the reason"),
		},
	)
}

func TestAccManifestWorkReplicaSetWithoutAController(t *testing.T) {
	hub := newReplicaSetHub(t)
	acctest.Run(t,
		resource.TestStep{Config: hub.config(replicaSetBasic)},
		resource.TestStep{Config: hub.config(waitingFor(`conditions = ["PlacementVerified"]`, "1s", "43")), ExpectError: acctest.Saying("muster hub --feature-gates ManifestWorkReplicaSet=true")},
	)
}

func TestAccManifestWorkReplicaSetDeletionNamesWhatItWaitsFor(t *testing.T) {
	hub := newReplicaSetHub(t)
	hub.works = []workv1.ManifestWork{workIn("paris")}
	config := hub.config(replicaSetBasic + "\n  cascade_deletion_policy = \"Foreground\"\n  timeouts { delete = \"1s\" }")
	acctest.Run(t,
		resource.TestStep{Config: config},
		resource.TestStep{
			PreConfig: func() {
				hub.change(func(object *workv1alpha1.ManifestWorkReplicaSet) {
					object.Finalizers = []string{"work.open-cluster-management.io/manifest-work-cleanup"}
				})
			},
			Config: config, Destroy: true,
			ExpectError: acctest.Saying("Finalizer work.open-cluster-management.io/manifest-work-cleanup"),
		},
		resource.TestStep{
			Config: config, Destroy: true,
			ExpectError: acctest.Saying("Works that are left: 1.", "in paris: its deletion has not begun; the cluster is not available"),
		},
		resource.TestStep{
			PreConfig: func() {
				hub.change(func(object *workv1alpha1.ManifestWorkReplicaSet) {
					object.Finalizers, object.DeletionTimestamp = nil, nil
				})
			},
			Config: config,
		},
	)
}

func TestAccManifestWorkReplicaSetDataSource(t *testing.T) {
	hub := newReplicaSetHub(t)
	stale := said("Available", metav1.ConditionTrue)
	stale.ObservedGeneration = 1
	hub.works = []workv1.ManifestWork{
		workIn("rome", said("Applied", metav1.ConditionTrue), stale, said("Degraded", metav1.ConditionFalse)),
		workIn("paris"),
	}
	hub.works[0].Labels = map[string]string{"work.open-cluster-management.io/placementname": "europe"}
	const address = "data.muster_manifest_work_replica_set.test"
	data := func(name string) string {
		return hub.config(replicaSetFull) + fmt.Sprintf("\ndata \"muster_manifest_work_replica_set\" \"test\" {\n  namespace = \"shop\"\n  name = %q\n  depends_on = [%s]\n}\n", name, replicaSetAddress)
	}
	is := func(want knownvalue.Check, at ...any) statecheck.StateCheck {
		path := tfjsonpath.New(at[0].(string))
		for _, step := range at[1:] {
			switch step := step.(type) {
			case string:
				path = path.AtMapKey(step)
			case int:
				path = path.AtSliceIndex(step)
			}
		}
		return statecheck.ExpectKnownValue(address, path, want)
	}
	exactly := knownvalue.StringExact
	acctest.Run(t,
		resource.TestStep{Config: hub.config(replicaSetFull)},
		resource.TestStep{
			PreConfig: func() { hub.report(metav1.ConditionTrue, present) },
			Config:    data("web"),
			ConfigStateChecks: []statecheck.StateCheck{
				is(exactly("web"), "labels", "app"),
				is(exactly("shop"), "annotations", "owner"),
				is(exactly("Foreground"), "cascade_deletion_policy"),
				is(knownvalue.ListSizeExact(2), "manifests"),
				is(knownvalue.ListSizeExact(2), "manifest_configs"),
				is(exactly("deployer"), "executor", "service_account"),
				is(exactly("SelectivelyOrphan"), "delete_option", "propagation_policy"),
				is(exactly("25%"), "placements", 0, "rollout_strategy", "max_failures"),
				is(knownvalue.Int64Exact(0), "placements", 0, "rollout_strategy", "mandatory_decision_groups", 1, "group_index"),
				is(knownvalue.Null(), "placements", 3, "rollout_strategy"),
				is(knownvalue.Bool(true), "rolled_out"),
				is(knownvalue.Int64Exact(2), "summary", "applied"),
				is(exactly("1 (2 / 2 clusters applied)"), "placement_summaries", 0, "available_decision_groups"),
				is(exactly("Complete"), "conditions", 0, "reason"),
				is(knownvalue.ListExact([]knownvalue.Check{
					knownvalue.ObjectExact(map[string]knownvalue.Check{
						"managed_cluster": exactly("paris"), "name": exactly("web-x"), "placement": exactly(""),
						"applied": exactly(""), "available": exactly(""), "progressing": exactly(""), "degraded": exactly(""),
						"problem": exactly("the agent has not reported on the present manifests yet (Applied, Available)"),
					}),
					knownvalue.ObjectExact(map[string]knownvalue.Check{
						"managed_cluster": exactly("rome"), "name": exactly("web-x"), "placement": exactly("europe"),
						"applied": exactly("True"), "available": exactly("Unknown"), "progressing": exactly(""), "degraded": exactly("False"),
						"problem": exactly("the agent has not reported on the present manifests yet (Available)"),
					}),
				}), "works"),
			},
		},
	)
}

func TestAccManifestWorkReplicaSetDataSourceOfNothing(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		Config:      "data \"muster_manifest_work_replica_set\" \"test\" {\n  namespace = \"default\"\n  name = \"nothing\"\n}\n",
		ExpectError: acctest.Saying(`There is no manifest work replica set "default/nothing"`),
	})
}
