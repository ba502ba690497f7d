package managedcluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func TestMergeTaints(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	live := func(key, value string) clusterv1.Taint {
		return clusterv1.Taint{Key: key, Value: value, Effect: clusterv1.TaintEffectNoSelect, TimeAdded: &at}
	}
	fresh := func(key, value string) clusterv1.Taint {
		return clusterv1.Taint{Key: key, Value: value, Effect: clusterv1.TaintEffectNoSelect}
	}
	hub := live(cluster.UnreachableTaint, "")
	for name, test := range map[string]struct {
		live           []clusterv1.Taint
		wanted, before []taint
		want           []clusterv1.Taint
		unchanged      bool
	}{
		"nothing to do":              {live: []clusterv1.Taint{live("a", ""), hub}, wanted: []taint{fresh("a", "")}, unchanged: true},
		"a new one beside the hub's": {live: []clusterv1.Taint{hub}, wanted: []taint{fresh("a", "")}, want: []clusterv1.Taint{fresh("a", ""), hub}},
		"a changed one loses its time": {
			live: []clusterv1.Taint{live("a", "1"), live("b", "")}, wanted: []taint{fresh("a", "2"), fresh("b", "")},
			want: []clusterv1.Taint{fresh("a", "2"), live("b", "")},
		},
		"foreign ones go":           {live: []clusterv1.Taint{live("x", ""), hub}, wanted: []taint{}, want: []clusterv1.Taint{hub}},
		"not managed":               {live: []clusterv1.Taint{live("x", ""), hub}, unchanged: true},
		"not managed any more":      {live: []clusterv1.Taint{live("a", ""), live("x", ""), hub}, before: []taint{fresh("a", "")}, want: []clusterv1.Taint{live("x", ""), hub}},
		"gone and not managed":      {live: []clusterv1.Taint{hub}, before: []taint{fresh("a", "")}, unchanged: true},
		"empty and nothing to keep": {wanted: []taint{}, unchanged: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed := mergeTaints(test.live, test.wanted, test.before)
			if changed == test.unchanged {
				t.Fatalf("changed is %v with %v", changed, got)
			}
			if changed && !sameTaints(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// sameTaints compares sets.
func sameTaints(a, b []clusterv1.Taint) bool {
	if len(a) != len(b) {
		return false
	}
	for _, x := range a {
		found := false
		for _, y := range b {
			found = found || attribute.Same(x, y)
		}
		if !found {
			return false
		}
	}
	return true
}
