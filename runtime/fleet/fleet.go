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
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

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
