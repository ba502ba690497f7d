package hubmade

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

func TestWhenTheHubAsks(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	keys, err := useraccess.NewKeys()
	testkit.Must(t, err)
	hash, err := access.KeyHash(keys.Certificate.Public())
	testkit.Must(t, err)
	// made is a request that was made some minutes before noon, with a condition.
	made := func(before int, kind, reason string) *v1alpha1.AccessRequest {
		r := &v1alpha1.AccessRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-time.Duration(before) * time.Minute))}}
		if kind != "" {
			r.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: reason}}
		}
		if kind == muster.ConditionIssued {
			r.Status.KeyHash, r.Status.NotAfter = hash, &metav1.Time{Time: r.CreationTimestamp.Add(time.Hour)}
		}
		return r
	}
	issued := func(before int) *v1alpha1.AccessRequest { return made(before, muster.ConditionIssued, "") }
	failed := func(before int, reason string) *v1alpha1.AccessRequest {
		return made(before, muster.ConditionFailed, reason)
	}
	lost, going := issued(1), issued(1)
	lost.Status.KeyHash = "another"
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	for name, x := range map[string]struct {
		requests []*v1alpha1.AccessRequest
		ask      bool
		remove   int
		wake     time.Duration
	}{
		"nothing yet":                      {nil, true, 0, 0},
		"one that waits":                   {[]*v1alpha1.AccessRequest{made(500, "", "")}, false, 0, 0},
		"one that is fresh":                {[]*v1alpha1.AccessRequest{issued(10)}, false, 0, 30 * time.Minute},
		"a third of its life is left":      {[]*v1alpha1.AccessRequest{issued(40)}, true, 0, 0},
		"and its renewal waits":            {[]*v1alpha1.AccessRequest{issued(40), made(0, "", "")}, false, 0, 0},
		"and its renewal was made at once": {[]*v1alpha1.AccessRequest{made(40, "", ""), issued(40)}, false, 0, 0},
		"and its renewal has failed":       {[]*v1alpha1.AccessRequest{issued(45), failed(4, muster.ReasonSignerSilent)}, false, 0, 6 * time.Minute},
		"and that was long ago":            {[]*v1alpha1.AccessRequest{issued(55), failed(14, muster.ReasonSignerSilent)}, true, 1, 0},
		"one that is over, and renewed":    {[]*v1alpha1.AccessRequest{made(90, muster.ConditionExpired, ""), issued(10)}, false, 0, 30 * time.Minute},
		"one that is over":                 {[]*v1alpha1.AccessRequest{made(90, muster.ConditionExpired, "")}, true, 1, 0},
		"one that can't be had":            {[]*v1alpha1.AccessRequest{failed(4, muster.ReasonAgentUnable)}, false, 0, 6 * time.Minute},
		"one whose agent is offline":       {[]*v1alpha1.AccessRequest{failed(400, muster.ReasonAgentOffline)}, false, 0, 0},
		"one that is withdrawn":            {[]*v1alpha1.AccessRequest{going}, true, 0, 0},
		"one whose key the hub has lost":   {[]*v1alpha1.AccessRequest{lost}, true, 0, 0},
	} {
		got := decide(x.requests, Ring{keys}, noon)
		if got.ask != x.ask || len(got.remove) != x.remove || got.wake != x.wake {
			t.Errorf("%s: got %+v, want %+v", name, got, x)
		}
	}
}
