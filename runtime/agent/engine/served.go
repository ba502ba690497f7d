package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
)

const (
	// lookPeriod is how often a hub is asked that has no use for a part of the agent.
	lookPeriod = time.Hour
	// Timeout bounds a reconcile of a part, and a question to the hub.
	Timeout = 30 * time.Second
	// Workers is how many objects a part looks after at a time.
	Workers = 8
)

// Part is what a part of the agent needs that not all hubs have a use for. All fields
// are required.
type Part struct {
	// ClusterName is the hub namespace of the cluster.
	ClusterName string
	// Namespace is the agent's own in the managed cluster.
	Namespace string
	// Hub and ManagedCluster are the connections to both sides.
	Hub, ManagedCluster *rest.Config
	// Log is the agent's logger, with the cluster's name.
	Log   *slog.Logger
	Clock clock.WithTicker
}

// Look asks the hub whether it has a use for a part, and returns what to run then; nil
// when it has none. hub and local cache nothing.
type Look func(ctx context.Context, hub, local client.WithWatch) (run func(context.Context) error, err error)

// Run runs a part until ctx ends, and returns nil then. It returns an error only when it
// cannot start. A hub without a use for it is asked again once an hour, and when run has
// ended, at once.
func (p Part) Run(ctx context.Context, name, userAgent string, look Look) error {
	hub, err := connect(p.Hub, userAgent)
	if err != nil {
		return fmt.Errorf("prepare %s: connect to the hub: %w", name, err)
	}
	local, err := connect(p.ManagedCluster, userAgent)
	if err != nil {
		return fmt.Errorf("prepare %s: connect to the managed cluster: %w", name, err)
	}
	failing := retry.New(p.Clock, retry.Start(time.Minute))
	var none retry.Once
	for ctx.Err() == nil {
		run, err := ask(ctx, look, hub, local)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to end
		case err != nil: // also while the hub denies the cluster
			p.Log.Debug("cannot ask the hub for "+name+", trying again", "err", err)
		case run == nil:
			if none.Changed("none") {
				p.Log.Debug("the hub has no " + name + ", asking again once an hour")
			}
			retry.Sleep(ctx, p.Clock, lookPeriod, nil)
			continue
		default:
			none.Clear()
			start := p.Clock.Now()
			if err := run(ctx); err != nil && ctx.Err() == nil {
				p.Log.Debug("cannot look after "+name+", trying again", "err", err)
			}
			if p.Clock.Since(start) > time.Minute {
				failing.Reset()
			}
		}
		failing.Wait(ctx, nil)
	}
	return nil
}

func ask(ctx context.Context, look Look, hub, local client.WithWatch) (run func(context.Context) error, err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return look(ctx, hub, local)
}
