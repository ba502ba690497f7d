package provider_test

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// Who loses what is in the plan, by field and manager, and not only in the apply.
func TestAccAPlanSaysWhoseFieldsItTakes(t *testing.T) {
	w := acctest.NewWorkspace(t)
	o := acctest.Someone(t)
	const n = "dryrun-taken"
	o.Namespace(n)
	all := kinds(n)
	if said, ok := w.Apply(configOf(all, "ours", "")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	for _, k := range all {
		theirs, _ := k.theirs.DeepCopyObject().(kube.Object)
		o.Apply(theirs)
	}
	before := versions(o, all)
	planned := w.Plan(configOf(all, "ours", ""))
	refused := w.Plan(configOf(all, "ours", "force_conflicts = false"))
	for _, k := range all {
		acctest.Says(t, planned, "Warning: Takes fields from another owner: "+k.what)
		acctest.Says(t, refused, "Error: Fields of another owner: "+k.what)
	}
	for _, said := range []string{planned, refused} {
		acctest.Says(t, said, `field .spec.numberOfClusters is owned by "kubectl-edit"`, `field .metadata.labels.env is owned by "kubectl-edit"`)
	}
	acctest.Says(t, refused, "removing them from the configuration, or take them over with force_conflicts = true")
	unchanged(t, before, versions(o, all))

	said, ok := w.Apply(configOf(all, "ours", ""))
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	if times := strings.Count(said, "Takes fields from another owner: "+all[0].what); times != 1 {
		t.Errorf("it was told %d times in one apply: %s", times, acctest.Excerpt(said))
	}
	if said := w.Plan(configOf(all, "ours", "")); !strings.Contains(said, "No changes") {
		t.Error(acctest.Excerpt(said))
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// A value that somebody else has set as well changes no hands.
func TestAccAPlanSaysNothingOfSharedFields(t *testing.T) {
	w := acctest.NewWorkspace(t)
	o := acctest.Someone(t)
	config := func(body string) string {
		return acctest.SetConfig("dryrun-shared", "labels = { env = \"prod\" }\n"+body)
	}
	if said, ok := w.Apply(config("")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	theirs := &clusterv1beta2.ManagedClusterSet{}
	theirs.Name, theirs.Labels = "dryrun-shared", map[string]string{"env": "prod", "theirs": "yes"}
	theirs.Spec.ClusterSelector.SelectorType = clusterv1beta2.ExclusiveClusterSetLabel
	o.Apply(theirs)
	for _, force := range []string{"", "force_conflicts = false\n"} {
		said := w.Plan(config(force + "managed_namespaces = [\"shop\"]"))
		acctest.Says(t, said, "1 to change")
		if strings.Contains(said, "Warning") || strings.Contains(said, "Error") {
			t.Error(acctest.Excerpt(said))
		}
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// What admission refuses is refused in the plan, at its attribute. A missing right
// to write at all is that of an identity that only plans.
func TestAccAPlanIsRefusedWhatTheApplyWouldBe(t *testing.T) {
	o := acctest.Someone(t)
	const group = "cluster.open-cluster-management.io"
	everything := []string{"managedclusters", "managedclustersets", "managedclustersetbindings", "placements", "placementdecisions"}
	config := `
resource "muster_managed_cluster" "x" {
  name        = "dryrun-refused"
  cluster_set = "forbidden"
}
resource "muster_managed_cluster_set_binding" "x" {
  namespace   = "default"
  cluster_set = "forbidden"
}
resource "muster_placement" "unborn" {
  namespace = "made-later"
  name      = "where"
}
`
	writer := o.Identity("dryrun-writer", rbacv1.PolicyRule{APIGroups: []string{group}, Resources: everything, Verbs: []string{"*"}})
	said := acctest.NewWorkspace(t).Plan(writer + config)
	acctest.Says(t, said,
		`Error: The hub refuses managed cluster "dryrun-refused"`, `cannot add/remove a ManagedCluster to/from ManagedClusterSet "forbidden"`,
		`9: cluster_set = "forbidden"`, "managedclustersets/join",
		`Error: The hub refuses the binding of cluster set "forbidden"`, "managedclustersets/bind")
	if strings.Contains(said, "made-later") && strings.Contains(said, `Error: The hub refuses placement`) {
		t.Errorf("a namespace that is not there yet is no error: %s", said)
	}

	reader := o.Identity("dryrun-reader", rbacv1.PolicyRule{APIGroups: []string{group}, Resources: everything, Verbs: []string{"get", "list"}})
	said = acctest.NewWorkspace(t).Plan(reader + config)
	acctest.Says(t, said, "Plan: 3 to add")
	if strings.Contains(said, "Error") || strings.Contains(said, "Warning") {
		t.Errorf("who may only read can't plan: %s", acctest.Excerpt(said))
	}
}
