// Package testenv runs a real control plane for the tests of one package.
//
//	var env testenv.Env
//
//	func TestMain(m *testing.M) { testenv.Main(m, &env) }
package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/conversion"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
	hubmanager "github.com/muster-fleet/terraform-provider-muster/runtime/hub/manager"
)

// Env is a control plane with the kinds of the wire.
type Env struct {
	Server *controlplane.Server

	client client.Client
	log    logr.Logger
}

// Option changes what Main starts.
type Option func(*options)

type options struct {
	controlplane   controlplane.Options
	managedCluster bool
	externalSigner bool
	gated          []kinds.Server
	prepare        func(ctx context.Context, s *controlplane.Server) (stop func(), err error)
}

// ManagedCluster makes the control plane one with the ordinary APIs of a
// cluster, and adds the kinds that agents need there to those of a hub. Tests
// of an agent use it as both.
func ManagedCluster() Option {
	return func(o *options) {
		o.managedCluster = true
		o.controlplane.Flavour = controlplane.Full
	}
}

// ExternalSigner leaves the signing of approved certificate requests to the tests.
func ExternalSigner() Option {
	return func(o *options) { o.externalSigner = true }
}

// ControlPlane gives the control plane further options, such as admission
// plugins.
func ControlPlane(change func(*controlplane.Options)) Option {
	return func(o *options) { change(&o.controlplane) }
}

// Gated serves the kinds of feature gates, too, such as kinds.HubWithUserAccess.
func Gated(servers ...kinds.Server) Option {
	return func(o *options) { o.gated = append(o.gated, servers...) }
}

// With runs start once the definitions are installed, and what it returns
// after the tests.
func With(start func(ctx context.Context, s *controlplane.Server) (stop func(), err error)) Option {
	return func(o *options) { o.prepare = start }
}

// Main runs the tests of a package against one control plane and exits.
func Main(m *testing.M, env *Env, opts ...Option) {
	code, err := run(m, env, opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the tests' control plane:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, env *Env, opts []Option) (code int, err error) {
	o := newOptions(opts)
	env.log = logging.Library(logging.Setup(context.Background(), logWriter(), 4, false))
	path, err := os.MkdirTemp("", "muster-test-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(path) }()
	dir, err := datadir.Open(path, "muster test")
	if err != nil {
		return 1, err
	}
	defer dir.Close()
	o.controlplane.Dir = dir

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	env.Server, err = controlplane.Start(ctx, o.controlplane)
	if err != nil {
		return 1, err
	}
	defer func() { _ = env.Server.Stop() }()
	if err := env.Server.WaitReady(ctx); err != nil {
		return 1, err
	}
	controllers := make(chan error, 1)
	controllersCtx, stopControllers := context.WithCancel(ctx)
	go func() {
		controllers <- env.Server.RunControllers(controllersCtx, controlplane.ControllerOptions{
			PlainNamespaces: "!" + cluster.NameLabel, ExternalSigner: o.externalSigner,
		})
	}()
	defer func() {
		stopControllers()
		if stopErr := <-controllers; err == nil {
			err = stopErr
		}
	}()
	served, err := o.definitions()
	if err != nil {
		return 1, err
	}
	if err := definitions.Install(ctx, env.Config("muster-test"), served); err != nil {
		return 1, err
	}
	env.client, err = newClient(env.Config("muster-test"))
	if err != nil {
		return 1, err
	}
	if o.prepare != nil {
		stop, err := o.prepare(ctx, env.Server)
		if err != nil {
			return 1, err
		}
		defer stop()
	}
	return m.Run(), nil
}

func newOptions(opts []Option) options {
	o := options{controlplane: controlplane.Options{
		Name:        "muster-test",
		Conversions: []controlplane.Conversion{{Namespace: cluster.HubNamespace, Service: addon.ConversionService, Convert: conversion.Convert}},
	}}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// definitions are those of a hub, those of its gates, and those of a managed cluster
// where the server is both.
func (o options) definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	served, err := crds.Hub()
	if o.managedCluster {
		more, failed := crds.ManagedCluster()
		served, err = append(served, more...), errors.Join(err, failed)
	}
	for _, server := range o.gated {
		more, failed := crds.Gated(server)
		served, err = append(served, more...), errors.Join(err, failed)
	}
	return served, err
}

// logWriter is where the servers' logs go: nowhere, or with MUSTER_TEST_LOGS
// set, to the standard error.
func logWriter() io.Writer {
	if os.Getenv("MUSTER_TEST_LOGS") != "" {
		return os.Stderr
	}
	return io.Discard
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := api.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme, Mapper: restmapper.Static()})
}

// Config has all rights and no rate limit, and reaches the control plane
// without a socket.
func (e *Env) Config(userAgent string) *rest.Config { return e.Server.RESTConfig(userAgent) }

// Kubeconfig is the administrator's kubeconfig file, for access by TLS.
func (e *Env) Kubeconfig() string { return e.Server.Kubeconfig }

// Client reads from and writes to the control plane directly.
func (e *Env) Client() client.Client { return e.client }

// ClientFor is a client with the rights of config.
func (e *Env) ClientFor(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := newClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Counting is a client with all rights, and the count of its writes.
func (e *Env) Counting(t testing.TB) (client.Client, *testkit.Writes) {
	t.Helper()
	writes := &testkit.Writes{}
	config := e.Config("muster-test-counting")
	config.Wrap(writes.Wrap)
	return e.ClientFor(t, config), writes
}

// World is a world of the control plane for one test.
func (e *Env) World(t testing.TB) *testworld.World { return testworld.New(t, e.client) }

// StartManager runs controllers until the test ends.
func (e *Env) StartManager(t testing.TB, register func(manager.Manager) error) {
	t.Helper()
	stop, err := RunManager(e.Config("muster-controllers"), e.log, register)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

// RunManager runs controllers until stop is called, which waits for their end.
func RunManager(config *rest.Config, log logr.Logger, register func(manager.Manager) error) (stop func(), err error) {
	m, err := hubmanager.New(config, hubmanager.Options{Log: log})
	if err != nil {
		return nil, err
	}
	if err := register(m); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	if !m.GetCache().WaitForCacheSync(ctx) {
		cancel()
		return nil, fmt.Errorf("the controllers' caches did not fill: %w", <-done)
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			log.Error(err, "the controllers ended with an error")
		}
	}, nil
}

// Namespace makes a namespace for one test and returns its name.
func Namespace(t testing.TB, c client.Client) string {
	t.Helper()
	return testworld.New(t, c).Namespace()
}

// Eventually is testkit.Eventually, for tests that have not moved to it yet.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	testkit.Eventually(t, check)
}
