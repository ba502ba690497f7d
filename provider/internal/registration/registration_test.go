package registration

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

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
		"available, and still tainted": {
			clusterv1.ManagedCluster{
				ObjectMeta: metav1.ObjectMeta{Name: "c1"},
				Spec: clusterv1.ManagedClusterSpec{
					HubAcceptsClient: &yes, Taints: []clusterv1.Taint{{Key: cluster.UnreachableTaint}},
				},
				Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
					condition(cluster.ConditionJoined, "True", "in"),
					condition(cluster.ConditionAvailable, "True", "well"),
				}},
			},
			[]string{
				"is available", "not removed its taint " + cluster.UnreachableTaint,
				"kubectl get managedcluster c1 -o yaml",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := DescribeRegistration(&test.object, "c1", now)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("got\n%s\nwant it to say %q", got, want)
				}
			}
		})
	}
}

// No cluster is waited for long whose agent is known not to be ready, unless it has
// joined before.
func TestARegistrationWithoutAnAgentEndsEarly(t *testing.T) {
	joined := &clusterv1.ManagedCluster{}
	joined.Status.Conditions = []metav1.Condition{{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue}}
	for name, x := range map[string]struct {
		ready  types.Bool
		object *clusterv1.ManagedCluster
		want   bool
	}{
		"nothing is known":      {types.BoolNull(), &clusterv1.ManagedCluster{}, false},
		"the agent is ready":    {types.BoolValue(true), &clusterv1.ManagedCluster{}, false},
		"the agent isn't":       {types.BoolValue(false), &clusterv1.ManagedCluster{}, true},
		"nor any more, offline": {types.BoolValue(false), joined, false},
	} {
		if got := troubles(x.ready, x.object); (len(got) == 1) != x.want || x.want && got[0].After != 30*time.Second {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// A cluster is registered when placements may select it: the hub removes its taint only
// after the cluster has become available.
func TestARegistrationWaitsForPlacements(t *testing.T) {
	object := &clusterv1.ManagedCluster{}
	lacks := func(want int) {
		t.Helper()
		if got := unregistered(object); len(got) != want {
			t.Errorf("with the conditions %v and the taints %v it lacks %q, want %d", object.Status.Conditions,
				object.Spec.Taints, got, want)
		}
	}
	own := clusterv1.Taint{Key: "own", Effect: clusterv1.TaintEffectNoSelect}
	object.Spec.Taints = []clusterv1.Taint{own, {Key: cluster.UnreachableTaint, Effect: clusterv1.TaintEffectNoSelect}}
	lacks(3)
	for _, condition := range []string{cluster.ConditionJoined, cluster.ConditionAvailable} {
		object.Status.Conditions = append(object.Status.Conditions,
			metav1.Condition{Type: condition, Status: metav1.ConditionTrue})
	}
	lacks(1)
	object.Spec.Taints = []clusterv1.Taint{own}
	lacks(0)
}
