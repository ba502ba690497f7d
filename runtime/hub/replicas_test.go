package hub_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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

// externalEtcd runs an etcd outside of any hub and returns its URL.
func externalEtcd(t *testing.T) string {
	t.Helper()
	free := func() url.URL { return url.URL{Scheme: "http", Host: testkit.FreeAddress(t)} }
	client, peer := free(), free()
	c := embed.NewConfig()
	c.Dir, c.LogLevel = t.TempDir(), "fatal"
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.LogOutputs = []string{"/dev/null"}
	e, err := embed.StartEtcd(c)
	testkit.Must(t, err)
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return client.String()
}

// Two hubs share an external etcd: both serve, one runs the controllers, and
// the other takes over when it goes.
func TestReplicasShareAnExternalEtcd(t *testing.T) {
	etcd := externalEtcd(t)
	dirs := []string{t.TempDir(), t.TempDir()}
	first, stopFirst, err := start(hub.Options{DataDir: dirs[0], EtcdServers: []string{etcd}})
	testkit.Must(t, err)
	_, _, err = start(hub.Options{DataDir: t.TempDir(), EtcdServers: []string{etcd}})
	if err == nil || !strings.Contains(err.Error(), "copy the folder pki") {
		t.Fatalf("a hub with another certificate authority: got %v, want an error with the remedy", err)
	}
	testkit.Must(t, os.CopyFS(filepath.Join(dirs[1], "pki"), os.DirFS(filepath.Join(dirs[0], "pki"))))
	second, stopSecond, err := start(hub.Options{DataDir: dirs[1], EtcdServers: []string{etcd}})
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
		}
	}
}

// A leader whose controllers fail is no leader without controllers: it ends.
func TestALeaderWhoseControllersFailEnds(t *testing.T) {
	etcd := externalEtcd(t)
	dirs := []string{t.TempDir(), t.TempDir()}
	_, stopFirst, err := start(hub.Options{DataDir: dirs[0], EtcdServers: []string{etcd}})
	testkit.Must(t, err)
	testkit.Must(t, os.CopyFS(filepath.Join(dirs[1], "pki"), os.DirFS(filepath.Join(dirs[0], "pki"))))
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		o := hub.Options{DataDir: dirs[1], EtcdServers: []string{etcd}, Log: setupLogging()}
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
