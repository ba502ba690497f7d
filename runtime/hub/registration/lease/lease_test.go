package lease

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLeaseLastsFiveDurations(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(t time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: t}}}
	}
	for name, x := range map[string]struct {
		lease *coordinationv1.Lease
		want  time.Duration
	}{
		"fresh":         {at(now), 300 * time.Second},
		"almost over":   {at(now.Add(-299 * time.Second)), time.Second},
		"over":          {at(now.Add(-300 * time.Second)), 0},
		"long over":     {at(now.Add(-time.Hour)), -55 * time.Minute},
		"never renewed": {&coordinationv1.Lease{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := remaining(x.lease, time.Minute, now); got != x.want {
				t.Errorf("got %s, want %s", got, x.want)
			}
		})
	}
}
