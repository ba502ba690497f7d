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
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/certificate"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/status"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
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

// Options say which cluster to register, and how. The agent's package sets and
// checks them.
type Options struct {
	// ClusterName is the cluster's name on the hub. When it is empty, the hub or
	// the stored identity says it.
	ClusterName string
	// Named says that ClusterName was chosen, and is not the stored one.
	Named bool
	// ClientID is what the cluster registers by when it has no name; by default
	// the UID of its namespace kube-system.
	ClientID string
	// ClusterLabels are what the agent would like its ManagedCluster to have when
	// the hub creates it for the client ID.
	ClusterLabels map[string]string
	// DeleteBootstrapSecret deletes the Secret cluster.BootstrapSecret once the hub
	// serves the agent under its own identity.
	DeleteBootstrapSecret bool
	// AgentName distinguishes the agent from others of the cluster; by default that of
	// the stored identity, or a random one.
	AgentName string
	// Namespace of the managed cluster that holds the agent's Secrets.
	Namespace string
	// BootstrapKubeconfig is a file. When it is missing, and when the Secret
	// cluster.BootstrapSecret changes while the agent runs, that Secret's
	// content is used.
	BootstrapKubeconfig string
	// BootstrapKubeconfigs are files, each for a hub that the cluster may belong
	// to, in the order of preference. They take the place of
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

	// Accepted runs beside registration once the hub has accepted the cluster. Its
	// ctx ends, and Accepted has to return, when the identity can't be used any
	// longer; it runs again with the next one.
	Accepted func(ctx context.Context, hub Hub) error
	// Ready, if set, is waited for before anything is reported to the hub.
	Ready <-chan struct{}

	// Answered, if set, is called once, when a hub has answered for the first time.
	Answered func()

	Metrics Metrics
	Clock   clock.Clock
	Log     *slog.Logger
}

// Hub is a hub that knows the agent.
type Hub struct {
	// Config gives access with the agent's identity, also when the certificate
	// is renewed.
	Config *rest.Config
	// Upgrades is Config for requests whose connection goes on as something else.
	Upgrades *rest.Config
	// ClusterName is the cluster's name there.
	ClusterName string
	// Host is the hub's address exactly as it was in the agent's kubeconfig when the
	// agent joined. Works are accounted for under it, wherever the hub is now.
	Host string
	// Endpoint is where the agent finds the hub now. A move of the hub runs Accepted
	// again.
	Endpoint identity.Endpoint
	// Annotate keeps an annotation of the agent on the ManagedCluster: the value ""
	// is none. Until it is called, none is kept. It does not block.
	Annotate func(key, value string)
	// Annotation is the value of an annotation of the ManagedCluster as it is known.
	Annotation func(key string) string
	// ChangedForPreviews and ChangedForAddOns have an element when the ManagedCluster may
	// have changed. Each is for one receiver.
	ChangedForPreviews, ChangedForAddOns <-chan struct{}
}

// Metrics are called when something happens. Every field may be nil.
type Metrics struct {
	Beat               func()
	CertificateExpires func(time.Time)
}

// newClient makes a client of a hub, and notes when that answers.
func (r *Registration) newClient(config *rest.Config) (client.WithWatch, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = r.UserAgent
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &contactTransport{next: next, answered: r.noteAnswer}
	})
	return client.NewWithWatch(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
}

// Reached reports whether a hub has answered the agent since it was started. It stays
// so when the hub is away later.
func (r *Registration) Reached() bool { return r.reached.Load() }

func (r *Registration) noteAnswer() {
	if r.reached.CompareAndSwap(false, true) && r.Answered != nil {
		r.Answered()
	}
}

// contactTransport notes answers of a hub.
type contactTransport struct {
	next     http.RoundTripper
	answered func()
}

// RoundTrip implements http.RoundTripper.
func (t *contactTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil && isAnswer(response.StatusCode) {
		t.answered()
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *contactTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// isAnswer reports whether a status is what a hub says to an agent that it knows, be it
// a refusal. What a proxy or a load balancer says in the hub's place is none, and
// neither is that the credentials are not known.
func isAnswer(status int) bool {
	switch status {
	case http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity:
		return true
	}
	return status >= 200 && status < 300
}

// publish writes an identity as files, for other programs that are to reach the
// hub as the agent does. The agent itself reads only the Secret, so it goes on
// without.
func (r *Registration) publish(id identity.Identity) {
	if r.Dir == "" {
		return
	}
	data, err := id.SecretData()
	delete(data, muster.PlaceKey) // the agent's own
	if err == nil {
		err = writeFiles(r.Dir, data)
	}
	if err != nil {
		r.Log.Warn("cannot write the agent's identity as files: make the folder of --hub-kubeconfig-dir writable", "dir", r.Dir, "err", err)
	}
}

// writeFiles puts each file in its place whole, so that readers never find a
// part of one. Other files stay.
func writeFiles(dir string, data map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if err := atomicfile.Write(filepath.Join(dir, name), data[name], 0o600); err != nil {
			return err
		}
	}
	return nil
}
