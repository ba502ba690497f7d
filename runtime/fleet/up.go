package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

// parallel is how many members are started side by side.
const parallel = 8

// UpOptions say what fleet to bring up.
type UpOptions struct {
	// Clusters is how many clusters there shall be, named cluster1, cluster2 and
	// so on. Clusters beyond that, of earlier runs, are left as they are.
	Clusters int
	// Driver is the kind of new clusters: DriverDevcluster or DriverKind.
	Driver string
	// HubBindAddress and HubExternalURL are passed to the hub. When both are empty
	// it stays where it was, and is 127.0.0.1 at first; for clusters in containers
	// it is the gateway of their network.
	HubBindAddress, HubExternalURL string
	// HubGates are the hub's feature gates, as its --feature-gates takes them, and
	// HubImportLoopback is its --cluster-import-allow-loopback. Where they are nil the
	// hub has those that it had last.
	HubGates          *string
	HubImportLoopback *bool
	// Notice is called with a line about what happens beside the members' starts.
	// It may be nil.
	Notice func(string)
	// Progress is called for each member that is ready or has failed, for one at a
	// time. It may be nil.
	Progress func(Progress)
}

// Progress is news of one member.
type Progress struct {
	Member Member
	// Err is why it is not ready; nil when it is.
	Err error
	// Took is the time since the start.
	Took time.Duration
}

func (o UpOptions) validate() error {
	if o.Clusters < 0 {
		return fmt.Errorf("--clusters %d is not a number of clusters: use 0 for a hub alone, or more", o.Clusters)
	}
	if o.HubExternalURL != "" {
		if _, err := portOf(o.HubExternalURL); err != nil {
			return fmt.Errorf("--hub-external-url: %w: give one like https://172.18.0.1:6443", err)
		}
	}
	if ip := net.ParseIP(o.HubBindAddress); o.Driver == DriverKind && (ip != nil && ip.IsLoopback() || o.HubBindAddress == "localhost") {
		return fmt.Errorf("--hub-bind-address %s is out of reach for clusters in containers: leave it out for the gateway of their network",
			o.HubBindAddress)
	}
	return nil
}

func (o UpOptions) notice(format string, args ...any) {
	if o.Notice != nil {
		o.Notice(fmt.Sprintf(format, args...))
	}
}

// Up makes the hub and the clusters run and returns those that do, the hub
// first. Members that run already are left alone and dead ones are started
// again, so that Up can be called again at any time. What has started stays
// when another member fails.
func (f *Fleet) Up(ctx context.Context, o UpOptions) ([]Member, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := datadir.Private(f.dir, f.dir); err != nil {
		return nil, err
	}
	driver, err := f.driver(o.Driver, o)
	if err != nil {
		return nil, err
	}
	var clusters []start
	for i := range o.Clusters {
		name := clusterName(i + 1)
		if known, ok := f.state.cluster(name); ok && known.Driver != o.Driver {
			return nil, fmt.Errorf("%s in %s was made with --driver %s: use that driver, or another --data-dir", name, f.dir, known.Driver)
		}
		// Remembered before it runs, so that `muster down` knows of it however
		// this ends.
		known, _ := f.state.cluster(name)
		if err := f.state.setCluster(name, clusterState{Driver: o.Driver, Port: known.Port}); err != nil {
			return nil, err
		}
		clusters = append(clusters, func(ctx context.Context) (Member, error) { return driver.Start(ctx, name) })
	}
	hub := func(gateway string) start {
		return func(ctx context.Context) (Member, error) { return f.startHub(ctx, o, gateway) }
	}
	began := time.Now()
	containers, ok := driver.(inContainers)
	if !ok || len(clusters) == 0 {
		return startAll(ctx, append([]start{hub("")}, clusters...), began, o.Progress)
	}
	// Where the hub has to listen is known once there is a cluster.
	members, clustersErr := startAll(ctx, clusters, began, o.Progress)
	if len(members) == 0 {
		return nil, clustersErr
	}
	gateway, err := containers.Gateway(members[0].Name)
	if err != nil && o.HubBindAddress == "" {
		return members, fmt.Errorf("find out where clusters in containers reach the hub: %w: "+
			"say where it shall listen, with --hub-bind-address and --hub-external-url", err)
	}
	hubs, hubErr := startAll(ctx, []start{hub(gateway)}, began, o.Progress)
	return append(hubs, members...), joinReasons(clustersErr, hubErr)
}

// start makes one member run.
type start func(context.Context) (Member, error)

// inContainers is a driver whose clusters are in containers.
type inContainers interface {
	// Gateway is the address of this machine that a cluster's pods reach.
	Gateway(name string) (string, error)
}

// reasons are several errors in one line.
type reasons []error

func (r reasons) Error() string {
	var all []string
	for _, err := range r {
		all = append(all, err.Error())
	}
	return strings.Join(all, "; ")
}

func (r reasons) Unwrap() []error { return r }

func joinReasons(errs ...error) error {
	r := reasons(slices.DeleteFunc(errs, func(err error) bool { return err == nil }))
	if len(r) == 0 {
		return nil
	}
	return r
}

// startAll makes members run, parallel of them at a time, and returns those that
// do.
func startAll(ctx context.Context, starts []start, began time.Time, progress func(Progress)) ([]Member, error) {
	results := make([]Progress, len(starts))
	var group errgroup.Group
	group.SetLimit(parallel)
	var reporting sync.Mutex
	for i, start := range starts {
		group.Go(func() error {
			m, err := start(ctx)
			p := Progress{Member: m, Err: err, Took: time.Since(began)}
			results[i] = p
			if progress != nil {
				reporting.Lock()
				defer reporting.Unlock()
				progress(p)
			}
			return nil // one failure does not end the other starts
		})
	}
	_ = group.Wait()
	var members []Member
	var failures []error
	for _, r := range results {
		failures = append(failures, r.Err)
		if r.Err == nil {
			members = append(members, r.Member)
		}
	}
	return members, joinReasons(failures...)
}

// hubAddress is where a hub listens and is reached.
type hubAddress struct {
	Bind     string `json:"bind,omitempty"`
	External string `json:"external,omitempty"`
	// Chosen says that muster chose it, not the user.
	Chosen bool `json:"chosen,omitempty"`
}

// decide is where the hub shall listen that was at a; gateway is where clusters in
// containers reach this machine, "" where there are none.
func (a hubAddress) decide(o UpOptions, gateway string) hubAddress {
	switch {
	case o.HubBindAddress != "" || o.HubExternalURL != "":
		return hubAddress{Bind: o.HubBindAddress, External: o.HubExternalURL}
	case gateway == "" || a != hubAddress{} && !a.Chosen:
		return a
	}
	return hubAddress{Bind: gateway, Chosen: true}
}

// hubSettings are what a hub is started with beside its address.
type hubSettings struct {
	Gates          string `json:"featureGates,omitempty"`
	ImportLoopback bool   `json:"clusterImportAllowLoopback,omitempty"`
}

// decide is what the hub shall be started with that had s.
func (s hubSettings) decide(o UpOptions) hubSettings {
	if o.HubGates != nil {
		s.Gates = *o.HubGates
	}
	if o.HubImportLoopback != nil {
		s.ImportLoopback = *o.HubImportLoopback
	}
	return s
}

// args are the flags of the hub's command.
func (s hubSettings) args() (args []string) {
	if s.Gates != "" {
		args = append(args, "--feature-gates="+s.Gates)
	}
	if s.ImportLoopback {
		args = append(args, "--cluster-import-allow-loopback")
	}
	return args
}

// String says what the flags are.
func (s hubSettings) String() string {
	if args := s.args(); len(args) > 0 {
		return strings.Join(args, " ")
	}
	return "its default feature gates"
}

// check explains early why a chosen address can't be listened on.
func (a hubAddress) check(ours func(net.IP) bool) error {
	if a.Chosen && !ours(net.ParseIP(a.Bind)) {
		return fmt.Errorf("the hub can't listen on %s, the gateway of the containers' network, as this machine has no such address "+
			"(containers run in a virtual machine or without root, as with Docker Desktop or podman): "+
			"say where pods reach this machine, with --hub-bind-address 0.0.0.0 --hub-external-url https://ADDRESS:6443, such as an "+
			"address of its network card", a.Bind)
	}
	return nil
}

// isLocal reports whether this machine has an address.
func isLocal(ip net.IP) bool {
	all, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}

// startHub makes the hub run at its address, with its settings. One that runs at
// another, or with others, is started again.
func (f *Fleet) startHub(ctx context.Context, o UpOptions, gateway string) (Member, error) {
	was, had := f.state.hubAddress(), f.state.hubSettings()
	address, settings := was.decide(o, gateway), had.decide(o)
	if err := address.check(f.local); err != nil {
		return Member{Name: HubName}, err
	}
	port := f.state.hubPort()
	if address.External != "" {
		var err error
		if port, err = portOf(address.External); err != nil {
			return Member{Name: HubName}, err
		}
	}
	if address != was || settings != had {
		stopped, err := f.hub(was, had).stop(ctx)
		if err != nil {
			return Member{Name: HubName}, err
		}
		if stopped && address != was {
			o.notice("the hub is started again, to be reached at another address: agents of muster follow it from where they still reach it, all others have to join again")
		}
		if stopped && settings != had {
			o.notice("the hub is started again, with %s", settings)
		}
		if err := f.state.setHub(address, settings); err != nil {
			return Member{Name: HubName}, err
		}
	}
	m, err := f.hub(address, settings).start(ctx, port)
	if err != nil {
		return m, err
	}
	if port, err = portOf(m.URL); err != nil {
		return m, err
	}
	return m, f.state.setHubPort(port)
}

// RelativeTo makes a member's kubeconfig path one that begins with path, the
// name by which the user knows the fleet's folder.
func (f *Fleet) RelativeTo(path string, m Member) Member {
	if rel, err := filepath.Rel(f.dir, m.Kubeconfig); err == nil {
		m.Kubeconfig = filepath.Join(path, rel)
	}
	return m
}

// Down makes everything of the fleet stop and returns the names of what ran.
// Dev clusters keep their data and their ports for the next Up; clusters in
// containers are removed.
func (f *Fleet) Down(ctx context.Context) (stopped []string, err error) {
	type stop func(context.Context) (bool, error)
	stops := map[string]stop{HubName: f.hub(hubAddress{}, hubSettings{}).stop}
	local := f.devclusters()
	running, err := local.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range running { // also those that fleet.json has lost
		stops[name] = local.process(name).stop
	}
	for _, name := range f.state.clusters() {
		known, _ := f.state.cluster(name)
		if known.Driver == DriverDevcluster {
			continue
		}
		stops[name] = func(ctx context.Context) (bool, error) { return f.remove(ctx, name, known.Driver) }
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	var reasons []string
	for name, stop := range stops {
		group.Go(func() {
			found, err := stop(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				reasons = append(reasons, err.Error())
			} else if found {
				stopped = append(stopped, name)
			}
		})
	}
	group.Wait()
	slices.SortFunc(stopped, hubFirst)
	if len(reasons) > 0 {
		slices.Sort(reasons)
		return stopped, errors.New(strings.Join(reasons, "; "))
	}
	return stopped, nil
}

// remove makes a cluster go that keeps nothing when it is stopped.
func (f *Fleet) remove(ctx context.Context, name, driver string) (found bool, err error) {
	d, err := f.driver(driver, UpOptions{})
	if err != nil {
		return false, fmt.Errorf("stop %s: %w", name, err)
	}
	running, err := d.List(ctx)
	if err != nil {
		return false, fmt.Errorf("stop %s: %w", name, err)
	}
	found = slices.Contains(running, name)
	if err := d.Stop(ctx, name); err != nil {
		return found, fmt.Errorf("stop %s: %w", name, err)
	}
	return found, f.state.removeCluster(name)
}

func hubFirst(a, b string) int {
	switch {
	case a == HubName:
		return -1
	case b == HubName:
		return 1
	}
	return byNumber(a, b)
}
