package controlplane

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/bootstrap"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	// clientCertificateLifetime is how long a signed client certificate is
	// valid when its request does not ask for less.
	clientCertificateLifetime = 365 * 24 * time.Hour

	// discoveryPeriod is how often the garbage collector looks for kinds that
	// are new or gone.
	discoveryPeriod = 30 * time.Second

	informerResync = 12 * time.Hour
)

// ControllerOptions say how the core controllers run.
type ControllerOptions struct {
	// PlainNamespaces is a label selector. Namespaces that it does not match
	// get no default service account and no kube-root-ca.crt: two objects in each
	// namespace that are not used where no pod will ever run. Empty matches all.
	PlainNamespaces string
	// ExternalSigner leaves the signing of approved certificate requests to another
	// program.
	ExternalSigner bool
}

// Controller runs until its context ends.
type Controller func(ctx context.Context)

// RunControllers runs the controllers that a control plane cannot do without
// until ctx ends: deletion of namespaces, garbage collection, signing and
// cleaning of certificate requests, service accounts and their tokens, expiry
// of bootstrap tokens, aggregation of cluster roles.
func (s *Server) RunControllers(ctx context.Context, o ControllerOptions) error {
	config := s.RESTConfig("muster-core-controllers")
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("start the core controllers: %w", err)
	}
	shared := informers.WithTransform(s.caches.shared)
	all := informers.NewSharedInformerFactoryWithOptions(client, informerResync, shared)
	plain := all
	if o.PlainNamespaces != "" {
		plain = informers.NewSharedInformerFactoryWithOptions(client, informerResync, shared,
			informers.WithTweakListOptions(func(l *metav1.ListOptions) { l.LabelSelector = o.PlainNamespaces }))
	}
	var controllers []Controller
	builders := []func() (Controller, error){
		func() (Controller, error) { return certificateCleaner(client, all), nil },
		func() (Controller, error) { return serviceAccounts(ctx, client, all, plain) },
		func() (Controller, error) { return s.serviceAccountTokens(ctx, client, all) },
		func() (Controller, error) { return s.rootCertificate(client, all, plain) },
		func() (Controller, error) { return bootstrapTokenCleaner(client, all) },
		func() (Controller, error) { return clusterRoleAggregation(client, all) },
		func() (Controller, error) { return s.namespaceDeletion(ctx, client, all) },
		func() (Controller, error) { return s.garbageCollection(ctx, client, all) },
	}
	if !o.ExternalSigner {
		builders = append(builders, func() (Controller, error) { return s.certificateSigner(ctx, client, all) })
	}
	for _, build := range builders {
		c, err := build()
		if err != nil {
			return fmt.Errorf("start the core controllers: %w", err)
		}
		controllers = append(controllers, c)
	}
	all.Start(ctx.Done())
	plain.Start(ctx.Done())
	RunAll(ctx, controllers)
	return nil
}

// RunAll runs controllers side by side until ctx ends and all have returned.
func RunAll(ctx context.Context, controllers []Controller) {
	var running sync.WaitGroup
	for _, c := range controllers {
		running.Go(func() { c(ctx) })
	}
	running.Wait()
}

func (s *Server) certificateSigner(ctx context.Context, client kubernetes.Interface, f informers.SharedInformerFactory) (Controller, error) {
	c, err := signer.NewKubeAPIServerClientCSRSigningController(ctx, client, f.Certificates().V1().CertificateSigningRequests(), s.CAFile, s.CAKeyFile, clientCertificateLifetime)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 4) }, nil
}

func certificateCleaner(client kubernetes.Interface, f informers.SharedInformerFactory) Controller {
	c := cleaner.NewCSRCleanerController(client.CertificatesV1().CertificateSigningRequests(), f.Certificates().V1().CertificateSigningRequests())
	return func(ctx context.Context) { c.Run(ctx, 1) }
}

func serviceAccounts(ctx context.Context, client kubernetes.Interface, all, plain informers.SharedInformerFactory) (Controller, error) {
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), all.Core().V1().ServiceAccounts(), plain.Core().V1().Namespaces(), client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 2) }, nil
}

func (s *Server) serviceAccountTokens(ctx context.Context, client kubernetes.Interface, f informers.SharedInformerFactory) (Controller, error) {
	key, err := keyutil.PrivateKeyFromFile(s.serviceAccountKey)
	if err != nil {
		return nil, fmt.Errorf("read the service-account key: %w", err)
	}
	generator, err := tokens.JWTTokenGenerator(tokens.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	c, err := serviceaccount.NewTokensController(klog.FromContext(ctx), f.Core().V1().ServiceAccounts(), f.Core().V1().Secrets(), client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: s.CAData})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 2) }, nil
}

func (s *Server) rootCertificate(client kubernetes.Interface, all, plain informers.SharedInformerFactory) (Controller, error) {
	c, err := rootcacertpublisher.NewPublisher(all.Core().V1().ConfigMaps(), plain.Core().V1().Namespaces(), client, s.CAData)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 2) }, nil
}

func bootstrapTokenCleaner(client kubernetes.Interface, f informers.SharedInformerFactory) (Controller, error) {
	c, err := bootstrap.NewTokenCleaner(client, f.Core().V1().Secrets(), bootstrap.DefaultTokenCleanerOptions())
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func clusterRoleAggregation(client kubernetes.Interface, f informers.SharedInformerFactory) (Controller, error) {
	roles, err := newAggregatedRoles(f.Rbac().V1().ClusterRoles())
	if err != nil {
		return nil, err
	}
	c := clusterroleaggregation.NewClusterRoleAggregation(roles, client.RbacV1())
	return func(ctx context.Context) { c.Run(ctx, 2) }, nil
}

func (s *Server) namespaceDeletion(ctx context.Context, client kubernetes.Interface, f informers.SharedInformerFactory) (Controller, error) {
	objects, err := metadata.NewForConfig(s.RESTConfig("muster-namespace-deletion"))
	if err != nil {
		return nil, err
	}
	c := namespace.NewNamespaceController(ctx, client, objects, client.Discovery().ServerPreferredNamespacedResources, f.Core().V1().Namespaces(), 5*time.Minute, corev1.FinalizerKubernetes)
	return func(ctx context.Context) { c.Run(ctx, 4) }, nil
}

func (s *Server) garbageCollection(ctx context.Context, client kubernetes.Interface, f informers.SharedInformerFactory) (Controller, error) {
	objects, err := metadata.NewForConfig(s.RESTConfig("muster-garbage-collection"))
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(client.Discovery())
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	started := make(chan struct{})
	informers := &ownedInformers{
		server: s, typed: f, objects: objects,
		made: map[schema.GroupVersionResource]ownedInformer{}, started: map[schema.GroupVersionResource]bool{},
	}
	c, err := garbagecollector.NewGarbageCollector(ctx, client, objects, mapper, garbagecollector.DefaultIgnoredResources(), informers, started)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		close(started) // the caller has started the informers by now
		RunAll(ctx, []Controller{
			func(ctx context.Context) { c.Run(ctx, 4, discoveryPeriod) },
			func(ctx context.Context) { c.Sync(ctx, client.Discovery(), discoveryPeriod) },
		})
	}, nil
}
