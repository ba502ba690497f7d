package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	// small is the fleet that a large one is compared with.
	small = 100
	// beats are the heartbeats that are measured, one after the other.
	beats = 300
	// flood is how many lists a bad neighbour has going all the time.
	flood = 300
	// atOnce is how many agents send requests at a time under load.
	atOnce = 16
)

// accept creates accepted clusters and waits until the hub has granted
// each its rights and its lease. It prints what that took beyond the creation.
func (s *server) accept(ctx context.Context, prefix string, n int) error {
	before, err := s.used(ctx)
	if err != nil {
		return err
	}
	cpu, begin := s.cpu(), time.Now()
	clusters, err := s.client.Watch(ctx, &clusterv1.ManagedClusterList{})
	if err != nil {
		return err
	}
	defer clusters.Stop()
	leases, err := s.client.Watch(ctx, &coordinationv1.LeaseList{}, client.HasLabels{cluster.NameLabel})
	if err != nil {
		return err
	}
	defer leases.Stop()
	creating, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		// As many at a time as Terraform makes. Their agents are played, and give heartbeats
		// only where these are measured.
		err := each(creating, prefix, n, 10, func(ctx context.Context, name string) error {
			return s.client.Create(ctx, acceptedCluster(name, 3600))
		})
		if err != nil {
			stop(err)
		}
	}()
	granted, leased := map[string]bool{}, map[string]bool{}
	err = await(creating, time.Minute, func(o runtime.Object) bool {
		switch o := o.(type) {
		case *clusterv1.ManagedCluster:
			accepted := meta.IsStatusConditionTrue(o.Status.Conditions, cluster.ConditionHubAccepted)
			if accepted && strings.HasPrefix(o.Name, prefix) {
				granted[o.Name] = true
			}
		case *coordinationv1.Lease:
			if strings.HasPrefix(o.Namespace, prefix) {
				leased[o.Namespace] = true
			}
		}
		return len(granted) >= n && len(leased) >= n
	}, clusters, leases)
	if err != nil {
		return fmt.Errorf("%d of %d clusters are accepted and %d have a lease: %w", len(granted), n, len(leased), err)
	}
	took, used := time.Since(begin), s.cpu()-cpu
	time.Sleep(quiet) // what is still to come belongs to the clusters too
	after, err := s.used(ctx)
	if err != nil {
		return err
	}
	after.since(before, float64(n)).print("accepted cluster", float64(n)) // the creation itself is the user's
	say(fmt.Sprintf("%d clusters accepted", n), "%8.1f /s, %.3f CPU s each",
		float64(n)/took.Seconds(), used.Seconds()/float64(n))
	return nil
}

// each does something for n clusters, some at a time.
func each(ctx context.Context, prefix string, n, atOnce int, do func(ctx context.Context, name string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error { return do(ctx, fmt.Sprintf("%s-%d", prefix, i)) })
	}
	return g.Wait()
}

// measureFleet measures the requests of single agents in a small and in a large
// fleet, on a hub of its own, and beside an agent that floods the hub.
func measureFleet(ctx context.Context, h *server, fleet int) error {
	if err := h.accept(ctx, "small", small); err != nil {
		return err
	}
	fewCPU, few, err := h.heartbeats(ctx, "small-0", small)
	if err != nil {
		return err
	}
	if err := h.accept(ctx, "large", max(1, fleet-small)); err != nil {
		return err
	}
	time.Sleep(30 * time.Second) // for the collector to be done with the joins
	manyCPU, many, err := h.heartbeats(ctx, "small-0", fleet)
	if err != nil {
		return err
	}
	say(fmt.Sprintf("a heartbeat with %d clusters, to one with %d", fleet, small), "%8.2f in CPU, %.2f in time",
		manyCPU.Seconds()/fewCPU.Seconds(), many.Seconds()/few.Seconds())
	return h.neighbours(ctx)
}

// beat gives heartbeats as the cluster's agent, and returns how long each took.
func (s *server) beat(ctx context.Context, name string, n int) ([]time.Duration, error) {
	agent, err := s.agent(name)
	if err != nil {
		return nil, err
	}
	lease := &coordinationv1.Lease{}
	if err := agent.Get(ctx, client.ObjectKey{Namespace: name, Name: cluster.LeaseName}, lease); err != nil {
		return nil, err
	}
	return repeat(n, func() error {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		return agent.Update(ctx, lease)
	})
}

// repeat returns how long something took each time, the shortest first.
func repeat(n int, do func() error) ([]time.Duration, error) {
	times := make([]time.Duration, 0, n)
	for range n {
		begin := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	return times, nil
}

// heartbeats measures what a heartbeat of the cluster's own agent costs.
func (s *server) heartbeats(ctx context.Context, name string, fleet int) (cpu, took time.Duration, err error) {
	before := s.cpu()
	times, err := s.beat(ctx, name, beats)
	if err != nil {
		return 0, 0, fmt.Errorf("give a heartbeat of %s: %w", name, err)
	}
	cpu, took = (s.cpu()-before)/beats, times[beats/2]
	say(fmt.Sprintf("a heartbeat as the agent, %d clusters", fleet), "%8.2f ms CPU, %.2f ms", ms(cpu), ms(took))
	return cpu, took, nil
}

// neighbours measures an agent's requests while another one floods the hub with
// lists.
func (s *server) neighbours(ctx context.Context) error {
	good, err := s.agent("small-1")
	if err != nil {
		return err
	}
	bad, err := s.agent("small-2")
	if err != nil {
		return err
	}
	read := func() error { return good.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace("small-1")) }
	alone, err := repeat(beats, read)
	if err != nil {
		return err
	}
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	var lists sync.WaitGroup
	for range flood {
		lists.Go(func() {
			for flooding.Err() == nil {
				_ = bad.List(flooding, &workv1.ManifestWorkList{}, client.InNamespace("small-2"))
			}
		})
	}
	time.Sleep(time.Second)
	beside, err := repeat(beats, read)
	stop()
	lists.Wait()
	if err != nil {
		return err
	}
	say(fmt.Sprintf("an agent's read beside another's %d lists", flood), "%8.2f ms, %.2f ms alone: %.2f times",
		ms(beside[beats/2]), ms(alone[beats/2]), beside[beats/2].Seconds()/alone[beats/2].Seconds())
	return nil
}

// step prints what a step costs the hub.
func (s *server) step(fleet int, what string, do func() error) error {
	cpu, begin := s.cpu(), time.Now()
	watching, stop := context.WithCancel(context.Background())
	highest := make(chan float64)
	go func() {
		most := s.anonymous()
		for ; watching.Err() == nil; most = max(most, s.anonymous()) {
			time.Sleep(100 * time.Millisecond)
		}
		highest <- most
	}()
	err := do()
	stop()
	say(fmt.Sprintf("%d clusters: %s", fleet, what), "%8.1f s, %.1f CPU s, %.0f MB anonymous at most",
		time.Since(begin).Seconds(), (s.cpu() - cpu).Seconds(), <-highest)
	return err
}

// report is the first report of a cluster's agent.
func (s *server) report(ctx context.Context, name string) error {
	is := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Bench", LastTransitionTime: metav1.Now()}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions":    []metav1.Condition{is(cluster.ConditionJoined), is(cluster.ConditionAvailable)},
		"version":       map[string]any{"kubernetes": "v1.37.1"},
		"capacity":      map[string]any{"cpu": "16", "memory": "64Gi"},
		"allocatable":   map[string]any{"cpu": "15", "memory": "60Gi"},
		"clusterClaims": []map[string]any{{"name": "id.k8s.io", "value": name}, {"name": "region", "value": "bench"}},
	}})
	if err != nil {
		return err
	}
	agent, err := s.agent(name)
	if err != nil {
		return err
	}
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return agent.Status().Patch(ctx, mc, client.RawPatch(types.MergePatchType, patch))
}
