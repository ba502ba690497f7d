package provider

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

const registrationAddress = "muster_cluster_registration.test"

func registrationConfig(name, timeout string) string {
	return acceptanceConfig(name, "") + fmt.Sprintf("resource \"muster_cluster_registration\" \"test\" {\n  managed_cluster = %q\n  depends_on = [muster_cluster_acceptance.test]\n  timeouts { create = %q }\n}\n", name, timeout)
}

func TestAccClusterRegistration(t *testing.T) {
	accTest(t,
		resource.TestStep{
			Config:      registrationConfig("cr-basic", "2s"),
			ExpectError: regexp.MustCompile(`(?s)Managed cluster "cr-basic" has not registered within 2s.*HubAcceptedManagedCluster is True.*kubectl get csr -l\s+open-cluster-management.io/cluster-name=cr-basic`),
		},
		// The wait in vain left cluster and acceptance as they were.
		resource.TestStep{
			Config: registrationConfig("cr-basic", "30s"),
			PreConfig: func() {
				timer := time.AfterFunc(2*time.Second, func() { someone(t).joined("cr-basic") })
				t.Cleanup(func() { timer.Stop() })
			},
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(clusterAddress, plancheck.ResourceActionNoop),
				plancheck.ExpectResourceAction(acceptanceAddress, plancheck.ResourceActionNoop),
				plancheck.ExpectResourceAction(registrationAddress, plancheck.ResourceActionCreate),
			}},
		},
		resource.TestStep{
			ResourceName: registrationAddress, ImportState: true, ImportStateId: "cr-basic",
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "managed_cluster", ImportStateVerifyIgnore: []string{"timeouts"},
		},
		resource.TestStep{
			PreConfig: func() { someone(t).remove(&clusterv1.ManagedCluster{}, "", "cr-basic") },
			Config:    acceptanceConfig("cr-basic", ""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(clusterAddress, plancheck.ResourceActionCreate),
			}},
		},
	)
}

func TestDescribeRegistration(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	condition := func(name string, status metav1.ConditionStatus, message string) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: "Because", Message: message, LastTransitionTime: metav1.NewTime(now.Add(-3 * time.Minute))}
	}
	yes := true
	accepted := clusterv1.ManagedClusterSpec{HubAcceptsClient: &yes}
	for name, test := range map[string]struct {
		object clusterv1.ManagedCluster
		want   []string
	}{
		"no such cluster": {clusterv1.ManagedCluster{}, []string{`no ManagedCluster "c1"`, "muster_managed_cluster"}},
		"not accepted":    {clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}, []string{"not accepted", "muster_cluster_acceptance", "kubectl describe managedcluster c1", "no conditions"}},
		"not joined": {
			clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Spec: accepted, Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{condition(cluster.ConditionHubAccepted, "True", "fine")}}},
			[]string{"has not joined", "HubAcceptedManagedCluster is True (Because, for 3m): fine", "kubectl get csr"},
		},
		"not available": {
			clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Spec: accepted, Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
				condition(cluster.ConditionJoined, "True", "in"), condition(cluster.ConditionAvailable, "False", "the API server is down"),
			}}},
			[]string{"not available", "ManagedClusterConditionAvailable is False (Because, for 3m): the API server is down", "/livez"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := describeRegistration(&test.object, "c1", now)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("got\n%s\nwant it to say %q", got, want)
				}
			}
		})
	}
}
