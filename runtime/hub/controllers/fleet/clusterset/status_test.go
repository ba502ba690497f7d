package clusterset

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// Of a hundred clusters that come at once, a set is written once.
func TestClustersThatComeTogetherAreCountedOnce(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](),
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Clock: clk},
	)
	defer queue.ShutDown()
	m := NewMembers()
	m.count("all", selects(t, ""))
	events := NewStatus(nil, m).clusterEvents()
	for i := range 100 {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}}
		events.Create(context.Background(), event.CreateEvent{Object: mc}, queue)
	}
	if queue.Len() != 0 {
		t.Errorf("a set is written before more clusters can come")
	}
	testkit.Eventually(t, func() error {
		if queue.Len() == 0 {
			clk.Step(together)
			return fmt.Errorf("no set is written")
		}
		return nil
	})
	if queue.Len() != 1 {
		t.Errorf("%d sets are written, want one", queue.Len())
	}
	if got := m.count("all", selects(t, "")); got != 100 {
		t.Errorf("it has %d members", got)
	}
}
