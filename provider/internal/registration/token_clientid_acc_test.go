package registration_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// A prepared cluster and the token that is for its client ID: on the hub, changed,
// imported, and refused when they are no client IDs.
func TestAccBootstrapTokenForClientIDs(t *testing.T) {
	config := func(id, token string) string {
		return fmt.Sprintf(`
resource "muster_managed_cluster" "test" {
  name      = "by-client-id"
  client_id = %q
}

resource "muster_bootstrap_token" "test" {
%s
}
`, id, token)
	}
	onHub := func(id, ids, labels string) resource.TestCheckFunc {
		return func(s *terraform.State) error {
			mc, secret := &clusterv1.ManagedCluster{}, &corev1.Secret{}
			acctest.Someone(t).Get(mc, "", "by-client-id")
			acctest.Someone(t).Get(secret, "kube-system", "bootstrap-token-"+s.RootModule().Resources[tokenAddress].Primary.Attributes["token_id"])
			a := secret.Annotations
			if got := mc.Annotations[muster.ClientIDAnnotation]; got != id || a[cluster.TokenClientIDsAnnotation] != ids || a[cluster.TokenAllowedLabelsAnnotation] != labels {
				return fmt.Errorf("the client ID is %q, the token says %v", got, a)
			}
			return nil
		}
	}
	acctest.Run(t,
		resource.TestStep{Config: config("a b", `client_ids = ["store-19"]`), ExpectError: regexp.MustCompile(`client_id: "a b" is not a client ID`)},
		resource.TestStep{Config: config("a", `client_ids = ["a,b"]`), ExpectError: regexp.MustCompile(`"a,b" is not a client\s+ID`)},
		resource.TestStep{
			Config:      config("a", `allowed_labels = ["cluster.open-cluster-management.io/clusterset"]`),
			ExpectError: regexp.MustCompile(`agents\s+may\s+not\s+choose\s+the\s+label`),
		},
		resource.TestStep{
			Config: config("store-17", `client_ids = ["store-18", "store-17"]`+"\n"+`allowed_labels = ["site", "example.com/*"]`),
			Check:  onHub("store-17", "store-17,store-18", "example.com/*,site"),
		},
		resource.TestStep{
			ResourceName: tokenAddress, ImportState: true, ImportStateVerify: true,
			ImportStateVerifyIgnore: []string{"ttl", "description"}, ImportStateVerifyIdentifierAttribute: "token_id",
			ImportStateIdFunc: func(s *terraform.State) (string, error) {
				return s.RootModule().Resources[tokenAddress].Primary.Attributes["token_id"], nil
			}},
		resource.TestStep{ResourceName: "muster_managed_cluster.test", ImportState: true, ImportStateVerify: true, ImportStateId: "by-client-id", ImportStateVerifyIdentifierAttribute: "name"},
		resource.TestStep{
			Config: config("store-19", `client_ids = ["store-19"]`),
			Check:  onHub("store-19", "store-19", ""),
		},
	)
}
