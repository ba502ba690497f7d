package hubtest_test

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/hubtest"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// roleEnv makes this test's program play a test that is killed.
const roleEnv = "HUBTEST_TEST_ROLE"

// needsProcesses skips where processes are not to be started.
func needsProcesses(t *testing.T) {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("starts processes, as the acceptance tests do: set TF_ACC=1")
	}
}

// get asks a server for a path and returns the status.
func get(t *testing.T, kubeconfig, path string) int {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	testkit.Must(t, err)
	client, err := rest.HTTPClientFor(config)
	testkit.Must(t, err)
	answer, err := client.Get(config.Host + path)
	testkit.Must(t, err)
	_ = answer.Body.Close()
	return answer.StatusCode
}

const managedClusters = "/apis/cluster.open-cluster-management.io/v1/managedclusters/"

func TestAHubAndItsClustersAreThere(t *testing.T) {
	needsProcesses(t)
	h := hubtest.Start(t, hubtest.Options{Clusters: 2})
	if len(h.Clusters) != 2 || h.Clusters[1].Name != "cluster2" {
		t.Fatalf("got %+v", h.Clusters)
	}
	for _, s := range append(h.Clusters, &h.Server) {
		if status := get(t, s.Kubeconfig, "/api/v1/namespaces/default"); status != 200 {
			t.Errorf("%s answers %d", s.Name, status)
		}
	}
	if status := get(t, h.Kubeconfig, managedClusters+"cluster1"); status != 404 {
		t.Errorf("the hub knows a cluster that nobody has registered: %d", status)
	}
	h.Kill(t)
	h.Restart(t)
	if status := get(t, h.Kubeconfig, "/readyz"); status != 200 {
		t.Errorf("after a restart the hub answers %d", status)
	}
	h.Stop(t)
	h.Stop(t)
	if listens(h.URL) {
		t.Error("the hub listens after it was stopped")
	}
}

func TestClustersJoin(t *testing.T) {
	needsProcesses(t)
	h := hubtest.Start(t, hubtest.Options{Clusters: 1, Join: true, HubFlags: []string{"--feature-gates=ClusterProfile=true"}})
	if status := get(t, h.Kubeconfig, managedClusters+"cluster1"); status != 200 {
		t.Errorf("the hub answers %d", status)
	}
	if status := get(t, h.Clusters[0].Kubeconfig, "/api/v1/namespaces/open-cluster-management-agent"); status != 200 {
		t.Errorf("the cluster has no agent: %d", status)
	}
}

// A test that runs into its timeout, or is killed, runs no cleanup.
func TestNothingIsLeftOfATestThatIsKilled(t *testing.T) {
	needsProcesses(t)
	if os.Getenv(roleEnv) != "" {
		h := hubtest.Start(t, hubtest.Options{Clusters: 1})
		testkit.Must(t, os.WriteFile(os.Getenv(roleEnv), []byte(strings.Join([]string{
			h.URL, filepath.Dir(h.Kubeconfig), h.Clusters[0].URL, filepath.Dir(h.Clusters[0].Kubeconfig),
		}, "\n")), 0o600))
		<-t.Context().Done() // until it is killed
	}
	result := filepath.Join(t.TempDir(), "result")
	test := exec.Command(os.Args[0], "-test.run=^TestNothingIsLeftOfATestThatIsKilled$")
	test.Env = append(os.Environ(), roleEnv+"="+result)
	testkit.Must(t, test.Start())
	var lines []string
	testkit.Eventually(t, func() error {
		text, err := os.ReadFile(result)
		if lines = strings.Split(string(text), "\n"); err == nil && len(lines) != 4 {
			err = errors.New("the test has not written all")
		}
		return err
	})
	testkit.Must(t, test.Process.Kill())
	_ = test.Wait()
	for i := 0; i < len(lines); i += 2 {
		testkit.Eventually(t, func() error {
			if listens(lines[i]) {
				return errors.New("it still listens at " + lines[i])
			}
			if _, err := os.Stat(lines[i+1]); !errors.Is(err, fs.ErrNotExist) {
				return errors.New("its data are still in " + lines[i+1])
			}
			return nil
		})
	}
}

func listens(at string) bool {
	u, err := url.Parse(at)
	if err != nil {
		return false
	}
	connection, err := net.DialTimeout("tcp", u.Host, time.Second)
	if err == nil {
		_ = connection.Close()
	}
	return err == nil
}
