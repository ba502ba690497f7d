// Package hubtest starts hubs and dev clusters for tests: of Terraform modules
// that use the provider muster-fleet/muster, and of any program that speaks to a
// hub of Open Cluster Management. It needs no containers, no rights and no ports
// of its own: everything listens on 127.0.0.1, at ports that are free.
//
// A hub is a Kubernetes API server in a process of its own, ready in a second or
// two. A dev cluster is another one, without nodes; its pods report that they run,
// and the klusterlet's pod is a real agent.
//
// The processes run the program muster. It is the one that the environment
// variable MUSTER_BIN names, else the one on the PATH, else it is built of the
// module's version that the test requires, once for a user. That takes some minutes.
//
// Everything ends with the test. When the test's process is killed, or ends by its
// timeout, the processes end on their own and remove their data.
package hubtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Options say what to start.
type Options struct {
	// Clusters is how many dev clusters there are beside the hub. They are called
	// cluster1, cluster2 and so on, and the hub does not know them.
	Clusters int
	// Join registers the dev clusters with the hub, under their names, accepts
	// them, runs an agent for each, and waits until they are available. Leave it out
	// to test what registers clusters.
	Join bool
	// HubFlags are further flags of "muster hub", such as
	// "--feature-gates=ClusterProfile=true".
	HubFlags []string
	// Program is the path of muster. If omitted, it is looked for as the package's
	// comment says.
	Program string
}

// Server is an API server: that of a hub or of a dev cluster.
type Server struct {
	// Name is "hub", or the name of the cluster.
	Name string
	// URL is where it listens.
	URL string
	// Kubeconfig is the path of a kubeconfig with all rights.
	Kubeconfig string

	process *testhub.Process
}

// Hub is a running hub.
type Hub struct {
	Server
	// Clusters are its dev clusters.
	Clusters []*Server

	agents  []*Server
	stopped sync.Once
}

// Start starts a hub and what else the options say. All of it is stopped when the
// test ends. If the test has failed, the ends of the logs are in its output.
func Start(t testing.TB, options Options) *Hub {
	t.Helper()
	h, err := start(t.TempDir(), options)
	if err != nil {
		t.Fatalf("start a hub for the test: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, s := range h.servers() {
				t.Logf("the end of %s's log:\n%s", s.Name, lastLines(s.Log()))
			}
		}
		if err := h.stop(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// Main starts a hub for all tests of a package, runs them, and returns their exit
// code. It is for a TestMain:
//
//	var hub *hubtest.Hub
//
//	func TestMain(m *testing.M) {
//		os.Exit(hubtest.Main(m, hubtest.Options{Clusters: 1}, func(h *hubtest.Hub) { hub = h }))
//	}
//
// use gets the hub before the tests run.
func Main(m *testing.M, options Options, use func(*Hub)) int {
	fail := func(err error) int {
		_, _ = fmt.Fprintln(os.Stderr, "start a hub for the tests:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "hubtest-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	h, err := start(dir, options)
	if err != nil {
		return fail(err)
	}
	use(h)
	code := m.Run()
	if err := h.stop(); err != nil && code == 0 {
		return fail(err)
	}
	return code
}

// Stop stops everything before the test ends. It may be called more than once.
func (h *Hub) Stop(t testing.TB) {
	t.Helper()
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
}

// Log is the end of what the server has logged.
func (s *Server) Log() string { return s.process.Log() }

// shownLines is how much of a log a failed test shows.
const shownLines = 30

func lastLines(log string) string {
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-shownLines):], "\n")
}

// Kill ends the server at once, as a crash does. Its data stay.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// Restart starts a server again that was killed, with its data and at its address.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.process.Restart(); err != nil {
		t.Fatal(err)
	}
}

// findProgram looks for muster once in a test binary.
var findProgram = sync.OnceValues(func() (string, error) { return (&testhub.Builder{Installed: true}).Path("") })

// start starts everything side by side. After an error nothing runs any more.
func start(dir string, options Options) (*Hub, error) {
	program := options.Program
	if program == "" {
		var err error
		if program, err = findProgram(); err != nil {
			return nil, err
		}
	}
	h := &Hub{Server: Server{Name: "hub"}}
	for i := range options.Clusters {
		h.Clusters = append(h.Clusters, &Server{Name: fmt.Sprintf("cluster%d", i+1)})
	}
	var starting sync.WaitGroup
	failed := make([]error, len(h.servers()))
	for i, s := range h.servers() {
		starting.Go(func() {
			if data := filepath.Join(dir, s.Name); i == 0 {
				s.process, failed[i] = testhub.StartHub(program, data, options.HubFlags...)
			} else {
				s.process, failed[i] = testhub.StartCluster(program, data)
			}
			if failed[i] == nil {
				s.URL, s.Kubeconfig = s.process.URL, s.process.Kubeconfig
			}
		})
	}
	starting.Wait()
	err := errors.Join(failed...)
	if err == nil && options.Join {
		err = h.join(program, dir)
	}
	if err != nil {
		_ = h.stop()
		return nil, err
	}
	return h, nil
}

// servers are the hub, its clusters and their agents.
func (h *Hub) servers() []*Server {
	return append(append([]*Server{&h.Server}, h.Clusters...), h.agents...)
}

// stop stops what runs: agents first, so that none of them misses its hub.
func (h *Hub) stop() error {
	var problems []error
	h.stopped.Do(func() {
		all := h.servers()
		for i := range all {
			if process := all[len(all)-1-i].process; process != nil {
				problems = append(problems, process.Stop())
			}
		}
	})
	return errors.Join(problems...)
}

// joinTimeout is how long a cluster may take to become available.
const joinTimeout = time.Minute

// join registers the clusters and waits for them.
func (h *Hub) join(program, dir string) error {
	admin, err := newAdministrator(h.Kubeconfig)
	if err != nil {
		return err
	}
	for _, c := range h.Clusters {
		bootstrap := filepath.Join(dir, c.Name+"-bootstrap.kubeconfig")
		if err := admin.invite(c.Name, bootstrap); err != nil {
			return fmt.Errorf("register %s with the hub: %w", c.Name, err)
		}
		agent, err := testhub.StartAgent(program, c.Name, bootstrap, c.Kubeconfig)
		if err != nil {
			return err
		}
		h.agents = append(h.agents, &Server{Name: "the agent of " + c.Name, process: agent})
	}
	for i, c := range h.Clusters {
		if err := testkit.Poll(joinTimeout, func() error { return admin.available(c.Name) }); err != nil {
			return fmt.Errorf("wait for %s to join: after %s: %w\n%s", c.Name, joinTimeout, err, h.agents[i].Log())
		}
	}
	return nil
}

// administrator speaks to the hub with all rights.
type administrator struct {
	config *rest.Config
	client *http.Client
}

func newAdministrator(path string) (*administrator, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read the hub's kubeconfig: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	return &administrator{config, client}, nil
}

// invite accepts a cluster on the hub and writes a bootstrap kubeconfig for it.
func (a *administrator) invite(name, bootstrap string) error {
	token, err := bootstraptoken.New(cluster.BoundBootstrapGroup(name), "", time.Now().Add(time.Hour))
	if err != nil {
		return err
	}
	err = errors.Join(
		a.do(http.MethodPost, "/apis/cluster.open-cluster-management.io/v1/managedclusters", map[string]any{
			"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
			"metadata": map[string]any{"name": name},
			"spec":     map[string]any{"hubAcceptsClient": true},
		}, nil),
		a.do(http.MethodPost, "/api/v1/namespaces/kube-system/secrets", token.Object(), nil))
	if err != nil {
		return err
	}
	text, err := kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Server: a.config.Host, CAData: a.config.CAData, Token: token.String(),
	}.YAML()
	if err != nil {
		return err
	}
	return os.WriteFile(bootstrap, text, 0o600)
}

// available says what keeps a cluster from being available, also to placements.
func (a *administrator) available(name string) error {
	var object struct {
		Spec struct {
			Taints []struct{ Key string }
		}
		Status struct {
			Conditions []struct{ Type, Status, Reason, Message string }
		}
	}
	if err := a.do(http.MethodGet, "/apis/cluster.open-cluster-management.io/v1/managedclusters/"+name, nil, &object); err != nil {
		return err
	}
	for _, taint := range object.Spec.Taints {
		if cluster.IsHubTaint(taint.Key) {
			return fmt.Errorf("the hub has not removed its taint %s", taint.Key)
		}
	}
	for _, condition := range object.Status.Conditions {
		if condition.Type == cluster.ConditionAvailable && condition.Status == "True" {
			return nil
		}
	}
	return fmt.Errorf("it is not available: %+v", object.Status.Conditions)
}

// do sends a request and reads the answer.
func (a *administrator) do(method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, a.config.Host+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, read)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(read, into)
}
