package hub_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

// externalEtcd runs an etcd of some members outside of any hub. It returns their URLs, and
// functions that stop them.
func externalEtcd(t *testing.T, members int) (urls []string, stop []func()) {
	t.Helper()
	free := func() url.URL { return url.URL{Scheme: "http", Host: testkit.FreeAddress(t)} }
	var configs []*embed.Config
	var cluster []string
	for i := range members {
		client, peer := free(), free()
		c := embed.NewConfig()
		c.Name, c.Dir, c.LogLevel = fmt.Sprintf("member-%d", i), t.TempDir(), "fatal"
		c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		c.LogOutputs = []string{"/dev/null"}
		configs, cluster = append(configs, c), append(cluster, c.InitialClusterFromName(c.Name))
		urls = append(urls, client.String())
	}
	var running []*embed.Etcd
	for _, c := range configs {
		c.InitialCluster = strings.Join(cluster, ",")
		e, err := embed.StartEtcd(c)
		testkit.Must(t, err)
		closeOnce := sync.OnceFunc(e.Close)
		t.Cleanup(closeOnce)
		running, stop = append(running, e), append(stop, closeOnce)
	}
	for _, e := range running {
		<-e.Server.ReadyNotify()
	}
	return urls, stop
}

// Two hubs share an external etcd, and by it their keys: both serve, one runs the
// controllers, and the other takes over when it goes, also when a member of etcd goes with
// it.
func TestReplicasShareAnExternalEtcd(t *testing.T) {
	etcd, stopMember := externalEtcd(t, 3)
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
	etcd, _ := externalEtcd(t, 1)
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
