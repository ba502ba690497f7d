package fleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

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
	// HubBindAddress and HubExternalURL are passed to the hub when they are not
	// empty. Clusters in containers need them to reach it.
	HubBindAddress, HubExternalURL string
	// Progress is told of each member that is ready or has failed, one at a
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
	return nil
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
	driver, err := f.driver(o.Driver)
	if err != nil {
		return nil, err
	}
	starts := []func(context.Context) (Member, error){func(ctx context.Context) (Member, error) { return f.startHub(ctx, o) }}
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
		starts = append(starts, func(ctx context.Context) (Member, error) { return driver.Start(ctx, name) })
	}
	return startAll(ctx, starts, o.Progress)
}

func startAll(ctx context.Context, starts []func(context.Context) (Member, error), progress func(Progress)) ([]Member, error) {
	began := time.Now()
	results := make([]Progress, len(starts))
	var group sync.WaitGroup
	var tell sync.Mutex
	room := make(chan struct{}, parallel)
	for i, start := range starts {
		group.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			m, err := start(ctx)
			p := Progress{Member: m, Err: err, Took: time.Since(began)}
			results[i] = p
			if progress != nil {
				tell.Lock()
				defer tell.Unlock()
				progress(p)
			}
		})
	}
	group.Wait()
	var members []Member
	var reasons []string
	for _, r := range results {
		if r.Err != nil {
			reasons = append(reasons, r.Err.Error())
			continue
		}
		members = append(members, r.Member)
	}
	if len(reasons) > 0 {
		return members, errors.New(strings.Join(reasons, "; "))
	}
	return members, nil
}

func (f *Fleet) startHub(ctx context.Context, o UpOptions) (Member, error) {
	port := f.state.hubPort()
	if o.HubExternalURL != "" {
		var err error
		if port, err = portOf(o.HubExternalURL); err != nil {
			return Member{Name: HubName}, err
		}
	}
	m, err := f.hub(o).start(ctx, port)
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
