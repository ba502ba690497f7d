package engine

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
)

// untilSynced is how long to wait for the caches: as long as it takes, since both
// sides may be out of reach for days.
const untilSynced = math.MaxInt64 / 2 * time.Nanosecond

// Options say between which sides the controllers are, and what they watch.
type Options struct {
	// Hub and ManagedCluster are the connections to both sides.
	Hub, ManagedCluster *rest.Config
	// UserAgent is what requests name as their client.
	UserAgent string
	// HubCache and LocalCache select what is watched.
	HubCache, LocalCache cache.Options
	// Log gets what controller-runtime logs, as debug messages.
	Log *slog.Logger
	// Clock is that of the queues; nil for those of controller-runtime, which prefer
	// what has changed to what was there at the start.
	Clock clock.WithTicker
}

// Engine runs controllers. Make it with New.
type Engine struct {
	// Manager runs them. Its cache and client are those of the hub.
	manager.Manager
	// Local is the managed cluster.
	Local cluster.Cluster

	clock clock.WithTicker
	log   *slog.Logger
}

// New makes an engine without controllers. It sends no request.
func New(o Options) (*Engine, error) {
	log := logr.FromSlogHandler(o.Log.Handler()).V(4) // what a library calls information
	o.HubCache.DefaultTransform = cache.TransformStripManagedFields()
	o.LocalCache.DefaultTransform = cache.TransformStripManagedFields()
	m, err := manager.New(o.config(o.Hub), manager.Options{
		Scheme:         api.NewScheme(),
		MapperProvider: staticMapper,
		Logger:         log,
		Metrics:        server.Options{BindAddress: "0"},
		Cache:          o.HubCache,
		// What is under way ends before the next session with a hub begins.
		GracefulShutdownTimeout: ptr.To(time.Duration(-1)),
		Controller: config.Controller{
			SkipNameValidation: ptr.To(true), // several agents may live in one process
			CacheSyncTimeout:   untilSynced,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	local, err := cluster.New(o.config(o.ManagedCluster), func(c *cluster.Options) {
		c.Scheme, c.MapperProvider, c.Logger, c.Cache = api.NewScheme(), staticMapper, log, o.LocalCache
	})
	if err == nil {
		err = m.Add(local)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the managed cluster: %w", err)
	}
	return &Engine{Manager: m, Local: local, clock: o.Clock, log: o.Log}, nil
}

// InNamespace selects the objects of one namespace for a cache. With a list of
// namespaces a cache asks the mapper for kinds of lists, which it does not know.
func InNamespace(namespace string) fields.Selector {
	return fields.OneTermEqualSelector("metadata.namespace", namespace)
}

// connect makes a client that caches nothing. It sends no request.
func connect(given *rest.Config, userAgent string) (client.WithWatch, error) {
	config := Options{UserAgent: userAgent}.config(given)
	return client.NewWithWatch(config, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
}

func (o Options) config(given *rest.Config) *rest.Config {
	c := rest.CopyConfig(given)
	c.UserAgent, c.QPS = o.UserAgent, -1
	return c
}

func staticMapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return restmapper.Static(), nil
}
