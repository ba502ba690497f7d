package manager

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Add adds a controller, or something else that runs in the leader alone unless
// it says otherwise. A cache starts before the controllers: what they watch makes them
// read it at once.
func (m *Manager) Add(r manager.Runnable) error {
	if c, ok := r.(cache.Cache); ok && !m.elects {
		return m.Manager.Add(started{c})
	}
	tracked := &runnable{Runnable: r, ended: make(chan struct{})}
	m.runnables = append(m.runnables, tracked)
	return m.Manager.Add(tracked)
}

// started is a cache that the manager starts with its own.
type started struct{ cache.Cache }

// GetCache says so.
func (s started) GetCache() cache.Cache { return s.Cache }

// Run runs the controllers until ctx ends, one of them fails, or the election is
// lost. It calls started once they have seen all objects that they watch; with
// an election, when it begins.
func (m *Manager) Run(ctx context.Context, started func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		if m.elects || m.synced(ctx) {
			started()
		}
	}()
	err := m.Start(ctx)
	// The text is all that controller-runtime says.
	if err == nil || err.Error() != ErrElectionLost.Error() {
		return err
	}
	// controller-runtime stops the controllers then, and does not wait for them.
	wait, stopWaiting := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer stopWaiting()
	for _, r := range m.runnables {
		select {
		case <-r.ended:
		case <-wait.Done():
		}
	}
	return ErrElectionLost
}

// synced waits until the controllers have seen all objects that they watch.
func (m *Manager) synced(ctx context.Context) bool {
	select {
	case <-m.Elected():
	case <-ctx.Done():
		return false
	}
	for _, r := range m.runnables {
		// The manager has begun to warm all of them up. This waits for the end.
		if err := r.Warmup(ctx); err != nil {
			return false // the manager ends with this error
		}
	}
	return ctx.Err() == nil
}

// runnable is one that reports when it has ended.
type runnable struct {
	manager.Runnable
	ended chan struct{}
}

// Start implements manager.Runnable.
func (r *runnable) Start(ctx context.Context) error {
	defer close(r.ended)
	return r.Runnable.Start(ctx)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *runnable) NeedLeaderElection() bool {
	e, ok := r.Runnable.(manager.LeaderElectionRunnable)
	return !ok || e.NeedLeaderElection()
}

// Warmup starts what a controller watches, and waits until it has seen all
// objects that there are.
func (r *runnable) Warmup(ctx context.Context) error {
	if w, ok := r.Runnable.(interface{ Warmup(context.Context) error }); ok {
		return w.Warmup(ctx)
	}
	return nil
}
