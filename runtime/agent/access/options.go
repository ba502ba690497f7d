package access

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// userAgent is what the agent calls itself in requests.
const userAgent = "muster-access-agent"

// Options say whose users are let in where.
type Options struct {
	// ClusterName is the hub namespace that holds the credentials.
	ClusterName string
	// Namespace is the agent's namespace in the managed cluster, which holds the
	// policy of the cluster's owner; cluster.AgentNamespace by default.
	Namespace string
	// HubHost is the hub's URL exactly as in the agent's kubeconfig.
	HubHost string
	// Hub and ManagedCluster are the ways to both sides.
	Hub, ManagedCluster *rest.Config
	// Annotate keeps an annotation on the cluster's ManagedCluster: the value "" is
	// none. It must not block.
	Annotate func(key, value string)
	// Log is the agent's logger, with the cluster's name; nothing is logged by
	// default.
	Log *slog.Logger
	// Clock is the real one by default.
	Clock clock.Clock
}

// Run lets users in until ctx ends, and returns nil then. It returns an error only
// when it cannot start.
func Run(ctx context.Context, o Options) error {
	o.complete()
	hub, err := connect(o.Hub)
	if err != nil {
		return fmt.Errorf("prepare user access: connect to the hub: %w", err)
	}
	local, err := connect(o.ManagedCluster)
	if err != nil {
		return fmt.Errorf("prepare user access: connect to the managed cluster: %w", err)
	}
	(&watcher{Options: o, hub: hub, local: local}).run(ctx)
	return nil
}

// complete sets defaults.
func (o *Options) complete() {
	if o.Namespace == "" {
		o.Namespace = cluster.AgentNamespace
	}
	if o.Annotate == nil {
		o.Annotate = func(string, string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
}

func connect(given *rest.Config) (client.WithWatch, error) {
	config := rest.CopyConfig(given)
	config.UserAgent, config.QPS = userAgent, -1
	return client.NewWithWatch(config, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
}
