package registration

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func TestTaintsFollowTheAvailability(t *testing.T) {
	user := clusterv1.Taint{Key: "example.org/gpu", Value: "a100", Effect: clusterv1.TaintEffectPreferNoSelect}
	unreachable := clusterv1.Taint{Key: cluster.UnreachableTaint, Effect: clusterv1.TaintEffectNoSelect}
	unavailable := clusterv1.Taint{Key: cluster.UnavailableTaint, Effect: clusterv1.TaintEffectNoSelect}
	odd := clusterv1.Taint{Key: cluster.UnreachableTaint, Value: "x", Effect: clusterv1.TaintEffectPreferNoSelect}
	for name, x := range map[string]struct {
		status     metav1.ConditionStatus
		have, want []clusterv1.Taint
	}{
		"never heard of":               {"", nil, []clusterv1.Taint{unreachable}},
		"unknown":                      {metav1.ConditionUnknown, []clusterv1.Taint{user}, []clusterv1.Taint{user, unreachable}},
		"unknown after false":          {metav1.ConditionUnknown, []clusterv1.Taint{unavailable, user}, []clusterv1.Taint{user, unreachable}},
		"false after unknown":          {metav1.ConditionFalse, []clusterv1.Taint{unreachable}, []clusterv1.Taint{unavailable}},
		"true again":                   {metav1.ConditionTrue, []clusterv1.Taint{unreachable, user, unavailable}, []clusterv1.Taint{user}},
		"unknown and tainted":          {metav1.ConditionUnknown, []clusterv1.Taint{unreachable, user}, []clusterv1.Taint{unreachable, user}},
		"our taint with another value": {metav1.ConditionUnknown, []clusterv1.Taint{odd}, []clusterv1.Taint{unreachable}},
	} {
		t.Run(name, func(t *testing.T) {
			var conditions []metav1.Condition
			if x.status != "" {
				conditions = []metav1.Condition{{Type: cluster.ConditionAvailable, Status: x.status}}
			}
			if got := taints(x.have, conditions); !slices.EqualFunc(got, x.want, same) {
				t.Errorf("got %v, want %v", got, x.want)
			}
		})
	}
}
