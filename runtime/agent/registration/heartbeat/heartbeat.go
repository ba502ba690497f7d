// Package heartbeat gives the hub a sign of life from time to time, by renewing
// the lease that the hub keeps for the cluster.
package heartbeat

import (
	"context"
	"fmt"
	"log/slog"
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
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// timeout bounds one renewal.
const timeout = 15 * time.Second

// jitter is by how much a period may be longer than the lease duration, as a
// fraction of it, so that a fleet's heartbeats spread.
const jitter = 0.25

// Options are what the heartbeat needs.
type Options struct {
	ClusterName string
	// Hub writes the lease.
	Hub client.Client
	// Clusters mirrors the agent's ManagedCluster.
	Clusters *mirror.Mirror[*clusterv1.ManagedCluster]
	Clock    clock.Clock
	Log      *slog.Logger
	// Beat, if set, is called after each renewal.
	Beat func()
}

// Period is the lease duration by which the agent of this ManagedCluster
// renews its lease, and 0 when it may not.
func Period(c *clusterv1.ManagedCluster) time.Duration {
	if c == nil || !meta.IsStatusConditionTrue(c.Status.Conditions, cluster.ConditionHubAccepted) {
		return 0
	}
	return c.Spec.LeaseDuration()
}

// Run renews the lease, at once and then in every period, while the hub accepts
// the cluster. It returns when ctx ends.
func Run(ctx context.Context, o Options) {
	h := &heart{Options: o}
	changed := o.Clusters.Subscribe()
	period := time.Duration(0)
	due := o.Clock.NewTimer(time.Hour)
	defer func() { due.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			now := h.period()
			if now == period {
				continue
			}
			period = now
			h.failing = nil
		case <-due.C():
		}
		due.Stop()
		if period == 0 {
			continue // until the ManagedCluster changes
		}
		due = o.Clock.NewTimer(h.beat(ctx, period))
	}
}

// heart is what the loop remembers from one beat to the next.
type heart struct {
	Options
	// lease is as the hub returned it last. Nobody else writes it, so that
	// there is mostly no need to read it again.
	lease *coordinationv1.Lease
	// failing is how long to wait while renewals fail; nil while they work.
	failing *retry.Backoff
}

func (h *heart) period() time.Duration {
	c, _ := h.Clusters.Get(h.ClusterName)
	return Period(c)
}

// beat renews the lease and returns after how long to do so again.
func (h *heart) beat(ctx context.Context, period time.Duration) time.Duration {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := h.renew(bounded)
	if err == nil {
		if h.failing != nil {
			h.Log.Debug("the lease on the hub is being renewed again")
		}
		h.failing = nil
		if h.Beat != nil {
			h.Beat()
		}
		return wait.Jitter(period, jitter)
	}
	if ctx.Err() == nil {
		h.Log.Debug("cannot renew the lease on the hub, trying again", "err", err)
	}
	if h.failing == nil {
		// The hub makes the lease only when it has accepted the cluster, a
		// moment after the agent hears of it: hence the short beginning.
		h.failing = retry.New(h.Clock, retry.Quick(min(period, 10*time.Second)))
	}
	return h.failing.Next()
}

func (h *heart) renew(ctx context.Context) error {
	lease := h.lease
	h.lease = nil
	if lease == nil {
		lease = &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: h.ClusterName, Name: cluster.LeaseName}
		if err := h.Hub.Get(ctx, key, lease); err != nil {
			return fmt.Errorf("read the lease %s: %w", key, err)
		}
	}
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(h.Clock.Now()))
	err := h.Hub.Update(ctx, lease)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("renew the lease, which somebody else has changed: %w", err)
	}
	if err != nil {
		return fmt.Errorf("renew the lease %s/%s: %w", h.ClusterName, cluster.LeaseName, err)
	}
	h.lease = lease
	return nil
}
