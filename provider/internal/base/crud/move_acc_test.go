package crud_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/muster-fleet/terraform-provider-muster/provider"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// formerly is a workspace whose state has a resource of another provider. Terraform
// asks for that provider's schema, which any can answer.
func formerly(t *testing.T, address, kind string, attributes map[string]any) *acctest.Terraform {
	t.Helper()
	if os.Getenv("TF_ACC_PROVIDER_HOST") != "" {
		t.Skip("OpenTofu moves no resources between providers")
	}
	w := acctest.NewTerraform(t)
	w.Serve(address, providerserver.NewProtocol6(provider.New("test")()))
	state, err := json.Marshal(map[string]any{
		"version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "moved",
		"resources": []any{map[string]any{
			"mode": "managed", "type": kind, "name": "x", "provider": fmt.Sprintf("provider[%q]", "registry.terraform.io/"+address),
			"instances": []any{map[string]any{"schema_version": 1, "attributes": attributes}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Dir, "terraform.tfstate"), state, 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// inState is a value as a state has those of any type.
func inState(manifest map[string]any) map[string]any {
	return map[string]any{"type": "dynamic", "value": manifest}
}

func applyAs(t *testing.T, someone *acctest.Outsider, manager string, object kube.Object) {
	t.Helper()
	ctx, cancel := someone.Context()
	defer cancel()
	if err := someone.Client.Apply(ctx, object, kube.ApplyOptions{Manager: manager, Force: true}); err != nil {
		t.Fatal(err)
	}
}

func managers(object kube.Object) string {
	var names []string
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" {
			names = append(names, entry.Manager)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestAccAKubernetesManifestMovesWithoutChangeAndGivesUpItsFields(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("moved")
	two := int32(2)
	live := &clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{NumberOfClusters: &two, ClusterSets: []string{"blue"}}}
	live.Namespace, live.Name, live.Labels = "moved", "where", map[string]string{"team": "shop", "env": "test"}
	applyAs(t, someone, "Terraform", live)
	manifest := map[string]any{
		"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
		"metadata": map[string]any{"name": "where", "namespace": "moved", "labels": map[string]any{"team": "shop", "env": "test"}},
		"spec":     map[string]any{"numberOfClusters": 2, "clusterSets": []any{"blue"}},
	}
	w := formerly(t, "hashicorp/kubernetes", "kubernetes_manifest", map[string]any{
		"manifest": inState(manifest), "field_manager": []any{}, "computed_fields": nil, "wait": []any{}, "wait_for": nil, "timeouts": []any{},
		"object": inState(map[string]any{"metadata": map[string]any{"uid": string(live.UID)}}),
	})
	config := func(more string) string {
		return `moved {
  from = kubernetes_manifest.x
  to   = muster_placement.x
}
resource "muster_placement" "x" {
  namespace          = "moved"
  name               = "where"
  cluster_sets       = ["blue"]
  number_of_clusters = 2
  ` + more + `
}`
	}
	const both = `labels = { team = "shop", env = "test" }`
	if said := w.Plan(config(both)); !strings.Contains(said, "kubernetes_manifest.x has moved to muster_placement.x") || !strings.Contains(said, "Plan: 0 to add, 0 to change, 0 to destroy.") {
		t.Errorf("the plan of the move says %s", said)
	}
	if said, ok := w.Apply(config(both)); !ok {
		t.Fatal(said)
	}
	someone.Get(live, "moved", "where")
	if got := managers(live); got != "Terraform" {
		t.Errorf("the move alone has written to the hub: %s", got)
	}
	if said, ok := w.Apply(config(both + "\nforce_conflicts = false")); !ok {
		t.Fatal(said)
	}
	someone.Get(live, "moved", "where")
	if got := managers(live); got != "terraform-provider-muster" {
		t.Errorf("fields are owned by %s", got)
	}
	if live.Spec.NumberOfClusters == nil || len(live.Labels) != 2 {
		t.Errorf("the move dropped fields: %+v", live)
	}
	// What leaves the configuration leaves the hub.
	if said, ok := w.Apply(config("labels = { team = \"shop\" }\nforce_conflicts = false")); !ok {
		t.Fatal(said)
	}
	someone.Get(live, "moved", "where")
	if _, there := live.Labels["env"]; there {
		t.Error("a label that was removed is still there")
	}
	if said, ok := w.Destroy(); !ok || someone.Exists(&clusterv1beta1.Placement{}, "moved", "where") {
		t.Error(said)
	}
}

func TestAccAClusterOfKubectlStaysAccepted(t *testing.T) {
	someone := acctest.Someone(t)
	accepted := true
	live := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: &accepted}}
	live.Name, live.Labels = "moved-1", map[string]string{"region": "eu", "old": "yes"}
	live.Annotations = map[string]string{"owner": "joe", "agent.open-cluster-management.io/x": "theirs"}
	applyAs(t, someone, "kubectl-client-side-apply", live)
	w := formerly(t, "alekc/kubectl", "kubectl_manifest", map[string]any{
		"yaml_body": "apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata:\n  name: moved-1\n  labels: {region: eu, old: 'yes'}\n" +
			"  annotations: {owner: joe, agent.open-cluster-management.io/x: theirs}\nspec:\n  hubAcceptsClient: true\n",
		"uid": string(live.UID), "server_side_apply": false, "field_manager": "kubectl",
	})
	config := `moved {
  from = kubectl_manifest.x
  to   = muster_managed_cluster.x
}
resource "muster_managed_cluster" "x" {
  name        = "moved-1"
  labels      = { region = "eu" }
  annotations = { owner = "joe" }
}`
	if said, ok := w.Apply(config); !ok {
		t.Fatal(said)
	}
	someone.Get(live, "", "moved-1")
	if !live.Spec.AcceptsClient() || live.Annotations["agent.open-cluster-management.io/x"] != "theirs" {
		t.Errorf("the move dropped what the resource does not manage: %+v %v", live.Spec, live.Annotations)
	}
	if _, there := live.Labels["old"]; there || live.Labels["region"] != "eu" {
		t.Errorf("its labels are %v", live.Labels)
	}
	acctest.Says(t, w.Plan(config), "No changes.")
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}

func TestAccMovesOfOtherObjectsSayWhatDoesNotFit(t *testing.T) {
	config := `moved {
  from = kubectl_manifest.x
  to   = muster_managed_cluster_set.x
}
resource "muster_managed_cluster_set" "x" {
  name = "moved"
}`
	for body, want := range map[string][]string{
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n":                                                          {"it is a ConfigMap of v1, and this resource manages a ManagedClusterSet of cluster.open-cluster-management.io/v1beta2"},
		"apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: ManagedClusterSet\nmetadata: {name: moved}\n":      {"written in the version cluster.open-cluster-management.io/v1beta1", "rewrite the manifest in that version"},
		"apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSet\nmetadata: {name: [a]}\n":        {"its manifest does not fit a ManagedClusterSet"},
		"apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSet\nmetadata: {generateName: a-}\n": {"has no metadata.name"},
		"a: [": {"its yaml_body can't be read"},
	} {
		w := formerly(t, "gavinbunney/kubectl", "kubectl_manifest", map[string]any{"yaml_body": body})
		acctest.Says(t, w.Plan(config), append(want, "Cannot move a kubectl_manifest to this resource", "Nothing was changed.")...)
	}
}

// An import takes what people have set into the state. Removing it there has to
// remove it on the hub.
func TestAccWhatKubectlHasSetCanBeRemovedAfterAnImport(t *testing.T) {
	someone := acctest.Someone(t)
	accepted := true
	live := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: &accepted,
		ManagedClusterClientConfigs: []clusterv1.ClientConfig{{URL: "https://example.com"}}, LeaseDurationSeconds: 90}}
	live.Name, live.Labels = "imported-1", map[string]string{"region": "eu", "old": "yes"}
	applyAs(t, someone, "kubectl-client-side-apply", live)
	w := acctest.NewTerraform(t)
	config := `import {
  to = muster_managed_cluster.x
  id = "imported-1"
}
resource "muster_managed_cluster" "x" {
  name   = "imported-1"
  labels = { region = "eu" }
}`
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(said)
	}
	acctest.Says(t, said, "Resources: 1 imported, 0 added, 1 changed, 0 destroyed.")
	someone.Get(live, "", "imported-1")
	if _, there := live.Labels["old"]; there || live.Labels["region"] != "eu" || live.Spec.LeaseDurationSeconds == 90 {
		t.Errorf("labels %v and lease %d are left", live.Labels, live.Spec.LeaseDurationSeconds)
	}
	if !live.Spec.AcceptsClient() || len(live.Spec.ManagedClusterClientConfigs) != 1 {
		t.Errorf("the import dropped what the resource does not manage: %+v", live.Spec)
	}
	acctest.Says(t, w.Plan(config), "No changes.")
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}
