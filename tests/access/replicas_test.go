package access

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testetcd"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Both ends of a tunnel reach the hub by a load balancer, each a replica of its own at first.
// They meet, and meet again when the replicas are killed and started one after the other.
func TestTunnelsOfReplicas(t *testing.T) {
	const behind, replicas = "team-r", 3
	etcd, _ := testetcd.Start(t, 1)
	key := filepath.Join(t.TempDir(), "replica.key")
	testkit.Must(t, os.WriteFile(key, []byte(rand.Text()+rand.Text()), 0o600))
	var hubs []*testhub.Process
	var addresses []string
	for range replicas {
		p, err := testhub.StartHub(program, filepath.Join(t.TempDir(), "hub"),
			"--etcd-servers", strings.Join(etcd, ","), "--replica-key-file", key)
		testkit.Must(t, err)
		t.Cleanup(func() { _ = p.Kill() })
		hubs, addresses = append(hubs, p), append(addresses, strings.TrimPrefix(p.URL, "https://"))
	}
	config, err := clientcmd.BuildConfigFromFlags("", hubs[0].Kubeconfig)
	testkit.Must(t, err)
	config.Host, config.QPS = "https://"+balance(t, addresses), -1
	shared := hub
	t.Cleanup(func() { hub = shared })
	hub = &hubWorld{Hub: testfleet.Hub{Admin: config}, log: hubs[0].Log}

	clouds(t, behind)
	m := prepare(t, "replicas", chosen)
	m.startWith("--user-access", "--tunnels")
	a := askIn(t, behind, m, v1alpha1.AccessCertificate)
	access := a.has()
	bindTunnel(t, behind, jo)
	var open8 []opened
	for range 8 {
		c := open(t, a)
		through := kubernetes.NewForConfigOrDie(c.config(access))
		_, err := through.CoreV1().ConfigMaps(cloudNamespace).List(t.Context(), metav1.ListOptions{})
		testkit.Must(t, err)
		open8 = append(open8, c)
	}
	var watches []watch.Interface
	for _, c := range open8 {
		through := kubernetes.NewForConfigOrDie(c.config(access))
		news := metav1.ListOptions{LabelSelector: "news"}
		seen, err := through.CoreV1().ConfigMaps(cloudNamespace).Watch(t.Context(), news)
		testkit.Must(t, err)
		defer seen.Stop()
		watches = append(watches, seen)
	}
	for i, p := range hubs {
		testkit.Must(t, p.Kill())
		name := fmt.Sprintf("without-%d", i)
		testkit.Must(t, m.admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: cloudNamespace, Name: name, Labels: map[string]string{"news": "yes"},
		}}))
		for j, seen := range watches {
			e, more := <-seen.ResultChan()
			if !more {
				t.Fatalf("the watch %d has ended without the replica %d: %v", j, i, open8[j].Err())
			}
			if o, ok := e.Object.(*corev1.ConfigMap); !ok || o.Name != name {
				t.Fatalf("the watch %d without the replica %d: got %+v", j, i, e)
			}
		}
		testkit.Must(t, p.Restart())
	}
}

// balance leads each connection to one of the servers that there are, by chance.
func balance(t testing.TB, servers []string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
	})
	lead := func(from net.Conn) {
		defer func() { _ = from.Close() }()
		for _, i := range mathrand.Perm(len(servers)) {
			to, err := (&net.Dialer{}).DialContext(ctx, "tcp", servers[i])
			if err != nil {
				continue
			}
			go func() {
				_, _ = io.Copy(to, from)
				_ = to.Close()
			}()
			_, _ = io.Copy(from, to)
			return
		}
	}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go lead(from)
		}
	}()
	return listener.Addr().String()
}
