// Package access gives users of the hub access to the managed cluster: for each
// ClusterCredential in the cluster's namespace on the hub it gets a client
// certificate from the cluster's own signer, or a token of a service account, and
// hands it over in the credential's status.
//
// A reconcile goes in one direction: what both sides show is read, decide says what to
// do next, it is done, and reported. The agent holds no key, and remembers nothing that
// it needs: killed at any write, the next one goes on from what both sides show.
// Everything that the hub asks for is checked again, here and against the policy of the
// cluster's owner.
package access

import (
	"context"
	"sync/atomic"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// agent looks after the credentials of one hub.
type agent struct {
	Options
	engine *engine.Engine
	// hub and local write, and read what is not watched.
	hub, local     client.Client
	hubID, hubHash string

	queue   *engine.Queue
	tunnels *tunnels // nil when the agent takes none
	// writtenCredentials and writtenRequests are what the copies may not show yet.
	writtenCredentials, writtenRequests *engine.Written
	// gone ends the run: the hub has no user access any more.
	gone context.CancelFunc

	// author is who the agent is in the managed cluster, nil while that is not known, as the
	// API server writes it into the certificate requests that the agent makes. Nobody can
	// write another name there, so it distinguishes the agent's own requests from others,
	// also after a restart.
	author atomic.Pointer[string]
	rights atomic.Pointer[rights] // nil while they are not known
	signer signer

	problem retry.Once             // of the policy
	unread  retry.OnceEach[string] // why a kind cannot be watched
	failing retry.OnceEach[string] // why a credential fails, as reported
}

func newAgent(o Options, hub, local client.Client, hubID string) (*agent, error) {
	a := &agent{
		Options: o, hub: hub, local: local, hubID: hubID, hubHash: work.HubHash(o.HubHost),
		queue:              engine.NewQueue(o.ClusterName, engine.Retry),
		writtenCredentials: engine.NewWritten(o.Clock), writtenRequests: engine.NewWritten(o.Clock),
	}
	inLogicalCloud, err := labels.Parse(muster.LogicalCloudLabel)
	if err != nil {
		return nil, err
	}
	policy := wait.Backoff{Duration: signerPause, Factor: 2, Steps: 10, Cap: signerMaxPause}
	a.signer.backoff = retry.New(o.Clock, policy)
	a.engine, err = engine.New(engine.Options{
		Hub: o.Hub, ManagedCluster: o.ManagedCluster, UserAgent: userAgent, Log: o.Log, Clock: o.Clock,
		HubCache: cache.Options{
			DefaultFieldSelector:     engine.InNamespace(o.ClusterName),
			DefaultWatchErrorHandler: a.hubFailed,
		},
		LocalCache: cache.Options{
			DefaultWatchErrorHandler: a.localFailed,
			ByObject: map[client.Object]cache.ByObject{
				&certificatesv1.CertificateSigningRequest{}: {Label: labels.SelectorFromSet(a.labels())},
				&corev1.ConfigMap{}: {Field: fields.AndSelectors(
					engine.InNamespace(o.Namespace),
					fields.OneTermEqualSelector("metadata.name", muster.PolicyConfigMap),
				)},
				&workv1.AppliedManifestWork{}: {Label: inLogicalCloud},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return a, a.addController()
}

// addController adds the controller. Without a full view of both sides, what is not
// there yet would count as deleted, and a policy that was not read as none: so it
// watches all before it starts.
func (a *agent) addController() error {
	hub, local := a.engine.GetCache(), a.engine.Local.GetCache()
	requests := client.Object(&certificatesv1.CertificateSigningRequest{})
	return a.engine.AddController(engine.Controller{
		Name: "user-access", Queue: a.queue, Reconcile: a.reconcile, Workers: engine.Workers, Timeout: engine.Timeout,
		Sources: []source.Source{
			source.Kind(hub, client.Object(&v1alpha1.ClusterCredential{}), &handler.EnqueueRequestForObject{}),
			source.Kind(local, requests, enqueue(a.credentialOfRequest)),
			source.Kind(local, client.Object(&corev1.ConfigMap{}), enqueue(a.allCredentials)),
			source.Kind(local, client.Object(&workv1.AppliedManifestWork{}), enqueue(a.credentialsOfWork)),
		},
	})
}

func enqueue(f handler.MapFunc) handler.EventHandler { return handler.EnqueueRequestsFromMapFunc(f) }

// credentialOfRequest is the credential of a certificate request, which has its name.
func (a *agent) credentialOfRequest(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{a.queue.Request(o.GetName())}
}

// allCredentials are those of the cluster, which depend on the policy and the agent's
// rights.
func (a *agent) allCredentials(ctx context.Context, _ client.Object) []reconcile.Request {
	return a.requests(ctx, func(*v1alpha1.ClusterCredential) bool { return true })
}

// credentialsOfWork are those of the logical cloud that a work belongs to.
func (a *agent) credentialsOfWork(ctx context.Context, o client.Object) []reconcile.Request {
	cloud := o.GetLabels()[muster.LogicalCloudLabel]
	return a.requests(ctx, func(c *v1alpha1.ClusterCredential) bool {
		return c.Labels[muster.LogicalCloudLabel] == cloud
	})
}

func (a *agent) requests(ctx context.Context, wants func(*v1alpha1.ClusterCredential) bool) []reconcile.Request {
	list := &v1alpha1.ClusterCredentialList{}
	if err := a.engine.GetCache().List(ctx, list); err != nil {
		a.Log.Debug("cannot list the cluster credentials", "err", err)
	}
	var all []reconcile.Request
	for i := range list.Items {
		if c := &list.Items[i]; wants(c) {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		}
	}
	return all
}

// labels are those of the certificate requests that this agent makes.
func (a *agent) labels() map[string]string {
	return map[string]string{muster.AccessHubLabel: a.hubID, muster.AccessClusterLabel: a.ClusterName}
}

// hubFailed takes the failures of the watch of the credentials.
func (a *agent) hubFailed(_ context.Context, _ *toolscache.Reflector, err error) {
	a.Log.Debug("cannot watch the cluster credentials on the hub, trying again", "err", err)
	if apierrors.IsNotFound(err) {
		a.gone()
	}
}

// localFailed takes the failures of the watches of the managed cluster.
func (a *agent) localFailed(_ context.Context, r *toolscache.Reflector, err error) {
	if apierrors.IsForbidden(err) && a.unread.Changed(r.TypeDescription(), err.Error()) {
		a.Log.Warn("the agent lacks rights to watch the managed cluster, so no user gets access: "+
			"give it the ClusterRole for user access, as muster_klusterlet does with user_access", "err", err)
		return
	}
	a.Log.Debug("cannot watch the managed cluster, trying again", "err", err)
}

// run looks after the credentials until ctx ends, or the hub has none any more.
func (a *agent) run(ctx context.Context) error {
	ctx, a.gone = context.WithCancel(ctx)
	defer a.gone()
	if a.tunnels != nil {
		a.tunnels.ctx = ctx
		defer a.tunnels.running.Wait()
		defer a.gone()
	}
	a.queue.Add(engine.General)
	return a.engine.Start(ctx)
}

// userAgent is what the agent calls itself in requests.
const userAgent = "muster-access-agent"

// Options say whose users get access where. All fields are required.
type Options struct {
	engine.Part
	// HubHost is the hub's URL exactly as in the agent's kubeconfig.
	HubHost string
	// Annotate keeps an annotation on the cluster's ManagedCluster: the value "" is
	// none. It must not block.
	Annotate func(key, value string)
	// Tunnels takes users to the cluster's API server through the hub. Upgrades is Hub for
	// the connections of that.
	Tunnels  bool
	Upgrades *rest.Config
}

// Run gives users access until ctx ends, and returns nil then. It returns an error only
// when it cannot start.
func Run(ctx context.Context, o Options) error {
	return o.Part.Run(ctx, "user access", userAgent, o.look)
}

// look asks the hub for user access, and returns what looks after it; nil when it has
// none.
func (o Options) look(ctx context.Context, hub, local client.WithWatch) (func(context.Context) error, error) {
	info, err := engine.HubInfo(ctx, hub)
	if err != nil {
		return nil, err
	}
	hubID := info[hubinfo.HubIDKey]
	if !hubinfo.Has(info, hubinfo.UserAccess) || hubID == "" {
		o.Annotate(muster.UserAccessAnnotation, "")
		o.Annotate(muster.TunnelAnnotation, "")
		return nil, nil
	}
	a, err := newAgent(o, hub, local, hubID)
	if err != nil {
		return nil, err
	}
	said := ""
	if o.Tunnels && hubinfo.Has(info, hubinfo.Tunnel) {
		if a.tunnels, said, err = newTunnels(a); err != nil {
			return nil, err
		}
	}
	o.Annotate(muster.TunnelAnnotation, said)
	return a.run, nil
}
