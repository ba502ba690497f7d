package agent

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

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
	delay := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: time.Minute}.DelayFunc()
	told := ""
	for first := true; ; first = false {
		err := i.install(ctx)
		if err == nil {
			close(i.done)
		}
		if first {
			close(i.tried)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		if err.Error() != told {
			told = err.Error()
			i.log.Warn("cannot install the agent's kinds in the managed cluster, trying again; until then no works are carried out", "err", err)
		}
		timer := i.clock.NewTimer(delay())
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
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
