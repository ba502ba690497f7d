package registration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/status"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// session is the time during which one identity is in use.
type session struct {
	*Registration
	credentials *identity.Credentials
	hub         client.WithWatch
	clusters    *mirror.Mirror[*clusterv1.ManagedCluster]
	status      *status.Controller
	// end ends the session for a reason.
	end context.CancelCauseFunc

	// shut has news when the hub refuses to show the ManagedCluster, and open when
	// it shows it.
	shut, open loop.Signal
	// hidden has news whenever the hub has refused to show the ManagedCluster.
	hidden   loop.Signal
	lastBeat atomic.Pointer[time.Time]
	// lastContact is when the hub answered last.
	lastContact atomic.Pointer[time.Time]

	// follower is set once the session may report.
	follower atomic.Pointer[follower]
	// silentSince is when the hub was last lost, nil while it answers; silent has
	// news when that may have changed.
	silentSince atomic.Pointer[time.Time]
	silent      loop.Signal
	// outdated says that the agent is to get a certificate of the hub's new
	// authority.
	outdated atomic.Bool
	// changing is held while the identity is changed.
	changing sync.Mutex

	mu sync.Mutex
	id identity.Identity
}

// serve uses an identity for as long as it is good and returns why it no longer
// is.
func (r *Registration) serve(ctx context.Context, id identity.Identity) error {
	credentials, err := identity.NewCredentials(id)
	if err != nil {
		return err
	}
	defer credentials.Close()
	if !r.several() { // whose agents have to notice soon that one is gone
		credentials.WaitForHub()
	}
	hub, err := r.newClient(credentials.Config(r.UserAgent))
	if err != nil {
		return fmt.Errorf("prepare the connection to the hub %s: %w", id.Hub.Server, err)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s := &session{
		Registration: r, credentials: credentials, hub: hub, end: end, id: id,
		shut: loop.NewSignal(), open: loop.NewSignal(), hidden: loop.NewSignal(), silent: loop.NewSignal(),
	}
	s.lastBeat.Store(&time.Time{})
	s.clusters = s.mirrorCluster(hub, s.clusterReport)
	s.noteExpiry(id)
	s.publish(id)
	s.run(ctx)
	return context.Cause(ctx)
}

// run returns when ctx has ended, and everything that it started.
func (s *session) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.clusters.Run(ctx) })
	running.Go(func() { s.followStanding(ctx) })
	running.Go(func() { s.watchForAcceptance(ctx) })
	running.Go(func() { s.guard(ctx) })
	running.Go(func() { s.watchHub(ctx) })
	running.Go(func() { s.seekHub(ctx) })
	running.Go(func() { s.deleteBootstrap(ctx) })
	select {
	case <-s.Ready:
	case <-ctx.Done():
		return
	}
	follow := newFollower(s)
	s.status = s.newStatus(follow.known)
	s.follower.Store(follow)
	running.Go(func() { follow.run(ctx) })
	running.Go(func() { s.renewals(ctx) })
	running.Go(func() { s.followRenewalRequests(ctx) })
	running.Go(func() { s.status.Run(ctx) })
	heart := &heart{
		clusterName: s.ClusterName, hub: s.hub, clusters: s.clusters, clock: s.Clock, log: s.Log, beat: s.beat,
	}
	running.Go(func() { heart.run(ctx) })
	running.Go(func() { s.runAccepted(ctx) })
}

func (s *session) newStatus(await ...<-chan struct{}) *status.Controller {
	id := s.identity()
	return status.New(status.Options{
		ClusterName:   s.ClusterName,
		Instance:      cluster.AgentReportingController + "-" + id.Agent,
		HubURL:        id.WorksHost(),
		Hub:           s.hub,
		Clusters:      s.clusters,
		Local:         s.Local,
		LocalREST:     s.LocalREST,
		Claims:        s.Claims,
		ClientConfigs: s.ClientConfigs,
		HealthPeriod:  s.HealthPeriod,
		LastBeat:      func() time.Time { return *s.lastBeat.Load() },
		Await:         await,
		Clock:         s.Clock,
		Log:           s.Log,
	})
}

func (s *session) beat() {
	now := s.Clock.Now()
	s.lastBeat.Store(&now)
	s.contact()
	if s.Metrics.Beat != nil {
		s.Metrics.Beat()
	}
	// The hub may have called the cluster unknown, which can be corrected now.
	if mc, ok := s.clusters.Get(s.ClusterName); ok {
		if c := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable); c != nil && c.Reason == cluster.ReasonLeaseUpdateStopped {
			s.status.Trigger()
		}
	}
}

func (s *session) identity() identity.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// mirrorCluster mirrors the agent's own ManagedCluster, the only one that it
// may see.
func (r *Registration) mirrorCluster(hub client.WithWatch, report func(error)) *mirror.Mirror[*clusterv1.ManagedCluster] {
	return mirror.New(mirror.Options[*clusterv1.ManagedCluster]{
		Client: hub, List: &clusterv1.ManagedClusterList{}, Clock: r.Clock,
		Select:  []client.ListOption{client.MatchingFields{"metadata.name": r.ClusterName}},
		Report:  report,
		Backoff: &wait.Backoff{Duration: 300 * time.Millisecond, Factor: 1.6, Jitter: 0.5, Steps: 10, Cap: 15 * time.Second},
	})
}

// wasAccepted reports whether the hub has accepted the cluster once. It may have
// denied it since, or be letting it go.
func wasAccepted(mc *clusterv1.ManagedCluster) bool {
	return mc != nil && meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionHubAccepted) != nil
}

// seesWorks reports whether the agent may read its works. Hubs of upstream hide
// a ManagedCluster that is being deleted from its agent, but not the works that
// it has to clean up behind.
func (s *session) seesWorks(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return s.hub.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(s.ClusterName), client.Limit(1)) == nil
}

// runAccepted runs what works with a cluster that is accepted, or was. A denial
// or a deletion doesn't end it, nor keeps it from starting: it has to clean up,
// and what it may no longer do the hub prevents.
func (s *session) runAccepted(ctx context.Context) {
	if s.Accepted == nil {
		return
	}
	changed := s.clusters.Subscribe()
	for started := false; !started; {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			mc, _ := s.clusters.Get(s.ClusterName)
			started = wasAccepted(mc)
		case <-s.hidden:
			started = s.seesWorks(ctx)
		}
	}
	hub := Hub{
		ClusterName: s.ClusterName, Config: s.credentials.Config(s.UserAgent),
		Upgrades: s.credentials.Upgrades(s.UserAgent), Host: s.identity().WorksHost(),
		Endpoint: s.identity().Hub, Annotate: s.status.Annotate,
		ChangedForPreviews: changed, ChangedForAddOns: s.clusters.Subscribe(),
		Annotation: func(key string) string {
			mc, ok := s.clusters.Get(s.ClusterName)
			if !ok {
				return ""
			}
			return mc.Annotations[key]
		},
	}
	backoff := retry.New(s.Clock, retry.Restart(time.Minute))
	for ; ctx.Err() == nil; backoff.Wait(ctx, nil) {
		if err := s.Accepted(ctx, hub); ctx.Err() == nil {
			s.Log.Error("what runs in the accepted cluster has ended, starting it again", "err", err)
		}
	}
}

// guard ends the session when its identity becomes useless.
func (s *session) guard(ctx context.Context) {
	loop.Run(ctx, s.Clock, s.changed, s.remaining(), func(ctx context.Context) time.Duration {
		if err := s.checkIdentity(ctx); err != nil {
			s.end(err)
		}
		return s.remaining()
	})
}

func (s *session) checkIdentity(ctx context.Context) error {
	bootstrap, err := s.source.current()
	if err != nil && !errors.Is(err, errNoBootstrap) {
		s.Log.Warn("the new bootstrap kubeconfig cannot be used, the agent's identity on the hub stays", "err", err)
	}
	id := s.identity()
	if err := id.Check(id.Names, nil, s.Clock.Now()); err != nil || bootstrap == nil {
		return err
	}
	moved, err := s.reconcileEndpoint(ctx, id, bootstrap.Endpoint)
	if err != nil || moved.Equal(id) {
		return err
	}
	if err := s.change(ctx, func(id identity.Identity) identity.Identity { return id.MoveTo(bootstrap.Endpoint) }); err != nil {
		return err
	}
	return errMoved
}

// remaining is how much longer the certificate is valid.
func (s *session) remaining() time.Duration {
	_, notAfter, err := s.identity().Validity()
	if err != nil {
		return 0 // Check says what is wrong with it
	}
	return notAfter.Sub(s.Clock.Now())
}

// clusterReport takes the reports of the mirror of the ManagedCluster.
func (s *session) clusterReport(err error) {
	server := s.identity().Hub.Server
	if (err == nil || apierrors.IsForbidden(err)) && !s.beating() {
		s.contact()
	}
	s.note(err == nil || apierrors.IsForbidden(err))
	switch {
	case err == nil:
		if f := s.follower.Load(); f != nil {
			f.ask() // also where it was refused
		}
		s.shut.Clear()
		s.open.Set()
		return
	case apierrors.IsForbidden(err):
		s.open.Clear()
		s.shut.Set()
		s.hidden.Set()
		s.say(slog.LevelInfo, s.waitingForAcceptance())
	case apierrors.IsUnauthorized(err):
		s.say(slog.LevelWarn, fmt.Sprintf("the hub %s does not know the agent's certificate, trying again: "+
			"when the hub was set up again, delete the Secret %s/%s to register again",
			server, s.Namespace, cluster.HubKubeconfigSecret), "err", err)
	default:
		s.say(slog.LevelWarn, fmt.Sprintf("the hub %s cannot be reached, trying again", server), "err", err)
	}
}

func (s *session) waitingForAcceptance() string {
	return fmt.Sprintf("waiting for the hub to accept the cluster: clusteradm accept --clusters %s", s.ClusterName)
}

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
