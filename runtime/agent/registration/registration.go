// Package registration makes a cluster a member of a fleet and keeps it one: it
// asks the hub for an identity with the bootstrap kubeconfig, stores it, renews
// it, gives signs of life and reports the cluster's status.
//
// It lives through everything that can be mended from outside without ending:
// an absent hub, a lost right, a bad bootstrap kubeconfig. What it waits for it
// says once in the log, and whenever asked, by State.
package registration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/certificate"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/status"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// sourceTimeout is how long the first look at the bootstrap Secret may take.
const sourceTimeout = 2 * time.Second

// Options say which cluster to register, and how. The agent's package sets and
// checks them.
type Options struct {
	ClusterName string
	// AgentName tells the agent from others of the cluster; by default that of
	// the stored identity, or a random one.
	AgentName string
	// Namespace of the managed cluster that holds the agent's Secrets.
	Namespace string
	// BootstrapKubeconfig is a file. When it is missing, and when the Secret
	// cluster.BootstrapSecret changes while the agent runs, that Secret's
	// content is used.
	BootstrapKubeconfig string
	// BootstrapKubeconfigs are files of which each leads to a hub that the
	// cluster may belong to, in the order of preference. They take the place of
	// BootstrapKubeconfig and the Secret.
	BootstrapKubeconfigs []string
	// HubTimeout is how long the present one of several hubs may be out of reach
	// before another one is looked for; DefaultHubTimeout by default.
	HubTimeout time.Duration
	// Dir, if set, is a folder that gets the stored identity as files, for other
	// programs.
	Dir string
	// UserAgent is what the agent calls itself in requests.
	UserAgent string

	// CertificateExpiration is the lifetime to ask for, in seconds; 0 leaves it
	// to the hub.
	CertificateExpiration int32
	// Annotations are put on the ManagedCluster when it is created here.
	Annotations map[string]string
	// ClientConfigs are addresses of the managed cluster, for its ManagedCluster.
	ClientConfigs []clusterv1.ClientConfig
	Claims        status.ClaimRules
	// HealthPeriod is how often the API server of the managed cluster is asked
	// how it is while it is well.
	HealthPeriod time.Duration

	// Local is the managed cluster; LocalREST its API server.
	Local     client.WithWatch
	LocalREST rest.Interface

	// Accepted is run beside registration from the moment on when the hub has
	// accepted the cluster. Its ctx ends, and Accepted has to return, when the
	// identity can't be used any longer; with the next one it is run anew.
	Accepted func(ctx context.Context, hub Hub) error
	// Ready, if set, is waited for before anything is reported to the hub.
	Ready <-chan struct{}

	Metrics Metrics
	Clock   clock.Clock
	Log     *slog.Logger
}

// Hub is a hub that knows the agent.
type Hub struct {
	// Config gives access with the agent's identity, also when the certificate
	// is renewed.
	Config *rest.Config
	// Host is the hub's address exactly as in the agent's kubeconfig.
	Host string
}

// Metrics are told what happens. Every field may be nil.
type Metrics struct {
	Beat               func()
	CertificateExpires func(time.Time)
}

// Registration registers one cluster with one hub.
type Registration struct {
	Options
	store identity.Store
	// source is where the bootstrap kubeconfig comes from: with several hubs, the
	// chosen one of candidates.
	source     *source
	candidates []*source
	// secret mirrors the stored identity; stored has an element when it may
	// have changed.
	secret *mirror.Mirror[*corev1.Secret]
	stored <-chan struct{}
	// chance spreads what a fleet would do at the same time, from 0 to 1.
	chance func() float64

	// pending asks for the certificate while there is no identity; pendingHub
	// is the hub that it asks.
	pending    *certificate.Requester
	pendingHub identity.Endpoint
	// cannotCreate keeps quiet about why the ManagedCluster was not created.
	cannotCreate retry.Once

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
		r.source = r.candidates[0]
	} else {
		r.source = newSource(o.BootstrapKubeconfig, o.Namespace, secrets(cluster.BootstrapSecret))
	}
	return r
}

// Expired tells whether the agent's certificate has expired and no other one
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
	for ctx.Err() == nil {
		id, err := r.establish(ctx)
		if err != nil {
			return // ctx has ended
		}
		if cause := r.serve(ctx, id); ctx.Err() == nil {
			r.Log.Warn("the agent needs a new identity on the hub", "because", cause)
		}
	}
}

// awaitSource gives the managed cluster a moment to show the bootstrap Secret,
// so that its absence is not complained about before it is certain.
func (r *Registration) awaitSource(ctx context.Context) {
	retry.Sleep(ctx, r.Clock, sourceTimeout, r.source.secret.Filled())
}

// establish returns a usable identity: the stored one, or a new one from the
// hub. It returns an error only when ctx has ended.
func (r *Registration) establish(ctx context.Context) (identity.Identity, error) {
	backoff := retry.New(r.Clock, retry.Start(30*time.Second))
	for {
		id, err := r.tryEstablish(ctx)
		if err == nil {
			return id, nil
		}
		if ctx.Err() != nil {
			return identity.Identity{}, ctx.Err()
		}
		if errors.Is(err, errSourceChanged) {
			backoff.Reset()
			continue
		}
		r.say(slog.LevelWarn, err.Error())
		backoff.Wait(ctx, r.source.changed)
	}
}

func (r *Registration) tryEstablish(ctx context.Context) (identity.Identity, error) {
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stored, err := r.store.Load(bounded)
	if err != nil {
		return identity.Identity{}, err
	}
	r.noteExpiry(stored)
	if r.several() {
		if err := r.choose(ctx, stored); err != nil {
			return identity.Identity{}, err
		}
	}
	bootstrap, sourceErr := r.source.current()
	names := r.names(stored)
	useless := stored.Check(names, endpointOf(bootstrap), r.Clock.Now())
	switch {
	case useless == nil:
		return stored, nil
	case bootstrap == nil:
		return identity.Identity{}, fmt.Errorf("the agent cannot register: %w, and %w", useless, sourceErr)
	case len(stored.CertPEM) > 0:
		r.Log.Info("the stored identity cannot be used", "because", useless)
	}
	return r.bootstrap(ctx, names, bootstrap)
}

// names are those of the agent, of which the stored ones win over new ones.
func (r *Registration) names(stored identity.Identity) identity.Names {
	names := identity.Names{Cluster: r.ClusterName, Agent: r.AgentName}
	if problems := validation.IsDNS1123Subdomain(stored.Agent); names.Agent == "" && stored.Agent != "" && len(problems) > 0 {
		r.Log.Warn("the stored name of the agent can't be one, taking another", "secret", r.Namespace+"/"+cluster.HubKubeconfigSecret, "key", cluster.AgentNameKey, "name", stored.Agent)
	} else if names.Agent == "" {
		names.Agent = stored.Agent
	}
	if names.Agent == "" {
		// An interrupted bootstrap goes on under the name that it began with.
		if r.pending != nil {
			return r.pending.Names
		}
		names.Agent = utilrand.String(5)
	}
	return names
}

func endpointOf(b *identity.Bootstrap) *identity.Endpoint {
	if b == nil {
		return nil
	}
	return &b.Endpoint
}
