package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	// small is the fleet that a large one is compared with.
	small = 100
	// beats are the heartbeats that are measured, one after the other.
	beats = 300
	// flood is how many lists a bad neighbour has going all the time.
	flood = 300
)

// measureFleet measures the requests of single agents in a small and in a large
// fleet, on a hub of its own, and beside an agent that floods the hub.
func measureFleet(ctx context.Context, muster string, fleet int) error {
	dir, err := os.MkdirTemp("", "muster-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	h, err := startProcess(muster, "hub", filepath.Join(dir, "hub"))
	if err != nil {
		return err
	}
	defer func() { _ = h.stop() }()
	config, err := clientcmd.BuildConfigFromFlags("", h.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
	if err != nil {
		return err
	}
	if err := acceptClusters(ctx, h, config, c, "small", small); err != nil {
		return err
	}
	few, err := heartbeats(ctx, h, config, "small-0", small)
	if err != nil {
		return err
	}
	if err := acceptClusters(ctx, h, config, c, "large", max(1, fleet-small)); err != nil {
		return err
	}
	time.Sleep(30 * time.Second) // for the collector to be done with the joins
	many, err := heartbeats(ctx, h, config, "small-0", fleet)
	if err != nil {
		return err
	}
	fmt.Printf("%-48s %8.2f in CPU, %.2f in time\n", fmt.Sprintf("a heartbeat with %d clusters, to one with %d", fleet, small),
		many.cpu.Seconds()/few.cpu.Seconds(), many.took.Seconds()/few.took.Seconds())
	return neighbours(ctx, config)
}

// asAgent is a configuration with the rights of a cluster's agent.
func asAgent(config *rest.Config, name string) *rest.Config {
	agent := rest.CopyConfig(config)
	agent.Impersonate = rest.ImpersonationConfig{UserName: cluster.CommonName(name, "bench"), Groups: []string{cluster.Group(name), cluster.ManagedClustersGroup}}
	return agent
}

func agentClient(config *rest.Config, name string) (client.Client, error) {
	return client.New(asAgent(config, name), client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
}

type beatCost struct{ cpu, took time.Duration }

// heartbeats measures what a heartbeat of the cluster's own agent costs.
func heartbeats(ctx context.Context, h *process, config *rest.Config, name string, fleet int) (beatCost, error) {
	agent, err := agentClient(config, name)
	if err != nil {
		return beatCost{}, err
	}
	lease := &coordinationv1.Lease{}
	if err := agent.Get(ctx, client.ObjectKey{Namespace: name, Name: cluster.LeaseName}, lease); err != nil {
		return beatCost{}, err
	}
	before := h.cpu()
	times := make([]time.Duration, 0, beats)
	for range beats {
		begin := time.Now()
		lease.Spec.RenewTime = &metav1.MicroTime{Time: begin}
		if err := agent.Update(ctx, lease); err != nil {
			return beatCost{}, fmt.Errorf("give a heartbeat of %s: %w", name, err)
		}
		times = append(times, time.Since(begin))
	}
	cost := beatCost{cpu: (h.cpu() - before) / beats, took: median(times)}
	fmt.Printf("%-48s %8.2f ms CPU, %.2f ms\n", fmt.Sprintf("a heartbeat as the agent, %d clusters", fleet), ms(cost.cpu), ms(cost.took))
	return cost, nil
}

// neighbours measures an agent's requests while another one floods the hub with
// lists.
func neighbours(ctx context.Context, config *rest.Config) error {
	quiet, err := agentClient(config, "small-1")
	if err != nil {
		return err
	}
	alone, err := reads(ctx, quiet, "small-1")
	if err != nil {
		return err
	}
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	bad, err := agentClient(config, "small-2")
	if err != nil {
		return err
	}
	var lists sync.WaitGroup
	for range flood {
		lists.Go(func() {
			for flooding.Err() == nil {
				_ = bad.List(flooding, &workv1.ManifestWorkList{}, client.InNamespace("small-2"))
			}
		})
	}
	time.Sleep(time.Second)
	beside, err := reads(ctx, quiet, "small-1")
	stop()
	lists.Wait()
	if err != nil {
		return err
	}
	fmt.Printf("%-48s %8.2f ms, %.2f ms alone: %.2f times\n", fmt.Sprintf("an agent's read beside another's %d lists", flood), ms(beside), ms(alone), beside.Seconds()/alone.Seconds())
	return nil
}

// reads is how long it takes an agent to read its works.
func reads(ctx context.Context, agent client.Client, name string) (time.Duration, error) {
	times := make([]time.Duration, 0, beats)
	for range beats {
		begin := time.Now()
		if err := agent.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(name)); err != nil {
			return 0, err
		}
		times = append(times, time.Since(begin))
	}
	return median(times), nil
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
