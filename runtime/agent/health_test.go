package agent_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// awaitAnswer waits until the agent's health server answers in a certain way.
func (f *fleetCluster) awaitAnswer(path string, code int, part string) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		response, err := http.Get("http://" + f.options.HealthAddress + path)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if response.StatusCode != code || !strings.Contains(string(body), part) {
			return fmt.Errorf("%s answers %d %.400s, want %d and %q in it", path, response.StatusCode, body, code, part)
		}
		return nil
	})
}

func TestHealthAndMetrics(t *testing.T) {
	f := newCluster(t, "healthy")
	f.options.HealthAddress = testkit.FreeAddress(t)
	f.start()
	f.awaitAnswer("/livez", http.StatusOK, "waiting for the hub to approve the certificate request "+f.name+"-")
	f.approve()
	f.accept(true)
	f.awaitAnswer("/readyz", http.StatusOK, "registered with the hub "+fleet.url)
	f.awaitAnswer("/metrics", http.StatusOK, "muster_agent_heartbeats_total 1")
	f.awaitAnswer("/healthz?verbose", http.StatusOK, "[+]hub-kube-config ok")
}

// An agent is ready from the hub's first answer on, and stays so while the hub is away.
func TestAgentIsReadyOnceTheHubHasAnswered(t *testing.T) {
	f := newCluster(t, "ready-later")
	good, err := os.ReadFile(f.options.BootstrapKubeconfig)
	must(t, err)
	nowhere := strings.ReplaceAll(string(good), fleet.url, "https://"+testkit.FreeAddress(t))
	if nowhere == string(good) {
		t.Fatalf("the bootstrap kubeconfig does not lead to %s", fleet.url)
	}
	f.options.BootstrapKubeconfig = t.TempDir() + "/kubeconfig"
	must(t, os.WriteFile(f.options.BootstrapKubeconfig, []byte(nowhere), 0o600))
	f.options.HealthAddress = testkit.FreeAddress(t)
	ready := make(chan struct{})
	f.options.Ready = func() { close(ready) }
	f.start()
	f.awaitAnswer("/livez", http.StatusOK, "cannot be reached")
	f.awaitAnswer("/readyz", http.StatusServiceUnavailable, "cannot be reached")
	must(t, os.WriteFile(f.options.BootstrapKubeconfig, good, 0o600))
	f.awaitAnswer("/readyz", http.StatusOK, "ok: ")
	<-ready
}

func TestExpiredCertificateShowsInHealthz(t *testing.T) {
	f := newCluster(t, "unhealthy")
	f.options.ClientCertExpirationSeconds = 3600
	f.options.HealthAddress = testkit.FreeAddress(t)
	f.join()
	f.stopAgent()
	// The token's cluster has joined before, so that nobody approves the request
	// for a new certificate.
	f.options.Clock = shiftedClock{by: 2 * time.Hour}
	f.start()
	f.awaitAnswer("/healthz", http.StatusInternalServerError, "hub-kube-config")
	f.awaitAnswer("/livez", http.StatusOK, "waiting for the hub to approve") // a restart would not help
}

func TestIdentityIsWrittenAsFiles(t *testing.T) {
	f := newCluster(t, "files")
	f.options.HubKubeconfigDir = t.TempDir() + "/identity"
	f.join()
	identity := f.identity()
	delete(identity, muster.PlaceKey) // the agent's own
	for key, want := range identity {
		path := f.options.HubKubeconfigDir + "/" + key
		got, err := os.ReadFile(path)
		must(t, err)
		info, err := os.Stat(path)
		must(t, err)
		if string(got) != want || info.Mode().Perm() != 0o600 {
			t.Errorf("the file %s, of mode %v, differs from the Secret", key, info.Mode())
		}
	}
	if n := len(identity); n != 5 {
		t.Errorf("%d keys", n)
	}

	// A renewal reaches the files; what else is there stays.
	must(t, os.WriteFile(f.options.HubKubeconfigDir+"/own", nil, 0o600))
	was := f.identity()[cluster.TLSCertKey]
	f.loseIdentity()
	testenv.Eventually(t, func() error {
		got, err := os.ReadFile(f.options.HubKubeconfigDir + "/" + cluster.TLSCertKey)
		if err == nil && string(got) == was {
			err = fmt.Errorf("it is still the first certificate")
		}
		return err
	})
	if _, err := os.Stat(f.options.HubKubeconfigDir + "/own"); err != nil {
		t.Error(err)
	}
}

func TestClusterWithoutANameGetsOneAndKeepsIt(t *testing.T) {
	withoutClientIDs(t)
	f := newCluster(t, "nameless")
	f.options.ClusterName = ""
	f.start()
	var name string
	testenv.Eventually(t, func() error {
		if name = f.identity()[cluster.ClusterNameKey]; name == "" {
			return fmt.Errorf("no name is stored")
		}
		return nil
	})
	if len(name) != 36 || strings.Count(name, "-") != 4 {
		t.Errorf("the cluster is called %q, want a UUID", name)
	}
	f.stopAgent()
	f.options.HealthAddress = testkit.FreeAddress(t)
	f.start()
	// The token is for another cluster; what matters is the name that is tried.
	f.awaitAnswer("/livez", http.StatusOK, "bound")
	if got := f.identity()[cluster.ClusterNameKey]; got != name {
		t.Errorf("the cluster is called %q after a restart and was %q", got, name)
	}
}
