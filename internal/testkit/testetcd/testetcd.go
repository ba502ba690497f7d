// Package testetcd runs an etcd outside of any hub, in the test's process.
package testetcd

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// Start runs an etcd of some members until the test ends. It returns their URLs, and functions
// that stop them.
func Start(t testing.TB, members int) (urls []string, stop []func()) {
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
