package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	manyWorks      = 20
	objectsPerWork = 50
	singleWorks    = 100
	worksAtRest    = time.Minute
)

// works measures how fast an agent carries out works and what that costs, and
// what they cost when nothing happens.
func (b *agentBench) works(ctx context.Context) error {
	if _, err := b.join(ctx, "works"); err != nil {
		return err
	}
	defer func() { _ = b.agent.Kill() }()
	if err := b.manyWorks(ctx); err != nil {
		return fmt.Errorf("measure many works: %w", err)
	}
	if err := b.worksAtRest(ctx); err != nil {
		return fmt.Errorf("measure works at rest: %w", err)
	}
	if err := b.singleWorks(ctx); err != nil {
		return fmt.Errorf("measure single works: %w", err)
	}
	return nil
}

func (b *agentBench) newWork(name string, objects int) (*workv1.ManifestWork, error) {
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: name}}
	for i := range objects {
		raw, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": name},
			"metadata": map[string]any{"namespace": "default", "name": fmt.Sprintf("%s-%d", name, i)},
		})
		if err != nil {
			return nil, err
		}
		mw.Spec.Workload.Manifests = append(mw.Spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return mw, nil
}

// watchWorks watches the works of the cluster.
func (b *agentBench) watchWorks(ctx context.Context) (watch.Interface, error) {
	return b.hub.client.Watch(ctx, &workv1.ManifestWorkList{}, client.InNamespace(b.name))
}

// both are what both sides have done.
func (b *agentBench) both(ctx context.Context) (hub, local usage, err error) {
	if hub, err = b.hub.used(ctx); err != nil {
		return hub, local, err
	}
	local, err = b.local.used(ctx)
	return hub, local, err
}

func (b *agentBench) manyWorks(ctx context.Context) error {
	events, err := b.watchWorks(ctx)
	if err != nil {
		return err
	}
	defer events.Stop()
	hub, local, err := b.both(ctx)
	if err != nil {
		return err
	}
	begin, cpu := time.Now(), b.agent.cpu()
	for i := range manyWorks {
		mw, err := b.newWork(fmt.Sprintf("many-%d", i), objectsPerWork)
		if err != nil {
			return err
		}
		if err := b.hub.client.Create(ctx, mw); err != nil {
			return err
		}
	}
	available := map[string]bool{}
	err = await(ctx, 2*time.Minute, func(o runtime.Object) bool {
		mw, ok := o.(*workv1.ManifestWork)
		if ok && meta.IsStatusConditionTrue(mw.Status.Conditions, work.ConditionAvailable) {
			available[mw.Name] = true
		}
		return len(available) >= manyWorks
	}, events)
	if err != nil {
		return fmt.Errorf("%d of %d works are available: %w", len(available), manyWorks, err)
	}
	took, used := time.Since(begin), b.agent.cpu()-cpu
	hubAfter, localAfter, err := b.both(ctx)
	if err != nil {
		return err
	}
	say(fmt.Sprintf("%d works of %d objects available", manyWorks, objectsPerWork), "%8.2f s, %.2f CPU s of the agent",
		took.Seconds(), used.Seconds())
	localAfter.since(local, 0).print("applied object, in its cluster", manyWorks*objectsPerWork)
	hubAfter.since(hub, manyWorks).print("work, on the hub", manyWorks)
	return nil
}

// worksAtRest lets the works be. What both sides are asked then beside the heartbeats
// they ask themselves: the agent only watches.
func (b *agentBench) worksAtRest(ctx context.Context) error {
	time.Sleep(5 * time.Second)
	hub, local, err := b.both(ctx)
	if err != nil {
		return err
	}
	cpu := b.agent.cpu()
	held, err := b.agent.observe(worksAtRest)
	if err != nil {
		return err
	}
	hubAfter, localAfter, err := b.both(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s at rest with %d objects", worksAtRest, manyWorks*objectsPerWork)
	onHub, inCluster := hubAfter.since(hub, 0), localAfter.since(local, 0)
	say(what, "%8.0f writes, %.0f reads in the cluster", inCluster.writes, inCluster.reads)
	say(what, "%8.0f writes, %.0f reads on the hub", onHub.writes, onHub.reads)
	say("the agent then", "%8.2f CPU s", (b.agent.cpu() - cpu).Seconds())
	say("the agent's memory then", "%s", held)
	return nil
}

// singleWorks creates one work after the other and takes the times from the user's
// write to each step.
func (b *agentBench) singleWorks(ctx context.Context) error {
	events, err := b.watchWorks(ctx)
	if err != nil {
		return err
	}
	defer events.Stop()
	objects, err := b.local.client.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace("default"))
	if err != nil {
		return err
	}
	defer objects.Stop()
	const made, applied, available = "its object in the cluster", "Applied on the hub", "Available on the hub"
	times := map[string][]time.Duration{}
	for i := range singleWorks {
		mw, err := b.newWork(fmt.Sprintf("single-%d", i), 1)
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := b.hub.client.Create(ctx, mw); err != nil {
			return err
		}
		note := func(step string, happened bool) {
			if happened && len(times[step]) == i {
				times[step] = append(times[step], time.Since(begin))
			}
		}
		err = await(ctx, time.Minute, func(o runtime.Object) bool {
			switch o := o.(type) {
			case *corev1.ConfigMap:
				note(made, o.Name == mw.Name+"-0")
			case *workv1.ManifestWork:
				note(applied, o.Name == mw.Name && meta.IsStatusConditionTrue(o.Status.Conditions, work.ConditionApplied))
				note(available, o.Name == mw.Name && meta.IsStatusConditionTrue(o.Status.Conditions, work.ConditionAvailable))
			}
			return min(len(times[made]), len(times[applied]), len(times[available])) > i
		}, events, objects)
		if err != nil {
			return fmt.Errorf("wait for the work %s: %w", mw.Name, err)
		}
	}
	for _, step := range []string{made, applied, available} {
		slices.Sort(times[step])
		say("single work: "+step, "%8.1f ms median, %.1f ms p99",
			ms(times[step][singleWorks/2]), ms(times[step][singleWorks*99/100]))
	}
	return nil
}
