package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
)

// installTimeout bounds one attempt.
const installTimeout = 30 * time.Second

// installation puts the definitions of the kinds that an agent needs into the
// managed cluster.
type installation struct {
	config *rest.Config
	clock  clock.Clock
	log    *slog.Logger
	// tried is closed after the first attempt, done after the one that worked.
	tried, done chan struct{}
}

func newInstallation(config *rest.Config, clk clock.Clock, log *slog.Logger) *installation {
	return &installation{config: config, clock: clk, log: log, tried: make(chan struct{}), done: make(chan struct{})}
}

// run tries until it works, or ctx ends.
func (i *installation) run(ctx context.Context) {
	var (
		problem retry.Once
		tried   sync.Once
	)
	err := retry.Until(ctx, i.clock, retry.Start(time.Minute), func(ctx context.Context) error {
		defer tried.Do(func() { close(i.tried) })
		err := i.install(ctx)
		if err != nil && ctx.Err() == nil && problem.Changed(err.Error()) {
			i.log.Warn("cannot install the agent's kinds in the managed cluster, trying again; until then no works are carried out", "err", err)
		}
		return err
	})
	if err == nil {
		close(i.done)
	}
}

func (i *installation) install(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	kinds, err := crds.ManagedCluster()
	if err != nil {
		return err
	}
	return definitions.Install(ctx, i.config, kinds)
}
