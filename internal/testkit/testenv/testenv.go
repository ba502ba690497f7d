// Package testenv runs a real control plane for the tests of one package, in a process
// of its own.
//
//	var env testenv.Env
//
//	func TestMain(m *testing.M) { testenv.Main(m, &env) }
package testenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
	hubmanager "github.com/muster-fleet/terraform-provider-muster/runtime/hub/manager"
)

// Env is a control plane with the kinds of the wire.
type Env struct {
	config *rest.Config
	client client.Client
	log    logr.Logger
}

// Option changes what Main starts.
type Option func(*options)

type options struct {
	flags   []string
	prepare func(context.Context) (stop func(), err error)
}

// ManagedCluster makes the control plane one with the ordinary APIs of a
// cluster, and adds the kinds that agents need there to those of a hub. Tests
// of an agent use it as both.
func ManagedCluster() Option {
	return func(o *options) { o.flags = append(o.flags, "--managed-cluster") }
}

// ExternalSigner leaves the signing of approved certificate requests to the tests.
func ExternalSigner() Option {
	return func(o *options) { o.flags = append(o.flags, "--external-signer") }
}

// Gated serves the kinds of a feature gate, too, such as kinds.HubWithUserAccess.
func Gated(server kinds.Server) Option {
	return func(o *options) { o.flags = append(o.flags, "--gated", string(server)) }
}

// With runs start once the control plane is ready, and what it returns after the tests.
func With(start func(context.Context) (stop func(), err error)) Option {
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
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	// Logs are written nowhere, or with MUSTER_TEST_LOGS to the standard error.
	logs, verbosity := io.Discard, 0
	if os.Getenv("MUSTER_TEST_LOGS") != "" {
		logs, verbosity = os.Stderr, 4
	}
	env.log = logging.Library(logging.Setup(context.Background(), logs, verbosity, false))
	dir, err := os.MkdirTemp("", "muster-test-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, err := program(dir)
	if err != nil {
		return 1, err
	}
	server, err := testhub.StartControlPlane(program, filepath.Join(dir, "server"), o.flags...)
	if err != nil {
		return 1, err
	}
	defer func() { _ = server.Kill() }() // nobody needs its state
	if err := env.connect(server.Kubeconfig); err != nil {
		return 1, err
	}
	if o.prepare != nil {
		stop, err := o.prepare(context.Background())
		if err != nil {
			return 1, err
		}
		defer stop()
	}
	return m.Run(), nil
}

// program is the path of the command testserver, which is built in dir unless the
// environment names one.
func program(dir string) (string, error) {
	if path := os.Getenv("MUSTER_TESTSERVER_BIN"); path != "" {
		return path, nil
	}
	path := filepath.Join(dir, "testserver")
	build := exec.Command("go", "build", "-o", path, "github.com/muster-fleet/terraform-provider-muster/internal/testkit/testserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as everything that links the control plane
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build testserver: %w\n%s", err, out)
	}
	return path, nil
}

func (e *Env) connect(kubeconfig string) (err error) {
	e.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	e.config.QPS = -1
	e.client, err = newClient(e.config)
	return err
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := api.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme, Mapper: restmapper.Static()})
}

// Config has all rights and no rate limit.
func (e *Env) Config(userAgent string) *rest.Config {
	config := rest.CopyConfig(e.config)
	config.UserAgent = userAgent
	return config
}

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
