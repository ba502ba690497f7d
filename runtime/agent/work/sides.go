package work

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
)

const (
	// userAgent is what the agent calls itself in requests.
	userAgent = "work-agent"
	// untilSynced is how long to wait for the caches: as long as it takes, since
	// both sides may be out of reach for days.
	untilSynced = math.MaxInt64 / 2 * time.Nanosecond
)

// sides are the ways to the hub and to the managed cluster. Typed clients read
// from caches, and each side has one pool of connections.
type sides struct {
	// manager runs all of the agent. Its client and cache are those of the hub.
	manager manager.Manager
	local   cluster.Cluster
	// dynamic, metadata and mapper are for objects of any kind in the managed
	// cluster. The mapper learns of new kinds.
	dynamic  dynamic.Interface
	metadata metadata.Interface
	mapper   meta.RESTMapper
}

// connect prepares the ways to both sides. It sends no request.
func connect(o Options) (s sides, err error) {
	log := logr.FromSlogHandler(o.Log.Handler()).V(4) // what a library calls information
	if s.manager, err = newManager(o, log); err != nil {
		return sides{}, fmt.Errorf("connect to the hub: %w", err)
	}
	config := configFor(o.ManagedCluster)
	if s.local, err = cluster.New(config, func(c *cluster.Options) {
		c.Scheme, c.MapperProvider, c.Logger = api.NewScheme(), staticMapper, log
		c.Cache.DefaultTransform = cache.TransformStripManagedFields()
	}); err != nil {
		return sides{}, fmt.Errorf("connect to the managed cluster: %w", err)
	}
	if err := s.manager.Add(s.local); err != nil {
		return sides{}, err
	}
	if s.mapper, err = apiutil.NewDynamicRESTMapper(config, s.local.GetHTTPClient()); err != nil {
		return sides{}, err
	}
	if s.dynamic, err = dynamic.NewForConfigAndClient(config, s.local.GetHTTPClient()); err != nil {
		return sides{}, err
	}
	s.metadata, err = metadata.NewForConfigAndClient(config, s.local.GetHTTPClient())
	return s, err
}

// newManager makes the manager, with the hub as its cluster.
func newManager(o Options, log logr.Logger) (manager.Manager, error) {
	return manager.New(configFor(o.Hub), manager.Options{
		Scheme:         api.NewScheme(),
		MapperProvider: staticMapper,
		Logger:         log,
		Metrics:        server.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{o.ClusterName: {}},
			DefaultTransform:  cache.TransformStripManagedFields(),
		},
		// What is under way ends before the next session with a hub begins.
		GracefulShutdownTimeout: ptr.To(time.Duration(-1)),
		Controller: config.Controller{
			SkipNameValidation: ptr.To(true), // several agents may live in one process
			CacheSyncTimeout:   untilSynced,
		},
	})
}

func staticMapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return restmapper.Static(), nil
}

func configFor(given *rest.Config) *rest.Config {
	c := rest.CopyConfig(given)
	c.UserAgent, c.QPS = userAgent, -1
	return c
}
