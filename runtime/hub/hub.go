// Package hub runs a fleet hub in one process: a Kubernetes control plane with
// the kinds of Open Cluster Management, its admission rules, and the
// controllers that register clusters and place workloads on them.
package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/version"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/conversion"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/admission"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/authorization"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/budget"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/clusterset"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/debug"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/fleetmetrics"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/manager"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/page"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/snapshot"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/tunnel"
)

// startTimeout is how long a start may take before it counts as failed. A
// healthy one takes about a second.
const startTimeout = 2 * time.Minute

// catchUp is how long a start waits for the controllers to see all objects that they
// watch. With a hundred thousand works that takes longer than agents and users should
// wait, and nothing that they ask for needs it; what does need it waits by itself.
const catchUp = 3 * time.Second

// Ready describes a hub that has started.
type Ready struct {
	// URL is where clients reach the hub.
	URL string
	// Kubeconfig is the administrator's kubeconfig file.
	Kubeconfig string
	// Authorizer decides about the requests of the hub's clients, for those who run
	// a hub in their process.
	Authorizer authorizer.UnconditionalAuthorizer
}

// Run runs a hub until ctx ends. It calls ready once /readyz is ok.
func Run(ctx context.Context, o Options, ready func(Ready)) error {
	if err := o.complete(); err != nil {
		return err
	}
	dir, err := datadir.Open(o.DataDir, "muster "+version.Version())
	if err != nil {
		return err
	}
	defer dir.Close()
	agents := authorization.NewAgents()
	o.budgets = budget.New(*o.Budgets, agents.Owners(), o.Clock)
	o.budgets.Shared = len(o.EtcdServers) > 0
	authorizers := []extension.Authorizer{authorization.BoundBootstrapTokens(), snapshot.Authorizer()}
	if o.Features.Enabled(features.PlacementDebugServer) {
		authorizers = append(authorizers, debug.Authorizer())
	}
	var front func(http.Handler) http.Handler
	if o.WebPage {
		authorizers = append(authorizers, page.Authorizer())
		o.front = page.NewFront(o.Clock, o.WebPageOIDC)
		front = o.front.Wrap
	}
	var installed, open atomic.Bool
	server, err := controlplane.Start(ctx, controlplane.Options{
		Name:                   "muster-hub",
		Dir:                    dir,
		BindAddress:            o.BindAddress,
		SecurePort:             o.SecurePort,
		ExternalURL:            o.ExternalURL,
		AdditionalExternalURLs: o.AdditionalExternalURLs, NamedCertificates: o.NamedCertificates,
		EtcdServers:       o.EtcdServers,
		EtcdCAFile:        o.EtcdCAFile,
		EtcdCertFile:      o.EtcdCertFile,
		EtcdKeyFile:       o.EtcdKeyFile,
		ReplicaKeyFile:    o.ReplicaKeyFile,
		ReplaceLostKeys:   o.ReplaceLostKeys,
		Authentication:    o.Authentication,
		Audit:             o.Audit,
		MinTLSVersion:     o.MinTLSVersion,
		TracingConfigFile: o.TracingConfigFile,

		EncryptedResources: o.encrypted(),
		Profiling:          o.Profiling,
		FirstAuthorizers:   []extension.Authorizer{agents.Authorizer()},
		Authorizers:        authorizers,
		Guard: func(next http.Handler) http.Handler {
			return o.budgets.Guard(agents.Guard(o.kubeconfigs.serve(o.tunnels.serve(next))))
		},
		// Each agent reads its own requests, by their label.
		SelectedBy: map[schema.GroupResource]string{
			certificatesv1.Resource("certificatesigningrequests"): cluster.NameLabel,
		},
		// Heartbeats.
		RenewalsInMemory: func(_, name string) bool { return name == cluster.LeaseName },
		Verb:             tunnel.Verb,
		LongRunning:      []string{muster.VerbTunnel},
		RightsChanged:    o.tunnels.wake,
		Front:            front,
		FlowOf:           agents.FlowOf,
		Meter:            o.budgets,
		Clock:            o.Clock,
		AdmissionPlugins: append(admission.Plugins(o.Clock, o.Features, o.ManifestLimit), agents.Admission()...),
		Conversions:      []controlplane.Conversion{{Namespace: cluster.HubNamespace, Service: addon.ConversionService, Convert: conversion.Convert}},
		FirstStatuses: []controlplane.FirstStatus{
			{Resource: clusterset.Resource(), Of: o.members.FirstStatus},
			{
				Resource: v1alpha1.GroupVersion.WithResource("managedclusteraddons").GroupResource(),
				Of:       o.firstAddOns.Of,
			},
		},
		Open: open.Load,
		ReadyChecks: []healthz.HealthChecker{healthz.NamedCheck("muster", func(*http.Request) error {
			if !installed.Load() {
				return errors.New("the hub's definitions and controllers are not there yet")
			}
			return nil
		})},
	})
	var lost *controlplane.LostKeysError
	if errors.As(err, &lost) {
		return fmt.Errorf("%w; %s", err, lostForGood)
	}
	if errors.Is(err, controlplane.ErrOtherSealingKey) {
		return o.explainKeys(err)
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
	if err := prepare(startCtx, ctx, o, server); err != nil {
		return stopped(ctx, err)
	}
	if err := o.serveTunnels(ctx, server); err != nil {
		return err
	}
	following := make(chan error, 1)
	go func() { following <- agents.Run(ctx, server.RESTConfig("muster-authorization")) }()
	controllers := make(chan error, 1)
	running := make(chan struct{})
	go func() {
		controllers <- within(ctx, server.Done(), func() error {
			return runControllers(ctx, o, server, running)
		})
	}()
	select {
	case <-running:
	case <-time.After(catchUp):
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
	ready(Ready{URL: server.URL, Kubeconfig: server.Kubeconfig, Authorizer: server.Authorizer})
	backupsCtx, stopBackups := context.WithCancel(ctx)
	var backups sync.WaitGroup
	if o.Backups != nil {
		backups.Go(func() { o.Backups.Run(backupsCtx, o.Clock, o.DataDir, o.Log.WithName("backup")) })
	}
	err := <-controllers
	stopBackups()
	backups.Wait()
	return stopped(ctx, err)
}

// stopped is the error of a hub that ends: none when its context was cancelled.
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

// stopTimeout is how long the controllers may take to end.
const stopTimeout = 3 * time.Second

// runControllers runs Kubernetes' own controllers and the hub's until ctx ends.
// With an etcd of its own the hub is alone; with a shared one its replicas elect
// the one that runs them. It closes running once the controllers have seen all
// objects that they watch, or take part in the election.
func runControllers(ctx context.Context, o Options, server *controlplane.Server, running chan<- struct{}) error {
	election, err := elect(o, server)
	if err != nil {
		return err
	}
	m, err := manager.New(server.RESTConfig("muster-hub"), manager.Options{
		Log: o.Log, Election: election, Memory: server.ListerWatcher, Transform: server.Shared,
	})
	if err != nil {
		return err
	}
	core := ctrlmanager.RunnableFunc(func(ctx context.Context) error {
		// Nothing runs pods here, so the namespaces of clusters need no service
		// accounts: two writes less for each cluster.
		return server.RunControllers(ctx, controlplane.ControllerOptions{PlainNamespaces: "!" + cluster.NameLabel, ExternalSigner: o.ExternalSigner})
	})
	if err := m.Add(core); err != nil {
		return err
	}
	all := o.controllers(server.CAData)
	if all.HubMade, err = o.newMaker(server, server.RESTConfig("muster-hub")); err != nil {
		return err
	}
	if err := controllers.Register(m, all); err != nil {
		return fmt.Errorf("register the controllers: %w", err)
	}
	if err := m.Add(&fleetmetrics.Reporter{Cache: m.GetCache(), Features: o.Features}); err != nil {
		return err
	}
	if err := o.tunnels.follow(ctx, m.GetCache()); err != nil {
		return err
	}
	server.HandlePath(hubinfo.SnapshotPath, snapshot.NewHandler(m.GetClient(), o.Clock))
	if o.front != nil {
		key, err := server.DeriveKey("web page")
		if err == nil {
			err = o.front.UseKey(key)
		}
		if err != nil {
			return err
		}
		server.HandlePrefix(page.Path, page.NewHandler(page.Options{Cached: m.GetClient(), Stored: m.GetAPIReader(),
			Clock: o.Clock, Features: o.Features, Scheduling: all.Scheduling, Version: version.Version()}))
	}
	err = m.Run(ctx, func() {
		close(running)
		if o.CaughtUp != nil {
			o.CaughtUp()
		}
	})
	if errors.Is(err, manager.ErrElectionLost) {
		return errors.New("this replica lost the election of the leader, as it could not reach etcd in time: start it again")
	}
	return err
}

// elect is how this replica takes part in the election of the leader; nil when
// the hub is alone.
func elect(o Options, server *controlplane.Server) (*manager.Election, error) {
	if len(o.EtcdServers) == 0 {
		return nil, nil
	}
	clientset, err := kubernetes.NewForConfig(server.RESTConfig("muster-leader-election"))
	if err != nil {
		return nil, err
	}
	identity := resourcelock.ResourceLockConfig{Identity: o.replica}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, cluster.HubNamespace, "muster-hub", nil, clientset.CoordinationV1(), identity)
	if err != nil {
		return nil, err
	}
	return &manager.Election{Lock: lock}, nil
}

// within runs f and returns its error. Once ctx has ended it waits for f no longer
// than stopTimeout, or until what f needs is gone, and returns nil then: some of
// what runs in f may be busy with a computation that ignores contexts.
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
