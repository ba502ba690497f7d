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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	manyWorks      = 20
	objectsPerWork = 50
	singleWorks    = 100
	worksAtRest    = time.Minute
)

// works measures an agent that carries out works in a dev cluster.
type works struct {
	ctx                    context.Context
	hubConfig, localConfig *rest.Config
	hub, local             client.WithWatch
	agent                  *process
	name                   string
}

// measureWorks measures how fast works are carried out and what that costs, and
// what they cost when nothing happens.
func measureWorks(ctx context.Context, program, dir string, config *rest.Config, c client.WithWatch, managed *process) error {
	local, err := clientcmd.BuildConfigFromFlags("", managed.kubeconfig)
	if err != nil {
		return err
	}
	local.QPS, local.UserAgent = -1, "muster-bench"
	l, err := client.NewWithWatch(local, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
	if err != nil {
		return err
	}
	w := works{ctx: ctx, hubConfig: config, localConfig: local, hub: c, local: l, name: "works"}
	if w.agent, err = joinCluster(ctx, program, dir, config, managed.kubeconfig, c, w.name); err != nil {
		return err
	}
	defer w.agent.kill()
	if err := w.many(); err != nil {
		return fmt.Errorf("measure many works: %w", err)
	}
	if err := w.rest(); err != nil {
		return fmt.Errorf("measure works at rest: %w", err)
	}
	if err := w.single(); err != nil {
		return fmt.Errorf("measure single works: %w", err)
	}
	return nil
}

func (w *works) newWork(name string, objects int) (*workv1.ManifestWork, error) {
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	for i := range objects {
		raw, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": fmt.Sprintf("%s-%d", name, i)}, "data": map[string]any{"key": name},
		})
		if err != nil {
			return nil, err
		}
		mw.Spec.Workload.Manifests = append(mw.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return mw, nil
}

// events watches the works of the cluster.
func (w *works) events() (watch.Interface, error) {
	return w.hub.Watch(w.ctx, &workv1.ManifestWorkList{}, client.InNamespace(w.name))
}

// both are the requests that both sides have had.
func (w *works) both() (hub, local counts, err error) {
	if hub, err = requests(w.ctx, w.hubConfig); err != nil {
		return hub, local, err
	}
	local, err = requests(w.ctx, w.localConfig)
	return hub, local, err
}

func (w *works) many() error {
	events, err := w.events()
	if err != nil {
		return err
	}
	defer events.Stop()
	hub, local, err := w.both()
	if err != nil {
		return err
	}
	begin, cpu := time.Now(), w.agent.cpu()
	for i := range manyWorks {
		mw, err := w.newWork(fmt.Sprintf("many-%d", i), objectsPerWork)
		if err != nil {
			return err
		}
		if err := w.hub.Create(w.ctx, mw); err != nil {
			return err
		}
	}
	available := map[string]bool{}
	for len(available) < manyWorks {
		select {
		case e := <-events.ResultChan():
			if mw, ok := e.Object.(*workv1.ManifestWork); ok && meta.IsStatusConditionTrue(mw.Status.Conditions, work.ConditionAvailable) {
				available[mw.Name] = true
			}
		case <-time.After(2 * time.Minute):
			return fmt.Errorf("%d of %d works are available, and nothing has happened for two minutes", len(available), manyWorks)
		}
	}
	took, used := time.Since(begin), w.agent.cpu()-cpu
	hubAfter, localAfter, err := w.both()
	if err != nil {
		return err
	}
	n := float64(manyWorks * objectsPerWork)
	fmt.Printf("%-48s %8.2f s, %.2f CPU s of the agent\n", fmt.Sprintf("%d works of %d objects available", manyWorks, objectsPerWork), took.Seconds(), used.Seconds())
	fmt.Printf("%-48s %8.2f writes, %.2f reads, %.2f conflicts\n", "requests per applied object, in its cluster",
		(localAfter.writes-local.writes)/n, (localAfter.reads-local.reads-1)/n, (localAfter.conflicts-local.conflicts)/n)
	fmt.Printf("%-48s %8.2f writes, %.2f reads, %.2f conflicts\n", "requests per work, on the hub",
		(hubAfter.writes-hub.writes-manyWorks)/manyWorks, (hubAfter.reads-hub.reads-1)/manyWorks, (hubAfter.conflicts-hub.conflicts)/manyWorks)
	return nil
}

// rest lets the works be. What both sides are asked then beside the heartbeats
// they ask themselves: the agent only watches.
func (w *works) rest() error {
	time.Sleep(5 * time.Second)
	hub, local, err := w.both()
	if err != nil {
		return err
	}
	cpu := w.agent.cpu()
	held, err := w.agent.observe(worksAtRest)
	if err != nil {
		return err
	}
	hubAfter, localAfter, err := w.both()
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s at rest with %d objects", worksAtRest, manyWorks*objectsPerWork)
	fmt.Printf("%-48s %8.0f writes, %.0f reads in the cluster\n", what, localAfter.writes-local.writes, localAfter.reads-local.reads-1)
	fmt.Printf("%-48s %8.0f writes, %.0f reads on the hub\n", what, hubAfter.writes-hub.writes, hubAfter.reads-hub.reads-1)
	fmt.Printf("%-48s %8.2f CPU s\n", "the agent then", (w.agent.cpu() - cpu).Seconds())
	fmt.Printf("%-48s %s\n", "the agent's memory then", held)
	return nil
}

// single creates one work after the other and takes the times from the user's
// write to each step.
func (w *works) single() error {
	events, err := w.events()
	if err != nil {
		return err
	}
	defer events.Stop()
	objects, err := w.local.Watch(w.ctx, &corev1.ConfigMapList{}, client.InNamespace("default"))
	if err != nil {
		return err
	}
	defer objects.Stop()
	var made, applied, available []time.Duration
	for i := range singleWorks {
		mw, err := w.newWork(fmt.Sprintf("single-%d", i), 1)
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := w.hub.Create(w.ctx, mw); err != nil {
			return err
		}
		steps := map[string]time.Duration{}
		for len(steps) < 3 {
			note := func(step string) {
				if _, ok := steps[step]; !ok {
					steps[step] = time.Since(begin)
				}
			}
			select {
			case e := <-objects.ResultChan():
				if cm, ok := e.Object.(*corev1.ConfigMap); ok && cm.Name == mw.Name+"-0" {
					note("made")
				}
			case e := <-events.ResultChan():
				now, ok := e.Object.(*workv1.ManifestWork)
				if !ok || now.Name != mw.Name {
					continue
				}
				if meta.IsStatusConditionTrue(now.Status.Conditions, work.ConditionApplied) {
					note("applied")
				}
				if meta.IsStatusConditionTrue(now.Status.Conditions, work.ConditionAvailable) {
					note("available")
				}
			case <-time.After(time.Minute):
				return fmt.Errorf("the work %s is not available after a minute", mw.Name)
			}
		}
		made, applied, available = append(made, steps["made"]), append(applied, steps["applied"]), append(available, steps["available"])
	}
	for _, x := range []struct {
		what  string
		times []time.Duration
	}{{"its object in the cluster", made}, {"Applied on the hub", applied}, {"Available on the hub", available}} {
		slices.Sort(x.times)
		fmt.Printf("%-48s %8.1f ms median, %.1f ms p99\n", "single work: "+x.what, ms(x.times[len(x.times)/2]), ms(x.times[len(x.times)*99/100]))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
