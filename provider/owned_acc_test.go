package provider_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// kinds are one object of each kind that a resource makes, in the namespace n. The
// namespace stands for a cluster's, too.
func kinds(n string) []ownedKind {
	namespaced := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: n, Name: name} }
	labelled := metav1.ObjectMeta{Name: n + "-c", Labels: map[string]string{"env": "other"}}
	manifests := workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"theirs"}}`)}}}}
	replicaSet := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: namespaced("rs")}
	replicaSet.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "theirs"}}
	replicaSet.Spec.ManifestWorkTemplate.Workload = manifests
	selecting := clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: clusterv1beta2.ManagedClusterSelector{
		SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "other"}},
	}}
	return []ownedKind{
		{
			what: `managed cluster "` + n + `-c"`, id: n + "-c", differs: `metadata.labels[env] is "other" there and "%s" here`,
			theirs: &clusterv1.ManagedCluster{ObjectMeta: labelled},
			config: `resource "muster_managed_cluster" "x" {
  name   = "` + n + `-c"
  labels = { env = "%s" }`,
		},
		{
			what: `cluster set "` + n + `-s"`, id: n + "-s", differs: `spec.clusterSelector.labelSelector.matchLabels.env is "other" there and "%s" here`,
			theirs: &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: n + "-s"}, Spec: selecting},
			config: `resource "muster_managed_cluster_set" "x" {
  name           = "` + n + `-s"
  label_selector = { match_labels = { env = "%s" } }`,
		},
		{
			what: `placement "` + n + `/where"`, id: n + "/where", differs: `spec.numberOfClusters is 3 there`,
			theirs: &clusterv1beta1.Placement{ObjectMeta: namespaced("where"), Spec: clusterv1beta1.PlacementSpec{NumberOfClusters: ptr.To[int32](3)}},
			config: `resource "muster_placement" "x" {
  namespace          = "` + n + `"
  name               = "where"
  number_of_clusters = length("%s")`,
		},
		{
			what: `placement score "` + n + `/cost"`, id: n + "/cost", differs: `metadata.labels[env] is "other" there and "%s" here`,
			theirs: &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: n, Name: "cost", Labels: map[string]string{"env": "other"}}},
			config: `resource "muster_addon_placement_score" "x" {
  managed_cluster = "` + n + `"
  name            = "cost"
  labels          = { env = "%s" }
  scores          = { a = 1 }`,
		},
		{
			what: `manifest work "` + n + `/web"`, id: n + "/web", differs: `spec.workload.manifests[Namespace theirs] is only there`,
			theirs: &workv1.ManifestWork{ObjectMeta: namespaced("web"), Spec: workv1.ManifestWorkSpec{Workload: manifests}},
			config: `resource "muster_manifest_work" "x" {
  managed_cluster = "` + n + `"
  name            = "web"
  objects         = [{ apiVersion = "v1", kind = "Namespace", metadata = { name = "%s" } }]`,
		},
		{
			what: `manifest work replica set "` + n + `/rs"`, id: n + "/rs", differs: `manifests[Namespace theirs] is only there`,
			theirs: replicaSet,
			config: `resource "muster_manifest_work_replica_set" "x" {
  namespace  = "` + n + `"
  name       = "rs"
  manifests  = [yamlencode({ apiVersion = "v1", kind = "Namespace", metadata = { name = "%s" } })]
  placements = [{ name = "theirs" }]`,
		},
	}
}

type ownedKind struct {
	what, id, differs string
	theirs            kube.Object
	config            string
}

// configOf has the kinds say value.
func configOf(kinds []ownedKind, value, more string) string {
	var blocks []string
	for _, k := range kinds {
		blocks = append(blocks, fmt.Sprintf(k.config, value)+"\n  "+more+"\n}\n")
	}
	return strings.Join(blocks, "\n")
}

// unchanged fails the test if an object does not say the same as before.
func unchanged(t *testing.T, before, after []kube.Object) {
	t.Helper()
	for i := range before {
		if after[i] == nil {
			t.Errorf("%s is gone", before[i].GetName())
			continue
		}
		differences, err := crud.Differences(before[i], after[i], false)
		if err != nil || len(differences) > 0 || before[i].GetUID() != after[i].GetUID() || crud.OwnerMark(before[i]) != crud.OwnerMark(after[i]) {
			t.Errorf("%T %s was changed: %v, %v", before[i], before[i].GetName(), differences, err)
		}
	}
}

func TestAccNothingIsTakenOverInSilence(t *testing.T) {
	first := acctest.NewWorkspace(t)
	o := acctest.Someone(t)
	const n = "owned-foreign"
	o.Namespace(n)
	all := kinds(n)
	for _, k := range all {
		theirs, _ := k.theirs.DeepCopyObject().(kube.Object)
		o.Apply(theirs)
		t.Cleanup(func() { o.Remove(kube.Fresh(k.theirs), k.theirs.GetNamespace(), k.theirs.GetName()) })
	}
	before := versions(o, all)

	planned := first.Plan(configOf(all, "ours", ""))
	said, ok := first.Apply(configOf(all, "ours", ""))
	if ok {
		t.Error("what exists was taken over")
	}
	for _, k := range all {
		differs := strings.ReplaceAll(k.differs, "%s", "ours")
		acctest.Says(t, planned, "Warning: Exists already: "+k.what, differs)
		acctest.Says(t, said, "Error: Exists already: "+k.what, differs, "terraform import ADDRESS "+k.id, `written by "kubectl-edit"`, "set adopt = true")
	}
	acctest.Says(t, planned, "The apply will fail.")
	unchanged(t, before, versions(o, all))

	said, ok = first.Apply(configOf(all, "ours", "adopt = true"))
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, said, "Warning: Will be taken over: "+all[0].what)
	if said, ok := first.Apply(configOf(all, "ours", "adopt = true")); !ok || !strings.Contains(said, "No changes") {
		t.Errorf("the objects are not as configured: %s", said)
	}

	// Another state, with other wishes.
	second := acctest.NewWorkspace(t)
	before = versions(o, all)
	if said, ok = second.Apply(configOf(all, "second", "")); ok {
		t.Error("another state took over what this one manages")
	}
	for _, k := range all {
		acctest.Says(t, said, "Error: Exists already: "+k.what)
	}
	acctest.Says(t, said, "another Terraform resource manages it")
	unchanged(t, before, versions(o, all))
	if said, ok = second.Apply(configOf(all, "second", "adopt = true")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}

	// The first one is told, changes nothing, and deletes nothing.
	before = versions(o, all)
	said, ok = first.Apply(configOf(all, "first", ""))
	if ok {
		t.Error("the first state changed what the second has taken over")
	}
	for _, k := range all {
		acctest.Says(t, said, "Warning: Taken over by another owner: "+k.what, "Error: Taken over by another owner: "+k.what)
	}
	if said, ok = first.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
	for _, k := range all {
		acctest.Says(t, said, "Warning: Not deleted: "+k.what)
	}
	unchanged(t, before, versions(o, all))

	if said, ok = second.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
	for i, object := range versions(o, all) {
		if object != nil {
			t.Errorf("%s is still there after its state was destroyed", all[i].what)
		}
	}
}

func TestAccALostStateIsMadeGoodByApplyingAgain(t *testing.T) {
	w := acctest.NewWorkspace(t)
	o := acctest.Someone(t)
	const n = "owned-lost"
	o.Namespace(n)
	all := kinds(n)
	config := configOf(all, "ours", "") + `
resource "muster_managed_cluster_set_binding" "x" {
  namespace   = "` + n + `"
  cluster_set = "` + n + `-s"
}
`
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	before := versions(o, all)
	w.LoseState()
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, said, "An existing object was taken over from another Terraform resource")
	for i, object := range versions(o, all) {
		if object == nil || object.GetUID() != before[i].GetUID() {
			t.Errorf("%s was made again", all[i].what)
		}
	}

	// A resource that gets another address without a moved block is created and
	// destroyed at the same time. The object outlives that.
	renamed := strings.ReplaceAll(config, `" "x"`, `" "y"`)
	if said, ok = w.Apply(renamed); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	if said, ok = w.Apply(renamed); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	for i, object := range versions(o, all) {
		if object == nil {
			t.Errorf("%s was lost with its resource's old address", all[i].what)
		}
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// What another state manages is imported with a warning, and changed only with adopt.
func TestAccAnImportTakesNothingFromAnotherState(t *testing.T) {
	const n = "owned-import"
	set := func(env, more string) string {
		return fmt.Sprintf("resource \"muster_managed_cluster_set\" \"x\" {\n  name = %q\n  labels = { env = %q }\n%s\n}\n", n, env, more)
	}
	const block = "import {\n  to = muster_managed_cluster_set.x\n  id = \"" + n + "\"\n}\n"
	const warned = `Warning: Managed by another Terraform resource: cluster set "` + n + `"`
	first, second := acctest.NewWorkspace(t), acctest.NewWorkspace(t)
	if said, ok := first.Apply(set("a", "")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, second.Plan(block+set("c", "")), warned, "A change of it will fail here, unless adopt = true", "The apply will fail", "1 to import, 0 to add, 1 to change")
	said, ok := second.Apply(block + set("c", ""))
	if ok {
		t.Error("it was taken over")
	}
	acctest.Says(t, said, `Error: Managed by another Terraform resource: cluster set "`+n+`"`, `metadata.labels[env] is "a" there and "c" here`, "Nothing was changed")
	if planned := first.Plan(set("a", "")); !strings.Contains(planned, noChanges) {
		t.Errorf("the first state lost it: %s", acctest.Excerpt(planned))
	}
	if said, ok := second.Apply(block + set("c", "  adopt = true")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, first.Plan(set("a", "")), `Taken over by another owner: cluster set "`+n+`"`)
	if said, ok := second.Apply(set("d", "")); !ok { // From now on it is its own.
		t.Error(acctest.Excerpt(said))
	}
	if said, ok := second.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

func TestAccOfTwoThatCreateTheSameOneSucceeds(t *testing.T) {
	const count = 12
	workspaces := []*acctest.Workspace{acctest.NewWorkspace(t), acctest.NewWorkspace(t)}
	config := func(owner string) string {
		return fmt.Sprintf("resource \"muster_managed_cluster_set\" \"x\" {\n  count  = %d\n  name   = \"race-${count.index}\"\n  labels = { owner = %q }\n}\n", count, owner)
	}
	var running sync.WaitGroup
	said := make([]string, len(workspaces))
	for i, w := range workspaces {
		w.Init(config(fmt.Sprint(i)))
		running.Go(func() { said[i], _ = w.Run("apply", "-auto-approve", "-no-color", "-input=false", "-parallelism=20") })
	}
	running.Wait()
	for i := range count {
		object := &clusterv1beta2.ManagedClusterSet{}
		name := fmt.Sprintf("race-%d", i)
		acctest.Someone(t).Get(object, "", name)
		for j := range workspaces {
			refused := strings.Contains(said[j], fmt.Sprintf("Error: Exists already: cluster set %q", name))
			if won := object.Labels["owner"] == fmt.Sprint(j); won == refused {
				t.Errorf("state %d of set %s: the object is its own: %v, told that it exists: %v", j, name, won, refused)
			}
		}
	}
	for _, w := range workspaces {
		if out, ok := w.Destroy(); !ok {
			t.Error(acctest.Excerpt(out))
		}
	}
}

func TestAccTheHubsOwnSetsAreReleasedAndNotDeleted(t *testing.T) {
	w, other := acctest.NewWorkspace(t), acctest.NewWorkspace(t)
	o := acctest.Someone(t)
	config := func(tier string) string {
		return fmt.Sprintf("resource \"muster_managed_cluster_set\" \"x\" {\n  name   = %q\n  label_selector = {}\n  labels = { tier = %q }\n}\n", cluster.GlobalSet, tier)
	}
	was, is := &clusterv1beta2.ManagedClusterSet{}, &clusterv1beta2.ManagedClusterSet{}
	o.Get(was, "", cluster.GlobalSet)
	if said, ok := w.Apply(config("one")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	if said, ok := other.Apply(config("two")); ok {
		t.Errorf("a second state took the set over: %s", said)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
	o.Get(is, "", cluster.GlobalSet)
	unchanged(t, []kube.Object{was}, []kube.Object{is})
}

// An agent that was there first has made its cluster's record. Nobody has said
// anything with that, so it comes under Terraform as if it were new.
func TestAccARecordThatAnAgentMadeNeedsNoAdoption(t *testing.T) {
	w := acctest.NewWorkspace(t)
	o := acctest.Someone(t)
	record := &clusterv1.ManagedCluster{}
	record.Name = "owned-agent"
	record.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "https://agent.example.com"}}
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.Create(ctx, record); err != nil {
		t.Fatal(err)
	}
	config := `resource "muster_managed_cluster" "x" {
  name                   = "owned-agent"
  cluster_set            = "prod"
  lease_duration_seconds = 30
  labels                 = { env = "prod" }
}
`
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	o.Get(record, "", "owned-agent")
	if record.Labels[cluster.ClusterSetLabel] != "prod" || record.Labels["env"] != "prod" || record.Spec.LeaseDurationSeconds != 30 || len(record.Spec.ManagedClusterClientConfigs) != 1 {
		t.Errorf("got %v and %+v", record.Labels, record.Spec)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// An object that was deleted and created by somebody else is somebody else's.
func TestAccWhatSomebodyCreatedAgainIsTheirs(t *testing.T) {
	w := acctest.NewWorkspace(t)
	o := acctest.Someone(t)
	o.Namespace("owned-again")
	config := acctest.PlacementConfig("owned-again", "number_of_clusters = 1")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	o.Remove(&clusterv1beta1.Placement{}, "owned-again", "where")
	theirs := &clusterv1beta1.Placement{}
	theirs.Namespace, theirs.Name = "owned-again", "where"
	theirs.Spec.NumberOfClusters = ptr.To[int32](9)
	o.Apply(theirs)
	said, ok := w.Apply(config)
	if ok {
		t.Error("it was overwritten")
	}
	acctest.Says(t, said, `Taken over by another owner: placement "owned-again/where"`, `written by "kubectl-edit"`)
	if said, ok = w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
	o.Get(theirs, "owned-again", "where")
	if *theirs.Spec.NumberOfClusters != 9 {
		t.Errorf("got %+v", theirs.Spec)
	}
}

// versions are the objects as they are on the hub; those that are gone are nil.
func versions(o *acctest.Outsider, kinds []ownedKind) []kube.Object {
	o.T.Helper()
	var found []kube.Object
	for _, k := range kinds {
		object := kube.Fresh(k.theirs)
		if !o.Exists(object, k.theirs.GetNamespace(), k.theirs.GetName()) {
			object = nil
		}
		found = append(found, object)
	}
	return found
}
