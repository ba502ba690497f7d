package replicaset

import (
	"context"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// The agents of a hundred clusters report one after the other. One pass over the set
// follows, with one write of its status, and not a hundred.
func TestReportsOfASetAreGathered(t *testing.T) {
	clk := testclock.NewFakeClock(time.Now())
	q := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](),
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Clock: clk})
	defer q.ShutDown()
	// The queue looks at the clock in a goroutine of its own, which may miss a step.
	after := func(step time.Duration) reconcile.Request {
		for q.Len() == 0 {
			clk.Step(step)
			runtime.Gosched()
		}
		r, _ := q.Get()
		q.Done(r)
		return r
	}
	next := func() reconcile.Request { return after(gather) }
	// It takes what is to wait one after the other: with the last one it has taken all.
	settle := func() {
		t.Helper()
		last := reconcile.Request{NamespacedName: types.NamespacedName{Name: "last"}}
		q.AddAfter(last, 1)
		if r := after(1); r != last {
			t.Errorf("%s is reconciled before its time", r)
		}
	}
	w := &workv1.ManifestWork{}
	w.Labels = map[string]string{work.ReplicaSetLabel: "apps.web"}
	ctx, handler := context.Background(), workEvents()
	for range 100 {
		handler.Create(ctx, event.CreateEvent{Object: w}, q)
		handler.Update(ctx, event.UpdateEvent{ObjectOld: w, ObjectNew: w}, q)
		handler.Delete(ctx, event.DeleteEvent{Object: w}, q)
		if q.Len() != 0 {
			t.Fatal("the set is reconciled at once")
		}
	}
	settle()
	if r := next(); r.String() != "apps/web" {
		t.Errorf("%s is reconciled", r)
	}
	handler.Create(ctx, event.CreateEvent{Object: &workv1.ManifestWork{}}, q) // of no set
	// A work that changes hands is of interest to both.
	other := w.DeepCopy()
	other.Labels[work.ReplicaSetLabel] = "apps.api"
	handler.Update(ctx, event.UpdateEvent{ObjectOld: w, ObjectNew: other}, q)
	settle()
	got := map[string]bool{next().String(): true, next().String(): true}
	if !got["apps/web"] || !got["apps/api"] || q.Len() != 0 {
		t.Errorf("reconciled %v, and %d are left", got, q.Len())
	}
}
