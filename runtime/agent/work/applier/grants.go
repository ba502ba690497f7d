package applier

import (
	"context"
	"log/slog"
	"maps"
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

// yesAge and noAge are how long answers are remembered when no role changes, as an
// API server remembers those of its webhook: not every authorizer goes by roles.
const (
	yesAge = 5 * time.Minute
	noAge  = 30 * time.Second
)

// answer is one that is remembered for a while.
type answer struct {
	yes   bool
	until time.Time
}

// Grants remembers the answers for a while, and until a role or a binding of the
// cluster changes. It then queues the works that depend on answers, so that a right
// that is given or taken takes effect at once.
type Grants struct {
	client  metadata.Interface
	clock   clock.Clock
	log     *slog.Logger
	notify  func()
	changes chan struct{}

	mu      sync.Mutex
	answers map[grant]answer
	swept   time.Time // when the answers that are too old were last removed
	trusted bool      // all watches are up, and nothing has changed lately
	forgets int       // how often all answers were forgotten
}

// NewGrants makes grants that remember nothing until they are started. notify
// is called when rights may have changed.
func NewGrants(client metadata.Interface, clock clock.Clock, log *slog.Logger, notify func()) *Grants {
	return &Grants{
		client: client, clock: clock, log: log, notify: notify,
		changes: make(chan struct{}, 1), answers: map[grant]answer{},
	}
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

// follow queues the works at each change, and once more when nothing has changed
// for a while.
func (g *Grants) follow(ctx context.Context) {
	settled := g.clock.NewTimer(settling)
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.changes:
			settled.Reset(settling)
		case <-settled.C():
			g.trust(true)
		}
		g.notify()
	}
}

func (g *Grants) changed() {
	g.trust(false)
	select {
	case g.changes <- struct{}{}:
	default:
	}
}

// trust forgets all answers, and says whether the next ones may be remembered.
func (g *Grants) trust(yes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.answers)
	g.trusted = yes
	g.forgets++
}

// allowed answers a question, by asking unless the answer is known. A nil grants
// always asks.
func (g *Grants) allowed(q grant, ask func() (bool, error)) (bool, error) {
	if g == nil {
		return ask()
	}
	g.mu.Lock()
	known := g.answers[q]
	before := g.forgets
	g.mu.Unlock()
	now := g.clock.Now()
	if now.Before(known.until) {
		return known.yes, nil
	}
	yes, err := ask()
	if err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// An answer to a question from before a change may be one from before it, too.
	if g.trusted && g.forgets == before {
		g.remember(q, yes, now)
	}
	return yes, nil
}

// remember remembers an answer, and removes those that are too old, now and then.
// It is called with g.mu held.
func (g *Grants) remember(q grant, yes bool, now time.Time) {
	age := noAge
	if yes {
		age = yesAge
	}
	g.answers[q] = answer{yes, now.Add(age)}
	if now.Sub(g.swept) >= yesAge {
		g.swept = now
		maps.DeleteFunc(g.answers, func(_ grant, a answer) bool { return !now.Before(a.until) })
	}
}
