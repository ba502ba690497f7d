package registration_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

const registrationAddress = "muster_cluster_registration.test"

func registrationConfig(name, timeout string) string {
	return acctest.AcceptanceConfig(name, "") + fmt.Sprintf("resource \"muster_cluster_registration\" \"test\" {\n  managed_cluster = %q\n  depends_on = [muster_cluster_acceptance.test]\n  timeouts { create = %q }\n}\n", name, timeout)
}

func TestAccClusterRegistration(t *testing.T) {
	acctest.Run(t,
		resource.TestStep{
			Config:      registrationConfig("cr-basic", "2s"),
			ExpectError: regexp.MustCompile(`(?s)Managed cluster "cr-basic" has not registered within 2s.*HubAcceptedManagedCluster is True.*kubectl get csr -l\s+open-cluster-management.io/cluster-name=cr-basic`),
		},
		// The failed wait left cluster and acceptance as they were.
		resource.TestStep{
			Config: registrationConfig("cr-basic", "30s"),
			PreConfig: func() {
				timer := time.AfterFunc(2*time.Second, func() { acctest.Someone(t).Joined("cr-basic") })
				t.Cleanup(func() { timer.Stop() })
			},
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.ClusterAddress, plancheck.ResourceActionNoop),
				plancheck.ExpectResourceAction(acctest.AcceptanceAddress, plancheck.ResourceActionNoop),
				plancheck.ExpectResourceAction(registrationAddress, plancheck.ResourceActionCreate),
			}},
		},
		resource.TestStep{
			ResourceName: registrationAddress, ImportState: true, ImportStateId: "cr-basic",
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "managed_cluster", ImportStateVerifyIgnore: []string{"timeouts"},
		},
		resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Remove(&clusterv1.ManagedCluster{}, "", "cr-basic") },
			Config:    acctest.AcceptanceConfig("cr-basic", ""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.ClusterAddress, plancheck.ResourceActionCreate),
			}},
		},
	)
}
