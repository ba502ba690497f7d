package registration

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// followStanding says in the log how the cluster stands with the hub.
func (s *session) followStanding(ctx context.Context) {
	loop.Run(ctx, s.Clock, s.clusters.Subscribe(), loop.Never, func(context.Context) time.Duration {
		mc, _ := s.clusters.Get(s.ClusterName)
		level, state := s.standing(mc)
		s.say(level, state)
		return loop.Never
	})
}

func (s *session) standing(mc *clusterv1.ManagedCluster) (slog.Level, string) {
	server := s.identity().Hub.Server
	if mc == nil {
		return slog.LevelWarn, fmt.Sprintf("the hub %s no longer has the ManagedCluster %s, waiting for it to be created again",
			server, s.ClusterName)
	}
	accepted := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionHubAccepted)
	switch {
	case !mc.DeletionTimestamp.IsZero():
		return slog.LevelInfo, fmt.Sprintf("the hub %s is letting the cluster go, cleaning up behind its works", server)
	case accepted == nil:
		return slog.LevelInfo, s.waitingForAcceptance()
	case accepted.Status == metav1.ConditionTrue:
		return slog.LevelInfo, fmt.Sprintf("the cluster is registered with the hub %s", server)
	}
	return slog.LevelWarn, fmt.Sprintf("the hub %s has denied the cluster, waiting to be accepted again: clusteradm accept --clusters %s",
		server, s.ClusterName)
}

// watchForAcceptance notices at once when a hub that refuses the agent's own
// identity accepts the cluster. The bootstrap identity may watch the
// ManagedCluster; without it, or when it has expired, the agent's own attempts
// find out somewhat later.
func (s *session) watchForAcceptance(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.shut:
			s.watchAsBootstrap(ctx)
		}
	}
}

// watchAsBootstrap returns when the agent's own identity is let in, or the
// bootstrap identity is refused as well.
func (s *session) watchAsBootstrap(ctx context.Context) {
	bootstrap, err := s.source.current()
	if err != nil {
		return
	}
	hub, err := s.newClient(bootstrap.Config)
	if err != nil {
		return
	}
	refused := loop.NewSignal()
	clusters := s.mirrorCluster(hub, func(err error) {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			refused.Set()
		}
	})
	changed := clusters.Subscribe()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); clusters.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.open:
			return
		case <-refused:
			return
		case <-changed:
			s.clusters.Wake()
		}
	}
}
