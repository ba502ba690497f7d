package addon_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
)

// An identity that may read add-ons and nothing else plans them, without a word on what
// it can't see.
func TestAccAReaderPlansAnAddOn(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("addon-read")
	w := acctest.NewWorkspace(t)
	config := func(placement string) string {
		return addOnConfig("read", fmt.Sprintf("  placements = [{ namespace = \"addon-read\", name = %q }]", placement))
	}
	if said, ok := w.Apply(config("p")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	reader := someone.Identity("addon-reader", rbacv1.PolicyRule{
		APIGroups: []string{addon.GroupName}, Resources: []string{"clustermanagementaddons"}, Verbs: []string{"get", "list", "watch"},
	})
	acctest.Says(t, w.Plan(reader+config("p")), "No changes.")
	if said := w.Plan(reader + config("q")); !strings.Contains(said, "1 to change") || strings.Contains(said, "Warning") || strings.Contains(said, "Error") {
		t.Errorf("the plan of a reader says: %s", acctest.Excerpt(said))
	}
}
