package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

// devclusters is the driver of `muster devcluster` processes.
type devclusters struct {
	dir     string
	program string
	state   *state
}

func (d *devclusters) process(name string) process {
	return process{
		name:    name,
		program: d.program,
		args:    []string{"devcluster", "--name=" + name},
		dir:     filepath.Join(d.dir, name),
	}
}

func (d *devclusters) Start(ctx context.Context, name string) (Member, error) {
	known, _ := d.state.cluster(name)
	m, err := d.process(name).start(ctx, known.Port)
	if err != nil {
		return m, err
	}
	port, err := portOf(m.URL)
	if err != nil {
		return m, err
	}
	return m, d.state.setCluster(name, clusterState{Driver: DriverDevcluster, Port: port})
}

func (d *devclusters) Stop(ctx context.Context, name string) error {
	_, err := d.process(name).stop(ctx)
	return err
}

func (d *devclusters) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(d.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the fleet's clusters: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && datadir.Owner(filepath.Join(d.dir, e.Name())) != 0 {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func portOf(server string) (int, error) {
	u, err := url.Parse(server)
	if err != nil {
		return 0, fmt.Errorf("the URL of an API server: %w", err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return 0, fmt.Errorf("the URL %s of an API server names no port", server)
	}
	return port, nil
}
