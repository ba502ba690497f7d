package accessrequest

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// The record of a request that has ended is kept for 30 days, and looked at again when they are over.
func TestARecordIsKeptFor30Days(t *testing.T) {
	const day = 24 * time.Hour
	ended := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, kind := range []string{muster.ConditionExpired, muster.ConditionRevoked, muster.ConditionFailed} {
		r := &v1alpha1.AccessRequest{}
		r.Status.Conditions = []metav1.Condition{{
			Type: kind, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.NewTime(ended),
		}}
		for after, over := range map[time.Duration]bool{
			0: false, 29 * day: false, 30*day - time.Second: false, 30 * day: true, 31 * day: true,
		} {
			o := decide(&facts{now: ended.Add(after), request: r})
			if o.over != over || o.recheck != 30*day-after {
				t.Errorf("%s, after %v: over %t, recheck %v", kind, after, o.over, o.recheck)
			}
		}
	}
}
