package admission

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func TestTaintsAreStampedWithTheTime(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	then := metav1.NewTime(now.Add(-time.Hour))
	taint := func(key, value string, added *metav1.Time) clusterv1.Taint {
		return clusterv1.Taint{Key: key, Value: value, Effect: clusterv1.TaintEffectNoSelect, TimeAdded: added}
	}
	at := metav1.NewTime(now)
	for name, x := range map[string]struct {
		create       bool
		taints, old  []clusterv1.Taint
		want         []*metav1.Time
		forbiddenKey []string
	}{
		"created":                         {true, []clusterv1.Taint{taint("a", "", nil)}, nil, []*metav1.Time{&at}, nil},
		"created with a time of its own":  {true, []clusterv1.Taint{taint("a", "", &then)}, nil, []*metav1.Time{&at}, nil},
		"added":                           {false, []clusterv1.Taint{taint("a", "", &then), taint("b", "", nil)}, []clusterv1.Taint{taint("a", "", &then)}, []*metav1.Time{&then, &at}, nil},
		"added with a time":               {false, []clusterv1.Taint{taint("b", "", &then)}, nil, nil, []string{"b"}},
		"two of one key, written back":    {false, []clusterv1.Taint{taint("a", "", &then), taint("a", "x", &at)}, []clusterv1.Taint{taint("a", "", &then), taint("a", "x", &at)}, []*metav1.Time{&then, &at}, nil},
		"value changed":                   {false, []clusterv1.Taint{taint("a", "x", nil)}, []clusterv1.Taint{taint("a", "", &then)}, []*metav1.Time{&at}, nil},
		"value changed and time kept":     {false, []clusterv1.Taint{taint("a", "x", &then)}, []clusterv1.Taint{taint("a", "", &then)}, nil, []string{"a"}},
		"unchanged":                       {false, []clusterv1.Taint{taint("a", "", &then)}, []clusterv1.Taint{taint("a", "", &then)}, []*metav1.Time{&then}, nil},
		"unchanged but for the time":      {false, []clusterv1.Taint{taint("a", "", &at)}, []clusterv1.Taint{taint("a", "", &then)}, nil, []string{"a"}},
		"unchanged but the time left out": {false, []clusterv1.Taint{taint("a", "", nil), taint("b", "", &at)}, []clusterv1.Taint{taint("a", "", &then)}, nil, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, forbidden := stampTaints(x.taints, x.old, x.create, now)
			if !slices.Equal(forbidden, x.forbiddenKey) {
				t.Fatalf("forbidden: got %q, want %q", forbidden, x.forbiddenKey)
			}
			for i := range x.want {
				if !got[i].TimeAdded.Equal(x.want[i]) {
					t.Errorf("%s: got %v, want %v", got[i].Key, got[i].TimeAdded, x.want[i])
				}
			}
		})
	}
}
