package manifestwork_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// twoWorks hold the same ConfigMap, in these clusters and with these values.
func twoWorks(first, second, a, b string) string {
	one := func(name, cluster, value string) string {
		return fmt.Sprintf(`
resource "muster_manifest_work" %q {
  managed_cluster = %q
  name            = %[1]q
  objects         = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "shared", namespace = "default" }, data = { by = %[3]q } }]
}
`, name, cluster, value)
	}
	return one("one", first, a) + one("two", second, b)
}

// Works that disagree about an object of one cluster are found while planning, and
// where the plan can't see both, the agent's report is told at a refresh.
func TestAccManifestWorksThatShareAnObject(t *testing.T) {
	w, o := acctest.NewWorkspace(t), acctest.Someone(t)
	o.Namespace("mw-shared-a")
	o.Namespace("mw-shared-b")
	const held = "Held by several works: objects of manifest work"
	for name, test := range map[string]struct {
		config string
		warned bool
	}{
		"the same content":    {twoWorks("mw-shared-a", "mw-shared-a", "x", "x"), false},
		"in another cluster":  {twoWorks("mw-shared-a", "mw-shared-b", "x", "y"), false},
		"of different values": {twoWorks("mw-shared-a", "mw-shared-a", "x", "y"), true},
	} {
		said := w.Plan(test.config)
		if strings.Count(said, held) == 1 != test.warned {
			t.Errorf("%s: %s", name, acctest.Excerpt(said))
		}
		if test.warned {
			acctest.Says(t, said, "ConfigMap default/shared (v1), which the work", "Let one work hold an object")
		}
	}

	config := twoWorks("mw-shared-a", "mw-shared-b", "x", "y")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	object := &workv1.ManifestWork{}
	report := func(conditions ...metav1.Condition) {
		t.Helper()
		o.Get(object, "mw-shared-a", "one")
		object.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
			ResourceMeta: workv1.ManifestResourceMeta{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "default", Name: "shared"},
			Conditions:   append([]metav1.Condition{}, conditions...),
		}}
		ctx, cancel := o.Context()
		defer cancel()
		if err := o.Client.UpdateSubresource(ctx, object, "status", acctest.OutsiderManager); err != nil {
			t.Fatal(err)
		}
	}
	report(metav1.Condition{
		Type: work.ConditionContested, Status: metav1.ConditionTrue, Reason: work.ReasonChangedByOthers, LastTransitionTime: metav1.Now(),
		Message: "Others keep changing this object back. The work three holds it, too",
	})
	acctest.Says(t, w.Plan(config), `Contested: objects of manifest work "mw-shared-a/one"`, "ConfigMap default/shared (objects[0]): Others keep changing", "The work three holds it, too", "No changes.")
	report()
	if said := w.Plan(config); strings.Contains(said, "Contested") {
		t.Errorf("it is over: %s", said)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}
