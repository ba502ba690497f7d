package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
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

// acceptClusters creates accepted clusters and waits until the hub has granted
// each its rights and its lease. It prints what that took beyond the creation.
func acceptClusters(ctx context.Context, h *process, config *rest.Config, c client.WithWatch, prefix string, n int) error {
	before, err := requests(ctx, config)
	if err != nil {
		return err
	}
	cpu, begin := h.cpu(), time.Now()
	accepted, err := c.Watch(ctx, &clusterv1.ManagedClusterList{})
	if err != nil {
		return err
	}
	defer accepted.Stop()
	leases, err := c.Watch(ctx, &coordinationv1.LeaseList{}, client.HasLabels{cluster.NameLabel})
	if err != nil {
		return err
	}
	defer leases.Stop()
	creates, createCtx := errgroup.WithContext(ctx)
	creates.SetLimit(10) // as many as Terraform makes at a time
	go func() {
		for i := range n {
			creates.Go(func() error {
				return c.Create(createCtx, &clusterv1.ManagedCluster{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)},
					// Their agents are played, and give heartbeats only where these are measured.
					Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true), LeaseDurationSeconds: 3600},
				})
			})
		}
	}()
	granted, leased := map[string]bool{}, map[string]bool{}
	for len(granted) < n || len(leased) < n {
		select {
		case e := <-accepted.ResultChan():
			if mc, ok := e.Object.(*clusterv1.ManagedCluster); ok && strings.HasPrefix(mc.Name, prefix) && meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionHubAccepted) {
				granted[mc.Name] = true
			}
		case e := <-leases.ResultChan():
			if l, ok := e.Object.(*coordinationv1.Lease); ok && strings.HasPrefix(l.Namespace, prefix) {
				leased[l.Namespace] = true
			}
		case <-createCtx.Done():
			return creates.Wait()
		case <-time.After(time.Minute):
			return fmt.Errorf("%d of %d clusters are accepted and %d have a lease, and nothing has happened for a minute", len(granted), n, len(leased))
		}
	}
	took, used := time.Since(begin), h.cpu()-cpu
	time.Sleep(2 * time.Second) // what is still to come belongs to the clusters too
	after, err := requests(ctx, config)
	if err != nil {
		return err
	}
	writes := after.writes - before.writes - float64(n) // the creation itself is the user's
	reads := after.reads - before.reads - 1             // and so is the reading of the counters
	fmt.Printf("%-48s %8.2f writes, %.2f reads, %.2f conflicts\n", "requests per accepted cluster", writes/float64(n), reads/float64(n), (after.conflicts-before.conflicts)/float64(n))
	fmt.Printf("%-48s %8.1f /s, %.3f CPU s each\n", fmt.Sprintf("%d clusters accepted", n), float64(n)/took.Seconds(), used.Seconds()/float64(n))
	return nil
}

const (
	// atOnce is how many agents send requests at a time.
	atOnce = 16
	// rounds are the heartbeats that each cluster gives.
	rounds = 5
)

// measureLoaded measures the CPU time and the anonymous memory of a hub under load:
// all agents report, get one work and give heartbeats, as fast as the hub takes
// them.
func measureLoaded(ctx context.Context, muster string, fleet int, settle time.Duration) error {
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
	l := loaded{hub: h, config: config, admin: c, fleet: fleet}
	if err := l.step("accepted", func() error { return acceptClusters(ctx, h, config, c, "cluster", fleet) }); err != nil {
		return err
	}
	for _, s := range []struct {
		what string
		do   func(ctx context.Context, name string) error
	}{{"status reported", l.report}, {"one work each", l.work}, {fmt.Sprintf("%d heartbeats each", rounds), l.beat}} {
		if err := l.step(s.what, func() error { return l.all(ctx, s.do) }); err != nil {
			return err
		}
	}
	held, err := h.observe(settle)
	if err != nil {
		return err
	}
	fmt.Printf("%-48s %s\n", fmt.Sprintf("%d clusters: after %s at rest", fleet, settle), held)
	return nil
}

// loaded is a hub with a fleet.
type loaded struct {
	hub    *process
	config *rest.Config
	admin  client.Client
	fleet  int
}

// step prints what a step costs the hub.
func (l *loaded) step(what string, do func() error) error {
	cpu, begin := l.hub.cpu(), time.Now()
	watching, stop := context.WithCancel(context.Background())
	highest := make(chan float64)
	go func() { highest <- l.hub.highest(watching) }()
	err := do()
	stop()
	fmt.Printf("%-48s %8.1f s, %.1f CPU s, %.0f MB anonymous at most\n", fmt.Sprintf("%d clusters: %s", l.fleet, what),
		time.Since(begin).Seconds(), (l.hub.cpu() - cpu).Seconds(), <-highest)
	return err
}

// highest is the most anonymous memory that the process has until ctx ends.
func (p *process) highest(ctx context.Context) float64 {
	highest := 0.0
	for {
		highest = max(highest, p.anonymous())
		select {
		case <-ctx.Done():
			return highest
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// all does something for each cluster, some at a time.
func (l *loaded) all(ctx context.Context, do func(ctx context.Context, name string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range l.fleet {
		g.Go(func() error { return do(ctx, fmt.Sprintf("cluster-%d", i)) })
	}
	return g.Wait()
}

// report is the first report of a cluster's agent.
func (l *loaded) report(ctx context.Context, name string) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": []metav1.Condition{
			{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue, Reason: "Bench", LastTransitionTime: metav1.Now()},
			{Type: cluster.ConditionAvailable, Status: metav1.ConditionTrue, Reason: "Bench", LastTransitionTime: metav1.Now()},
		},
		"version":       map[string]any{"kubernetes": "v1.37.1"},
		"capacity":      map[string]any{"cpu": "16", "memory": "64Gi"},
		"allocatable":   map[string]any{"cpu": "15", "memory": "60Gi"},
		"clusterClaims": []map[string]any{{"name": "id.k8s.io", "value": name}, {"name": "region", "value": "bench"}},
	}})
	if err != nil {
		return err
	}
	agent, err := agentClient(l.config, name)
	if err != nil {
		return err
	}
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return agent.Status().Patch(ctx, mc, client.RawPatch(types.MergePatchType, patch))
}

// work makes a work of one small object.
func (l *loaded) work(ctx context.Context, name string) error {
	raw := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"bench"},"data":{"cluster":%q}}`, name)
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "bench"}}
	mw.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}
	return l.admin.Create(ctx, mw)
}

// beat gives heartbeats as the cluster's agent.
func (l *loaded) beat(ctx context.Context, name string) error {
	agent, err := agentClient(l.config, name)
	if err != nil {
		return err
	}
	lease := &coordinationv1.Lease{}
	if err := agent.Get(ctx, client.ObjectKey{Namespace: name, Name: cluster.LeaseName}, lease); err != nil {
		return err
	}
	for range rounds {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		if err := agent.Update(ctx, lease); err != nil {
			return err
		}
	}
	return nil
}
