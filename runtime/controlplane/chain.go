package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	apimachineryversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/admission"
	mutatingadmissionpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	registrygeneric "k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/compatibility"
	baseversion "k8s.io/component-base/version"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubeoptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	schedulinghelpers "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	genericsample "k8s.io/kubernetes/pkg/controlplane/apiserver/samples/generic/server"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"

	musterversion "github.com/muster-fleet/terraform-provider-muster/internal/version"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/renewals"
)

// serviceAccountIssuer is the issuer in service-account tokens.
const serviceAccountIssuer = "https://kubernetes.default.svc"

// maxTokenLife is how long the token of a service account lives at most, where there are
// no pods that need more.
const maxTokenLife = 24 * time.Hour

// moveChance is the chance that a request asks its client to open a new connection, where
// there may be replicas. A load balancer chooses one for it, so a replica that comes back
// gets its part of the load. Requests and watches in progress stay on the old connection.
// It is the greatest that the API server takes: a TLS handshake for 50 requests.
const moveChance = 0.02

// buildChain puts the three API servers of a control plane behind each other:
// aggregation, the built-in resources, custom resources.
func buildChain(
	ctx context.Context, o Options, listener net.Listener, files certificateFiles, objects store,
	sealing *sealing,
) (*aggregatorapiserver.APIAggregator, error) {
	opts := serverOptions(o, listener, files, objects.endpoints)
	if err := o.Audit.apply(opts.Audit, o.Dir); err != nil {
		return nil, err
	}
	ca, err := newClientCA(files.caCert, o.Clock)
	if err != nil {
		return nil, err
	}
	opts.Authentication.ClientCert.CAContentProvider = ca
	if err := setWatchCacheGates(); err != nil {
		return nil, err
	}
	if o.Flavour == Full {
		return buildFull(ctx, o, opts, objects.raw)
	}
	return buildGeneric(ctx, o, opts, objects.raw, sealing)
}

// serverOptions is what both flavours set.
func serverOptions(o Options, listener net.Listener, files certificateFiles, etcdServers []string) *options.Options {
	s := options.NewOptions()
	addr := listener.Addr().(*net.TCPAddr)

	s.SecureServing.Listener = listener
	s.SecureServing.BindAddress = o.BindAddress
	s.SecureServing.BindPort = addr.Port
	s.SecureServing.MinTLSVersion = o.MinTLSVersion
	s.SecureServing.ServerCert.CertKey.CertFile = files.servingCert
	s.SecureServing.ServerCert.CertKey.KeyFile = files.servingKey
	for _, c := range o.NamedCertificates {
		s.SecureServing.SNICertKeys = append(s.SecureServing.SNICertKeys,
			cliflag.NamedCertKey{CertFile: c.CertFile, KeyFile: c.KeyFile, Names: c.Names})
	}
	s.GenericServerRunOptions.AdvertiseAddress = o.BindAddress
	if o.BindAddress.IsUnspecified() {
		s.GenericServerRunOptions.AdvertiseAddress = nil // the first address of the machine
	}
	s.GenericServerRunOptions.ExternalHost = addr.IP.String()
	if u, err := url.Parse(o.ExternalURL); err == nil && u.Hostname() != "" {
		s.GenericServerRunOptions.ExternalHost = u.Hostname()
	}

	s.Etcd.StorageConfig.Transport.ServerList = etcdServers
	s.Etcd.StorageConfig.Transport.TrustedCAFile = o.EtcdCAFile
	s.Etcd.StorageConfig.Transport.CertFile = o.EtcdCertFile
	s.Etcd.StorageConfig.Transport.KeyFile = o.EtcdKeyFile

	s.Authentication.BootstrapToken.Enable = true
	// A revoked token is to be refused at once. Looking one up costs little, as
	// Secrets and service accounts are in memory, and agents have certificates.
	s.Authentication.TokenSuccessCacheTTL = 0
	s.Authentication.TokenFailureCacheTTL = 0
	s.Authentication.ClientCert.ClientCA = files.caCert
	s.Authentication.ServiceAccounts.Issuers = []string{serviceAccountIssuer}
	s.Authentication.ServiceAccounts.KeyFiles = []string{files.serviceAccountKey}
	s.ServiceAccountSigningKeyFile = files.serviceAccountKey
	s.Authentication.AuthenticationConfigFile = o.Authentication.ConfigFile
	s.Authentication.WebHook.ConfigFile = o.Authentication.WebhookConfigFile
	s.Authentication.WebHook.Version = "v1"
	s.Authorization.Modes = []string{"RBAC"}

	// Priority and fairness costs 0.3 s of the start; see fairness.
	s.Features.EnablePriorityAndFairness = false
	s.Features.EnableProfiling = o.Profiling
	s.Traces.ConfigFile = o.TracingConfigFile
	if len(o.EtcdServers) > 0 {
		s.GenericServerRunOptions.GoawayChance = moveChance
	}

	registerPlugins(s, o.AdmissionPlugins)
	return s
}

// registerPlugins puts our admission plugins behind Kubernetes' mutating ones
// and before its webhooks and policies, so that those see the final object.
func registerPlugins(s *options.Options, plugins []extension.AdmissionPlugin) {
	generic := s.Admission.GenericAdmission
	at := slices.Index(generic.RecommendedPluginOrder, mutatingadmissionpolicy.PluginName)
	for i, p := range plugins {
		generic.Plugins.Register(p.Name, p.Factory)
		generic.RecommendedPluginOrder = slices.Insert(generic.RecommendedPluginOrder, at+i, p.Name)
	}
}

func buildGeneric(
	ctx context.Context, o Options, s *options.Options, raw *rawStores, sealing *sealing,
) (*aggregatorapiserver.APIAggregator, error) {
	s.Admission.GenericAdmission.DefaultOffPlugins = genericsample.DefaultOffAdmissionPlugins()
	s.Authentication.ServiceAccounts.OptionalTokenGetter = newTokenGetter
	// Who asks for more gets this much, and no refusal.
	s.Authentication.ServiceAccounts.MaxExpiration = maxTokenLife
	s.Authentication.ServiceAccounts.ExtendExpiration = false
	completed, err := s.Complete(ctx, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("complete the API server's options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("the API server's options: %w", utilerrors.NewAggregate(errs))
	}
	generic, versionedInformers, storageFactory, err := controlplaneapiserver.BuildGenericConfig(completed,
		[]*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme},
		controlplane.DefaultGenericAPIResourceConfigSource(), generatedopenapi.GetOpenAPIDefinitions, nil)
	if err != nil {
		return nil, fmt.Errorf("configure the API server: %w", err)
	}
	if o.Authentication != (Authentication{}) {
		generic.Authentication.Authenticator = ownUsers{generic.Authentication.Authenticator}
	}
	generic.Authentication.Authenticator = issued{generic.Authentication.Authenticator}
	encrypted := sealedGetter{raw.of(generic.RESTOptionsGetter), sealing}
	generic.RESTOptionsGetter = watchedKinds{encrypted, raw, o.SelectedBy}
	var leases *renewals.Leases
	if o.RenewalsInMemory != nil && raw.member != nil {
		leases = renewals.New(o.RenewalsInMemory, noDynamicAdmission(versionedInformers), o.Clock)
		generic.RESTOptionsGetter = storingLeases(generic.RESTOptionsGetter, leases)
	}
	if generic.Authentication.RequestHeaderConfig == nil { // no front proxy, whose users are others in each request
		generic.Authentication.Authenticator = &verified{Request: generic.Authentication.Authenticator, options: s.Authentication.ClientCert.CAContentProvider.VerifyOptions}
	}
	if err := shareObjects(versionedInformers, raw.caches.shared); err != nil {
		return nil, fmt.Errorf("share objects: %w", err)
	}
	if err := withBoundRights(generic, versionedInformers); err != nil {
		return nil, err
	}
	if err := adjust(generic, o); err != nil {
		return nil, err
	}
	if leases != nil { // behind all that adjust puts in front of requests
		build := generic.BuildHandlerChainFunc
		generic.BuildHandlerChainFunc = func(h http.Handler, c *genericapiserver.Config) http.Handler {
			return build(leases.Handler(h), c)
		}
	}
	if o.RightsChanged != nil {
		if err := followRights(versionedInformers, o.RightsChanged); err != nil {
			return nil, err
		}
	}
	native, initializers, err := genericControlPlaneConfig(completed, generic, versionedInformers, storageFactory)
	if err != nil {
		return nil, fmt.Errorf("configure the built-in APIs: %w", err)
	}
	return assembleGeneric(o, completed, native, initializers, raw, sealing)
}

func genericControlPlaneConfig(completed options.CompletedOptions, generic *genericapiserver.Config, versionedInformers informers.SharedInformerFactory, storageFactory *serverstorage.DefaultStorageFactory) (*controlplaneapiserver.Config, []admission.PluginInitializer, error) {
	return controlplaneapiserver.CreateConfig(completed, generic, versionedInformers, nil, storageFactory, webhook.NewDefaultServiceResolver(), nil)
}

func assembleGeneric(
	o Options, completed options.CompletedOptions, native *controlplaneapiserver.Config,
	initializers []admission.PluginInitializer, raw *rawStores, sealing *sealing,
) (*aggregatorapiserver.APIAggregator, error) {
	resolver := webhook.NewDefaultServiceResolver()
	auth := webhook.NewDefaultAuthenticationInfoResolverWrapper(native.ProxyTransport, native.Generic.EgressSelector, native.Generic.LoopbackClientConfig, native.Generic.TracerProvider)
	// With a master count of one, a new custom resource is served at once; with
	// more, Kubernetes waits five seconds for the other servers to see it.
	extensions, err := controlplaneapiserver.CreateAPIExtensionsConfig(*native.Generic, native.VersionedInformers, initializers, completed, 1, resolver, auth)
	if err != nil {
		return nil, fmt.Errorf("configure custom resources: %w", err)
	}
	convertInProcess(extensions, o.Conversions)
	encrypted := sealedGetter{extensions.ExtraConfig.CRDRESTOptionsGetter, sealing}
	extensions.ExtraConfig.CRDRESTOptionsGetter = sharedCaches{encrypted, raw, o.served}
	withFirstStatus(extensions, o.FirstStatuses)
	extensions.ExtraConfig.CRDRESTOptionsGetter = metered(extensions.ExtraConfig.CRDRESTOptionsGetter, o.Meter)
	aggregation, err := controlplaneapiserver.CreateAggregatorConfig(*native.Generic, completed, native.VersionedInformers, resolver, native.ProxyTransport, native.Extra.PeerProxy, initializers)
	if err != nil {
		return nil, fmt.Errorf("configure aggregation: %w", err)
	}
	aggregation.ExtraConfig.DisableRemoteAvailableConditionController = true // there are no Services to aggregate

	completedExtensions, completedNative := extensions.Complete(), native.Complete()
	notFound := notfoundhandler.New(native.Generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	extensionsServer, err := completedExtensions.New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, fmt.Errorf("make the custom-resource server: %w", err)
	}
	nativeServer, err := completedNative.New("muster", extensionsServer.GenericAPIServer)
	if err != nil {
		return nil, fmt.Errorf("make the API server: %w", err)
	}
	client, err := kubernetes.NewForConfig(native.Generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	providers, err := completedNative.GenericStorageProviders(client.Discovery())
	if err != nil {
		return nil, fmt.Errorf("make the storage of the built-in APIs: %w", err)
	}
	for i, p := range providers {
		if rbac, ok := p.(rbacrest.RESTStorageProvider); ok {
			providers[i] = rbacProvider{rbac}
		}
	}
	if err := nativeServer.InstallAPIs(providers...); err != nil {
		return nil, fmt.Errorf("install the built-in APIs: %w", err)
	}
	crds := extensionsServer.Informers.Apiextensions().V1().CustomResourceDefinitions()
	crdsServed := extensions.GenericConfig.MergedResourceConfig.ResourceEnabled(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	return controlplaneapiserver.CreateAggregatorServer(aggregation.Complete(), nativeServer.GenericAPIServer, crds, crdsServed, controlplaneapiserver.DefaultGenericAPIServicePriorities())
}

// ownVerbs gives requests verbs that Kubernetes doesn't have.
type ownVerbs struct {
	apirequest.RequestInfoResolver
	set func(*apirequest.RequestInfo)
}

func (v ownVerbs) NewRequestInfo(r *http.Request) (*apirequest.RequestInfo, error) {
	info, err := v.RequestInfoResolver.NewRequestInfo(r)
	if err == nil {
		v.set(info)
	}
	return info, err
}

// storingLeases has the store of leases know of renewals that are in memory.
func storingLeases(
	getter registrygeneric.RESTOptionsGetter, leases *renewals.Leases,
) registrygeneric.RESTOptionsGetter {
	around := func(c *storagebackend.ConfigForResource, s storage.Interface) storage.Interface {
		if c.GroupResource != coordinationv1.Resource("leases") {
			return s
		}
		return leases.Store(s)
	}
	return wrappedGetter{getter, around, nil}
}

// noDynamicAdmission reports whether no webhook and no policy is asked about writes.
func noDynamicAdmission(shared informers.SharedInformerFactory) func() bool {
	v1 := shared.Admissionregistration().V1()
	asked := []cache.SharedIndexInformer{
		v1.MutatingWebhookConfigurations().Informer(), v1.ValidatingWebhookConfigurations().Informer(),
		v1.MutatingAdmissionPolicyBindings().Informer(), v1.ValidatingAdmissionPolicyBindings().Informer(),
	}
	return func() bool {
		return !slices.ContainsFunc(asked, func(i cache.SharedIndexInformer) bool {
			return !i.HasSynced() || len(i.GetStore().ListKeys()) > 0
		})
	}
}

// followRights calls changed when roles or their bindings have changed.
func followRights(shared informers.SharedInformerFactory, changed func()) error {
	news := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	}
	rbac := shared.Rbac().V1()
	for _, i := range []cache.SharedIndexInformer{
		rbac.Roles().Informer(), rbac.RoleBindings().Informer(),
		rbac.ClusterRoles().Informer(), rbac.ClusterRoleBindings().Informer(),
	} {
		if _, err := i.AddEventHandler(news); err != nil {
			return fmt.Errorf("follow the rights of users: %w", err)
		}
	}
	return nil
}

// adjust changes what has no option: the version that is served, more authorizers,
// a guard, more ready checks.
func adjust(generic *genericapiserver.Config, o Options) error {
	generic.EffectiveVersion = withServedVersion(generic.EffectiveVersion)
	generic.ReadyzChecks = append(generic.ReadyzChecks, o.ReadyChecks...)
	generic.ShutdownWatchTerminationGracePeriod = watchTimeout
	// API servers that share a store renew leases to show each other that they
	// live, which nothing here reads: six writes a minute of an idle server.
	generic.DisabledPostStartHooks.Insert("start-kube-apiserver-identity-lease-controller", "start-kube-apiserver-identity-lease-garbage-collector")
	// They publish their addresses in others, written straight to the store: six
	// more, which no count of requests shows.
	generic.DisabledPostStartHooks.Insert("peer-endpoint-reconciler-controller")
	generic.RESTOptionsGetter = metered(generic.RESTOptionsGetter, o.Meter)
	if o.Verb != nil {
		generic.RequestInfoResolver = ownVerbs{genericapiserver.NewRequestInfoResolver(generic), o.Verb}
	}
	if len(o.LongRunning) > 0 {
		isLong := generic.LongRunningFunc
		generic.LongRunningFunc = func(r *http.Request, info *apirequest.RequestInfo) bool {
			return isLong(r, info) || slices.Contains(o.LongRunning, info.Verb)
		}
	}
	if o.FlowOf != nil {
		fair := newFairness(o.FlowOf)
		generic.FlowControl = fair
		build := generic.BuildHandlerChainFunc
		generic.BuildHandlerChainFunc = func(h http.Handler, c *genericapiserver.Config) http.Handler { return build(fair.hold(h), c) }
	}
	if o.Guard != nil {
		build := generic.BuildHandlerChainFunc
		generic.BuildHandlerChainFunc = func(h http.Handler, c *genericapiserver.Config) http.Handler { return build(o.Guard(h), c) }
	}
	if o.Open != nil {
		build := generic.BuildHandlerChainFunc
		generic.BuildHandlerChainFunc = func(h http.Handler, c *genericapiserver.Config) http.Handler {
			return whenOpen(build(h, c), o.Open, c.LoopbackClientConfig.BearerToken)
		}
	}
	if o.Front != nil {
		build := generic.BuildHandlerChainFunc
		generic.BuildHandlerChainFunc = func(h http.Handler, c *genericapiserver.Config) http.Handler {
			return o.Front(build(h, c))
		}
	}
	build := generic.BuildHandlerChainFunc
	generic.BuildHandlerChainFunc = func(h http.Handler, c *genericapiserver.Config) http.Handler {
		return streamWatches(build(h, c), c)
	}
	if len(o.FirstAuthorizers)+len(o.Authorizers) == 0 {
		return nil
	}
	rbac := extension.Authorizer{Name: "RBAC", Authorizer: generic.Authorization.Authorizer}
	chain := slices.Concat(o.FirstAuthorizers, []extension.Authorizer{rbac}, o.Authorizers)
	named := make([]union.NamedAuthorizer, 0, len(chain))
	for _, a := range chain {
		named = append(named, union.NamedAuthorizer{AuthorizerName: a.Name, Authorizer: a.Authorizer})
	}
	var err error
	generic.Authorization.Authorizer, err = union.New(named...)
	return err
}

// serviceRange is where a full control plane takes cluster IPs from. Nothing
// routes to them.
const serviceRange = "10.96.0.0/16"

func buildFull(
	ctx context.Context, o Options, s *options.Options, raw *rawStores,
) (*aggregatorapiserver.APIAggregator, error) {
	run := kubeoptions.NewServerRunOptions()
	s.SystemNamespaces = run.SystemNamespaces // with kube-node-lease
	run.Options = s
	run.ServiceClusterIPRanges = serviceRange
	run.EndpointReconcilerType = string(reconcilers.NoneEndpointReconcilerType)
	run.AllowPrivileged = true
	completed, err := run.Complete(ctx)
	if err != nil {
		return nil, fmt.Errorf("complete the API server's options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("the API server's options: %w", utilerrors.NewAggregate(errs))
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return nil, fmt.Errorf("configure the API server: %w", err)
	}
	generic := config.KubeAPIs.ControlPlane.Generic
	generic.RESTOptionsGetter = raw.of(generic.RESTOptionsGetter)
	custom := &config.ApiExtensions.ExtraConfig
	custom.CRDRESTOptionsGetter = raw.of(custom.CRDRESTOptionsGetter)
	if err := adjust(generic, o); err != nil {
		return nil, err
	}
	convertInProcess(config.ApiExtensions, o.Conversions)
	// The front server was configured from a copy.
	config.Aggregator.GenericConfig.EffectiveVersion = generic.EffectiveVersion
	config.Aggregator.GenericConfig.ReadyzChecks = generic.ReadyzChecks
	config.Aggregator.GenericConfig.ShutdownWatchTerminationGracePeriod = generic.ShutdownWatchTerminationGracePeriod
	// Two of Kubernetes' own start hooks wait a second before they do their
	// work; ours do the same work at once.
	generic.DisabledPostStartHooks.Insert(rbacrest.PostStartHookName, schedulingrest.PostStartHookName)
	if err := generic.AddPostStartHook("muster-rbac-defaults", reconcileDefaultPolicy); err != nil {
		return nil, err
	}
	if err := generic.AddPostStartHook("muster-priority-classes", createPriorityClasses); err != nil {
		return nil, err
	}
	done, err := config.Complete()
	if err != nil {
		return nil, fmt.Errorf("complete the API server's configuration: %w", err)
	}
	return app.CreateServerChain(done)
}

// createPriorityClasses makes the system's priority classes, which pods of the
// system name.
func createPriorityClasses(hook genericapiserver.PostStartHookContext) error {
	client, err := kubernetes.NewForConfig(hook.LoopbackClientConfig)
	if err != nil {
		return err
	}
	var jobs []func() error
	for _, class := range schedulinghelpers.SystemPriorityClasses() {
		jobs = append(jobs, func() error {
			_, err := client.SchedulingV1().PriorityClasses().Create(hook, class, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
	return inParallel(len(jobs), jobs)
}

// servedVersion makes /version report the release of Kubernetes that is inside.
// Kubernetes takes it from linker flags, which go install does not set, and
// without which kubectl refuses to compare versions.
type servedVersion struct {
	compatibility.EffectiveVersion
	info *version.Info
}

func (v servedVersion) Info() *version.Info { return v.info }

// withServedVersion is effective, but for what /version says.
func withServedVersion(effective compatibility.EffectiveVersion) compatibility.EffectiveVersion {
	info := *effective.Info()
	release, err := apimachineryversion.ParseSemantic(musterversion.Module("k8s.io/kubernetes"))
	if err != nil {
		// Test binaries do not know their modules.
		release = apimachineryversion.MustParseSemantic(baseversion.DefaultKubeBinaryVersion + ".0")
	}
	info.Major, info.Minor = strconv.Itoa(int(release.Major())), strconv.Itoa(int(release.Minor()))
	info.GitVersion = "v" + release.String() + "+muster"
	info.GitCommit, info.GitTreeState, info.BuildDate = "", "", ""
	return servedVersion{EffectiveVersion: effective, info: &info}
}

// setWatchCacheGates turns off three features of the API server's watches and their
// caches. It has an effect on caches that are made afterwards. The
// gates are Kubernetes' own and hold for the whole process, as all its gates do.
//
// ListFromCacheSnapshot keeps every earlier version of an object for five to ten
// minutes, until the store is compacted, so that all pages of a list come from
// memory. A hub's objects change all the time, each cluster's lease once a minute,
// and it is hardly ever listed in pages: controllers and agents watch. Without it
// the second and later pages of a list are read from the store.
//
// DetectCacheInconsistency lists every kind from the cache and from the store
// every five minutes and compares names and versions: a quarter of the CPU while
// it runs with 10,000 clusters. All that it does with a difference is to log it
// and to stop serving from snapshots, which are off. The risk: if a bug
// made a cache miss an event, no log would say so. A restart of the server makes
// all caches from the store, with the check and without.
//
// WatchListCompression compresses what a watch that began with a list writes, by a
// compressor of more than half a megabyte. A hub's events are small, and watchstreams.go
// writes them plainly.
func setWatchCacheGates() error {
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.ListFromCacheSnapshot):    false,
		string(features.DetectCacheInconsistency): false,
		string(features.WatchListCompression):     false,
	})
	if err != nil {
		return fmt.Errorf("set the feature gates of the watch caches: %w", err)
	}
	return nil
}
