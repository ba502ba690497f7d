package hub_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/manager"
)

// electing makes a manager that wins the election of the Lease "leader" in a
// namespace, and adds r to it.
func electing(t *testing.T, namespace string, r ctrlmanager.Runnable) *manager.Manager {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "leader", nil, clientset.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: "first"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := manager.New(admin, manager.Options{Log: logr.Discard(), Election: &manager.Election{
		Lock: lock, LeaseDuration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 100 * time.Millisecond,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Add(r); err != nil {
		t.Fatal(err)
	}
	return m
}

// A replica that another one has replaced as leader ends its controllers before
// it says so.
func TestALostElectionEndsTheControllersFirst(t *testing.T) {
	ctx, namespace := context.Background(), testenv.Namespace(t, clientFor(t, admin))
	var ended atomic.Bool
	m := electing(t, namespace, ctrlmanager.RunnableFunc(func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		lease.Namespace, lease.Name = namespace, "leader"
		other := client.RawPatch("application/merge-patch+json",
			[]byte(`{"spec":{"holderIdentity":"second","leaseDurationSeconds":3600,"renewTime":"`+time.Now().UTC().Format(metav1.RFC3339Micro)+`"}}`))
		if err := clientFor(t, admin).Patch(ctx, lease, other); err != nil {
			return err
		}
		<-ctx.Done()
		time.Sleep(300 * time.Millisecond) // what is under way takes its time
		ended.Store(true)
		return nil
	}))
	if err := m.Run(ctx, func() {}); !errors.Is(err, manager.ErrElectionLost) {
		t.Fatalf("got %v, want %v", err, manager.ErrElectionLost)
	}
	if !ended.Load() {
		t.Error("the controllers were still running")
	}
}

func TestAnErrorOfALeadersControllerEndsIt(t *testing.T) {
	failure := errors.New("no more")
	m := electing(t, testenv.Namespace(t, clientFor(t, admin)), ctrlmanager.RunnableFunc(func(context.Context) error { return failure }))
	if err := m.Run(context.Background(), func() {}); !errors.Is(err, failure) {
		t.Fatalf("got %v, want %v", err, failure)
	}
}

// A manager has started when its controllers have seen all that they watch, even
// if no controller had asked for the kind before.
func TestAManagerHasStartedWhenItsControllersHaveSeenAll(t *testing.T) {
	names := map[string]bool{"started-one": true, "started-two": true, "started-three": true}
	for name := range names {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(false)}}
		if err := clientFor(t, admin).Create(context.Background(), mc); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = clientFor(t, admin).Delete(context.Background(), mc) })
	}
	m, err := manager.New(admin, manager.Options{Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	var seen atomic.Int32
	counting := predicate.NewPredicateFuncs(func(o client.Object) bool {
		if names[o.GetName()] {
			seen.Add(1)
		}
		return true
	})
	ignore := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
	if err := builder.ControllerManagedBy(m).For(&clusterv1.ManagedCluster{}, builder.WithPredicates(counting)).Complete(ignore); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = m.Run(ctx, func() {
		if n := int(seen.Load()); n != len(names) {
			t.Errorf("started with %d of %d clusters", n, len(names))
		}
		cancel()
	})
	if err != nil {
		t.Fatal(err)
	}
}
