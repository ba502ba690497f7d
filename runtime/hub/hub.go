// Package hub runs a fleet hub in one process: a Kubernetes control plane with
// the kinds of Open Cluster Management, its admission rules, and the
// controllers that register clusters and place workloads on them.
package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/conversion"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/admission"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/authorization"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/gc"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/debug"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/install"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/manager"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// startTimeout is how long a start may take before it counts as failed. A
// healthy one takes about a second.
const startTimeout = 2 * time.Minute

// stopTimeout is how long the controllers may take to end.
const stopTimeout = 3 * time.Second

// Options say what hub to run.
type Options struct {
	// DataDir keeps all state. It is made when it does not exist.
	DataDir string
	// BindAddress is the address to listen on; 127.0.0.1 by default.
	BindAddress net.IP
	// SecurePort is the port to listen on; 0 takes a free one.
	SecurePort int
	// ExternalURL is where agents and users reach the hub, when that is not the
	// address that it listens on.
	ExternalURL string

	// EtcdServers are the URLs of an external etcd cluster that several replicas
	// of the hub may share. When there are none, etcd runs in this process.
	EtcdServers []string
	// EtcdCAFile, EtcdCertFile and EtcdKeyFile are for TLS to EtcdServers.
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string

	// ReplaceLostKeys makes the hub start with keys other than those that its
	// store was made with (--replace-lost-keys), as after their loss.
	ReplaceLostKeys bool

	// AutoApprove lists users whose clusters join without a human: each new
	// cluster is accepted once, and their certificate requests are approved. It
	// turns on the gate features.ManagedClusterAutoApproval.
	AutoApprove []string
	// CleanedResources are deleted with a cluster from its namespace, one kind
	// after the other (--gc-resource-list); gc.DefaultResources by default.
	CleanedResources []schema.GroupVersionResource
	// ManifestLimit is the greatest total size of a work's manifests, in bytes
	// (--manifest-limit); work.DefaultManifestLimit by default.
	ManifestLimit int
	// Labels are put on every namespace and RBAC object that the hub makes for a
	// cluster.
	Labels map[string]string
	// Features are the hub's feature gates; features.NewHub by default.
	Features featuregate.FeatureGate

	// ExternalSigner leaves it to somebody else to sign approved certificate
	// requests. Whoever does needs the authority in the data directory's folder
	// pki, as the hub takes no other's certificates.
	ExternalSigner bool

	// Clock is the real one by default. What Kubernetes itself keeps time of, such
	// as the expiry of tokens, goes by the real one anyway.
	Clock clock.WithTicker
	// Log is where the controllers log.
	Log logr.Logger
}

// Ready is what a hub that has started tells about itself.
type Ready struct {
	// URL is where clients reach the hub.
	URL string
	// Kubeconfig is the administrator's kubeconfig file.
	Kubeconfig string
}

// Run runs a hub until ctx ends. It calls ready once /readyz is ok.
func Run(ctx context.Context, o Options, ready func(Ready)) error {
	if err := o.complete(); err != nil {
		return err
	}
	dir, err := datadir.Open(o.DataDir, "muster hub")
	if err != nil {
		return err
	}
	defer dir.Close()
	agents := authorization.NewAgents()
	authorizers := []controlplane.Authorizer{authorization.BoundBootstrapTokens()}
	if o.Features.Enabled(features.PlacementDebugServer) {
		authorizers = append(authorizers, debug.Authorizer())
	}
	var installed, open atomic.Bool
	server, err := controlplane.Start(ctx, controlplane.Options{
		Name:             "muster-hub",
		Dir:              dir,
		BindAddress:      o.BindAddress,
		SecurePort:       o.SecurePort,
		ExternalURL:      o.ExternalURL,
		EtcdServers:      o.EtcdServers,
		EtcdCAFile:       o.EtcdCAFile,
		EtcdCertFile:     o.EtcdCertFile,
		EtcdKeyFile:      o.EtcdKeyFile,
		ReplaceLostKeys:  o.ReplaceLostKeys,
		FirstAuthorizers: []controlplane.Authorizer{agents.Authorizer()},
		Authorizers:      authorizers,
		Guard:            agents.Guard,
		FlowOf:           authorization.FlowOf,
		Clock:            o.Clock,
		AdmissionPlugins: append(admission.Plugins(o.Clock, o.Features, o.ManifestLimit), agents.Admission()),
		Conversions:      []controlplane.Conversion{{Namespace: cluster.HubNamespace, Service: addon.ConversionService, Convert: conversion.Convert}},
		Open:             open.Load,
		ReadyChecks: []healthz.HealthChecker{healthz.NamedCheck("muster", func(*http.Request) error {
			if !installed.Load() {
				return errors.New("the hub's definitions and controllers are not there yet")
			}
			return nil
		})},
	})
	var lost *controlplane.LostKeysError
	if errors.As(err, &lost) {
		return fmt.Errorf("%w; if it is lost for good, start the hub once with --replace-lost-keys: every cluster has to join again then, and every kubeconfig and token of before is void", err)
	}
	if err != nil {
		return stopped(ctx, err)
	}
	err = run(ctx, o, server, agents, func() { installed.Store(true) }, func(r Ready) {
		open.Store(true)
		ready(r)
	})
	if stopErr := server.Stop(); stopErr != nil {
		return stopErr // why the server stopped is why all else did
	}
	return err
}

// complete sets defaults and refuses what contradicts itself.
func (o *Options) complete() error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if len(o.CleanedResources) == 0 {
		o.CleanedResources = gc.DefaultResources()
	}
	if o.ManifestLimit == 0 {
		o.ManifestLimit = work.DefaultManifestLimit
	}
	if o.ManifestLimit < 0 {
		return fmt.Errorf("--manifest-limit %d is negative: give the greatest size of a work's manifests in bytes, or leave it out for %d", o.ManifestLimit, work.DefaultManifestLimit)
	}
	if o.Features == nil {
		o.Features = features.NewHub()
	}
	if err := features.Check(o.Features); err != nil {
		return err
	}
	return o.validateLabels()
}

// scheduling is how placements are scheduled.
func (o *Options) scheduling() scheduling.Options {
	return scheduling.Options{PreferNoSelect: o.Features.Enabled(features.PreferNoSelect), Expressions: scheduling.NewExpressions()}
}

// autoApproves tells whether new clusters are accepted by themselves.
func (o *Options) autoApproves() bool {
	return len(o.AutoApprove) > 0 || o.Features.Enabled(features.ManagedClusterAutoApproval)
}

// validateLabels checks the labels for all objects of clusters.
func (o *Options) validateLabels() error {
	var problems []error
	for _, k := range slices.Sorted(maps.Keys(o.Labels)) {
		v := o.Labels[k]
		switch bad := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); {
		case k == cluster.NameLabel || k == cluster.AddOnNameLabel:
			problems = append(problems, fmt.Errorf("--labels has %s, by which the hub finds the objects of a cluster: choose another key", k))
		case len(bad) > 0:
			problems = append(problems, fmt.Errorf("--labels has %s=%s, which is not a label: %s", k, v, strings.Join(bad, "; ")))
		}
	}
	return errors.Join(problems...)
}

// run does what needs a running server.
func run(ctx context.Context, o Options, server *controlplane.Server, agents *authorization.Agents, installed func(), ready func(Ready)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-server.Done():
			cancel(errors.New("the API server stopped"))
		case <-ctx.Done():
		}
	}()
	startCtx, stopStart := context.WithTimeout(ctx, startTimeout)
	defer stopStart()
	if err := prepare(startCtx, o, server); err != nil {
		return stopped(ctx, err)
	}
	following := make(chan error, 1)
	go func() { following <- agents.Run(ctx, server.RESTConfig("muster-authorization")) }()
	controllers := make(chan error, 1)
	running := make(chan struct{})
	go func() {
		controllers <- within(ctx, server.Done(), func() error { return lead(ctx, o, server, running) })
	}()
	select {
	case <-running:
	case err := <-controllers:
		return stopped(ctx, err)
	}
	select {
	case <-agents.Ready():
	case err := <-following:
		cancel(err)
		return stopped(ctx, errors.Join(err, <-controllers))
	case <-startCtx.Done():
		cancel(errors.New("the hub could not learn in time which clusters it has"))
		return stopped(ctx, <-controllers)
	}
	installed()
	if err := server.WaitReady(startCtx); err != nil {
		cancel(err)
		return stopped(ctx, errors.Join(err, <-controllers))
	}
	ready(Ready{URL: server.URL, Kubeconfig: server.Kubeconfig})
	return stopped(ctx, <-controllers)
}

// within runs f and returns its error, or nil when ctx has ended and f has not
// for stopTimeout, or what it needs is gone: some of what runs in it may be busy
// with a computation that takes no notice of contexts.
func within(ctx context.Context, gone <-chan struct{}, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-gone:
		return nil
	case <-time.After(stopTimeout):
		return nil
	}
}

// stopped is the error of a hub that ends: none when it was told to end.
func stopped(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return err
	case errors.Is(cause, context.Canceled):
		return nil
	}
	return cause
}

// prepare installs the definitions and the well-known objects.
func prepare(ctx context.Context, o Options, server *controlplane.Server) error {
	config := server.RESTConfig("muster-install")
	c, err := client.New(config, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
	if err != nil {
		return err
	}
	keys := install.Keys{CAData: server.CAData, ServiceAccountKeyHash: server.ServiceAccountKeyHash}
	if !o.ReplaceLostKeys {
		if err := install.SameKeys(ctx, c, keys); err != nil {
			return o.explainKeys(err)
		}
	}
	kinds, err := crds.Hub()
	if err != nil {
		return err
	}
	if o.Features.Enabled(features.ClusterProfile) {
		profile, err := crds.ClusterProfile()
		if err != nil {
			return err
		}
		kinds = append(kinds, profile...)
	}
	if err := definitions.Install(ctx, config, kinds); err != nil {
		return err
	}
	if o.Features.Enabled(features.PlacementDebugServer) {
		// Not the controllers' client, as a replica that waits for its turn has none.
		server.HandlePrefix(debug.Path, debug.NewHandler(c, o.Clock, o.scheduling()))
	}
	var enabled []string
	if o.Features.Enabled(features.PreferNoSelect) {
		enabled = append(enabled, hubinfo.PreferNoSelect)
	}
	return install.WellKnown(ctx, c, server.URL, keys, enabled...)
}

// explainKeys adds the remedy to the error of a hub whose keys are not those of
// its store.
func (o *Options) explainKeys(err error) error {
	folder := filepath.Join(o.DataDir, "pki")
	if len(o.EtcdServers) > 0 {
		return fmt.Errorf("share %s: %w: copy the folder pki of the first hub's data directory to %s", strings.Join(o.EtcdServers, ","), err, folder)
	}
	return fmt.Errorf("data directory %q: %w: put the folder %s back from the backup that the store is of; if it is lost for good, start the hub once with --replace-lost-keys: every cluster has to join again then, and every kubeconfig and token of before is void", o.DataDir, err, folder)
}

// lead runs the controllers. With an etcd of its own the hub is alone; with a
// shared one its replicas elect who runs them, and all the others wait. It
// closes running once the controllers run, or wait for their turn.
func lead(ctx context.Context, o Options, server *controlplane.Server, running chan<- struct{}) error {
	if len(o.EtcdServers) == 0 {
		return runControllers(ctx, o, server, func() { close(running) })
	}
	clientset, err := kubernetes.NewForConfig(server.RESTConfig("muster-leader-election"))
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this replica: %w", err)
	}
	identity := fmt.Sprintf("%s_%d", host, os.Getpid())
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, cluster.HubNamespace, "muster-hub", nil,
		clientset.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return err
	}
	close(running)
	led := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { led <- runControllers(ctx, o, server, func() {}) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	select {
	case <-ctx.Done():
		return nil
	default:
	}
	return errors.New("this replica lost the election of the leader, as it could not reach etcd in time: start it again")
}

// runControllers runs Kubernetes' own controllers and ours until ctx ends. It
// calls started once ours have filled their caches.
func runControllers(ctx context.Context, o Options, server *controlplane.Server, started func()) error {
	m, err := manager.New(server.RESTConfig("muster-hub"), o.Log)
	if err != nil {
		return err
	}
	if err := register(m, o); err != nil {
		return fmt.Errorf("register the controllers: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	core, ours := make(chan error, 1), make(chan error, 1)
	go func() {
		// Nothing runs pods here, so the namespaces of clusters need no service
		// accounts: two writes less for each cluster.
		core <- server.RunControllers(ctx, controlplane.ControllerOptions{PlainNamespaces: "!" + cluster.NameLabel, ExternalSigner: o.ExternalSigner})
	}()
	for _, kind := range watched(o) {
		// Asked for now, so that the wait below is for all of them.
		if _, err := m.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	go func() { ours <- m.Start(ctx) }()
	if m.GetCache().WaitForCacheSync(ctx) {
		started()
	}
	select {
	case err := <-core:
		cancel()
		return errors.Join(err, <-ours)
	case err := <-ours:
		cancel()
		return errors.Join(err, <-core)
	}
}
