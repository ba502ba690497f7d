package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

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
