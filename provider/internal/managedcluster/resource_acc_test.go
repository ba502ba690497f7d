package managedcluster_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

const clusterBody = `
  labels                 = { env = "prod", region = "eu" }
  annotations            = { "example.com/owner" = "Platform team" }
  cluster_set            = "blue"
  lease_duration_seconds = 30
  taints                 = [{ key = "maintenance", effect = "NoSelect" }]
  client_configs         = [{ url = "https://c1.example.com:6443" }]`

func TestAccManagedCluster(t *testing.T) {
	acctest.Run(t,
		resource.TestStep{
			Config: acctest.ClusterConfig("mc-basic", clusterBody),
			Check: func(*terraform.State) error {
				object := &clusterv1.ManagedCluster{}
				acctest.Someone(t).Get(object, "", "mc-basic")
				if object.Labels[cluster.ClusterSetLabel] != "blue" || object.Labels["region"] != "eu" || object.Spec.LeaseDurationSeconds != 30 {
					return fmt.Errorf("got %v and %+v", object.Labels, object.Spec)
				}
				if object.Spec.AcceptsClient() {
					return fmt.Errorf("the record alone has let the cluster in")
				}
				return nil
			},
		},
		resource.TestStep{
			ResourceName: acctest.ClusterAddress, ImportState: true, ImportStateId: "mc-basic",
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name",
		},
		resource.TestStep{
			Config: acctest.ClusterConfig("mc-basic", `labels = { env = "stage" }`),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.ClusterAddress, plancheck.ResourceActionUpdate),
			}},
			Check: func(*terraform.State) error {
				object := &clusterv1.ManagedCluster{}
				acctest.Someone(t).Get(object, "", "mc-basic")
				_, kept := object.Labels["region"]
				if kept || object.Labels["env"] != "stage" || object.Labels[cluster.ClusterSetLabel] != cluster.DefaultSet || object.Spec.LeaseDurationSeconds != 60 {
					return fmt.Errorf("what the configuration gave up is still there: %v, %+v", object.Labels, object.Spec)
				}
				if slices.ContainsFunc(object.Spec.Taints, func(t clusterv1.Taint) bool { return t.Key == "maintenance" }) {
					return fmt.Errorf("the taint is still there: %v", object.Spec.Taints)
				}
				return nil
			},
		},
		resource.TestStep{
			Config: acctest.ClusterConfig("mc-other", `labels = { env = "stage" }`),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.ClusterAddress, plancheck.ResourceActionDestroyBeforeCreate),
			}},
		},
	)
}

func TestAccManagedClusterMendsDrift(t *testing.T) {
	config := acctest.ClusterConfig("mc-drift", clusterBody)
	acctest.Run(t,
		resource.TestStep{Config: config},
		resource.TestStep{
			PreConfig: func() {
				acctest.Someone(t).Patch(&clusterv1.ManagedCluster{}, "", "mc-drift",
					`{"metadata":{"labels":{"env":"edited","region":null,"foreign":"stays","cluster.open-cluster-management.io/clusterset":"green"}},"spec":{"leaseDurationSeconds":99}}`)
			},
			Config: config,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.ClusterAddress, plancheck.ResourceActionUpdate),
			}},
			Check: func(*terraform.State) error {
				object := &clusterv1.ManagedCluster{}
				acctest.Someone(t).Get(object, "", "mc-drift")
				l := object.Labels
				if l["env"] != "prod" || l["region"] != "eu" || l["foreign"] != "stays" || l[cluster.ClusterSetLabel] != "blue" || object.Spec.LeaseDurationSeconds != 30 {
					return fmt.Errorf("got %v and %+v", l, object.Spec)
				}
				return nil
			},
		},
		resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Remove(&clusterv1.ManagedCluster{}, "", "mc-drift") },
			Config:    config,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.ClusterAddress, plancheck.ResourceActionCreate),
			}},
		},
	)
}

// The hub taints a cluster without an agent. What the configuration does to
// taints must not disturb that.
func TestAccManagedClusterKeepsTheHubsTaints(t *testing.T) {
	isUnreachable := func(t clusterv1.Taint) bool { return t.Key == cluster.UnreachableTaint }
	var before clusterv1.Taint
	acctest.Run(t,
		resource.TestStep{Config: acctest.ClusterConfig("mc-taints", `taints = [{ key = "a", effect = "NoSelect" }]`)},
		resource.TestStep{
			PreConfig: func() {
				object := &clusterv1.ManagedCluster{}
				acctest.Someone(t).Wait(object, "", "mc-taints", func() bool { return slices.ContainsFunc(object.Spec.Taints, isUnreachable) })
				before = object.Spec.Taints[slices.IndexFunc(object.Spec.Taints, isUnreachable)]
			},
			Config: acctest.ClusterConfig("mc-taints", `taints = [{ key = "a", effect = "NoSelect" }, { key = "b", value = "1", effect = "PreferNoSelect" }]`),
			Check: func(*terraform.State) error {
				object := &clusterv1.ManagedCluster{}
				acctest.Someone(t).Get(object, "", "mc-taints")
				i := slices.IndexFunc(object.Spec.Taints, isUnreachable)
				if i < 0 || !object.Spec.Taints[i].TimeAdded.Equal(before.TimeAdded) || len(object.Spec.Taints) != 3 {
					return fmt.Errorf("got %v, want the hub's taint %v beside a and b", object.Spec.Taints, before)
				}
				return nil
			},
		},
		resource.TestStep{
			PreConfig: func() {
				object := &clusterv1.ManagedCluster{}
				acctest.Someone(t).Get(object, "", "mc-taints")
				acctest.Someone(t).Patch(object, "", "mc-taints", `{"spec":{"taints":[{"key":"foreign","effect":"NoSelect"}]}}`)
			},
			Config: acctest.ClusterConfig("mc-taints", `taints = [{ key = "b", value = "1", effect = "PreferNoSelect" }]`),
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(acctest.ClusterAddress, tfjsonpath.New("taints"), knownvalue.SetSizeExact(1)),
			},
		},
	)
}

func TestAccManagedClusterTakesOverARecordThatAnAgentMade(t *testing.T) {
	existing := func() {
		object := &clusterv1.ManagedCluster{}
		object.Name, object.Labels = "mc-adopt", map[string]string{"agent": "here", "env": "other"}
		acctest.Someone(t).Apply(object)
	}
	acctest.Run(t,
		resource.TestStep{
			PreConfig:   existing,
			Config:      acctest.ClusterConfig("mc-adopt", `labels = { env = "prod" }`),
			ExpectError: acctest.Saying(`metadata.labels[env] is "other" there and "prod" here`, `written by "kubectl-edit"`, `terraform import ADDRESS mc-adopt`, `adopt = true`),
		},
		resource.TestStep{
			Config: acctest.ClusterConfig("mc-adopt", `labels = { env = "prod" }`+"\n  adopt = true"),
			Check: func(*terraform.State) error {
				object := &clusterv1.ManagedCluster{}
				acctest.Someone(t).Get(object, "", "mc-adopt")
				if object.Labels["env"] != "prod" || object.Labels["agent"] != "here" {
					return fmt.Errorf("got %v", object.Labels)
				}
				return nil
			},
		},
	)
}

func TestAccManagedClusterImportOfAForeignRecord(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		PreConfig: func() {
			object := &clusterv1.ManagedCluster{}
			object.Name, object.Labels = "mc-foreign", map[string]string{"env": "prod"}
			acctest.Someone(t).Apply(object)
		},
		Config: acctest.ClusterConfig("mc-foreign", `labels = { env = "prod" }`) + "\nimport {\n  to = muster_managed_cluster.test\n  id = \"mc-foreign\"\n}\n",
		ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
			plancheck.ExpectResourceAction(acctest.ClusterAddress, plancheck.ResourceActionNoop),
		}},
	})
}

// A set that is not there is told once that is certain: when the apply that may have
// made it is over.
func TestAccManagedClusterInASetThatIsNotThere(t *testing.T) {
	w := acctest.NewWorkspace(t)
	config := acctest.ClusterConfig("set-typo", `cluster_set = "prodd"`)
	said, ok := w.Apply(config)
	if !ok || strings.Contains(said, "Warning") {
		t.Error(said)
	}
	acctest.Says(t, w.Plan(config), "Warning: There is no such cluster set", `Managed cluster "set-typo" is in the cluster set "prodd"`, "No changes")
	if said, ok := w.Apply(config + acctest.SetConfig("prodd", "")); !ok {
		t.Error(said)
	}
	if said := w.Plan(config + acctest.SetConfig("prodd", "")); strings.Contains(said, "Warning") {
		t.Error(said)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}

func TestAccManagedClusterBadInput(t *testing.T) {
	for name, test := range map[string]struct{ config, want string }{
		"name":            {acctest.ClusterConfig("Not_A_Name", ""), `(?s)"Not_A_Name" cannot be used as cluster name: .*Try\s+"not-a-name"`},
		"label value":     {acctest.ClusterConfig("ok", `labels = { env = "no spaces please" }`), `(?s)"no spaces please" is not a valid value of the label env`},
		"set label":       {acctest.ClusterConfig("ok", `labels = { "cluster.open-cluster-management.io/clusterset" = "x" }`), `(?s)use the\s+attribute cluster_set`},
		"taint effect":    {acctest.ClusterConfig("ok", `taints = [{ key = "a", effect = "NoSchedule" }]`), `(?s)taints\["a"\].effect\s+is\s+"NoSchedule",\s+but\s+it\s+takes\s+one\s+of\s+NoSelect,`},
		"twice tainted":   {acctest.ClusterConfig("ok", `taints = [{ key = "a", effect = "NoSelect" }, { key = "a", effect = "NoSelectIfNew" }]`), `(?s)The key "a" appears twice`},
		"hub's own taint": {acctest.ClusterConfig("ok", `taints = [{ key = "cluster.open-cluster-management.io/unreachable", effect = "NoSelect" }]`), `(?s)taints\["cluster.open-cluster-management.io/unreachable"\].key.*by\s+itself`},
		"plain http":      {acctest.ClusterConfig("ok", `client_configs = [{ url = "http://c1" }]`), `(?s)"http://c1" is not a URL.*only https`},
		"lease":           {acctest.ClusterConfig("ok", `lease_duration_seconds = 0`), `(?s)lease_duration_seconds`},
	} {
		t.Run(name, func(t *testing.T) {
			acctest.Run(t, resource.TestStep{Config: test.config, PlanOnly: true, ExpectError: regexp.MustCompile(test.want)})
		})
	}
}
