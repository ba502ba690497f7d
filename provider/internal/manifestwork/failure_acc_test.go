package manifestwork_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// verdict is what the agent of a test says of a work's config map settings:
// nothing bad, or why it can't be applied.
func verdict(o *acctest.Outsider, cluster string, generation int64, problem string) error {
	ctx, cancel := o.Context()
	defer cancel()
	object := &workv1.ManifestWork{}
	if err := o.Client.Wait(ctx, object, cluster, "web", func(exists bool) (bool, error) { return exists && object.Generation >= generation, nil }); err != nil {
		return err
	}
	c := metav1.Condition{Type: "Applied", Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(), ObservedGeneration: object.Generation}
	if problem != "" {
		c.Status, c.Message = metav1.ConditionFalse, "Failed to apply manifest: "+problem
	}
	object.Status.Conditions = []metav1.Condition{c}
	object.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "shop", Name: "settings"},
		Conditions:   []metav1.Condition{c},
	}}
	return o.Client.UpdateSubresource(ctx, object, "status", acctest.OutsiderManager)
}

// meanwhile plays the agent beside a run of Terraform.
func meanwhile(t *testing.T, cluster string, generation int64, problem string) {
	t.Helper()
	o := acctest.Someone(t)
	done := make(chan error, 1)
	go func() { done <- verdict(o, cluster, generation, problem) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

const refusal = `ConfigMap "settings" is invalid: data: Invalid value: no such thing`

// Without a wait the next refresh tells what the agent could not apply, and is
// silent about what it has not looked at, and about what is well.
func TestAccManifestWorkFailureShowsAtTheNextRefresh(t *testing.T) {
	w := acctest.NewWorkspace(t)
	config := acctest.WorkConfig("mw-refused", acctest.AsYAML+`
  objects = [{ apiVersion = "apps/v1", kind = "Deployment", metadata = { name = "web", namespace = "shop" }
    spec = { selector = { matchLabels = { app = "web" } }, template = { metadata = { labels = { app = "web" } }
      spec = { containers = [{ name = "web", image = "nginx", env = [{ name = "DB_PASSWORD", value = "hunter2" }] }] } } } }]
  manifests_wo = [yamlencode({ apiVersion = "v1", kind = "Secret", metadata = { name = "login", namespace = "shop" }, stringData = { password = "s3cr3t-wo" } })]`)
	if said, ok := w.Apply(config); !ok || strings.Contains(said, "Not applied") {
		t.Fatal(said)
	}
	if said := w.Plan(config); strings.Contains(said, "Not applied") {
		t.Errorf("before the agent has looked: %s", said)
	}
	if err := verdict(acctest.Someone(t), "mw-refused", 1, refusal+", as is hunter2"); err != nil {
		t.Fatal(err)
	}
	said := w.Plan(config)
	acctest.Says(t, said, `Not applied: manifest work "mw-refused/web"`, `ConfigMap shop/settings (manifests[0], document 1): Failed to apply manifest: `+refusal+", as is (sensitive)",
		"kubectl describe manifestwork -n mw-refused web", "No changes.")
	if strings.Contains(said, "hunter2") {
		t.Errorf("the warning has a secret: %s", said)
	}
	if err := verdict(acctest.Someone(t), "mw-refused", 1, ""); err != nil {
		t.Fatal(err)
	}
	if said := w.Plan(config); strings.Contains(said, "Not applied") {
		t.Errorf("of a work that is well: %s", said)
	}
	if said, ok := w.Destroy(); !ok {
		t.Fatal(said)
	}
}

// The wait of its own fails the run within seconds, taints nothing, and waits
// again: in the next apply, and for each change of the work.
func TestAccManifestWorkWait(t *testing.T) {
	w := acctest.NewWorkspace(t)
	config := func(answer string) string {
		return acctest.WorkConfig("mw-waiter", strings.Replace(acctest.AsYAML, `"42"`, `"`+answer+`"`, 1)+`
  manifests_wo = [yamlencode({ apiVersion = "v1", kind = "Secret", metadata = { name = "login", namespace = "shop" }, stringData = { password = "s3cr3t" } })]`) + `
resource "muster_manifest_work_wait" "web" {
  managed_cluster = muster_manifest_work.test.managed_cluster
  name            = muster_manifest_work.test.name
  generation      = muster_manifest_work.test.generation
  conditions      = ["Applied"]
}
`
	}
	meanwhile(t, "mw-waiter", 1, refusal+" as s3cr3t")
	began := time.Now()
	said, ok := w.Apply(config("1"))
	if took := time.Since(began); ok || took > time.Minute {
		t.Fatalf("a wait for a work that can't be applied: ok is %t after %s: %s", ok, took, said)
	}
	acctest.Says(t, said, `Not ready: manifest work "mw-waiter/web"`, "so the wait ended before its timeout", "ConfigMap shop/settings: Applied is False", refusal+" as (sensitive)")
	said = w.Plan(config("1"))
	acctest.Says(t, said, "muster_manifest_work_wait.web will be created", "Plan: 1 to add, 0 to change, 0 to destroy")
	if err := verdict(acctest.Someone(t), "mw-waiter", 1, ""); err != nil {
		t.Fatal(err)
	}
	if said, ok := w.Apply(config("1")); !ok {
		t.Fatal(said)
	}
	acctest.Says(t, w.Plan(config("1")), "No changes.")
	meanwhile(t, "mw-waiter", 2, refusal)
	said, ok = w.Apply(config("2"))
	if ok {
		t.Errorf("the change was not waited for: %s", said)
	}
	if err := verdict(acctest.Someone(t), "mw-waiter", 2, ""); err != nil {
		t.Fatal(err)
	}
	acctest.Says(t, w.Plan(config("2")), "0 to add, 1 to change, 0 to destroy") // To wait again: nothing is tainted.
	if said, ok := w.Apply(config("2")); !ok {
		t.Fatal(said)
	}
	acctest.Says(t, w.Plan(config("2")), "No changes.")
	if said, ok := w.Destroy(); !ok {
		t.Fatal(said)
	}
}

// A postcondition on ready fails the run that creates a work, and taints nothing.
func TestAccManifestWorkPostcondition(t *testing.T) {
	w := acctest.NewWorkspace(t)
	config := acctest.WorkConfig("mw-postcondition", acctest.AsYAML+`
  wait = { conditions = ["Applied"] }
  lifecycle {
    postcondition {
      condition     = self.ready
      error_message = "The work is not ready."
    }
  }`)
	meanwhile(t, "mw-postcondition", 1, refusal)
	said, ok := w.Apply(config)
	if ok {
		t.Errorf("the run succeeds: %s", said)
	}
	acctest.Says(t, said, "Error: Resource postcondition failed", "The work is not ready.", "ConfigMap shop/settings (manifests[0], document 1): Applied is False",
		"This run succeeds all the same", "wait with muster_manifest_work_wait, or add a lifecycle postcondition on self.ready")
	if err := verdict(acctest.Someone(t), "mw-postcondition", 1, ""); err != nil {
		t.Fatal(err)
	}
	if said, ok = w.Apply(config); !ok || strings.Contains(said, "1 destroyed") {
		t.Fatal(said)
	}
	if said, ok := w.Destroy(); !ok {
		t.Fatal(said)
	}
}

// A change of a work that is Complete is not applied: the plan says so.
func TestAccManifestWorkComplete(t *testing.T) {
	w := acctest.NewWorkspace(t)
	config := func(image string) string {
		return acctest.WorkConfig("mw-complete", `
  objects = [{ apiVersion = "batch/v1", kind = "Job", metadata = { name = "once", namespace = "shop" }
    spec = { template = { spec = { restartPolicy = "Never", containers = [{ name = "once", image = "`+image+`" }] } } } }]
  manifest_configs = [{
    resource_identifier = { group = "batch", resource = "jobs", name = "once", namespace = "shop" }
    condition_rules     = [{ condition = "Complete", type = "WellKnownConditions" }]
  }]`)
	}
	if said, ok := w.Apply(config("a")); !ok {
		t.Fatal(said)
	}
	o := acctest.Someone(t)
	object := &workv1.ManifestWork{}
	o.Get(object, "mw-complete", "web")
	object.Status.Conditions = []metav1.Condition{{Type: "Complete", Status: metav1.ConditionTrue, Reason: "ConditionRulesAggregated", LastTransitionTime: metav1.Now(), ObservedGeneration: 1}}
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.UpdateSubresource(ctx, object, "status", acctest.OutsiderManager); err != nil {
		t.Fatal(err)
	}
	if said := w.Plan(config("a")); strings.Contains(said, "Complete: as long as") {
		t.Errorf("without a change: %s", said)
	}
	acctest.Says(t, w.Plan(config("b")), `The change will not be applied: manifest work "mw-complete/web"`, "create a work of another name, replace this one (terraform apply -replace), or remove the rule")
	if said, ok := w.Destroy(); !ok {
		t.Fatal(said)
	}
}
