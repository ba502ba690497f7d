package work

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
)

// userAgent is what the agent calls itself in requests.
const userAgent = "work-agent"

// newEngine prepares the ways to both sides. It sends no request.
func newEngine(o Options) (*engine.Engine, error) {
	return engine.New(engine.Options{
		Hub: o.Hub, ManagedCluster: o.ManagedCluster, UserAgent: userAgent, Log: o.Log,
		HubCache: cache.Options{DefaultNamespaces: map[string]cache.Config{o.ClusterName: {}}},
	})
}

// clients are for objects of any kind in the managed cluster, and share its pool of
// connections. The mapper learns of new kinds.
type clients struct {
	dynamic  dynamic.Interface
	metadata metadata.Interface
	mapper   meta.RESTMapper
}

func newClients(local cluster.Cluster) (c clients, err error) {
	if c.mapper, err = apiutil.NewDynamicRESTMapper(local.GetConfig(), local.GetHTTPClient()); err != nil {
		return clients{}, err
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(local.GetConfig(), local.GetHTTPClient()); err != nil {
		return clients{}, err
	}
	c.metadata, err = metadata.NewForConfigAndClient(local.GetConfig(), local.GetHTTPClient())
	return c, err
}
