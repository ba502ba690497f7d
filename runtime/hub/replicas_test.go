package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testetcd"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

// Two hubs share an external etcd, and by it their keys: both serve, one runs the
// controllers, and the other takes over when it goes, also when a member of etcd goes with
// it.
func TestReplicasShareAnExternalEtcd(t *testing.T) {
	etcd, stopMember := testetcd.Start(t, 3)
	key := filepath.Join(t.TempDir(), "replica.key")
	testkit.Must(t, os.WriteFile(key, []byte(strings.Repeat("k", 64)+"\n"), 0o600))
	first, stopFirst, err := start(hub.Options{DataDir: t.TempDir(), EtcdServers: etcd, ReplicaKeyFile: key})
	testkit.Must(t, err)
	other := filepath.Join(t.TempDir(), "other.key")
	testkit.Must(t, os.WriteFile(other, []byte(strings.Repeat("o", 64)), 0o600))
	for _, x := range []struct{ file, want string }{
		{"", "give all hubs the same --replica-key-file"},
		{other, "give the file that the other replicas have"},
	} {
		_, _, err = start(hub.Options{DataDir: t.TempDir(), EtcdServers: etcd, ReplicaKeyFile: x.file})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Fatalf("a hub with the key file %q: got %v, want an error with %q", x.file, err, x.want)
		}
	}
	second, stopSecond, err := start(hub.Options{DataDir: t.TempDir(), EtcdServers: etcd, ReplicaKeyFile: key})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, stopSecond()) })

	shared := admin
	t.Cleanup(func() { admin = shared })
	for i, ready := range []hub.Ready{first, second} {
		admin, err = clientcmd.BuildConfigFromFlags("", ready.Kubeconfig)
		testkit.Must(t, err)
		name := []string{"one", "two"}[i]
		mc := newCluster(name)
		mc.Spec.HubAcceptsClient = ptr.To(true)
		testkit.Must(t, clientFor(t, admin).Create(context.Background(), mc))
		waitForCluster(t, name, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionTrue, cluster.ReasonHubAccepted))
		if i == 0 {
			testkit.Must(t, stopFirst()) // the leader
			stopMember[0]()
		}
	}
}

// A leader whose controllers fail is no leader without controllers: it ends.
func TestALeaderWhoseControllersFailEnds(t *testing.T) {
	etcd, _ := testetcd.Start(t, 1)
	dirs := []string{t.TempDir(), t.TempDir()}
	_, stopFirst, err := start(hub.Options{DataDir: dirs[0], EtcdServers: etcd})
	testkit.Must(t, err)
	testkit.Must(t, os.CopyFS(filepath.Join(dirs[1], "pki"), os.DirFS(filepath.Join(dirs[0], "pki"))))
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		o := hub.Options{DataDir: dirs[1], EtcdServers: etcd, Log: setupLogging()}
		ended <- hub.Run(context.Background(), o, func(hub.Ready) { close(ready) })
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	// What a leader needs and a replica that waits does not.
	testkit.Must(t, os.Remove(filepath.Join(dirs[1], "pki", "service-account.key")))
	testkit.Must(t, stopFirst())
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "read the service-account key") {
			t.Errorf("got %v, want the error of the controllers", err)
		}
	case <-time.After(time.Minute):
		t.Error("the hub goes on without its controllers")
	}
}

// Replicas are stopped and started one after the other, as for a new version: no write
// that a hub has acknowledged is lost, another leader takes over at once, and clients come
// back to the replica that was away.
func TestReplicasRestartOneByOne(t *testing.T) {
	etcd, _ := testetcd.Start(t, 3)
	key := filepath.Join(t.TempDir(), "replica.key")
	testkit.Must(t, os.WriteFile(key, []byte(strings.Repeat("k", 64)), 0o600))
	var replicas [3]hub.Options
	var stop [3]func() error
	var config *rest.Config
	for i := range replicas {
		_, port, err := net.SplitHostPort(testkit.FreeAddress(t))
		testkit.Must(t, err)
		replicas[i] = hub.Options{DataDir: t.TempDir(), EtcdServers: etcd, ReplicaKeyFile: key}
		replicas[i].SecurePort, err = strconv.Atoi(port)
		testkit.Must(t, err)
		ready, stopIt, err := start(replicas[i])
		testkit.Must(t, err)
		stop[i] = sync.OnceValue(stopIt)
		t.Cleanup(func() { testkit.Must(t, stop[i]()) })
		config, err = clientcmd.BuildConfigFromFlags("", ready.Kubeconfig)
		testkit.Must(t, err)
	}

	// A load balancer: each connection goes to the next replica that takes it.
	var next, connections atomic.Int64
	var dialed [3]atomic.Int64
	config.QPS = -1
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var failed error
		for range replicas {
			i := next.Add(1) % int64(len(replicas))
			conn, err := (&net.Dialer{}).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", replicas[i].SecurePort))
			if err == nil {
				connections.Add(1)
				dialed[i].Add(1)
				return conn, nil
			}
			failed = err
		}
		return nil, failed
	}
	c := clientFor(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	var written []string
	refused, wrote := 0, make(chan struct{})
	go func() {
		defer close(wrote)
		for n := 0; ctx.Err() == nil; n++ {
			object := &corev1.ConfigMap{}
			object.Namespace, object.Name = metav1.NamespaceDefault, fmt.Sprintf("write-%d", n)
			if err := c.Create(ctx, object); err != nil {
				refused++
				continue
			}
			written = append(written, object.Name)
		}
	}()
	holder := func() (string, error) {
		lease := &coordinationv1.Lease{}
		err := c.Get(ctx, client.ObjectKey{Namespace: cluster.HubNamespace, Name: "muster-hub"}, lease)
		return ptr.Deref(lease.Spec.HolderIdentity, ""), err
	}
	handovers := 0
	for i := range replicas {
		before, err := holder()
		testkit.Must(t, err)
		began := time.Now()
		testkit.Must(t, stop[i]())
		stopped := time.Since(began)
		testkit.EventuallyWithin(t, 5*time.Second, "a leader, sooner than a lease ends", func() error {
			now, err := holder()
			if err == nil && now == "" {
				err = errors.New("nobody leads")
			}
			if err == nil && now != before {
				handovers++
			}
			return err
		})
		t.Logf("replica %d: stopped in %v, a leader after %v, %d connections so far",
			i, stopped, time.Since(began), connections.Load())
		_, again, err := start(replicas[i])
		testkit.Must(t, err)
		stop[i] = sync.OnceValue(again)
		was := dialed[i].Load()
		testkit.EventuallyThat(t, "clients come back to the replica", func() error {
			if dialed[i].Load() == was {
				return errors.New("no connection")
			}
			return nil
		})
	}
	cancel()
	<-wrote
	if handovers == 0 {
		t.Error("no leader has handed over")
	}
	there := &corev1.ConfigMapList{}
	testkit.Must(t, clientFor(t, config).List(t.Context(), there, client.InNamespace(metav1.NamespaceDefault)))
	names := map[string]bool{}
	for _, object := range there.Items {
		names[object.Name] = true
	}
	for _, name := range written {
		if !names[name] {
			t.Errorf("the acknowledged write %s is lost", name)
		}
	}
	t.Logf("%d writes acknowledged, %d failed, %d handovers, %d connections",
		len(written), refused, handovers, connections.Load())
}
