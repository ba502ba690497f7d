package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	mutatingadmissionpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	cliflag "k8s.io/component-base/cli/flag"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	genericsample "k8s.io/kubernetes/pkg/controlplane/apiserver/samples/generic/server"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// serviceAccountIssuer is the issuer in service-account tokens.
const serviceAccountIssuer = "https://kubernetes.default.svc"

// maxTokenLife is how long the token of a service account lives at most, where there are
// no pods that need more.
const maxTokenLife = 24 * time.Hour

// buildChain puts the three API servers of a control plane behind each other:
// aggregation, the built-in resources, custom resources.
func buildChain(ctx context.Context, o Options, listener net.Listener, files certificateFiles, etcdServers []string) (*aggregatorapiserver.APIAggregator, error) {
	opts := serverOptions(o, listener, files, etcdServers)
	ca, err := newClientCA(files.caCert, o.Clock)
	if err != nil {
		return nil, err
	}
	opts.Authentication.ClientCert.CAContentProvider = ca
	if err := setWatchCacheGates(); err != nil {
		return nil, err
	}
	if o.Flavour == Full {
		return buildFull(ctx, o, opts)
	}
	return buildGeneric(ctx, o, opts)
}

// serverOptions is what both flavours set.
func serverOptions(o Options, listener net.Listener, files certificateFiles, etcdServers []string) *options.Options {
	s := options.NewOptions()
	addr := listener.Addr().(*net.TCPAddr)

	s.SecureServing.Listener = listener
	s.SecureServing.BindAddress = o.BindAddress
	s.SecureServing.BindPort = addr.Port
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
	s.Authorization.Modes = []string{"RBAC"}

	// Priority and fairness costs 0.3 s of the start; see fairness.
	s.Features.EnablePriorityAndFairness = false
	s.Features.EnableProfiling = false

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

func buildGeneric(ctx context.Context, o Options, s *options.Options) (*aggregatorapiserver.APIAggregator, error) {
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
	generic.Authentication.Authenticator = issued{generic.Authentication.Authenticator}
	if generic.Authentication.RequestHeaderConfig == nil { // no front proxy, whose users are others in each request
		generic.Authentication.Authenticator = &verified{Request: generic.Authentication.Authenticator, options: s.Authentication.ClientCert.CAContentProvider.VerifyOptions}
	}
	if err := adjust(generic, o); err != nil {
		return nil, err
	}
	native, initializers, err := genericControlPlaneConfig(completed, generic, versionedInformers, storageFactory)
	if err != nil {
		return nil, fmt.Errorf("configure the built-in APIs: %w", err)
	}
	return assembleGeneric(o, completed, native, initializers)
}

func genericControlPlaneConfig(completed options.CompletedOptions, generic *genericapiserver.Config, versionedInformers informers.SharedInformerFactory, storageFactory *serverstorage.DefaultStorageFactory) (*controlplaneapiserver.Config, []admission.PluginInitializer, error) {
	return controlplaneapiserver.CreateConfig(completed, generic, versionedInformers, nil, storageFactory, webhook.NewDefaultServiceResolver(), nil)
}

func assembleGeneric(o Options, completed options.CompletedOptions, native *controlplaneapiserver.Config, initializers []admission.PluginInitializer) (*aggregatorapiserver.APIAggregator, error) {
	resolver := webhook.NewDefaultServiceResolver()
	auth := webhook.NewDefaultAuthenticationInfoResolverWrapper(native.ProxyTransport, native.Generic.EgressSelector, native.Generic.LoopbackClientConfig, native.Generic.TracerProvider)
	// With a master count of one, a new custom resource is served at once; with
	// more, Kubernetes waits five seconds for the other servers to see it.
	extensions, err := controlplaneapiserver.CreateAPIExtensionsConfig(*native.Generic, native.VersionedInformers, initializers, completed, 1, resolver, auth)
	if err != nil {
		return nil, fmt.Errorf("configure custom resources: %w", err)
	}
	convertInProcess(extensions, o.Conversions)
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
