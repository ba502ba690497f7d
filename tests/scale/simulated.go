package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
	"github.com/muster-fleet/terraform-provider-muster/tests/scale/memcluster"
)

const (
	// tokenUser is who simulated agents are before they have a certificate: they join by
	// one token. The hub is to accept its clusters by itself (--auto-approve).
	tokenUser = "system:bootstrap:" + tokenID
	tokenID   = "scale0"
	// joining is how many simulated agents join at a time.
	joining = 50
)

// simulation is a fleet whose agents run in this process: each with the loops of the
// agent's own program, its certificate and its connection to the hub. Their clusters are
// in memory, so that what a step costs is the hub's part of it.
type simulation struct {
	hub     *server
	first   *memcluster.Cluster // what the others are copies of
	running sync.WaitGroup
	end     context.CancelCauseFunc // of the whole simulation
}

// measureSimulated measures what a fleet of n simulated agents costs the hub: to join, one
// work for each, and rest.
func measureSimulated(ctx context.Context, h *server, n int, settle time.Duration) error {
	ctx, end := context.WithCancelCause(ctx)
	s := &simulation{hub: h, end: end}
	defer s.running.Wait()
	defer end(nil)
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := h.step(n, "joined by their agents", func() error { return s.join(ctx, n) }); err != nil {
		return err
	}
	if err := h.step(n, "one work each is available", func() error { return s.works(ctx, n) }); err != nil {
		return err
	}
	cpu := h.cpu()
	held, err := h.observe(settle)
	say(fmt.Sprintf("%d clusters: after %s at rest", n, settle), "%s", held)
	say("CPU meanwhile, heartbeats included", "%8.2f %% of a core", 100*(h.cpu()-cpu).Seconds()/settle.Seconds())
	return err
}

// prepare makes the token, and the cluster that the others are copies of: with the
// agent's definitions, a node, and the Secret by which the agent joins.
func (s *simulation) prepare(ctx context.Context) error {
	token := bootstraptoken.Token{ID: tokenID, Secret: "0123456789abcdef", Groups: cluster.BootstrapGroup}
	if err := s.hub.client.Create(ctx, token.Object()); err != nil {
		return err
	}
	access, err := kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Server: s.hub.config.Host, CAData: s.hub.config.CAData,
		Token: token.String(),
	}.YAML()
	if err != nil {
		return err
	}
	kinds, err := crds.ManagedCluster()
	if err != nil {
		return err
	}
	s.first = memcluster.New()
	if err := definitions.Install(ctx, s.first.Config(), kinds); err != nil {
		return err
	}
	size := map[string]any{"cpu": "16", "memory": "64Gi", "pods": "110"}
	for _, o := range []map[string]any{
		{
			"apiVersion": "v1", "kind": "Secret",
			"metadata": map[string]any{"namespace": cluster.AgentNamespace, "name": cluster.BootstrapSecret},
			"data":     map[string]any{"kubeconfig": base64.StdEncoding.EncodeToString(access)},
		},
		{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "node"},
			"status": map[string]any{"capacity": size, "allocatable": size},
		},
	} {
		if err := s.first.Create(&unstructured.Unstructured{Object: o}); err != nil {
			return err
		}
	}
	return nil
}

// join starts agents, some at a time, and returns when their clusters are available.
func (s *simulation) join(ctx context.Context, n int) error {
	started := 0
	start := func() {
		name, managed := fmt.Sprintf("cluster-%d", started), s.first.Copy()
		started++
		s.running.Go(func() {
			err := agent.Run(ctx, agent.Options{ClusterName: name, ManagedCluster: managed.Config()})
			if err != nil {
				s.end(fmt.Errorf("the agent of %s has ended: %w", name, err))
			}
		})
	}
	for range min(n, joining) {
		start()
	}
	return s.await(ctx, &clusterv1.ManagedClusterList{}, n, "available", func(o client.Object) bool {
		return meta.IsStatusConditionTrue(o.(*clusterv1.ManagedCluster).Status.Conditions, cluster.ConditionAvailable)
	}, func() {
		if started < n {
			start()
		}
	})
}

// works creates a work of one small object for each cluster, and returns when all are
// available.
func (s *simulation) works(ctx context.Context, n int) error {
	created := make(chan error, 1)
	go func() { created <- each(ctx, "cluster", n, atOnce, s.work) }()
	err := s.await(ctx, &workv1.ManifestWorkList{}, n, "available", func(o client.Object) bool {
		return meta.IsStatusConditionTrue(o.(*workv1.ManifestWork).Status.Conditions, work.ConditionAvailable)
	}, func() {})
	if err != nil {
		return err
	}
	return <-created
}

func (s *simulation) work(ctx context.Context, name string) error {
	raw := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"bench"},`+
		`"data":{"cluster":%q}}`, name)
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "bench"}}
	mw.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}
	return s.hub.client.Create(ctx, mw)
}

// await watches objects until n of them are as wanted; progress is called for each of
// them.
func (s *simulation) await(
	ctx context.Context, list client.ObjectList, n int, wanted string, is func(client.Object) bool, progress func(),
) error {
	events, err := s.hub.client.Watch(ctx, list)
	if err != nil {
		return err
	}
	defer events.Stop()
	reached := map[client.ObjectKey]bool{}
	err = await(ctx, time.Minute, func(o runtime.Object) bool {
		object, ok := o.(client.Object)
		if ok && is(object) && !reached[client.ObjectKeyFromObject(object)] {
			reached[client.ObjectKeyFromObject(object)] = true
			progress()
		}
		return len(reached) == n
	}, events)
	if err != nil {
		return fmt.Errorf("%d of %d objects are %s: %w", len(reached), n, wanted, err)
	}
	return nil
}
