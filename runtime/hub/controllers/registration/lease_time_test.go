package registration

import (
	"math"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
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
			if got := remaining(x.lease, 5*time.Minute, now); got != x.want {
				t.Errorf("got %s, want %s", got, x.want)
			}
		})
	}
}

// A lease that is longer than time can be counted never runs out at once.
func TestAnyLeaseDurationIsCountedRight(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for seconds, want := range map[int32]time.Duration{
		math.MinInt32: 300 * time.Second,
		-1:            300 * time.Second,
		0:             300 * time.Second,
		1:             5 * time.Second,
		1_844_674_407: 9_223_372_035 * time.Second,
		1_844_674_408: math.MaxInt64,
		math.MaxInt32: math.MaxInt64,
	} {
		spec := clusterv1.ManagedClusterSpec{LeaseDurationSeconds: seconds}
		if got := spec.LeaseGrace(); got != want {
			t.Errorf("%d seconds: got %s, want %s", seconds, got, want)
		}
		if spec.LeaseDuration() <= 0 {
			t.Errorf("%d seconds: an agent would renew its lease every %s", seconds, spec.LeaseDuration())
		}
		for _, renewed := range []time.Time{now, now.Add(-time.Second), now.Add(time.Hour), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
			lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: renewed}}}
			if left := remaining(lease, spec.LeaseGrace(), now); left <= 0 {
				t.Errorf("%d seconds, renewed at %s: %s are left", seconds, renewed, left)
			}
		}
	}
}
