package tunnel

import (
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/muster-fleet/terraform-provider-muster/internal/tunnel"
)

// Limits bound what tunnels cost. Zero is no valid limit.
type Limits struct {
	// PerAccess, PerUser and PerCluster are how many tunnels may be open at a time, at all
	// replicas of the hub together: by one access request, of one user, and to one cluster.
	// PerAccess is 16 at most.
	PerAccess, PerUser, PerCluster int
	// PerMinute is how many tunnels a user may open within a minute, at this replica.
	PerMinute int
	// UserRate and ClusterRate are how many bytes a second all tunnels of a user, and all of
	// a cluster, carry at this replica.
	UserRate, ClusterRate int
}

// Default are the limits of a hub.
func Default() Limits {
	return Limits{
		PerAccess: 8, PerUser: 200, PerCluster: 100, PerMinute: 120,
		UserRate: 32 << 20, ClusterRate: 64 << 20,
	}
}

var (
	openTunnels = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "muster_tunnels", Help: "Tunnels to clusters that are open at this hub.",
	})
	carriedBytes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "muster_tunnel_bytes_total", Help: "Bytes that tunnels to clusters have carried, in both directions.",
	})
)

func init() { metrics.Registry.MustRegister(openTunnels, carriedBytes) }

// share is who shares a rate: a user or a cluster.
type share struct{ user, cluster string }

// allotment is a rate, while anybody has a part in it.
type allotment struct {
	share share
	rate  *rate.Limiter
	users int
}

// allot gives a session a part in a rate. The caller holds the lock.
func (r *Relay) allot(of share, perSecond int) *allotment {
	a := r.shares[of]
	if a == nil {
		a = &allotment{share: of, rate: rate.NewLimiter(rate.Limit(perSecond), max(perSecond/4, tunnel.MaxPacket))}
		r.shares[of] = a
	}
	a.users++
	return a
}

// release takes it back. The caller holds the lock.
func (r *Relay) release(a *allotment) {
	if a.users--; a.users == 0 {
		delete(r.shares, a.share)
	}
}
