package fleet_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/replicaset"
)

// frozen is a client whose reads of works are of the past, as those of a cache
// that is behind.
type frozen struct {
	client.Client
	past *workv1.ManifestWorkList
}

func (f frozen) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if works, ok := list.(*workv1.ManifestWorkList); ok {
		f.past.DeepCopyInto(works)
		return nil
	}
	return f.Client.List(ctx, list, options...)
}

// freeze has the controller see the set's works as they are now, until it is
// restarted.
func (w *replicaSetWorld) freeze() {
	w.Helper()
	past := &workv1.ManifestWorkList{Items: w.works()}
	w.controller = replicaset.NewController(w.counting, w.counting, w.events, w.clock, replicaset.Options{})
	w.controller.ReadWorksFrom(frozen{w.counting, past})
}

// A work has a generated name. A controller that has not heard of it yet, as
// after a crash between making it and anything else, must not make another.
func TestACacheThatIsBehindMakesNoSecondWork(t *testing.T) {
	w := newSet(t, "a b", "0:a,b")
	w.freeze() // before there was any work
	stale := w.controller
	w.restart()
	w.reconcile()
	w.controller = stale
	if r := w.reconcile(); r.RequeueAfter == 0 {
		t.Error("nobody looks again")
	}
	w.mustDeliver("a/p=1 b/p=1")
}

// A rollout that does not know of what it started would start too many: here a
// takes the only place, and 0 comes in front of it.
func TestACacheThatIsBehindStartsNoClusterTooMany(t *testing.T) {
	w := newSet(t, "a b 0", "0:a,b", progressive("1"))
	w.reconcile()
	w.agents("a", "Applied Available")
	w.reconcile()
	w.agents("b", "Applied Available")
	w.version("2")
	w.freeze()
	stale := w.controller
	w.restart()
	w.reconcile()
	w.mustDeliver("a/p=2 b/p=1")
	w.place("p", "0:0,a,b")
	w.controller = stale
	w.reconcile()
	w.mustDeliver("a/p=2 b/p=1")
	w.restart()
	w.reconcile()
	w.mustDeliver("a/p=2 b/p=1")
	w.agents("a", "Applied Available")
	w.reconcile()
	w.mustDeliver("0/p=2 a/p=2 b/p=1")
}

// The newest work may not have reached the cache when the set is deleted.
func TestDeletionFindsWhatTheCacheHasNotHeardOf(t *testing.T) {
	w := newSet(t, "a", "0:a")
	w.freeze()
	stale := w.controller
	w.restart()
	w.reconcile()
	w.deleteSet()
	w.controller = stale
	w.reconcile()
	w.mustDeliver("")
	if w.remains() {
		t.Error("the set is still there")
	}
}

// asked is a reader that counts how often it was asked for all works of a set.
type asked struct {
	client.Reader
	times *int
}

func (a asked) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	*a.times++
	return a.Reader.List(ctx, list, options...)
}

// witnessed has another controller take over, which is the first that sees the set, and whose
// cache shows no works yet. It counts how often that asks the server for all works.
func (w *replicaSetWorld) witnessed(c client.Client) (times *int) {
	times = new(int)
	w.controller = replicaset.NewController(c, asked{w.counting, times}, w.events, w.clock, replicaset.Options{})
	w.controller.ReadWorksFrom(frozen{w.counting, &workv1.ManifestWorkList{}})
	return times
}

// A controller knows what it has written itself. It waits until the cache shows that, and
// does not ask the server for the works of all sets.
func TestAControllerWaitsForItsOwnWrites(t *testing.T) {
	w := newSet(t, "a b", "0:a,b")
	times := w.witnessed(w.counting)
	w.reconcile()
	w.version("2")
	for range 2 {
		if r := w.reconcile(); r.RequeueAfter == 0 {
			t.Error("nobody looks again")
		}
		w.mustDeliver("a/p=1 b/p=1")
		w.step(time.Minute)
	}
	w.controller.ReadWorksFrom(w.counting)
	w.reconcile()
	w.mustDeliver("a/p=2 b/p=2")
	w.place("p", "0:b")
	w.reconcile()
	w.mustDeliver("b/p=2")
	w.deleteSet()
	w.reconcile()
	w.mustDeliver("")
	if w.remains() || *times != 0 {
		t.Errorf("the set is still there: %t; the server was asked for all works %d times", w.remains(), *times)
	}
}

// The cache never shows a work that somebody has deleted before it could.
func TestAWorkThatTheCacheNeverShowsIsMadeAgain(t *testing.T) {
	w := newSet(t, "a b", "0:a,b")
	times := w.witnessed(w.counting)
	w.reconcile()
	for _, mw := range w.works() {
		w.Must(w.Delete(t.Context(), &mw))
	}
	w.reconcile()
	w.mustDeliver("")
	w.step(time.Minute)
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
	if *times != 0 {
		t.Errorf("the server was asked for all works %d times", *times)
	}
}

// unanswered is a client whose creations are carried out, and not answered.
type unanswered struct{ client.Client }

func (u unanswered) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if err := u.Client.Create(ctx, o, options...); err != nil {
		return err
	}
	return errKilled
}

// Where no answer came to a write, only the server knows whether there is a work.
func TestACreationWithoutAnAnswerMakesNoSecondWork(t *testing.T) {
	w := newSet(t, "a b", "0:a,b")
	times := w.witnessed(unanswered{w.counting})
	if _, err := w.pass(); !errors.Is(err, errKilled) {
		t.Fatalf("the pass ends with %v", err)
	}
	w.reconcile()
	w.mustDeliver("a/p=1 b/p=1")
	if *times == 0 {
		t.Error("the server was not asked for all works")
	}
}

// killed is a client whose process dies after some writes.
type killed struct {
	client.Client
	left *atomic.Int64
}

var errKilled = errors.New("killed")

func (k killed) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if k.left.Add(-1) < 0 {
		return errKilled
	}
	return k.Client.Create(ctx, o, options...)
}

func (k killed) Update(ctx context.Context, o client.Object, options ...client.UpdateOption) error {
	if k.left.Add(-1) < 0 {
		return errKilled
	}
	return k.Client.Update(ctx, o, options...)
}

func (k killed) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	if k.left.Add(-1) < 0 {
		return errKilled
	}
	return k.Client.Delete(ctx, o, options...)
}

func (k killed) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.PatchOption) error {
	if k.left.Add(-1) < 0 {
		return errKilled
	}
	return k.Client.Patch(ctx, o, p, options...)
}

func (k killed) Status() client.SubResourceWriter {
	return killedStatus{k.Client.Status(), k.left}
}

type killedStatus struct {
	client.SubResourceWriter
	left *atomic.Int64
}

func (k killedStatus) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
	if k.left.Add(-1) < 0 {
		return errKilled
	}
	return k.SubResourceWriter.Patch(ctx, o, p, options...)
}

// Whenever the hub is killed, the next one ends up with the same works.
func TestKilledAfterAnyWrite(t *testing.T) {
	for n := range int64(6) {
		w := newSet(t, "a b c", "0:a,b,c")
		die := func() {
			t.Helper()
			left := &atomic.Int64{}
			left.Store(n)
			w.controller = replicaset.NewController(killed{w.counting, left}, w.counting, w.events, w.clock, replicaset.Options{})
			if _, err := w.pass(); err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			w.restart()
		}
		die()
		w.reconcile()
		w.mustDeliver("a/p=1 b/p=1 c/p=1")
		w.version("2")
		w.place("p", "0:a,b")
		die()
		w.reconcile()
		w.mustDeliver("a/p=2 b/p=2")
		w.mustReport(underWay + "ManifestworkApplied:False/NotAsExpected total:2 applied:0 available:0 progressing:0 degraded:0")
		w.deleteSet()
		die()
		w.reconcile()
		w.mustDeliver("")
		if w.remains() {
			t.Errorf("killed after %d writes: the set is still there", n)
		}
	}
}

// racing is a client beside which an agent writes first.
type racing struct {
	client.Client
	before func()
}

func (r racing) Update(ctx context.Context, o client.Object, options ...client.UpdateOption) error {
	r.before()
	return r.Client.Update(ctx, o, options...)
}

func TestAnAgentThatWritesMeanwhileIsNotOverwritten(t *testing.T) {
	w := newSet(t, "a", "0:a")
	w.reconcile()
	w.version("2")
	raced := false
	w.controller = replicaset.NewController(racing{w.counting, func() {
		if !raced {
			raced = true
			w.hold("a")
		}
	}}, w.counting, w.events, w.clock, replicaset.Options{})
	w.reconcile()
	w.mustDeliver("a/p=2")
	mw := w.works()[0]
	if len(mw.Finalizers) != 1 {
		t.Error("the agent's finalizer is gone")
	}
	w.Release(&mw)
}

func TestAWorkThatGoesMeanwhileIsNoError(t *testing.T) {
	w := newSet(t, "a", "0:a")
	w.reconcile()
	w.version("2")
	w.controller = replicaset.NewController(racing{w.counting, func() {
		for _, mw := range w.works() {
			w.Must(w.Delete(context.Background(), &mw))
		}
	}}, w.counting, w.events, w.clock, replicaset.Options{})
	w.reconcile()
	w.mustDeliver("")
	w.restart()
	w.reconcile()
	w.mustDeliver("a/p=2")
}

func TestAnotherWorkOfTheNameIsLeftAlone(t *testing.T) {
	w := newSet(t, "a", "0:a")
	w.reconcile()
	w.version("2")
	other := &workv1.ManifestWork{}
	w.controller = replicaset.NewController(racing{w.counting, func() {
		for _, mw := range w.works() {
			w.Must(w.Delete(context.Background(), &mw))
			other = &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: mw.Namespace, Name: mw.Name}, Spec: template("foreign")}
			w.Make(other)
		}
	}}, w.counting, w.events, w.clock, replicaset.Options{})
	w.reconcile()
	w.Must(w.Get(context.Background(), client.ObjectKeyFromObject(other), other))
	if other.Generation != 1 || len(other.Labels) != 0 {
		t.Errorf("the work became %+v", other)
	}
}

// terminating is a client that finds the namespaces of clusters on their way out.
type terminating struct{ client.Client }

func (terminating) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "manifestworks"}, o.GetName(), errors.New("it is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating"}}
	return err
}

func TestAClusterThatIsBeingRemovedIsNoError(t *testing.T) {
	w := newSet(t, "a", "0:a")
	w.controller = replicaset.NewController(terminating{w.counting}, w.counting, w.events, w.clock, replicaset.Options{})
	w.reconcile()
	w.mustReport("PlacementVerified:False/NotAsExpected PlacementRolledOut:False/Progressing ManifestworkApplied:False/NotAsExpected total:0 applied:0 available:0 progressing:0 degraded:0")
}
