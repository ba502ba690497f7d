package decide

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEviction(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	began := func(ago time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-ago)} }
	for name, x := range map[string]struct {
		managed bool
		began   *metav1.Time
		grace   time.Duration
		want    Eviction
	}{
		"the hub has the work":    {true, nil, time.Hour, Eviction{}},
		"the work is back":        {true, began(time.Minute), time.Hour, Eviction{End: true}},
		"the work is gone":        {false, nil, time.Hour, Eviction{Begin: true, After: time.Hour}},
		"within the grace period": {false, began(time.Minute), time.Hour, Eviction{After: 59 * time.Minute}},
		"after it":                {false, began(time.Hour), time.Hour, Eviction{Evict: true}},
		"never":                   {false, began(time.Hour), evictionNever, Eviction{End: true}},
	} {
		if got := Evict(x.managed, x.began, x.grace, now); got != x.want {
			t.Errorf("%s: got %+v, want %+v", name, got, x.want)
		}
	}
}
