package registration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

const (
	// fallbackTime is how long the endpoint before a move may be gone back to.
	fallbackTime = 24 * time.Hour
	// minHold and maxHold bound how long an agent stays where it went back to.
	minHold, maxHold = time.Minute, time.Hour
)

// errMoved ends a session whose identity goes on at another endpoint of its hub.
var errMoved = errors.New("the hub has another endpoint")

// follower takes an agent to where its hub says that it is. It goes only to an
// endpoint that has proved to be the same hub, and says why when it stays.
type follower struct {
	*session
	published *mirror.Mirror[*corev1.ConfigMap]
	// news wakes the follower, and known is closed when it has looked once.
	news  loop.Signal
	known chan struct{}
	// failing is how long to wait while the published endpoint can't be used.
	failing *retry.Backoff
	problem retry.Once
	// asked is the generation for which the agent has asked for a certificate of
	// the new authority.
	asked int64
}

func newFollower(s *session) *follower {
	f := &follower{session: s, news: loop.NewSignal(), known: make(chan struct{}), failing: retry.New(s.Clock, retry.Restart(5*time.Minute))}
	var once retry.Once
	f.published = mirror.New(mirror.Options[*corev1.ConfigMap]{
		Client: s.hub, List: &corev1.ConfigMapList{}, Clock: s.Clock,
		Select: []client.ListOption{client.InNamespace(metav1.NamespacePublic), client.MatchingFields{"metadata.name": hubinfo.EndpointsName}},
		// A hub of upstream refuses, and is asked once in an hour.
		Backoff: &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 30, Cap: time.Hour},
		Report: func(err error) {
			if err != nil && once.Changed(err.Error()) {
				s.Log.Debug("cannot follow where the hub is, trying again", "err", err)
			}
			f.news.Set()
		},
	})
	f.published.Notify(f.news)
	return f
}

// run follows until ctx ends. An agent with several hubs to choose from stays where
// its bootstrap kubeconfigs lead.
func (f *follower) run(ctx context.Context) {
	done := make(chan struct{})
	go func() { defer close(done); f.published.Run(ctx) }()
	defer func() { <-done }()
	loop.Run(ctx, f.Clock, f.news, loop.Never, f.pass)
}

// pass looks once, and returns after how long to look again.
func (f *follower) pass(ctx context.Context) time.Duration {
	if f.known != nil {
		defer func(known chan struct{}) { close(known) }(f.known)
		f.known = nil
	}
	config, ok := f.published.GetNamespaced(metav1.NamespacePublic, hubinfo.EndpointsName)
	if !ok {
		return loop.Never
	}
	id := f.identity()
	published, err := hubinfo.ParseEndpoints(config.Data)
	if err != nil {
		f.report(id.Place.Generation, metav1.ConditionFalse, muster.ReasonEndpointsInvalid, "what the hub publishes cannot be used, and the agent stays at "+id.Hub.Server+": "+err.Error())
		return loop.Never
	}
	if uid := id.Place.HubUID; uid != "" && uid != published.HubUID {
		f.report(id.Place.Generation, metav1.ConditionFalse, muster.ReasonAnotherHub,
			fmt.Sprintf("the hub publishes the UID %s, and the agent knows it by %s: it stays at %s", published.HubUID, uid, id.Hub.Server))
		return loop.Never
	}
	wanted, own := identity.Wanted(id.Hub, published)
	if f.several() {
		wanted, own = id.Hub, true
	}
	if !wanted.Equal(id.Hub) {
		return f.moveTo(ctx, wanted, published)
	}
	f.failing.Reset()
	return f.arrived(ctx, published, own)
}

// moveTo goes over to an endpoint if that is the same hub.
func (f *follower) moveTo(ctx context.Context, wanted identity.Endpoint, published hubinfo.Endpoints) time.Duration {
	id, now := f.identity(), f.Clock.Now()
	if left := id.Place.HoldUntil.Sub(now); left > 0 {
		f.report(id.Place.Generation, metav1.ConditionFalse, muster.ReasonFellBack, fmt.Sprintf("the agent went back to %s, as the hub was lost at %s; it tries that again from %s on",
			id.Hub.Server, wanted.Server, id.Place.HoldUntil.UTC().Format(time.RFC3339)))
		return left
	}
	if err := f.prove(ctx, wanted, published.HubUID); err != nil {
		return f.stay(ctx, id, err)
	}
	from := id.Hub
	err := f.change(ctx, func(id identity.Identity) identity.Identity {
		id = id.MoveTo(wanted)
		id.Place.HubUID, id.Place.Generation, id.Place.URLs = published.HubUID, published.Generation, published.URLs
		id.Place.Fallback, id.Place.FallbackUntil = &from, now.Add(fallbackTime)
		return id
	})
	if err != nil {
		return f.failing.Next()
	}
	f.Log.Info("the hub has another endpoint, and the agent goes over to it", "from", from.Server, "to", wanted.Server, "generation", published.Generation)
	f.end(errMoved)
	return loop.Never
}

// stay reports why the agent does not move.
func (f *follower) stay(ctx context.Context, id identity.Identity, err error) time.Duration {
	if ctx.Err() != nil {
		return loop.Never
	}
	var because *refusal
	if errors.As(err, &because) {
		level := slog.LevelDebug
		if f.problem.Changed(because.message) {
			level = slog.LevelWarn
		}
		f.Log.Log(ctx, level, "the agent stays where it is, as the hub's new endpoint cannot be used", "at", id.Hub.Server, "err", err)
		f.report(id.Place.Generation, metav1.ConditionFalse, because.reason, "the agent stays at "+id.Hub.Server+": "+because.message)
	} else {
		f.Log.Debug("cannot find out whether the hub has moved, trying again", "err", err)
	}
	return f.failing.Next()
}

// arrived notes that the agent is where it should be, and sees to what is left to
// do: the bootstrap kubeconfig, the end of the way back, the certificate.
func (f *follower) arrived(ctx context.Context, published hubinfo.Endpoints, own bool) time.Duration {
	now := f.Clock.Now()
	err := f.change(ctx, func(id identity.Identity) identity.Identity {
		p := &id.Place
		p.HubUID, p.Generation, p.URLs = published.HubUID, published.Generation, published.URLs
		if p.Origin == "" {
			p.Origin = id.Hub.Server
		}
		if p.Fallback != nil && !now.Before(p.FallbackUntil) {
			p.Fallback, p.FallbackUntil, p.Hold, p.HoldUntil = nil, time.Time{}, 0, time.Time{}
		}
		return id
	})
	if err != nil {
		return f.failing.Next()
	}
	id := f.identity()
	next := loop.Never
	if id.Place.Fallback != nil {
		next = id.Place.FallbackUntil.Sub(now)
	}
	if err := f.rewriteBootstrap(ctx, id); err != nil {
		f.Log.Warn("cannot write the hub's new endpoint into the bootstrap kubeconfig, trying again: the old one counts as the same hub until then", "err", err)
		next = min(next, f.failing.Next())
	}
	switch {
	case id.SignedByFormer(published.CABundle):
		if f.asked != published.Generation {
			f.asked = published.Generation
			f.outdated.Store(true)
			f.stored.Set() // wakes renewals
		}
		f.report(published.Generation, metav1.ConditionFalse, muster.ReasonFormerAuthority, "the agent's certificate is still one of the hub's former authority")
	case own:
		f.report(published.Generation, metav1.ConditionTrue, muster.ReasonOwnEndpoint, "the agent keeps "+id.Hub.Server+", which the hub has not published")
	default:
		f.report(published.Generation, metav1.ConditionTrue, muster.ReasonEndpointCurrent, "the agent uses "+id.Hub.Server)
	}
	return next
}

func (f *follower) report(generation int64, status metav1.ConditionStatus, reason, message string) {
	f.status.Report(metav1.Condition{
		Type: muster.ConditionHubEndpointCurrent, Status: status, Reason: reason,
		Message: fmt.Sprintf(muster.FormatEndpointGeneration, generation, message),
	})
}
