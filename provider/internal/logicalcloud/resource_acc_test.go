package logicalcloud_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// cloudConfig is a cloud in a namespace, with more of its body. It always has a
// placement of its own.
func cloudConfig(namespace, body string) string {
	return fmt.Sprintf(`
resource "muster_placement" "x" {
  namespace = %q
  name      = "where"
}

resource "muster_logical_cloud" "test" {
  namespace         = %[1]q
  name              = "prod"
  placements        = [muster_placement.x.name]
  cluster_namespace = { name = "%[1]s-prod" }
%s
}
`, namespace, body)
}

const rulesForJo = `
  grants = [{ users = ["jo"], rules = [{ api_groups = [""], resources = ["pods"], verbs = ["list", "get"] }] }]`

// A plan of what the hub or Kubernetes would refuse fails, and says what to do.
func TestAccCloudIsCheckedAtPlan(t *testing.T) {
	w := acctest.NewWorkspace(t)
	for _, x := range []struct{ body, says string }{
		{`  grants = [{ users = ["jo"] }]`, "grants[0] names neither a role nor rules"},
		{`  grants = [{ role = "edit" }]`, "grants[0] names neither users nor groups"},
		{`  grants = [{ role = "edit", users = ["jo"], rules = [{ api_groups = [""], resources = ["pods"], verbs = ["get"] }] }]`, "grants[0] has a role and rules"},
		{`  grants = [{ users = ["jo"], rules = [{ resources = ["pods"], verbs = ["get"] }] }]`, `Write api_groups = [""]`},
		{`  grants = [{ users = ["jo"], rules = [{ verbs = ["get"] }] }]`, "says what may be done, but not to what"},
		{`  grants = [{ users = ["jo"], rules = [{ non_resource_urls = ["/metrics"], verbs = ["get"] }] }]`, "which are in no namespace"},
		{`  quotas = { main = { "limits.cpu" = "lots" } }`, `quotas["main"]["limits.cpu"] is "lots"`},
		{`  quota_scopes = { other = ["BestEffort"] }`, `quotas has no quota of this name`},
		{`  access = { default_lifetime = "48h" }`, "access.default_lifetime is 48h, and access.max_lifetime is 24h"},
		{`  access = { max_lifetime = "1s" }`, `access.max_lifetime is "1s"`},
		{`  access = { modes = ["Password"] }`, "one of Certificate, Token"},
		{`  access = { key_policy = "HubMade" }`, "the hub makes a key for each user that the grants name, and none names users"},
		{`  wait = {}`, "Nothing to wait for"},
	} {
		acctest.Says(t, w.Plan(cloudConfig("cloud-checked", x.body)), x.says)
	}
	reserved := strings.ReplaceAll(cloudConfig("cloud-checked", ""), "cloud-checked-prod", "kube-system")
	acctest.Says(t, w.Plan(reserved), "it is a namespace of Kubernetes")
	reserved = strings.ReplaceAll(cloudConfig("cloud-checked", ""), "cloud-checked-prod", "openshift-apps")
	acctest.Says(t, w.Plan(reserved), "it is a namespace of OpenShift")
}

// What is unknown while planning is no mistake.
func TestAccCloudTakesUnknownValues(t *testing.T) {
	acctest.Someone(t).Namespace("cloud-unknown")
	w := acctest.NewWorkspace(t)
	config := `
resource "terraform_data" "late" {
  input = { user = "jo", role = "edit", cpu = "4", life = "2h", list = ["jo"] }
}
` + cloudConfig("cloud-unknown", `
  quotas = { main = { "limits.cpu" = terraform_data.late.output.cpu } }
  grants = [
    { role = null, rules = [{ api_groups = [""], resources = ["pods"], verbs = terraform_data.late.output.list }], users = terraform_data.late.output.list },
  ]
  access = { default_lifetime = terraform_data.late.output.life, key_policy = "HubMade" }`)
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.Plan(config), "No changes.")
}

// Who adds a placement or a quota on the hub changes who gets where. The plan shows
// it, and the apply removes it.
func TestAccAdditionsByOthersAreRemoved(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("cloud-added")
	w := acctest.NewWorkspace(t)
	config := cloudConfig("cloud-added", rulesForJo)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	someone.Patch(&v1alpha1.LogicalCloud{}, "cloud-added", "prod", `{"spec":{"placements":[{"name":"where"},{"name":"everywhere"}],
		"quotas":[{"name":"more","hard":{"pods":"1"}}],"access":{"maxLifetimeSeconds":31536000}}}`)
	acctest.Says(t, w.Plan(config), `"everywhere"`, `"8760h" -> "24h"`, `"more"`)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	object := &v1alpha1.LogicalCloud{}
	someone.Get(object, "cloud-added", "prod")
	if len(object.Spec.Placements) != 1 || len(object.Spec.Quotas) != 0 || object.Spec.Access.MaxLifetimeSeconds != 24*60*60 {
		t.Errorf("left on the hub: %+v", object.Spec)
	}
	acctest.Says(t, w.Plan(config), "No changes.")
}

// A plan tells what a change takes away in the clusters.
func TestAccPlanShowsWhatGoes(t *testing.T) {
	acctest.Someone(t).Namespace("cloud-goes")
	w := acctest.NewWorkspace(t)
	config := strings.ReplaceAll(cloudConfig("cloud-goes", rulesForJo), "[muster_placement.x.name]", `["where", "lost"]`)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.Plan(strings.ReplaceAll(config, `["where", "lost"]`, `["where"]`)),
		"The clusters that only lost selects lose the cloud's rights and quotas", "The namespace stays there")
	deleting := strings.ReplaceAll(config, `name = "cloud-goes-prod"`, `name = "cloud-goes-prod", on_delete = "Delete"`)
	if said, ok := w.Apply(deleting); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.Plan("# nothing\n"), `the namespace "cloud-goes-prod" goes in every cluster of the cloud, with all that is in it`)
	moved := w.Plan(strings.ReplaceAll(deleting, "cloud-goes-prod", "cloud-other-prod"))
	if !strings.Contains(moved, "must be replaced") || strings.Contains(moved, "Exists already") {
		t.Errorf("a plan to replace the cloud: %s", acctest.Excerpt(moved))
	}
}

// A read-only identity plans, and an identity that may not grant a role is told the
// right that it lacks.
func TestAccReadersPlan(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("cloud-reader")
	w := acctest.NewWorkspace(t)
	config := cloudConfig("cloud-reader", rulesForJo) + `
resource "muster_access_role" "x" {
  name  = "cloud-reader"
  rules = [{ api_groups = [""], resources = ["nodes"], verbs = ["get"] }]
}
`
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	reader := someone.Identity("cloud-reader",
		rbacv1.PolicyRule{APIGroups: []string{muster.GroupName, "cluster.open-cluster-management.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}})
	acctest.Says(t, w.Plan(reader+config), "No changes.")
	acctest.Says(t, w.Plan(reader+strings.ReplaceAll(config, `"jo"`, `"al"`)), "1 to change")
	acctest.Says(t, w.Plan(reader+strings.ReplaceAll(config, `["nodes"]`, `["services"]`)), "1 to change")
}

// The wait of a new cloud warns, the one that is a resource fails the run, and
// neither touches the cloud.
func TestAccWaits(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("cloud-waits")
	w := acctest.NewWorkspace(t)
	config := cloudConfig("cloud-waits", rulesForJo+`
  wait = { min_ready = 1000 }
  timeouts { create = "2s" }`)
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, said, `Not ready: logical cloud "cloud-waits/prod"`, "min_ready: 0 of 1000 clusters are ready", "wait with muster_logical_cloud_wait")
	waits := cloudConfig("cloud-waits", rulesForJo) + `
resource "muster_logical_cloud_wait" "test" {
  namespace = muster_logical_cloud.test.namespace
  name      = muster_logical_cloud.test.name
  min_ready = 1000
  timeouts { create = "2s" }
}
`
	if said, ok = w.Apply(waits); ok {
		t.Error("a wait that is not met does not fail the run")
	}
	acctest.Says(t, said, "min_ready: 0 of 1000 clusters are ready", "kubectl describe logicalcloud -n cloud-waits prod")
	if strings.Contains(said, "muster_logical_cloud.test is tainted") {
		t.Error("the failed wait taints the cloud")
	}
	object := &v1alpha1.LogicalCloud{}
	someone.Get(object, "cloud-waits", "prod")
	if object.DeletionTimestamp != nil {
		t.Error("the failed wait deletes the cloud")
	}
}

// The data source reads what others made, and what is wrong in the clusters.
func TestAccDataSource(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("cloud-data")
	cloud := &v1alpha1.LogicalCloud{Spec: v1alpha1.LogicalCloudSpec{
		Placements: []v1alpha1.PlacementReference{{Name: "nowhere"}}, Namespace: v1alpha1.CloudNamespace{Name: "cloud-data-prod"},
	}}
	cloud.Namespace, cloud.Name = "cloud-data", "prod"
	someone.Apply(cloud)
	const config = `
data "muster_logical_cloud" "x" {
  namespace = "cloud-data"
  name      = "prod"
}

output "x" {
  value = data.muster_logical_cloud.x
}
`
	w := acctest.NewWorkspace(t)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.MustRun("output", "-json"), `"cloud-data-prod"`, `"default_lifetime": "8h"`, `"existing": "Refuse"`, `"ready": false`)
	if said, ok := w.Apply(strings.ReplaceAll(config, `"prod"`, `"prd"`)); ok || !strings.Contains(said, `There is no logical cloud "cloud-data/prd"`) {
		t.Errorf("a typo: %s", said)
	}
}
