// Package manager makes the controller-runtime manager that the hub's
// controllers share: its cache and client, and the election of the replica that
// runs the controllers. It knows no controller.
package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/workcache"
)

// stopTimeout is how long the controllers may take to end.
const stopTimeout = 3 * time.Second

// ErrElectionLost is the error of Run when another replica may run the
// controllers from now on.
var ErrElectionLost = errors.New("leader election lost")

// Options say how the controllers run.
type Options struct {
	// Log is where the controllers log.
	Log logr.Logger
	// Election elects the replica that runs the controllers. Without one they run
	// at once.
	Election *Election
	// Memory makes what reads custom resources from the memory of the API server, when that
	// is in this process. Without it they are read by requests.
	Memory func(extension.Reads) toolscache.ListerWatcher
	// Transform, if set, changes the objects that are read by requests before they are kept.
	Transform toolscache.TransformFunc
}

// Election is how replicas of a hub elect a leader.
type Election struct {
	// Lock is the Lease that the leader holds.
	Lock resourcelock.Interface
	// LeaseDuration is how long the others wait for the leader, RenewDeadline how
	// long the leader tries to renew, and RetryPeriod the time between two tries.
	// They are 15, 10 and 2 seconds by default.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Manager runs controllers, and knows when they have started and ended.
type Manager struct {
	manager.Manager

	elects    bool
	memory    func(extension.Reads) toolscache.ListerWatcher
	runnables []*runnable
}

// New makes a manager that needs no discovery and whose cache holds, of
// Kubernetes' own kinds, only what belongs to a managed cluster, and works without
// their manifests (workcache.All).
func New(c *rest.Config, o Options) (*Manager, error) {
	options, err := cacheOptions()
	if err != nil {
		return nil, err
	}
	made := &Manager{elects: o.Election != nil, memory: o.Memory}
	options.Scheme, options.Mapper = api.Scheme(), restmapper.Static()
	if o.Transform != nil {
		options.DefaultTransform = o.Transform
	}
	made.ReadMemory(&options, workcache.Unread()...)
	all := manager.Options{
		Scheme:         options.Scheme,
		Logger:         o.Log,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return options.Mapper, nil },
		Metrics:        server.Options{BindAddress: "0"},
		Cache:          options,
		// Secrets and config maps are read where they are needed: caching all of
		// them would keep every secret of the hub in memory.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
		Controller: config.Controller{
			// Several managers may live in one process.
			SkipNameValidation: ptr.To(true),
			// Run waits for what the controllers watch. A replica that is not the
			// leader watches nothing.
			EnableWarmup: ptr.To(o.Election == nil),
		},
		GracefulShutdownTimeout: ptr.To(stopTimeout),
	}
	if e := o.Election; e != nil {
		all.LeaderElection, all.LeaderElectionReleaseOnCancel, all.LeaderElectionResourceLockInterface = true, true, e.Lock
		all.LeaseDuration, all.RenewDeadline, all.RetryPeriod = optional(e.LeaseDuration), optional(e.RenewDeadline), optional(e.RetryPeriod)
	}
	if made.Manager, err = manager.New(c, all); err != nil {
		return nil, fmt.Errorf("set up the controllers: %w", err)
	}
	return made, nil
}

// ReadMemory implements workcache.InProcess. The options have a scheme and a mapper.
func (m *Manager) ReadMemory(o *cache.Options, without ...string) {
	if m.memory == nil {
		return
	}
	o.NewInformer = func(
		requests toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		if r, ok := reads(*o, kind); ok {
			r.Requests = requests
			if _, ok := kind.(*workv1.ManifestWork); ok {
				r.Without = without
			}
			requests = m.memory(r)
		}
		return toolscache.NewSharedIndexInformer(requests, kind, resync, indexers)
	}
}

// reads says how a cache with these options reads a kind. It reports false for a kind that
// is not one of custom resources, and for a cache that does not have all namespaces.
func reads(o cache.Options, kind runtime.Object) (extension.Reads, bool) {
	gvk, err := apiutil.GVKForObject(kind, o.Scheme)
	if err != nil || kubernetesscheme.Scheme.Recognizes(gvk) {
		return extension.Reads{}, false
	}
	if o, err := o.Scheme.New(gvk); err != nil || reflect.TypeOf(o) != reflect.TypeOf(kind) {
		return extension.Reads{}, false // without a type, or metadata alone
	}
	mapping, err := o.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return extension.Reads{}, false
	}
	r := extension.Reads{
		Resource: mapping.Resource, Kind: gvk, Scheme: o.Scheme, Labels: o.DefaultLabelSelector,
		Transform: o.DefaultTransform,
	}
	namespaces, field := o.DefaultNamespaces, o.DefaultFieldSelector
	for known, by := range o.ByObject {
		if reflect.TypeOf(known) != reflect.TypeOf(kind) {
			continue
		}
		namespaces = by.Namespaces
		if by.Label != nil {
			r.Labels = by.Label
		}
		if by.Field != nil {
			field = by.Field
		}
		if by.Transform != nil {
			r.Transform = by.Transform
		}
	}
	return r, namespaces == nil && field == nil
}

// optional leaves it to controller-runtime what 0 means.
func optional(d time.Duration) *time.Duration {
	if d == 0 {
		return nil
	}
	return &d
}

// cacheOptions say what the cache holds.
func cacheOptions() (cache.Options, error) {
	ours, err := labels.Parse(cluster.NameLabel + ",!" + cluster.AddOnNameLabel)
	if err != nil {
		return cache.Options{}, err
	}
	byCluster := cache.ByObject{Label: ours}
	// Of the Secrets only bootstrap tokens are watched, and, without their content,
	// the kubeconfigs of clusters to import.
	secrets := cache.ByObject{
		Namespaces: map[string]cache.Config{
			metav1.NamespaceSystem: {FieldSelector: fields.OneTermEqualSelector("type", string(corev1.SecretTypeBootstrapToken))},
			muster.ImportNamespace: {Transform: withoutData},
		},
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Namespace{}:                         byCluster,
			&coordinationv1.Lease{}:                     byCluster,
			&certificatesv1.CertificateSigningRequest{}: byCluster,
			&rbacv1.Role{}:                              byCluster,
			&rbacv1.RoleBinding{}:                       byCluster,
			&rbacv1.ClusterRole{}:                       byCluster,
			&rbacv1.ClusterRoleBinding{}:                byCluster,
			&corev1.Secret{}:                            secrets,
			&workv1.ManifestWork{}:                      workcache.All(),
		},
	}, nil
}

// withoutData empties a Secret.
func withoutData(object any) (any, error) {
	if secret, ok := object.(*corev1.Secret); ok {
		secret.Data, secret.ManagedFields = nil, nil
	}
	return object, nil
}

// Cache has the cache hold a kind that a controller reads and does not watch.
func Cache(m manager.Manager, kind client.Object) error {
	if _, err := m.GetCache().GetInformer(context.Background(), kind, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("cache %T: %w", kind, err)
	}
	return nil
}
