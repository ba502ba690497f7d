package registration

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/fakewatch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func managedCluster(accepted metav1.ConditionStatus, seconds int32) *clusterv1.ManagedCluster {
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Spec: clusterv1.ManagedClusterSpec{LeaseDurationSeconds: seconds}}
	if accepted != "" {
		meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: cluster.ConditionHubAccepted, Status: accepted, Reason: "x"})
	}
	return mc
}

func TestPeriod(t *testing.T) {
	yes := true
	notYet := managedCluster("", 60)
	notYet.Spec.HubAcceptsClient = &yes
	for _, tc := range []struct {
		name string
		mc   *clusterv1.ManagedCluster
		want time.Duration
	}{
		{"no ManagedCluster", nil, 0},
		{"accepted in the spec only", notYet, 0},
		{"denied", managedCluster("False", 60), 0},
		{"accepted", managedCluster("True", 30), 30 * time.Second},
		{"accepted, without a pace", managedCluster("True", 0), time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := beatPeriod(tc.mc); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// patient is a running heart of the cluster c1.
type patient struct {
	t     *testing.T
	hub   client.WithWatch
	clock *clocktesting.FakeClock
	beats chan struct{}

	// busy has the hub refuse renewals. tries are what it was asked about leases.
	busy  atomic.Bool
	tries chan string
	// reopen ends the watches that are open, as a hub that starts again does.
	reopen func()
}

func newPatient(t *testing.T, mc *clusterv1.ManagedCluster, objects ...client.Object) *patient {
	t.Helper()
	p := &patient{
		t:     t,
		clock: clocktesting.NewFakeClock(time.Unix(1_900_000_000, 0)),
		beats: make(chan struct{}, 100),
		tries: make(chan string, 100),
	}
	var mu sync.Mutex
	var watches []watch.Interface
	p.reopen = func() {
		mu.Lock()
		defer mu.Unlock()
		for _, w := range watches {
			w.Stop()
		}
		watches = nil
	}
	hub, open := fakewatch.Client(fake.NewClientBuilder().WithScheme(api.Scheme()).
		WithObjects(mc).WithObjects(objects...).WithStatusSubresource(mc).Build())
	p.hub = interceptor.NewClient(hub, interceptor.Funcs{
		Watch: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption,
		) (watch.Interface, error) {
			w, err := c.Watch(ctx, list, o...)
			mu.Lock()
			defer mu.Unlock()
			watches = append(watches, w)
			return w, err
		},
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			if _, ok := o.(*coordinationv1.Lease); ok {
				p.tries <- "read"
			}
			return c.Get(ctx, key, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if _, ok := o.(*coordinationv1.Lease); ok {
				p.tries <- "renewal"
				if p.busy.Load() {
					return apierrors.NewTooManyRequests("busy", 1)
				}
			}
			return c.Update(ctx, o, opts...)
		},
	})
	clusters := mirror.New(mirror.Options[*clusterv1.ManagedCluster]{Client: p.hub, List: &clusterv1.ManagedClusterList{}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { clusters.Run(ctx) })
	running.Go(func() {
		h := &heart{
			clusterName: "c1", hub: p.hub, clusters: clusters, clock: p.clock, log: slog.New(slog.DiscardHandler),
			beat: func() { p.beats <- struct{}{} },
		}
		h.run(ctx)
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	fakewatch.Await(t, open, 1)
	return p
}

func lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: cluster.LeaseName}}
}

func (p *patient) awaitBeat(what string) {
	p.t.Helper()
	select {
	case <-p.beats:
	case <-time.After(testkit.Timeout):
		p.t.Fatalf("no heartbeat: %s", what)
	}
}

func (p *patient) awaitTimer() {
	p.t.Helper()
	testkit.Eventually(p.t, func() error {
		if !p.clock.HasWaiters() {
			return errors.New("nobody waits for the time to pass")
		}
		return nil
	})
}

// beatsWithin lets the time pass in steps, as many at the most, until there is a
// heartbeat. Before each one the agent has done all that it does without time.
func (p *patient) beatsWithin(steps int, step time.Duration) bool {
	p.t.Helper()
	for range steps {
		p.clock.Step(step)
		p.awaitTimer()
		if len(p.beats) > 0 {
			return true
		}
	}
	return false
}

func TestBeatsAtOnceAndThenInEachPeriod(t *testing.T) {
	p := newPatient(t, managedCluster("True", 60), lease())
	p.awaitBeat("at the start")
	got := lease()
	if err := p.hub.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil {
		t.Fatal(err)
	}
	if !got.Spec.RenewTime.Equal(&metav1.MicroTime{Time: p.clock.Now()}) {
		t.Errorf("renewed at %s, want %s", got.Spec.RenewTime, p.clock.Now())
	}
	p.awaitTimer()
	p.clock.Step(59 * time.Second)
	if len(p.beats) != 0 {
		t.Error("a heartbeat before the period has passed")
	}
	p.clock.Step(16 * time.Second) // with all of the jitter
	p.awaitBeat("after 60s and a quarter")
}

func TestMissingLeaseIsTriedAgainAndNeverMade(t *testing.T) {
	p := newPatient(t, managedCluster("True", 60))
	p.awaitTimer()
	if err := p.hub.Get(t.Context(), client.ObjectKeyFromObject(lease()), lease()); client.IgnoreNotFound(err) != nil || err == nil {
		t.Fatalf("reading the lease: %v, want that there is none", err)
	}
	if err := p.hub.Create(t.Context(), lease()); err != nil {
		t.Fatal(err)
	}
	if !p.beatsWithin(20, time.Second) {
		t.Error("no heartbeat in the 20s after the hub made the lease")
	}
}

func TestLeaseThatTheHubMadeAgainIsRenewed(t *testing.T) {
	p := newPatient(t, managedCluster("True", 60), lease())
	p.awaitBeat("at the start")
	if err := p.hub.Delete(t.Context(), lease()); err != nil {
		t.Fatal(err)
	}
	if err := p.hub.Create(t.Context(), lease()); err != nil {
		t.Fatal(err)
	}
	p.awaitTimer()
	if !p.beatsWithin(20, 10*time.Second) {
		t.Error("no heartbeat in the new lease")
	}
}

func TestChangeOfThePaceCountsAtOnce(t *testing.T) {
	mc := managedCluster("True", 3600)
	p := newPatient(t, mc, lease())
	p.awaitBeat("at the start")
	if err := p.hub.Get(t.Context(), client.ObjectKeyFromObject(mc), mc); err != nil {
		t.Fatal(err)
	}
	mc.Spec.LeaseDurationSeconds = 10
	if err := p.hub.Update(t.Context(), mc); err != nil {
		t.Fatal(err)
	}
	p.awaitBeat("with the new pace")
}

// tried are what the hub was asked about leases since the last time.
func (p *patient) tried() []string {
	var all []string
	for len(p.tries) > 0 {
		all = append(all, <-p.tries)
	}
	return all
}

// A hub that has too much to do is asked for renewals alone, and not much more often than
// otherwise.
func TestABusyHubIsNotAskedForMore(t *testing.T) {
	p := newPatient(t, managedCluster("True", 60), lease())
	p.awaitBeat("at the start")
	p.awaitTimer()
	p.tried()
	p.busy.Store(true)
	p.clock.Step(75 * time.Second)
	if got := <-p.tries; got != "renewal" {
		t.Errorf("the first request after the period is a %s", got)
	}
	p.awaitTimer()
	for range 60 {
		p.clock.Step(time.Second)
		p.awaitTimer()
	}
	if got := p.tried(); len(got) < 3 || len(got) > 6 || slices.Contains(got, "read") {
		t.Errorf("in a minute the hub was asked for %q, want three to six renewals", got)
	}
	p.busy.Store(false)
	if !p.beatsWithin(10, 10*time.Second) {
		t.Error("no heartbeat when the hub has time again")
	}
}

// A hub that is there again hears of the agent at once.
func TestAHubThatComesBackGetsAHeartbeat(t *testing.T) {
	p := newPatient(t, managedCluster("True", 60), lease())
	p.awaitBeat("at the start")
	p.awaitTimer()
	p.busy.Store(true)
	p.clock.Step(75 * time.Second)
	p.tried()
	for range 10 { // the waits have grown
		p.awaitTimer()
		p.clock.Step(60 * time.Second)
	}
	p.awaitTimer()
	p.busy.Store(false)
	p.reopen()
	p.awaitBeat("when the watch is open again")
}
