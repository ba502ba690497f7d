package registration

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientretry "k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

const (
	// fallbackTime is how long the endpoint before a move may be gone back to.
	fallbackTime = 24 * time.Hour
	// minHold and maxHold bound how long an agent stays where it went back to.
	minHold, maxHold = time.Minute, time.Hour
	// refusedTime is after how long a hub that does not say where it is, such as one of
	// upstream, is asked again.
	refusedTime = time.Hour
)

// errMoved ends a session whose identity goes on at another endpoint of its hub.
var errMoved = errors.New("the hub has another endpoint")

// follower takes an agent to where its hub says that it is. It goes only to an
// endpoint that has proved to be the same hub, and says why when it stays.
//
// It has no watch of what the hub publishes: a hub with something new ends the watches of
// ManagedClusters, and the follower reads each time that its agent's is open again. On a
// hub that does not, it reads once or twice an hour by that.
type follower struct {
	*session
	// published is what the hub publishes; nil if it shows nothing.
	published *corev1.ConfigMap
	// unread has an element when the hub may have published something else.
	unread loop.Signal
	// refused says that the hub does not show where it is.
	refused atomic.Bool
	asking  retry.Once
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
	f := &follower{
		session: s, unread: loop.NewSignal(), news: loop.NewSignal(), known: make(chan struct{}),
		failing: retry.New(s.Clock, retry.Restart(5*time.Minute)),
	}
	s.clusters.OnOpen(func() {
		if !f.refused.Load() {
			f.ask()
		}
	})
	f.ask()
	return f
}

// ask has the follower read what the hub publishes.
func (f *follower) ask() {
	f.unread.Set()
	f.news.Set()
}

// read reads what the hub publishes, and returns after how long to read again if it fails.
func (f *follower) read(ctx context.Context) (again time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	config := &corev1.ConfigMap{}
	err := f.hub.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.EndpointsName}, config)
	refused := apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
	f.refused.Store(refused)
	if err == nil {
		f.published = config
		f.asking.Clear()
		return 0
	}
	if f.asking.Changed(err.Error()) {
		f.Log.Debug("cannot follow where the hub is, trying again", "err", err)
	}
	f.unread.Set()
	if refused {
		f.published = nil
		return refusedTime
	}
	return f.failing.Next()
}

// run follows until ctx ends. An agent with several hubs to choose from stays where
// its bootstrap kubeconfigs lead.
func (f *follower) run(ctx context.Context) {
	loop.Run(ctx, f.Clock, f.news, loop.Never, f.pass)
}

// pass looks once, and returns after how long to look again.
func (f *follower) pass(ctx context.Context) time.Duration {
	if f.known != nil {
		defer func(known chan struct{}) { close(known) }(f.known)
		f.known = nil
	}
	select {
	case <-f.unread:
		if again := f.read(ctx); again > 0 {
			return again
		}
	default:
	}
	if f.published == nil {
		return loop.Never
	}
	id := f.identity()
	published, err := hubinfo.ParseEndpoints(f.published.Data)
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

// proofAnnotation is on the cluster's lease while an agent finds out whether two
// endpoints are the same hub.
const proofAnnotation = cluster.AgentAnnotationPrefix + "hub-endpoint-proof"

// refusal is why an agent does not go over to an endpoint.
type refusal struct {
	reason, message string
	cause           error
}

func (r *refusal) Error() string {
	if r.cause == nil {
		return r.message
	}
	return r.message + ": " + r.cause.Error()
}

func (r *refusal) Unwrap() error { return r.cause }

// refuse finds out why a request to an endpoint has failed.
func refuse(server string, err error) *refusal {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
	)
	switch {
	case errors.As(err, &verification), errors.As(err, &authority), errors.As(err, &hostname):
		return &refusal{muster.ReasonEndpointUntrusted, server + " shows a certificate that the hub's published authorities do not verify for that name: " +
			"publish the authority with --external-ca-files, or give that server another certificate", err}
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return &refusal{muster.ReasonEndpointRefusesCertificate, server + " does not take the agent's certificate: " +
			"it is another hub, or a proxy or load balancer that does not pass TLS through to the hub", err}
	case apierrors.IsNotFound(err):
		return &refusal{muster.ReasonAnotherHub, server + " is not the agent's hub: it does not have what the hub has", err}
	}
	return &refusal{muster.ReasonEndpointUnreachable, server + " does not answer as a hub", err}
}

// isSameHub finds out whether an endpoint leads to the hub of an identity: it says
// to be that hub, takes the agent's certificate, and has the ManagedCluster.
func (r *Registration) isSameHub(ctx context.Context, id identity.Identity, e identity.Endpoint) error {
	return r.at(ctx, id, e, func(ctx context.Context, hub client.Client) error {
		_, err := r.knows(ctx, hub, id.Place.HubUID, e.Server)
		return err
	})
}

// at calls do with the hub as it is reached at an endpoint by an identity.
func (r *Registration) at(ctx context.Context, id identity.Identity, e identity.Endpoint, do func(context.Context, client.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	id.Hub = e
	credentials, err := identity.NewCredentials(id)
	if err != nil {
		return err
	}
	defer credentials.Close()
	hub, err := r.newClient(credentials.Config(r.UserAgent))
	if err != nil {
		return err
	}
	return do(ctx, hub)
}

// knows returns the agent's ManagedCluster on a hub that is the one with the UID.
func (r *Registration) knows(ctx context.Context, hub client.Client, uid, server string) (*clusterv1.ManagedCluster, error) {
	published := &corev1.ConfigMap{}
	if err := hub.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.EndpointsName}, published); err != nil {
		return nil, refuse(server, err)
	}
	there, err := hubinfo.ParseEndpoints(published.Data)
	if err != nil {
		return nil, &refusal{muster.ReasonAnotherHub, server + " does not say as a hub does where it is", err}
	}
	if there.HubUID != uid {
		return nil, &refusal{reason: muster.ReasonAnotherHub, message: fmt.Sprintf("%s is another hub: its UID is %s, and that of the agent's hub is %s", server, there.HubUID, uid)}
	}
	mc := &clusterv1.ManagedCluster{}
	if err := hub.Get(ctx, client.ObjectKey{Name: r.ClusterName}, mc); err != nil {
		return nil, refuse(server, err)
	}
	return mc, nil
}

// prove finds out whether an endpoint leads to the hub of the session. What it
// publishes proves nothing, as everybody may read that. So the agent writes there,
// as itself, and looks on the connection that it trusts whether it arrives: a
// proxy in between can't write as the agent.
func (s *session) prove(ctx context.Context, e identity.Endpoint, uid string) error {
	return s.at(ctx, s.identity(), e, func(ctx context.Context, hub client.Client) error {
		mc, err := s.knows(ctx, hub, uid, e.Server)
		if err != nil {
			return err
		}
		if mine, ok := s.clusters.Get(s.ClusterName); !ok || mine.UID != mc.UID {
			return &refusal{reason: muster.ReasonAnotherHub, message: e.Server + " is another hub: its ManagedCluster is not the agent's"}
		}
		nonce := rand.Text()
		if err := s.markLease(ctx, hub, nonce); err != nil {
			return refuse(e.Server, err)
		}
		lease := &coordinationv1.Lease{}
		err = s.hub.Get(ctx, s.leaseKey(), lease)
		if err != nil {
			return fmt.Errorf("look for a mark that was left at %s: %w", e.Server, err)
		}
		if lease.Annotations[proofAnnotation] != nonce {
			return &refusal{reason: muster.ReasonAnotherHub, message: e.Server + " is another hub: what the agent writes there does not arrive at its own"}
		}
		if err := s.markLease(ctx, s.hub, ""); err != nil {
			s.Log.Debug("cannot remove a mark from the lease", "err", err)
		}
		return nil
	})
}

func (s *session) leaseKey() client.ObjectKey {
	return client.ObjectKey{Namespace: s.ClusterName, Name: cluster.LeaseName}
}

// markLease puts the mark on the cluster's lease; an empty one removes it.
// Heartbeats write the lease too.
func (s *session) markLease(ctx context.Context, hub client.Client, mark string) error {
	return clientretry.RetryOnConflict(clientretry.DefaultBackoff, func() error {
		lease := &coordinationv1.Lease{}
		if err := hub.Get(ctx, s.leaseKey(), lease); err != nil {
			return err
		}
		if delete(lease.Annotations, proofAnnotation); mark != "" {
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, proofAnnotation, mark)
		}
		return hub.Update(ctx, lease)
	})
}

// rewriteBootstrap lets the bootstrap kubeconfig in the Secret lead where the hub
// is now, when it leads to an earlier endpoint of the same hub. The identity's
// Secret is written before, so that a kill in between does no harm: the old
// endpoint counts as the same hub there. A file stays as it is.
func (r *Registration) rewriteBootstrap(ctx context.Context, id identity.Identity) error {
	if r.several() || !r.leadsToFormer(id, r.source.inSecret()) {
		return nil
	}
	return clientretry.RetryOnConflict(clientretry.DefaultBackoff, func() error {
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: r.Namespace, Name: cluster.BootstrapSecret}
		if err := r.Local.Get(ctx, key, secret); err != nil {
			return client.IgnoreNotFound(err)
		}
		if !r.leadsToFormer(id, secret.Data[cluster.KubeconfigKey]) {
			return nil
		}
		config, err := clientcmd.Load(secret.Data[cluster.KubeconfigKey])
		if err != nil {
			return err
		}
		entry := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
		entry.Server, entry.CertificateAuthorityData, entry.CertificateAuthority = id.Hub.Server, id.Hub.CAData, ""
		content, err := clientcmd.Write(*config)
		if err != nil {
			return err
		}
		secret.Data[cluster.KubeconfigKey] = content
		if err := r.Local.Update(ctx, secret, client.FieldOwner(muster.AgentFieldManager)); err != nil {
			return fmt.Errorf("write the Secret %s: %w", key, err)
		}
		r.Log.Info("the bootstrap kubeconfig leads to the hub's new endpoint", "secret", key, "to", id.Hub.Server)
		return nil
	})
}

// leadsToFormer reports whether a bootstrap kubeconfig leads to an endpoint that
// counts as the hub and is not the present one.
func (r *Registration) leadsToFormer(id identity.Identity, content []byte) bool {
	if len(content) == 0 {
		return false
	}
	b, err := identity.ParseBootstrap(content, "")
	return err == nil && !b.Endpoint.Equal(id.Hub) && id.Differs(b.Endpoint) == ""
}

// silence is how long a hub may be out of reach before the agent looks for it
// elsewhere.
const silence = 2 * time.Minute

// seekHub looks for the hub at its other endpoints when the present one is out of
// reach, and goes over to one that proves to be it.
func (s *session) seekHub(ctx context.Context) {
	if s.several() {
		return
	}
	failing := retry.New(s.Clock, retry.Restart(5*time.Minute))
	loop.Run(ctx, s.Clock, s.silent, loop.Never, func(ctx context.Context) time.Duration {
		since := s.silentSince.Load()
		if since == nil {
			failing.Reset()
			return loop.Never
		}
		if left := silence - s.Clock.Since(*since); left > 0 {
			return left
		}
		if s.tryElsewhere(ctx) {
			return loop.Never
		}
		return failing.Next()
	})
}

func (s *session) tryElsewhere(ctx context.Context) (found bool) {
	id, now := s.identity(), s.Clock.Now()
	for _, e := range id.Alternatives(now) {
		if err := s.isSameHub(ctx, id, e); err != nil {
			s.Log.Debug("the hub is not to be found at another endpoint either", "at", e.Server, "err", err)
			continue
		}
		err := s.change(ctx, func(id identity.Identity) identity.Identity {
			id = id.MoveTo(e)
			id.Place.Hold = min(max(2*id.Place.Hold, minHold), maxHold)
			id.Place.HoldUntil = now.Add(id.Place.Hold)
			return id
		})
		if err != nil {
			return false
		}
		s.Log.Warn("the hub is out of reach where it was, and the agent goes over to another endpoint of it", "from", id.Hub.Server, "to", e.Server)
		s.end(errMoved)
		return true
	}
	return false
}

// note notes whether the hub answers.
func (s *session) note(answers bool) {
	switch {
	case answers:
		s.silentSince.Store(nil)
	case s.silentSince.Load() == nil:
		now := s.Clock.Now()
		s.silentSince.Store(&now)
	}
	s.silent.Set()
}

// change changes the identity in use, in its Secret first. Changes don't overtake
// each other.
func (s *session) change(ctx context.Context, how func(identity.Identity) identity.Identity) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	before := s.identity()
	id := how(before)
	if id.Equal(before) {
		return nil
	}
	if err := s.save(ctx, id); err != nil {
		return err
	}
	return s.use(id)
}
