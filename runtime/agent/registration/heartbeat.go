package registration

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// beatTimeout bounds one renewal of the lease.
const beatTimeout = 15 * time.Second

// beatJitter is by how much a period may be longer than the lease duration, as a
// fraction of it, so that a fleet's heartbeats spread.
const beatJitter = 0.25

// beatPeriod is the lease duration by which the agent of this ManagedCluster
// renews its lease, and 0 when it may not.
func beatPeriod(c *clusterv1.ManagedCluster) time.Duration {
	if c == nil || !meta.IsStatusConditionTrue(c.Status.Conditions, cluster.ConditionHubAccepted) {
		return 0
	}
	return c.Spec.LeaseDuration()
}

// heart gives the hub a sign of life in every period, by renewing the lease that the hub
// keeps for the cluster.
//
// The lease controller of k8s.io/component-helpers, which kubelets use, creates the lease
// when it is missing, which an agent may not. Its period is fixed and has no jitter, while
// the hub sets and changes the agent's period. client-go's leaderelection takes a lease
// away from others, and there are none.
type heart struct {
	clusterName string
	hub         client.Client
	clusters    *mirror.Mirror[*clusterv1.ManagedCluster]
	clock       clock.Clock
	log         *slog.Logger
	beat        func() // is called after each renewal
	// lease is as the hub returned it last. Hardly anything else writes it, so that
	// there is mostly no need to read it again.
	lease *coordinationv1.Lease
	// period is the present one, 0 for none, and due the time of the next beat.
	period time.Duration
	due    time.Time
	// failing is how long to wait while renewals fail; nil while they work. answers says that
	// the hub has opened a watch, so that it may be there again.
	failing *retry.Backoff
	answers atomic.Bool
}

// run renews the lease, at once and then in every period, while the hub accepts
// the cluster. It returns when ctx ends.
func (h *heart) run(ctx context.Context) {
	news := h.clusters.Subscribe()
	h.clusters.OnOpen(func() {
		h.answers.Store(true)
		news.Set()
	})
	loop.Run(ctx, h.clock, news, loop.Never, h.pass)
}

// pass renews the lease when that is due, or when the period has changed, and
// returns after how long to look again.
func (h *heart) pass(ctx context.Context) time.Duration {
	c, _ := h.clusters.Get(h.clusterName)
	if period := beatPeriod(c); period != h.period {
		h.period, h.due, h.failing = period, h.clock.Now(), nil
	}
	if h.period == 0 {
		return loop.Never
	}
	if h.answers.Swap(false) && h.failing != nil {
		h.due = h.clock.Now()
	}
	if left := h.due.Sub(h.clock.Now()); left > 0 {
		return left
	}
	after := h.renewLease(ctx, h.period)
	h.due = h.clock.Now().Add(after)
	return after
}

// renewLease renews the lease and returns after how long to do so again.
func (h *heart) renewLease(ctx context.Context, period time.Duration) time.Duration {
	bounded, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	err := h.renew(bounded)
	if err == nil {
		if h.failing != nil {
			h.log.Debug("the lease on the hub is being renewed again")
		}
		h.failing = nil
		h.beat()
		return wait.Jitter(period, beatJitter)
	}
	if ctx.Err() == nil {
		h.log.Debug("cannot renew the lease on the hub, trying again", "err", err)
	}
	if h.failing == nil {
		// A hub that has too much to do is asked less and less often.
		policy := retry.Restart(min(period, time.Minute))
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsConflict(err) {
			// The hub makes the lease only when it has accepted the cluster, a
			// moment after the agent hears of it: hence the short beginning.
			policy = retry.Quick(min(period, 10*time.Second))
		}
		h.failing = retry.New(h.clock, policy)
	}
	return h.failing.Next()
}

func (h *heart) renew(ctx context.Context) error {
	lease := h.lease
	if lease == nil {
		lease = &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: h.clusterName, Name: cluster.LeaseName}
		if err := h.hub.Get(ctx, key, lease); err != nil {
			return fmt.Errorf("read the lease %s: %w", key, err)
		}
	}
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(h.clock.Now()))
	err := h.hub.Update(ctx, lease)
	// A hub that has too much to do is not asked for more than the renewal. Where that has
	// arrived and its answer has not, the next one is a conflict.
	h.lease = lease
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		h.lease = nil
	}
	if apierrors.IsConflict(err) {
		return fmt.Errorf("renew the lease, which something else has changed: %w", err)
	}
	if err != nil {
		return fmt.Errorf("renew the lease %s/%s: %w", h.clusterName, cluster.LeaseName, err)
	}
	return nil
}
