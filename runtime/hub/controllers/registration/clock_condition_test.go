package registration

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

func TestClockIsSyncedWithinFiveLeaseDurations(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, x := range map[string]struct {
		offset time.Duration
		skip   bool
		want   metav1.ConditionStatus
	}{
		"same":               {0, false, metav1.ConditionTrue},
		"just behind":        {-299 * time.Second, false, metav1.ConditionTrue},
		"just ahead":         {299 * time.Second, false, metav1.ConditionTrue},
		"five durations off": {-300 * time.Second, false, metav1.ConditionFalse},
		"far ahead":          {time.Hour, false, metav1.ConditionFalse},
		"told to look away":  {time.Hour, true, metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			got := condition(x.skip, &metav1.MicroTime{Time: now.Add(x.offset)}, 5*time.Minute, now)
			if got.Status != x.want || got.Type != cluster.ConditionClockSynced {
				t.Errorf("got %+v, want status %s", got, x.want)
			}
		})
	}
}
