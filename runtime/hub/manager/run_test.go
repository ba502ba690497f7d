package manager_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/manager"
)

// started is a cache that notes when it is started.
type started struct {
	cache.Cache
	synced atomic.Bool
}

func (s *started) Start(ctx context.Context) error {
	s.synced.Store(true)
	<-ctx.Done()
	return nil
}

func (s *started) WaitForCacheSync(context.Context) bool { return s.synced.Load() }

// first is a controller that reads from a cache as soon as it watches.
type first struct {
	cache *started
	done  context.CancelFunc
	early atomic.Bool
}

func (f *first) Start(ctx context.Context) error { <-ctx.Done(); return nil }

func (f *first) Warmup(context.Context) error {
	f.early.Store(!f.cache.synced.Load())
	f.done()
	return nil
}

// What controllers watch makes them read from their caches, also from those that are
// apart from the manager's. A cache that is not started yet has nothing but an error for
// each object of the fleet.
func TestCachesStartBeforeTheControllers(t *testing.T) {
	m, err := manager.New(&rest.Config{Host: "127.0.0.1:1"}, manager.Options{Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	own := &started{}
	reader := &first{cache: own, done: cancel}
	if err := m.Add(reader); err != nil {
		t.Fatal(err)
	}
	if err := m.Add(own); err != nil {
		t.Fatal(err)
	}
	if err := m.Run(ctx, func() {}); err != nil {
		t.Fatal(err)
	}
	if reader.early.Load() {
		t.Error("a controller watches before its cache is started")
	}
}
