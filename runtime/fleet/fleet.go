// Package fleet brings a small fleet up on one machine: a hub and a number of
// clusters, each on its own, not joined. Joining them is Terraform's job.
//
// Everything of a fleet lies in one folder: the hub's data directory in hub,
// each cluster's below clusters, and in fleet.json what has to be remembered
// between two runs. Hub and clusters go on running when the program that
// started them ends.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
)

const (
	// HubName is what the hub is called in reports.
	HubName = "hub"

	hubFolder      = "hub"
	clustersFolder = "clusters"
	kubeconfigFile = "admin.kubeconfig"

	// agentProgram is the program with the agent alone.
	agentProgram = "muster-agent"
	logFile      = "muster.log"

	// startTimeout is how long one member may take to become ready.
	startTimeout = 3 * time.Minute
)

// Member is the hub, or a cluster.
type Member struct {
	// Name is HubName, or the cluster's name.
	Name string
	// URL is where its API server is.
	URL string
	// Kubeconfig is its administrator's kubeconfig file.
	Kubeconfig string
	// Found says that it ran already.
	Found bool
	// Revived says that it was there, and parts of it had to be started again.
	Revived bool
}

// Driver makes clusters of one kind.
type Driver interface {
	// Start makes the cluster of that name run and returns once it is ready. A
	// cluster that runs is left alone; one that was stopped carries on.
	Start(ctx context.Context, name string) (Member, error)
	// Stop makes it stop. Stopping one that does not run is not an error.
	Stop(ctx context.Context, name string) error
	// List names the clusters that run.
	List(ctx context.Context) ([]string, error)
}

// Names of the drivers.
const (
	// DriverDevcluster is `muster devcluster`: an API server without nodes.
	DriverDevcluster = "devcluster"
	// DriverKind is kind: a real cluster in a container.
	DriverKind = "kind"
)

// Fleet is a folder with a fleet in it, held by this process until Close.
type Fleet struct {
	dir     string // absolute
	lock    *os.File
	program string
	state   *state
	drivers map[string]func(UpOptions) (Driver, error)
	// local reports whether this machine has an address.
	local func(net.IP) bool
}

// Open takes the fleet in the folder at path, making the folder when it is not
// there. program is the muster binary to start; empty is the running one.
func Open(path, program string) (*Fleet, error) {
	dir, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("the fleet's folder %q: %w", path, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the fleet's folder: %w: choose another with --data-dir", err)
	}
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find the muster program to start: %w", err)
		}
	}
	lock, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	s, err := readState(filepath.Join(dir, "fleet.json"))
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	f := &Fleet{dir: dir, lock: lock, program: program, state: s, local: isLocal}
	f.drivers = map[string]func(UpOptions) (Driver, error){
		DriverDevcluster: func(UpOptions) (Driver, error) { return f.devclusters(), nil },
		DriverKind:       f.kind,
	}
	return f, nil
}

// kind is the driver of clusters in containers, with the image that the provider
// asks for by default: it is made of agentProgram beside the program that runs, or
// of that itself, and needs no registry.
func (f *Fleet) kind(o UpOptions) (Driver, error) {
	k, err := NewKind(f.clusters())
	if err != nil || o.Clusters == 0 {
		return k, err
	}
	image, err := NewImage(f.agent(), klusterlet.DefaultImage())
	if err != nil {
		o.notice("no image of the agent is put into the clusters, so %s has to come from a registry: %v", klusterlet.DefaultImage(), err)
		return k, nil
	}
	k.UseImage(image)
	return k, nil
}

// agent is the program that the agent's image is made of. The complete program is
// an agent, too, but four times as large.
func (f *Fleet) agent() string {
	agent := filepath.Join(filepath.Dir(f.program), agentProgram)
	if info, err := os.Stat(agent); err == nil && info.Mode().IsRegular() {
		return agent
	}
	return f.program
}

// HubKubeconfig is the hub's kubeconfig file in the fleet's folder at path.
func HubKubeconfig(path string) string { return kubeconfigOf(filepath.Join(path, hubFolder)) }

// ClusterKubeconfig is where the kubeconfig of a cluster of the fleet at path is.
func ClusterKubeconfig(path, cluster string) string {
	return kubeconfigOf(filepath.Join(path, clustersFolder, cluster))
}

// Close lets another process take the fleet. What runs goes on running.
func (f *Fleet) Close() { _ = f.lock.Close() }

func (f *Fleet) clusters() string { return filepath.Join(f.dir, clustersFolder) }

func (f *Fleet) devclusters() *devclusters {
	return &devclusters{dir: f.clusters(), program: f.program, state: f.state}
}

// driver is the driver of that name.
func (f *Fleet) driver(name string, o UpOptions) (Driver, error) {
	newDriver, ok := f.drivers[name]
	if !ok {
		return nil, fmt.Errorf("--driver %q is not a kind of cluster: use %s or %s", name, DriverDevcluster, DriverKind)
	}
	return newDriver(o)
}

// hub is the hub's process.
func (f *Fleet) hub(a hubAddress, s hubSettings) process {
	args := []string{"hub"}
	if a.Bind != "" {
		args = append(args, "--bind-address="+a.Bind)
	}
	if a.External != "" {
		args = append(args, "--external-url="+a.External)
	}
	return process{name: HubName, program: f.program, args: append(args, s.args()...), dir: filepath.Join(f.dir, hubFolder), host: a.Bind}
}

// clusterName is the name of the i-th cluster, from 1.
func clusterName(i int) string { return fmt.Sprintf("cluster%d", i) }

// kubeconfigOf is where a member's kubeconfig is, given its folder.
func kubeconfigOf(dir string) string { return filepath.Join(dir, kubeconfigFile) }

// state is what a fleet remembers from one run to the next. Its methods may be
// called side by side.
type state struct {
	path string

	mu      sync.Mutex
	content stateContent
}

type stateContent struct {
	// HubPort is the port that the hub had last.
	HubPort int `json:"hubPort,omitempty"`
	// HubAddress is where the hub listened last.
	HubAddress hubAddress `json:"hubAddress,omitzero"`
	// HubSettings are what the hub was started with last.
	HubSettings hubSettings `json:"hubSettings,omitzero"`
	// Clusters are all clusters that were ever started and not removed since.
	Clusters map[string]clusterState `json:"clusters,omitempty"`
}

type clusterState struct {
	Driver string `json:"driver"`
	// Port is the port that its API server had last, 0 when the driver does not
	// choose it.
	Port int `json:"port,omitempty"`
}

func readState(path string) (*state, error) {
	s := &state{path: path, content: stateContent{Clusters: map[string]clusterState{}}}
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is known of the fleet: %w", err)
	}
	if err := json.Unmarshal(b, &s.content); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w: delete it; clusters then get new ports", path, err)
	}
	if s.content.Clusters == nil {
		s.content.Clusters = map[string]clusterState{}
	}
	return s, nil
}

func (s *state) hubPort() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content.HubPort
}

func (s *state) hubAddress() hubAddress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content.HubAddress
}

func (s *state) hubSettings() hubSettings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content.HubSettings
}

func (s *state) setHub(a hubAddress, settings hubSettings) error {
	return s.change(func(c *stateContent) { c.HubAddress, c.HubSettings = a, settings })
}

func (s *state) cluster(name string) (clusterState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.content.Clusters[name]
	return c, ok
}

// clusters are the names of all clusters, in order.
func (s *state) clusters() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.content.Clusters), byNumber)
}

// byNumber puts cluster2 before cluster10.
func byNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return slices.Compare([]byte(a), []byte(b))
}

func (s *state) setHubPort(port int) error {
	return s.change(func(c *stateContent) { c.HubPort = port })
}

func (s *state) setCluster(name string, cluster clusterState) error {
	return s.change(func(c *stateContent) { c.Clusters[name] = cluster })
}

func (s *state) removeCluster(name string) error {
	return s.change(func(c *stateContent) { delete(c.Clusters, name) })
}

func (s *state) change(f func(*stateContent)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := json.Marshal(s.content)
	if err != nil {
		return err
	}
	f(&s.content)
	after, err := json.Marshal(s.content)
	if err != nil || string(before) == string(after) {
		return err
	}
	if err := atomicfile.Write(s.path, append(after, '\n'), 0o600); err != nil {
		return fmt.Errorf("remember the fleet: %w", err)
	}
	return nil
}

// takeLock lets one process at a time change the fleet in the folder at path.
// The kernel drops the lock with the process. Unlike a data directory's it asks
// nothing of the disk: a fleet must be stoppable when that is full.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, "fleet.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the fleet in %s: %w: choose a folder that you can write to with --data-dir", path, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("another muster up or muster down is at work on the fleet in %s: wait until it has ended", path)
	}
	return nil, fmt.Errorf("lock the fleet in %s: %w", path, err)
}
