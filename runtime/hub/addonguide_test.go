package hub_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// The objects in the guide about add-ons do what it says.
func TestGuideOfAddOns(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	name := clusterName(t, "guide")
	joined(t, name, "a")
	available(t, name, metav1.ConditionTrue)
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "add-ons.md"))
	testkit.Must(t, err)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(guide)
	if block == nil {
		t.Fatal("the guide has no objects")
	}
	documents := strings.Split(string(block[1]), "\n---\n")
	if len(documents) != 4 {
		t.Errorf("the guide has %d objects", len(documents))
	}
	for _, document := range documents {
		o := &unstructured.Unstructured{}
		testkit.Must(t, yaml.Unmarshal([]byte(document), &o.Object))
		if err := c.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Delete(ctx, o) })
	}
	testkit.Eventually(t, func() error {
		work := &workv1.ManifestWork{}
		if err := c.Get(ctx, types.NamespacedName{Namespace: name, Name: "addon-hello-deploy-0"}, work); err != nil {
			return err
		}
		if got := string(work.Spec.Workload.Manifests[0].Raw); !strings.Contains(got, `"text":"hello, `+name+`"`) {
			t.Fatalf("the work has %s", got)
		}
		return nil
	})
}
