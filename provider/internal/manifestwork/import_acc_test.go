package manifestwork_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	webDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},` +
		`"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"nginx:1","args":["a"]}]}}}}`
	loginSecret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"login","namespace":"shop"},"stringData":{"password":"hunter2"}}`
)

// foreignWork is a work that somebody has made with kubectl.
func foreignWork(t *testing.T, cluster string, manifests ...string) {
	t.Helper()
	o := acctest.Someone(t)
	o.Namespace(cluster)
	object := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "web"}}
	for _, text := range manifests {
		object.Spec.Workload.Manifests = append(object.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(text)}})
	}
	o.Apply(object)
}

func importBlock(cluster string) string {
	return "import {\n  to = muster_manifest_work.web\n  id = \"" + cluster + "/web\"\n}\n"
}

// generate has Terraform write the configuration of what config imports.
func generate(t *testing.T, w *acctest.Terraform, config string) (generated, said string) {
	t.Helper()
	w.Init(config)
	said, ok := w.Run("plan", "-no-color", "-input=false", "-generate-config-out=generated.tf")
	if !ok {
		t.Fatal(said)
	}
	text, err := os.ReadFile(filepath.Join(w.Dir, "generated.tf"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text), said
}

// What Terraform generates for an imported work holds its objects, and is what the
// hub has.
func TestAccManifestWorkGeneratedConfiguration(t *testing.T) {
	foreignWork(t, "mw-generate", webDeployment, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`)
	w := acctest.NewTerraform(t)
	generated, said := generate(t, w, importBlock("mw-generate"))
	acctest.Says(t, said, "Plan: 1 to import, 0 to add, 0 to change, 0 to destroy.")
	for _, want := range []string{`replicas = 3`, `matchLabels = {`, `image = "nginx:1"`, `kind = "Namespace"`} {
		if !strings.Contains(strings.Join(strings.Fields(generated), " "), want) {
			t.Errorf("%s is not in\n%s", want, generated)
		}
	}
	if said, ok := w.Run("apply", "-auto-approve", "-no-color", "-input=false"); !ok {
		t.Fatal(said)
	}
	said, _ = w.Run("plan", "-no-color", "-input=false")
	acctest.Says(t, said, "No changes.")
}

// Of a work with a Secret nothing is generated, and nothing is lost.
func TestAccManifestWorkGeneratedConfigurationHasNoSecrets(t *testing.T) {
	foreignWork(t, "mw-generate-secret", loginSecret, webDeployment)
	w := acctest.NewTerraform(t)
	generated, said := generate(t, w, importBlock("mw-generate-secret"))
	acctest.Says(t, said, "Plan: 1 to import, 0 to add, 0 to change, 0 to destroy.", "Objects that the configuration does not have", "add the objects to manifests or manifests_wo")
	if strings.Contains(generated+said, "hunter2") {
		t.Errorf("the secret is shown:\n%s\n%s", generated, said)
	}
	if said, ok := w.Run("apply", "-auto-approve", "-no-color", "-input=false"); !ok {
		t.Fatal(said)
	}
	// The objects are written down, the Secret with those that are hidden.
	if err := os.Remove(filepath.Join(w.Dir, "generated.tf")); err != nil {
		t.Fatal(err)
	}
	said = w.Plan("resource \"muster_manifest_work\" \"web\" {\n  managed_cluster = \"mw-generate-secret\"\n  name = \"web\"\n  objects = [jsondecode(<<-J\n" + webDeployment + "\n  J\n  )]\n" +
		"  manifests = [<<-J\n" + loginSecret + "\n  J\n  ]\n}\n")
	acctest.Says(t, said, "No changes.")
}

// A wait in the configuration of an import is a matter of this state alone: the
// work is not written.
func TestAccManifestWorkImportWithWait(t *testing.T) {
	foreignWork(t, "mw-import-wait", webDeployment)
	work := func() *workv1.ManifestWork {
		object := &workv1.ManifestWork{}
		acctest.Someone(t).Get(object, "mw-import-wait", "web")
		return object
	}
	w := acctest.NewTerraform(t)
	said, ok := w.Apply(importBlock("mw-import-wait") + "resource \"muster_manifest_work\" \"web\" {\n  managed_cluster = \"mw-import-wait\"\n  name = \"web\"\n  objects = [jsondecode(<<-J\n" + webDeployment + "\n  J\n  )]\n" +
		"  wait = { conditions = [\"Applied\"] }\n  timeouts { update = \"1s\" }\n}\n")
	if ok {
		t.Errorf("a wait that is not met does not fail: %s", said)
	}
	acctest.Says(t, said, "1 to import, 0 to add, 1 to change, 0 to destroy", "the agent has not reported it")
	for _, noise := range []string{"conditions = [] ->", "feedback = [] ->", "generation = 1 ->"} {
		if strings.Contains(said, noise) {
			t.Errorf("the plan shows %s", noise)
		}
	}
	if managers := work().ManagedFields; len(managers) != 1 {
		t.Errorf("the work was written by %d managers", len(managers))
	}
}
