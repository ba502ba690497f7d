package scheduling_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

func TestPreferNoSelectAsAPreference(t *testing.T) {
	toleration := func(seconds *int64) []clusterv1beta1.Toleration {
		return []clusterv1beta1.Toleration{{Key: "x", Operator: clusterv1beta1.TolerationOpExists, TolerationSeconds: seconds}}
	}
	for name, x := range map[string]struct {
		prefers     bool
		tolerations []clusterv1beta1.Toleration
		n           int32
		want        []string
		requeue     time.Duration
	}{
		"without the option it has no effect":     {false, nil, 1, []string{"a"}, 0},
		"others go first, whatever the score":     {true, nil, 1, []string{"b"}, 0},
		"but they go when there are no others":    {true, nil, 2, []string{"a", "b"}, 0},
		"not if it is tolerated":                  {true, toleration(nil), 1, []string{"a"}, 0},
		"not if it is tolerated for a while":      {true, toleration(ptr.To[int64](90)), 1, []string{"a"}, 30 * time.Second},
		"if it is no longer tolerated":            {true, toleration(ptr.To[int64](60)), 1, []string{"b"}, 0},
		"without the option nothing has an end":   {false, toleration(ptr.To[int64](90)), 1, []string{"a"}, 0},
		"a cluster is never left out for a wish":  {true, nil, 3, []string{"a", "b"}, 0},
		"a tolerated one is ranked by its scores": {true, toleration(nil), 2, []string{"a", "b"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			all := clusters("a", "b")
			all[0].Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectPreferNoSelect, TimeAdded: ptr.To(metav1.NewTime(now.Add(-time.Minute)))}}
			in := input(clusterv1beta1.PlacementSpec{NumberOfClusters: &x.n, Tolerations: x.tolerations}, all)
			in.Selected = map[string]bool{"a": true} // so it has the better score
			in.Options.PreferNoSelect = x.prefers
			r := scheduling.Schedule(in)
			mustChoose(t, r, x.want...)
			if r.RequeueAfter != x.requeue {
				t.Errorf("the timer is for %s, want %s", r.RequeueAfter, x.requeue)
			}
		})
	}
}
