// Package registration makes a cluster a member of a fleet and keeps it one: it
// asks the hub for an identity with the bootstrap kubeconfig, stores it, renews
// it, renews the cluster's lease and reports the cluster's status.
//
// It runs until its context ends, through everything that can be repaired from
// outside: an absent hub, a lost right, a bad bootstrap kubeconfig. What it waits
// for is logged once, and is what State returns.
//
// A registration is a sequence of sessions, one for each identity. What watches
// something within a session is built on loop and mirror, whose comments say why
// controller-runtime's manager is not used here. The package must not import the
// work half of the agent, which Options.Accepted starts.
package registration

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/certificate"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// sourceTimeout is how long the first look at the bootstrap Secret may take.
const sourceTimeout = 2 * time.Second

// Registration registers one cluster with one hub.
type Registration struct {
	Options
	store identity.Store
	// source is where the bootstrap kubeconfig comes from: with several hubs, the
	// chosen one of candidates.
	source     *source
	candidates []*source
	// changed has news when the bootstrap Secret, or the identity that is in use,
	// may have changed.
	changed loop.Signal
	// secret mirrors the stored identity; stored has news when it may have
	// changed.
	secret *mirror.Mirror[*corev1.Secret]
	stored loop.Signal
	// chance spreads what a fleet would do at the same time, from 0 to 1.
	chance func() float64

	// pending asks for the certificate while there is no identity; pendingHub
	// is the hub that it asks, and pendingBy the digest of the credentials.
	pending    *certificate.Requester
	pendingHub identity.Endpoint
	pendingBy  string
	// cannotCreate keeps quiet about why the ManagedCluster was not created.
	cannotCreate retry.Once
	// registering keeps quiet about further attempts to register by the client ID.
	registering retry.Once

	// reached says that a hub has answered.
	reached atomic.Bool

	mu    sync.Mutex
	state string
	// expires is when the identity does that the agent has, if it has one.
	expires time.Time
}

// New prepares a registration.
func New(o Options) *Registration {
	secrets := func(name string) *mirror.Mirror[*corev1.Secret] {
		return mirror.New(mirror.Options[*corev1.Secret]{
			Client: o.Local, List: &corev1.SecretList{}, Clock: o.Clock,
			Select: []client.ListOption{client.InNamespace(o.Namespace), client.MatchingFields{"metadata.name": name}},
			Report: func(err error) {
				if err != nil {
					o.Log.Debug("cannot watch a Secret of the managed cluster, trying again", "secret", o.Namespace+"/"+name, "err", err)
				}
			},
		})
	}
	if o.Ready == nil {
		ready := make(chan struct{})
		close(ready)
		o.Ready = ready
	}
	if o.HubTimeout == 0 {
		o.HubTimeout = DefaultHubTimeout
	}
	secret := secrets(cluster.HubKubeconfigSecret)
	r := &Registration{
		Options: o,
		store:   identity.Store{Client: o.Local, Namespace: o.Namespace},
		secret:  secret,
		stored:  secret.Subscribe(),
		chance:  rand.Float64,
		state:   "starting",
	}
	for _, file := range o.BootstrapKubeconfigs {
		r.candidates = append(r.candidates, &source{file: file, namespace: o.Namespace})
	}
	if r.several() {
		r.source, r.changed = r.candidates[0], loop.NewSignal()
	} else {
		r.source = newSource(o.BootstrapKubeconfig, o.Namespace, secrets(cluster.BootstrapSecret))
		r.changed = r.source.changed
	}
	return r
}

// Expired reports whether the agent's certificate has expired and no other one
// could be had so far.
func (r *Registration) Expired() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.expires.IsZero() && !r.Clock.Now().Before(r.expires)
}

// noteExpiry notes when an identity expires.
func (r *Registration) noteExpiry(id identity.Identity) {
	_, notAfter, err := id.Validity()
	if err != nil {
		return
	}
	r.mu.Lock()
	r.expires = notAfter
	r.mu.Unlock()
	if r.Metrics.CertificateExpires != nil {
		r.Metrics.CertificateExpires(notAfter)
	}
}

// State says in a few words what the agent is doing or waiting for.
func (r *Registration) State() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// say notes the state and logs it when it is a new one. args are further
// attributes of the log line.
func (r *Registration) say(level slog.Level, state string, args ...any) {
	r.mu.Lock()
	changed := r.state != state
	r.state = state
	r.mu.Unlock()
	if changed {
		r.Log.Log(context.Background(), level, state, args...)
	}
}

// Run registers the cluster, and whenever its identity has become useless,
// registers it again, until ctx ends.
func (r *Registration) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { r.secret.Run(ctx) })
	if !r.several() {
		running.Go(func() { r.source.secret.Run(ctx) })
		r.awaitSource(ctx)
	}
	if r.ClusterName == "" && r.learnName(ctx) != nil {
		return // ctx has ended
	}
	for ctx.Err() == nil {
		id, err := r.establish(ctx)
		if err != nil {
			return // ctx has ended
		}
		if cause := r.serve(ctx, id); ctx.Err() == nil && !errors.Is(cause, errMoved) {
			r.Log.Warn("the agent needs a new identity on the hub", "because", cause)
		}
	}
}

// awaitSource gives the managed cluster a moment to show the bootstrap Secret,
// so that its absence is not complained about before it is certain.
func (r *Registration) awaitSource(ctx context.Context) {
	retry.Sleep(ctx, r.Clock, sourceTimeout, r.source.secret.Filled())
}
