package hub

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/tunnel"
)

// tunnels takes, among the requests that were authorized, the ends of tunnels.
type tunnels struct {
	relay atomic.Pointer[tunnel.Relay]
	// rights has an element when rights have changed.
	rights chan struct{}
}

func newTunnels() *tunnels { return &tunnels{rights: make(chan struct{}, 1)} }

// serve puts the relay in front of the API. The server has to run before there is one.
func (t *tunnels) serve(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if relay := t.relay.Load(); relay != nil && tunnel.Matches(r) {
			relay.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// wake has the rights of those with open tunnels checked soon.
func (t *tunnels) wake() {
	select {
	case t.rights <- struct{}{}:
	default:
	}
}

// settle is how long changes of rights are gathered before they are looked at: one
// withdrawal may be several of them.
const settle = 100 * time.Millisecond

// serveTunnels begins to take tunnels, and closes them when ctx ends.
func (o Options) serveTunnels(ctx context.Context, server *controlplane.Server) error {
	if !o.Features.Enabled(features.Tunnel) || !o.Features.Enabled(features.UserAccess) {
		return nil
	}
	c, err := client.New(
		server.RESTConfig("muster-tunnel"),
		client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()},
	)
	if err != nil {
		return err
	}
	relay := tunnel.New(tunnel.Options{
		Client: c, Authorizer: server.Authorizer, Replica: o.replica, Limits: *o.Tunnels, Clock: o.Clock,
		Log: o.Log.WithName("tunnel"),
	})
	o.tunnels.relay.Store(relay)
	go relay.Run(ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-o.tunnels.rights:
			}
			retry.Sleep(ctx, clock.RealClock{}, settle, nil)
			relay.RightsChanged(ctx)
		}
	}()
	return nil
}

// follow ends tunnels with the access that they were opened by, in all replicas.
func (t *tunnels) follow(ctx context.Context, objects cache.Cache) error {
	relay := t.relay.Load()
	if relay == nil {
		return nil
	}
	requests, err := objects.GetInformer(ctx, &v1alpha1.AccessRequest{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch access requests: %w", err)
	}
	credentials, err := objects.GetInformer(ctx, &v1alpha1.ClusterCredential{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch cluster credentials: %w", err)
	}
	return relay.Follow(requests, credentials)
}
