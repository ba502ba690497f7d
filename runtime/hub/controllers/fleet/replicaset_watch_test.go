package fleet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/replicaset"
)

// run has the controller run by itself.
func (w *replicaSetWorld) run() {
	w.Helper()
	env.StartManager(w, func(m manager.Manager) error {
		return replicaset.NewController(m.GetClient(), m.GetAPIReader(), w.events, w.clock, replicaset.Options{}).Register(m)
	})
}

func (w *replicaSetWorld) untilDelivered(want string) {
	w.Helper()
	w.Eventually(func() error {
		if got := w.delivered(); got != want {
			return fmt.Errorf("the works are %q, want %q", got, want)
		}
		return nil
	})
}

func (w *replicaSetWorld) untilReported(want string) {
	w.Helper()
	w.Eventually(func() error {
		if got := w.reported(); got != want {
			return fmt.Errorf("the status is %s, want %s", got, want)
		}
		return nil
	})
}

// Every change that matters is noticed by itself.
func TestItWatches(t *testing.T) {
	w := newReplicaSetWorld(t, "a", "b", "c")
	w.create(ref("p", progressive("1")))
	w.run()
	w.untilReported("PlacementVerified:False/PlacementDecisionNotFound PlacementRolledOut:False/Progressing ManifestworkApplied:False/NotAsExpected total:0 applied:0 available:0 progressing:0 degraded:0")
	w.place("p", "0:a,b")
	w.untilDelivered("a/p=1")
	w.agents("a", done)
	w.untilDelivered("a/p=1 b/p=1")
	w.agents("b", done)
	w.untilReported(complete + "total:2 applied:2 available:2 progressing:0 degraded:0")
	w.version("2")
	w.untilDelivered("a/p=2 b/p=1")
	w.place("p", "0:a,c")
	w.untilDelivered("a/p=2")
	w.agents("a", done)
	w.untilDelivered("a/p=2 c/p=2")
}

// The cache holds no manifests, and the works are as whole as ever.
func TestUpdatesFromTheCacheLoseNothing(t *testing.T) {
	w := newSet(t, "a", "0:a")
	w.run()
	w.untilDelivered("a/p=1")
	mw := w.works()[0]
	mw.Annotations, mw.Finalizers = map[string]string{"keep": "me"}, []string{work.ManifestWorkFinalizer}
	w.Must(w.Update(context.Background(), &mw))
	w.agents("a", "Applied Available -Progressing Complete")
	w.version("2")
	w.untilDelivered("a/p=2")
	now := w.works()[0]
	if now.Annotations["keep"] != "me" || len(now.Finalizers) != 1 || len(now.Status.Conditions) != 4 || now.UID != mw.UID || len(now.ManagedFields) == 0 {
		t.Errorf("the work became %+v", now)
	}
}

func TestForegroundDeletionEndsByItself(t *testing.T) {
	w := newSet(t, "a b", "0:a,b")
	w.deleteInForeground()
	w.run()
	w.untilDelivered("a/p=1 b/p=1")
	w.hold("a", "b")
	w.deleteSet()
	w.untilDelivered("a/p=1(going) b/p=1(going)")
	for _, mw := range w.works() {
		if !w.remains() {
			t.Fatal("the set is gone before its works")
		}
		w.Release(&mw)
	}
	testkit.Eventually(t, func() error {
		if w.remains() {
			return fmt.Errorf("the set is still there")
		}
		return nil
	})
}

// Names may have dots: upstream does not notice what happens to the works of
// such sets.
func TestWorksOfSetsWithDotsInTheirNames(t *testing.T) {
	w := newReplicaSetWorld(t, "a", "b")
	w.place("p", "0:a,b")
	w.run()
	ctx := context.Background()
	set := &v1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "web.v1.example"}}
	set.Spec.PlacementRefs, set.Spec.ManifestWorkTemplate = []v1alpha1.LocalPlacementReference{ref("p", progressive("1"))}, template("1")
	w.Make(set)
	works := func(n int) (list *workv1.ManifestWorkList) {
		t.Helper()
		testkit.Eventually(t, func() error {
			list = &workv1.ManifestWorkList{}
			err := w.List(ctx, list, client.MatchingLabels{work.ReplicaSetLabel: w.name + ".web.v1.example"})
			if err == nil && len(list.Items) != n {
				err = fmt.Errorf("%d works, want %d", len(list.Items), n)
			}
			return err
		})
		return list
	}
	w.agent(&works(1).Items[0], "Applied Available")
	works(2)
	w.Must(w.Delete(ctx, set))
	works(0)
	testkit.Eventually(t, func() error { // before the controller stops
		if err := w.Get(ctx, client.ObjectKeyFromObject(set), set); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the set is still there (%v)", err)
		}
		return nil
	})
}

// The controller looks again by itself when a cluster's time is up.
func TestTimePasses(t *testing.T) {
	w := newSet(t, "a b", "0:a,b", progressive("1", func(c *clusterv1alpha1.RolloutConfig) { c.MinSuccessTime = "2s" }))
	w.clock.SetTime(time.Now().Truncate(time.Second))
	w.reconcile()
	w.agents("a", done)
	w.run()
	w.untilReported(underWay + "ManifestworkApplied:True/AsExpected total:1 applied:1 available:1 progressing:0 degraded:0")
	w.step(2 * time.Second)
	w.untilDelivered("a/p=1 b/p=1")
}
