package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

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
