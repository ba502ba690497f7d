package replicaset

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What the cache shows counts as soon as it is as new as what was written, and later also
// when it is what the server has.
func TestShows(t *testing.T) {
	version := func(uid types.UID, generation int64) *workv1.ManifestWork {
		return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "w", UID: uid, Generation: generation,
		}}
	}
	deleted := func(w *workv1.ManifestWork) *workv1.ManifestWork {
		w.DeletionTimestamp, w.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.org/hold"}
		return w
	}
	tests := map[string]struct {
		generation    int64 // as written; 0 is deleted
		have, there   *workv1.ManifestWork
		atOnce, later bool
	}{
		"created, and not shown yet":         {1, nil, version("u", 1), false, false},
		"created, and shown":                 {1, version("u", 1), version("u", 1), true, true},
		"created, and changed since":         {1, version("u", 3), version("u", 3), true, true},
		"created, and deleted by somebody":   {1, nil, nil, false, true},
		"created, and somebody else's now":   {1, nil, version("other", 1), false, true},
		"created, and a deletion is unknown": {2, version("u", 1), nil, false, false},
		"updated, and not shown yet":         {2, version("u", 1), version("u", 2), false, false},
		"updated, and the store restored":    {2, version("u", 1), version("u", 1), false, true},
		"updated, and being deleted":         {2, deleted(version("u", 3)), deleted(version("u", 3)), true, true},
		"deleted, and gone":                  {0, nil, nil, true, true},
		"deleted, and shown as being so":     {0, deleted(version("u", 2)), deleted(version("u", 2)), true, true},
		"deleted, and not shown yet":         {0, version("u", 1), nil, false, false},
		"deleted, held, and not shown yet":   {0, version("u", 1), deleted(version("u", 2)), false, false},
		"deleted, and the store restored":    {0, version("u", 1), version("u", 1), false, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := fake.NewClientBuilder().WithScheme(api.Scheme())
			if tc.there != nil {
				b.WithObjects(tc.there)
			}
			clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			c := &Controller{live: b.Build(), clock: clk}
			w := written{client.ObjectKey{Namespace: "a", Name: "w"}, tc.generation, clk.Now()}
			for _, want := range []bool{tc.atOnce, tc.later} {
				got, err := c.shows(t.Context(), tc.have, "u", w)
				if err != nil || got != want {
					t.Errorf("after %s: got %t, %v, want %t", clk.Since(w.at), got, err, want)
				}
				clk.SetTime(clk.Now().Add(catchUp))
			}
		})
	}
}
