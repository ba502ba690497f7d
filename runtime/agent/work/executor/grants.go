package executor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/watches"
)

// grant is one question about rights: who may do what to which object.
type grant struct {
	user, verb                                string
	group, version, resource, namespace, name string
}

// settling is for how long after a change answers are not remembered: the API
// server judges by a view of the roles that lags behind, like ours.
const settling = time.Second

// Grants remembers the answers until a role or a binding of the cluster
// changes. It then wakes the works that depend on answers, so that a right that
// is given or taken takes effect at once.
type Grants struct {
	client metadata.Interface
	clock  clock.Clock
	log    *slog.Logger
	wake   func()
	news   chan struct{}

	mu      sync.Mutex
	answers map[grant]bool
	trusted bool // all watches are up, and nothing has changed lately
	changes int  // counts the times at which all answers were forgotten
}

// NewGrants makes grants that remember nothing until they are started. wake is
// called when rights may have changed.
func NewGrants(client metadata.Interface, clock clock.Clock, log *slog.Logger, wake func()) *Grants {
	return &Grants{client: client, clock: clock, log: log, wake: wake, news: make(chan struct{}, 1), answers: map[grant]bool{}}
}

// Start watches roles and bindings until ctx ends. Until it sees them all,
// nothing is remembered.
func (g *Grants) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	var synced []cache.InformerSynced
	for _, resource := range []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"} {
		informer := watches.Identities(g.client, rbacv1.SchemeGroupVersion.WithResource(resource))
		_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			g.log.Debug("watching who may do what", "resource", resource, "err", err)
			g.changed()
		})
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { g.changed() },
			UpdateFunc: func(any, any) { g.changed() },
			DeleteFunc: func(any) { g.changed() },
		})
		synced = append(synced, informer.HasSynced)
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		g.follow(ctx)
	}
	return nil
}

// follow wakes the works at each change, and once more when nothing has changed
// for a while.
func (g *Grants) follow(ctx context.Context) {
	settled := g.clock.NewTimer(settling)
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.news:
			settled.Reset(settling)
		case <-settled.C():
			g.trust(true)
		}
		g.wake()
	}
}

func (g *Grants) changed() {
	g.trust(false)
	select {
	case g.news <- struct{}{}:
	default:
	}
}

// trust forgets all answers, and says whether the next ones may be remembered.
func (g *Grants) trust(yes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.answers)
	g.trusted = yes
	g.changes++
}

// allowed answers a question, by asking unless the answer is known. A nil grants
// always asks.
func (g *Grants) allowed(q grant, ask func() (bool, error)) (bool, error) {
	if g == nil {
		return ask()
	}
	g.mu.Lock()
	answer, known := g.answers[q]
	before := g.changes
	g.mu.Unlock()
	if known {
		return answer, nil
	}
	answer, err := ask()
	if err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// An answer to a question from before a change may be one from before it, too.
	if g.trusted && g.changes == before {
		g.answers[q] = answer
	}
	return answer, nil
}
