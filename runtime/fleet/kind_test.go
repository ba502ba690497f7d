package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/kind/pkg/cluster"
	kindexec "sigs.k8s.io/kind/pkg/exec"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

// engine is a container engine in which clusters are only names, each with one
// node. It notes what is done with them.
type engine struct {
	clusters  []string
	createErr error
	// creating is closed when Create begins, which then waits for hang.
	creating, hang chan struct{}
	stopped        map[string]bool
	restartErr     error
	gateway        string
	images         map[string]string
	done           []string
}

func (e *engine) Create(name string, _ ...cluster.CreateOption) error {
	e.done = append(e.done, "create")
	if e.createErr == nil {
		e.clusters = append(e.clusters, name)
	}
	if e.creating != nil {
		close(e.creating)
		<-e.hang
	}
	return e.createErr
}

func (e *engine) Nodes(name string) ([]string, error) { return []string{name + "-control-plane"}, nil }

func (e *engine) Running(_, node string) bool { return !e.stopped[node] }

func (e *engine) Restart(_ context.Context, node string) error {
	e.done = append(e.done, "start "+node)
	delete(e.stopped, node)
	return e.restartErr
}

func (e *engine) ImageID(_, _, image string) string { return e.images[image] }

func (e *engine) Load(_, _ string, archive io.Reader) error {
	e.done = append(e.done, "load")
	_, err := io.Copy(io.Discard, archive)
	return err
}

func (e *engine) Gateway(string, string) (string, error) {
	if e.gateway == "" {
		return "", errors.New("no gateway")
	}
	return e.gateway, nil
}

// kindOn is the driver on such an engine. What it makes answers at once.
func kindOn(e *engine, dir string) *Kind {
	k := newKind(e, e, dir)
	k.answers = func(context.Context, string) (string, error) { return "https://127.0.0.1:12345", nil }
	return k
}

func (e *engine) Delete(name, _ string) error {
	e.done = append(e.done, "delete")
	e.clusters = slices.DeleteFunc(e.clusters, func(c string) bool { return c == name })
	return nil
}

func (e *engine) List() ([]string, error) { return e.clusters, nil }

func (e *engine) KubeConfig(name string, _ bool) (string, error) {
	if !slices.Contains(e.clusters, name) {
		return "", errors.New("no such cluster")
	}
	content, err := kubeconfig.Config{Cluster: name, User: "admin", Server: "https://127.0.0.1:12345", Token: "t"}.YAML()
	return string(content), err
}

func TestKindClusterIsMadeOnceAndRemoved(t *testing.T) {
	dir, e := t.TempDir(), &engine{clusters: []string{"somebody-elses"}}
	k := kindOn(e, dir)
	for _, found := range []bool{false, true} {
		m, err := k.Start(t.Context(), "cluster1")
		if err != nil {
			t.Fatal(err)
		}
		want := Member{Name: "cluster1", URL: "https://127.0.0.1:12345", Kubeconfig: filepath.Join(dir, "cluster1", "admin.kubeconfig"), Found: found}
		if m != want {
			t.Errorf("got %+v, want %+v", m, want)
		}
		if _, err := os.Stat(m.Kubeconfig); err != nil {
			t.Error(err)
		}
	}
	if names, err := k.List(t.Context()); err != nil || !slices.Equal(names, []string{"cluster1"}) {
		t.Errorf("got %q, %v", names, err)
	}
	for range 2 { // stopping it again is not an error
		if err := k.Stop(t.Context(), "cluster1"); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(e.clusters, []string{"somebody-elses"}) {
		t.Errorf("left: %q", e.clusters)
	}
	if _, err := os.Stat(filepath.Join(dir, "cluster1", "admin.kubeconfig")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its kubeconfig: %v", err)
	}
}

func TestKindClustersOfTwoFleetsAreApart(t *testing.T) {
	a, b := kindOn(&engine{}, "/a").ClusterName("cluster1"), kindOn(&engine{}, "/b").ClusterName("cluster1")
	if a == b || !strings.HasSuffix(a, "-cluster1") {
		t.Errorf("got %s and %s", a, b)
	}
}

func TestKindFailureSaysWhatTheEngineSaid(t *testing.T) {
	run := &kindexec.RunError{Command: []string{"docker"}, Output: []byte("no such\nimage"), Inner: errors.New("exit status 1")}
	for _, tc := range []struct {
		name        string
		err         error
		unavailable bool
	}{
		{"a broken cluster", fmt.Errorf("kubeadm: %w", run), false},
		{"no image", fmt.Errorf("failed to pull image %q: %w", "x", run), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := kindOn(&engine{createErr: tc.err}, t.TempDir()).Start(t.Context(), "cluster1")
			var unavailable *KindUnavailableError
			if err == nil || errors.As(err, &unavailable) != tc.unavailable {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), "no such image") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q", err)
			}
		})
	}
}

func TestKindConfigurationThatIsNotThereIsExplained(t *testing.T) {
	t.Setenv(KindConfigEnv, "/nowhere/kind.yaml")
	_, err := kindOn(&engine{}, t.TempDir()).Start(t.Context(), "cluster1")
	if err == nil || !strings.Contains(err.Error(), KindConfigEnv) || !strings.Contains(err.Error(), "/nowhere/kind.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestKindClusterThatHasStoppedIsStarted(t *testing.T) {
	e := &engine{}
	k := kindOn(e, t.TempDir())
	if _, err := k.Start(t.Context(), "cluster1"); err != nil {
		t.Fatal(err)
	}
	node := k.ClusterName("cluster1") + "-control-plane"
	e.stopped = map[string]bool{node: true}
	if m, err := k.Start(t.Context(), "cluster1"); err != nil || !m.Found {
		t.Errorf("got %+v, %v", m, err)
	}
	if want := []string{"create", "start " + node}; !slices.Equal(e.done, want) {
		t.Errorf("did %q, want %q", e.done, want)
	}
	e.stopped, e.restartErr = map[string]bool{node: true}, errors.New("docker start: no space left")
	if _, err := k.Start(t.Context(), "cluster1"); err == nil || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), "kind delete cluster --name "+k.ClusterName("cluster1")) {
		t.Errorf("got %v", err)
	}
}

func TestKindClusterThatDoesNotAnswerIsNotReady(t *testing.T) {
	k := kindOn(&engine{}, t.TempDir())
	k.answers = func(context.Context, string) (string, error) { return "", errors.New("connection refused") }
	if _, err := k.Start(t.Context(), "cluster1"); err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "kind delete cluster") {
		t.Errorf("got %v", err)
	}
}

// One whose making was cut short, as by kill -9, is there and not whole.
func TestKindClusterThatIsHalfMadeIsMadeAgain(t *testing.T) {
	e := &engine{}
	k := kindOn(e, t.TempDir())
	e.clusters = []string{k.ClusterName("cluster1")}
	if err := os.MkdirAll(filepath.Dir(k.making("cluster1")), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(k.making("cluster1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{{"delete", "create"}, nil} { // and then it is whole
		e.done = nil
		m, err := k.Start(t.Context(), "cluster1")
		if err != nil || m.Found != (i == 1) || !slices.Equal(e.done, want) {
			t.Errorf("got %+v, %v, did %q, want %q", m, err, e.done, want)
		}
	}
}

func TestMakingAKindClusterEndsWithItsContext(t *testing.T) {
	e := &engine{creating: make(chan struct{}), hang: make(chan struct{})}
	defer close(e.hang)
	k := kindOn(e, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-e.creating; cancel() }()
	if _, err := k.Start(ctx, "cluster1"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "muster up") {
		t.Errorf("got %v", err)
	}
	if len(e.clusters) > 0 {
		t.Errorf("left: %q", e.clusters)
	}
	if _, err := os.Stat(k.making("cluster1")); err != nil {
		t.Errorf("that it is not whole is forgotten: %v", err)
	}
}

func TestImageIsLoadedOnceIntoEachNode(t *testing.T) {
	e := &engine{images: map[string]string{}}
	k := kindOn(e, t.TempDir())
	image, err := NewImage(staticProgram(t), "example.org/muster:v1")
	if err != nil {
		t.Fatal(err)
	}
	k.UseImage(image)
	for _, tc := range []struct {
		has  string
		want []string
	}{
		{"", []string{"create", "load"}},
		{image.ID, nil},
		{"sha256:of-another-build", []string{"load"}},
	} {
		e.done, e.images[image.Name] = nil, tc.has
		if _, err := k.Start(t.Context(), "cluster1"); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(e.done, tc.want) {
			t.Errorf("a node with %q: did %q, want %q", tc.has, e.done, tc.want)
		}
	}
}

// The hub is started after a cluster is there, at the gateway of its network, and
// stays where it is.
func TestHubListensWhereContainersReachIt(t *testing.T) {
	f, path := testFleet(t)
	e := &engine{gateway: "127.0.0.1"}
	f.drivers[DriverKind] = func(UpOptions) (Driver, error) { return kindOn(e, f.clusters()), nil }
	t.Cleanup(func() {
		if _, err := f.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	f.local = func(ip net.IP) bool { return ip.String() == "127.0.0.1" }
	var order, notices []string
	up := func(o UpOptions) error {
		t.Helper()
		o.Driver, o.Clusters = DriverKind, 1
		o.Progress = func(p Progress) { order = append(order, p.Member.Name) }
		o.Notice = func(s string) { notices = append(notices, s) }
		members, err := f.Up(t.Context(), o)
		if err == nil && (len(members) != 2 || members[0].Name != HubName) {
			t.Errorf("members %+v", members)
		}
		return err
	}
	if err := up(UpOptions{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(order, []string{"cluster1", HubName}) {
		t.Errorf("the order was %q", order)
	}
	if got := hubArgs(t, path); !slices.Contains(got, "--bind-address=127.0.0.1") {
		t.Errorf("the hub was started with %q", got)
	}
	before := datadir.Owner(filepath.Join(path, hubFolder))
	if err := up(UpOptions{}); err != nil || datadir.Owner(filepath.Join(path, hubFolder)) != before || len(notices) > 0 {
		t.Errorf("again: %v, the hub was started again: %q", err, notices)
	}
	port := strconv.Itoa(f.state.hubPort())
	changed := UpOptions{HubBindAddress: "0.0.0.0", HubExternalURL: "https://127.0.0.1:" + port}
	if err := up(changed); err != nil || len(notices) != 1 {
		t.Errorf("with other options: %v, %q", err, notices)
	}
	for range 2 { // also when it is not said any more
		if got := hubArgs(t, path); !slices.Contains(got, "--bind-address=0.0.0.0") || !slices.Contains(got, "--external-url="+changed.HubExternalURL) {
			t.Errorf("the hub was started with %q", got)
		}
		if err := up(UpOptions{}); err != nil || len(notices) != 1 {
			t.Errorf("without options: %v, %q", err, notices)
		}
	}
}

func TestGatewayThatIsNoAddressHereIsExplained(t *testing.T) {
	f, _ := testFleet(t)
	e := &engine{gateway: "10.89.0.1"}
	f.drivers[DriverKind] = func(UpOptions) (Driver, error) { return kindOn(e, f.clusters()), nil }
	t.Cleanup(func() {
		if _, err := f.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	f.local = func(net.IP) bool { return false }
	_, err := f.Up(t.Context(), UpOptions{Driver: DriverKind, Clusters: 1})
	if err == nil || !strings.Contains(err.Error(), "10.89.0.1") || !strings.Contains(err.Error(), "--hub-external-url") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	e.gateway = ""
	_, err = f.Up(t.Context(), UpOptions{Driver: DriverKind, Clusters: 1})
	if err == nil || !strings.Contains(err.Error(), "no gateway") || !strings.Contains(err.Error(), "--hub-bind-address") {
		t.Errorf("got %v", err)
	}
}

func hubArgs(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path, hubFolder, argsFile))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(content), "\n")
}

func TestGateway(t *testing.T) {
	for route, want := range map[string]string{
		"default via 172.18.0.1 dev eth0 \n":   "172.18.0.1",
		"default via 10.89.0.1 proto dhcp x\n": "10.89.0.1",
		"default dev eth0 scope link":          "",
		"default via":                          "",
		"":                                     "",
	} {
		if got, err := gateway(route); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", route, got, err, want)
		}
	}
}
