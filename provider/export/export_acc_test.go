package export_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
	"github.com/muster-fleet/terraform-provider-muster/provider/export"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func provider(t *testing.T) *embedded.Provider {
	t.Helper()
	if acctest.Acc.Hub == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	p, err := embedded.New(t.Context(), "test", map[string]any{"kubeconfig_path": acctest.Acc.HubKubeconfig()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// files are what was written, by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(path)] = string(text)
	}
	return found
}

func TestAccAnExportedHubIsAdoptedWithoutChange(t *testing.T) {
	someone := acctest.World(t, "exported")
	secret := &workv1.ManifestWork{}
	secret.Namespace, secret.Name = "exported-a", "secret.one"
	secret.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"x"},"stringData":{"password":"hunter2"}}`),
	}}}
	secret.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "secrets", Name: "s", Namespace: "x"},
		UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply},
	}}
	script := &workv1.ManifestWork{}
	script.Namespace, script.Name = "exported-a", "secret-one" // the same name in the configuration
	script.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s","namespace":"x","labels":null},"data":{"run.sh":"echo ${HOME}\n%{ if }\nEOT\n\"x\"\n","a.b":"1\t\\n"}}`),
	}}}
	someone.Apply(secret)
	someone.Apply(script)

	w := acctest.NewTerraform(t)
	p := provider(t)
	exported, err := export.Write(t.Context(), p, export.Options{Dir: w.Dir, Kinds: append(export.DefaultKinds(p), "bootstrap_token")})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, e := range exported {
		total += e.Count
	}
	if len(exported) != len(p.Listed())-1 { // all but access requests
		t.Errorf("exported %v, and there are %v", exported, p.Listed())
	}
	written := files(t, w.Dir)
	for name, text := range written {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "0123456789abcdef") {
			t.Errorf("%s has a secret: %s", name, text)
		}
	}
	for name, want := range map[string]string{
		"placement.tf":       "cluster_sets = [muster_managed_cluster_set.exported.name]",
		"manifest_work.tf":   "muster_managed_cluster.exported_a.name",
		"README.md":          fmt.Sprintf("%d to import", total),
		"managed_cluster.tf": "cluster_set = muster_managed_cluster_set.exported.name",
	} {
		if !strings.Contains(written[name], want) {
			t.Errorf("%s lacks %q:\n%s", name, want, written[name])
		}
	}
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"init"}, "initialized"},
		{[]string{"plan", "-input=false"}, fmt.Sprintf("Plan: %d to import, 0 to add, 0 to change, 0 to destroy.", total)},
		{[]string{"apply", "-auto-approve", "-input=false"}, fmt.Sprintf("Apply complete! Resources: %d imported, 0 added, 0 changed, 0 destroyed.", total)},
		{[]string{"plan", "-input=false"}, "No changes."},
	} {
		said, ok := w.Run(append(step.args, "-no-color")...)
		if !ok || !strings.Contains(said, step.want) {
			t.Fatalf("terraform %v does not say %q but %s\n%s", step.args, step.want, said, written["manifest_work.tf"])
		}
	}
}

func TestAccAnExportIsNarrowedAndOverwritesNothing(t *testing.T) {
	acctest.World(t, "narrow")
	dir := t.TempDir()
	p := provider(t)
	exported, err := export.Write(t.Context(), p, export.Options{Dir: dir, ClusterSet: "narrow", Provider: map[string]string{"context": "hub"}})
	if err != nil {
		t.Fatal(err)
	}
	want := "[{addon_placement_score 1} {cluster_acceptance 1} {cluster_addon 1} {cluster_registration 1} {managed_cluster 1} {managed_cluster_set 1} {managed_cluster_set_binding 1} {manifest_work 1} {namespace 1} {placement 1}]"
	if got := fmt.Sprint(exported); got != want {
		t.Errorf("exported %s, want %s", got, want)
	}
	if text := files(t, dir)["providers.tf"]; !strings.Contains(text, `context = "hub"`) {
		t.Errorf("the provider block is %s", text)
	}
	if err := os.Remove(filepath.Join(dir, "imports.tf")); err != nil {
		t.Fatal(err)
	}
	_, err = export.Write(t.Context(), p, export.Options{Dir: dir, ClusterSet: "narrow"})
	if err == nil || !strings.Contains(err.Error(), "placement.tf") || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("got %v", err)
	}
	if _, there := files(t, dir)["imports.tf"]; there {
		t.Error("a refused export wrote a file")
	}
	exported, err = export.Write(t.Context(), p, export.Options{Dir: t.TempDir(), Kinds: []string{"muster_placement"}, Namespace: "nowhere"})
	if err != nil || len(exported) != 0 {
		t.Errorf("got %v, %v of a namespace that is not there", exported, err)
	}
	for kind, want := range map[string]string{"pod": `there is no kind "pod" to export: there are access_request, access_role, addon, addon_`, "klusterlet": "the hub does not know how to reach", "cluster_acceptance": "leave the filter or the kind out"} {
		if _, err := export.Write(t.Context(), p, export.Options{Dir: t.TempDir(), Kinds: []string{kind}, Namespace: "narrow"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", kind, err)
		}
	}
	if !acctest.Someone(t).Exists(&clusterv1beta1.Placement{}, "narrow", "where") {
		t.Error("an export has changed the hub")
	}
}
