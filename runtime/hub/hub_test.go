package hub_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

// admin reaches the hub that all tests of this package share, over the network
// and with the kubeconfig that a user gets.
var admin *rest.Config

// decides is that hub's authorizer.
var decides authorizer.UnconditionalAuthorizer

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the tests' hub:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "muster-hub-test-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	gates := features.NewHub()
	if err := gates.Set("ClusterImport=true"); err != nil {
		return 1, err
	}
	// The audit log and the encryption are what the command has by default.
	ready, stop, err := start(hub.Options{
		DataDir: dir, Features: gates, EncryptedResources: []string{"secrets"},
		Audit: controlplane.Audit{LogPath: filepath.Join(dir, "audit", "audit.log"), MaxSize: 100, MaxBackups: 1},
	})
	if err != nil {
		return 1, err
	}
	if admin, err = clientcmd.BuildConfigFromFlags("", ready.Kubeconfig); err != nil {
		return 1, err
	}
	admin.QPS, decides = -1, ready.Authorizer
	code := m.Run()
	return code, stop()
}

// setupLogging sets up the log of all hubs, once.
var setupLogging = sync.OnceValue(func() logr.Logger {
	if os.Getenv("MUSTER_TEST_LOGS") != "" {
		return logging.Library(logging.Setup(context.Background(), os.Stderr, 2, false))
	}
	return logging.Library(logging.Setup(context.Background(), io.Discard, 2, false))
})

// start runs a hub until stop is called.
func start(o hub.Options) (ready hub.Ready, stop func() error, err error) {
	o.Log = setupLogging()
	ctx, cancel := context.WithCancel(context.Background())
	readyCh, done := make(chan hub.Ready, 1), make(chan error, 1)
	go func() { done <- hub.Run(ctx, o, func(r hub.Ready) { readyCh <- r }) }()
	select {
	case ready = <-readyCh:
	case err := <-done:
		cancel()
		return ready, nil, err
	}
	return ready, func() error {
		cancel()
		// The server's metrics ask the storage of the hub that started last, a
		// second for each kind when it is gone.
		metrics.SetStorageMonitorGetter(func() ([]metrics.Monitor, error) { return nil, nil })
		return <-done
	}, nil
}

func withToken(token string) *rest.Config { return testfleet.Hub{Admin: admin}.WithToken(token) }

func withCertificate(cert, key []byte) *rest.Config {
	return testfleet.Hub{Admin: admin}.WithCertificate(cert, key)
}

// impersonate is the administrator in the role of another user.
func impersonate(user string, groups ...string) *rest.Config {
	c := rest.CopyConfig(admin)
	c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return c
}

func clientFor(t testing.TB, c *rest.Config) client.Client {
	t.Helper()
	return testfleet.Client(t, c)
}

func clientsetFor(t testing.TB, c *rest.Config) kubernetes.Interface {
	t.Helper()
	return testfleet.Clientset(t, c)
}

// clusterName is a name that no other test uses. The cluster of that name, if
// the test makes it, goes with the test.
func clusterName(t testing.TB, prefix string) string {
	t.Helper()
	name := fmt.Sprintf("%s-%x", prefix, time.Now().UnixNano()&0xffffff)
	t.Cleanup(func() {
		mc := &clusterv1.ManagedCluster{}
		mc.Name = name
		_ = clientFor(t, admin).Delete(context.Background(), mc)
	})
	return name
}

// waitForCluster returns a cluster once it satisfies a condition.
func waitForCluster(t testing.TB, name string, check func(*clusterv1.ManagedCluster) error) *clusterv1.ManagedCluster {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	c := clientFor(t, admin)
	testkit.Eventually(t, func() error {
		if err := c.Get(context.Background(), types.NamespacedName{Name: name}, mc); err != nil {
			return err
		}
		return check(mc)
	})
	return mc
}
