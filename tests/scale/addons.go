package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	// addOnsEach is how many add-ons each cluster gets.
	addOnsEach = 5
	// addOnsAtRest is for how long nothing is done with them.
	addOnsAtRest = 30 * time.Second
	// addOnNamespace is where the placement and the configuration of the add-ons are.
	addOnNamespace = "default"
)

// measureAddOns measures what add-ons cost a hub, for each cluster that has one: to
// be installed, to be configured otherwise, to be, and to be removed. The agents are
// played by agents, and what they send is left out of the counts, but not of the CPU
// time.
func measureAddOns(ctx context.Context, muster string, clusters int) error {
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
	b := &addOnBench{loaded: loaded{hub: h, config: config, admin: c, fleet: clusters}, watch: c}
	b.agents = newAddOnAgents(config)
	playing, stop := context.WithCancel(ctx)
	defer stop()
	b.agents.play(playing, c)
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, s := range []struct {
		what string
		n    int
		own  float64
		do   func() error
	}{
		{"add-on installed in a cluster", clusters * addOnsEach, 2*addOnsEach + 1, func() error { return b.install(ctx) }},
		{fmt.Sprintf("%s with them at rest", addOnsAtRest), 1, 0, func() error { time.Sleep(addOnsAtRest); return nil }},
		{"add-on configured otherwise in a cluster", clusters, 1, func() error { return b.configure(ctx) }},
		{"add-on removed from a cluster", clusters * addOnsEach, addOnsEach, func() error { return b.remove(ctx) }},
	} {
		if err := b.cost(ctx, s.what, float64(s.n), s.own, s.do); err != nil {
			return err
		}
	}
	return nil
}

// addOnBench is a hub whose clusters get add-ons.
type addOnBench struct {
	loaded
	watch  client.WithWatch
	agents *addOnAgents
	// ownReads are those of the benchmark.
	ownReads float64
}

// prepare makes the fleet, and a placement that selects all of it.
func (b *addOnBench) prepare(ctx context.Context) error {
	if err := b.step("accepted", func() error { return acceptClusters(ctx, b.hub, b.config, b.watch, "cluster", b.fleet) }); err != nil {
		return err
	}
	if err := b.step("status reported", func() error { return b.all(ctx, b.report) }); err != nil {
		return err
	}
	objectMeta := metav1.ObjectMeta{Namespace: addOnNamespace, Name: "default"}
	for _, o := range []client.Object{
		&clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: objectMeta, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "default"}},
		&clusterv1beta1.Placement{ObjectMeta: objectMeta},
	} {
		if err := b.admin.Create(ctx, o); err != nil {
			return err
		}
	}
	return eventually(func() (bool, error) {
		p := &clusterv1beta1.Placement{ObjectMeta: objectMeta}
		err := b.admin.Get(ctx, client.ObjectKeyFromObject(p), p)
		return int(p.Status.NumberOfSelectedClusters) == b.fleet, err
	})
}

// cost prints what something costs, divided by n. own of the writes are the
// benchmark's.
func (b *addOnBench) cost(ctx context.Context, what string, n, own float64, do func() error) error {
	before, err := b.settled(ctx)
	if err != nil {
		return err
	}
	byAgents, begin := b.agents.sent(), time.Now()
	err = b.step(what, do)
	if err != nil {
		return fmt.Errorf("measure an %s: %w", what, err)
	}
	took := time.Since(begin)
	after, err := b.settled(ctx)
	if err != nil {
		return err
	}
	cost := after.since(before)
	fmt.Printf("%-48s %8.2f writes, %.2f reads, %.2f conflicts, %.2f ms CPU, %.0f /s\n", "requests per "+what,
		(cost.writes-own-(b.agents.sent()-byAgents))/n, cost.reads/n, cost.conflicts/n, ms(after.cpu-before.cpu)/n, n/took.Seconds())
	cost.print(n)
	return nil
}

// install makes the add-ons, and waits until each is available in each cluster.
func (b *addOnBench) install(ctx context.Context) error {
	config := &addonv1alpha1.AddOnDeploymentConfig{ObjectMeta: metav1.ObjectMeta{Namespace: addOnNamespace, Name: "bench"}}
	config.Spec.CustomizedVariables = []addonv1alpha1.CustomizedVariable{{Name: "GREETING", Value: "hello"}}
	if err := b.admin.Create(ctx, config); err != nil {
		return err
	}
	for i := range addOnsEach {
		name := fmt.Sprintf("bench-%d", i)
		for _, o := range []client.Object{newTemplate(name), b.newAddOn(name, i == 0)} {
			if err := b.admin.Create(ctx, o); err != nil {
				return err
			}
		}
	}
	return b.until(ctx, b.fleet*addOnsEach, func(a *addonv1alpha1.ManagedClusterAddOn) bool {
		return done(a) && meta.IsStatusConditionTrue(a.Status.Conditions, addon.ConditionAvailable)
	})
}

// done reports whether an add-on has what it should have in its cluster.
func done(a *addonv1alpha1.ManagedClusterAddOn) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, addon.ConditionProgressing)
	return c != nil && c.Reason == addon.ReasonCompleted
}

// configure changes the configuration of one add-on, and waits until all clusters
// have it.
func (b *addOnBench) configure(ctx context.Context) error {
	config := &addonv1alpha1.AddOnDeploymentConfig{ObjectMeta: metav1.ObjectMeta{Namespace: addOnNamespace, Name: "bench"}}
	one := &addonv1alpha1.ManagedClusterAddOn{}
	if err := b.admin.Get(ctx, client.ObjectKey{Namespace: "cluster-0", Name: "bench-0"}, one); err != nil {
		return err
	}
	b.ownReads++
	_, before := appliedHash(one)
	patch := []byte(`{"spec":{"customizedVariables":[{"name":"GREETING","value":"good day"}]}}`)
	if err := b.admin.Patch(ctx, config, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	return b.until(ctx, b.fleet, func(a *addonv1alpha1.ManagedClusterAddOn) bool {
		applied, hash := appliedHash(a)
		return applied && hash != before
	})
}

// appliedHash is the hash of the deployment configuration that an add-on is to have, and
// whether it has it.
func appliedHash(a *addonv1alpha1.ManagedClusterAddOn) (applied bool, hash string) {
	for _, r := range a.Status.ConfigReferences {
		if r.Resource == addon.DeploymentConfigResource && r.DesiredConfig != nil {
			return r.LastAppliedConfig != nil && *r.LastAppliedConfig == *r.DesiredConfig, r.DesiredConfig.SpecHash
		}
	}
	return false, ""
}

// remove deletes the add-ons, and waits until they are gone from all clusters.
func (b *addOnBench) remove(ctx context.Context) error {
	for i := range addOnsEach {
		a := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bench-%d", i)}}
		if err := b.admin.Delete(ctx, a); err != nil {
			return err
		}
	}
	return b.untilGone(ctx)
}

// newTemplate is an add-on of a Deployment and a ConfigMap.
func newTemplate(name string) *addonv1alpha1.AddOnTemplate {
	t := &addonv1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Spec.AddonName = name
	for _, manifest := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"` + name + `"},"data":{"cluster":"{{CLUSTER_NAME}}","greeting":"{{GREETING}}"}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"` + name + `"},"spec":{"replicas":1,"selector":{"matchLabels":{"app":"` + name + `"}},
			"template":{"metadata":{"labels":{"app":"` + name + `"}},"spec":{"containers":[{"name":"agent","image":"example.org/agent:1"}]}}}}`,
	} {
		t.Spec.AgentSpec.Workload.Manifests = append(t.Spec.AgentSpec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}})
	}
	return t
}

// newAddOn is the add-on of a template, in all clusters. One that is configured uses
// the deployment configuration.
func (b *addOnBench) newAddOn(name string, configured bool) *addonv1alpha1.ClusterManagementAddOn {
	a := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: name}}
	kind := func(resource string) addonv1alpha1.ConfigMeta {
		return addonv1alpha1.ConfigMeta{ConfigGroupResource: addonv1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: resource}}
	}
	template, config := kind(addon.TemplateResource), kind(addon.DeploymentConfigResource)
	template.DefaultConfig = &addonv1alpha1.ConfigReferent{Name: name}
	if configured {
		config.DefaultConfig = &addonv1alpha1.ConfigReferent{Namespace: addOnNamespace, Name: "bench"}
	}
	a.Spec.SupportedConfigs = []addonv1alpha1.ConfigMeta{template, config}
	a.Spec.InstallStrategy = addonv1alpha1.InstallStrategy{
		Type:       addonv1alpha1.InstallStrategyPlacements,
		Placements: []addonv1alpha1.PlacementStrategy{{PlacementRef: addonv1alpha1.PlacementRef{Namespace: addOnNamespace, Name: "default"}}},
	}
	return a
}

// settled are the hub's requests and CPU time once nothing is written any longer.
func (b *addOnBench) settled(ctx context.Context) (usage, error) {
	last, err := measureUsage(ctx, b.hub, b.config)
	for err == nil {
		b.ownReads++
		time.Sleep(quiet)
		var now usage
		if now, err = measureUsage(ctx, b.hub, b.config); err == nil && now.writes == last.writes {
			b.ownReads++
			now.reads -= b.ownReads
			return now, nil
		}
		last = now
	}
	return usage{}, err
}

// addOnAgents play the work agents of all clusters: whatever work there is, they
// report it as applied and available, with the feedback of a Deployment that runs.
type addOnAgents struct {
	config *rest.Config
	writes atomic.Int64
}

func newAddOnAgents(config *rest.Config) *addOnAgents { return &addOnAgents{config: config} }

// sent is how many writes they have sent.
func (a *addOnAgents) sent() float64 { return float64(a.writes.Load()) }

// play begins to watch the works of add-ons.
func (a *addOnAgents) play(ctx context.Context, c client.WithWatch) {
	seen := make(chan *workv1.ManifestWork, 100_000)
	go func() {
		err := follow(ctx, c, &workv1.ManifestWorkList{}, func(kind watch.EventType, w *workv1.ManifestWork) bool {
			if kind != watch.Deleted && w.DeletionTimestamp.IsZero() && !reported(w) {
				seen <- w
			}
			return false
		}, client.HasLabels{cluster.AddOnNameLabel})
		if err != nil && ctx.Err() == nil {
			fmt.Println("the agents have stopped:", err)
		}
	}()
	for range atOnce {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case w := <-seen:
					if err := a.report(ctx, w); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
						fmt.Printf("the agent of %s could not report on %s: %v\n", w.Namespace, w.Name, err)
					}
				}
			}
		}()
	}
}

// reported reports whether the agent has reported on the work as it is.
func reported(w *workv1.ManifestWork) bool {
	for _, c := range w.Status.Conditions {
		if c.Type == work.ConditionAvailable {
			return c.ObservedGeneration == w.Generation
		}
	}
	return false
}

func (a *addOnAgents) report(ctx context.Context, w *workv1.ManifestWork) error {
	condition := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Bench", ObservedGeneration: w.Generation, LastTransitionTime: metav1.Now()}
	}
	status := workv1.ManifestWorkStatus{Conditions: []metav1.Condition{condition(work.ConditionApplied), condition(work.ConditionAvailable)}}
	for i, m := range w.Spec.Workload.Manifests {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(m.Raw, &o.Object); err != nil {
			return err
		}
		x := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{
			Ordinal: int32(i), Version: "v1", Kind: o.GetKind(), Name: o.GetName(), Namespace: o.GetNamespace(), Resource: "configmaps",
		}, Conditions: status.Conditions}
		if o.GetKind() == "Deployment" {
			x.ResourceMeta.Group, x.ResourceMeta.Resource = "apps", "deployments"
			for _, name := range []string{"ReadyReplicas", "Replicas", "AvailableReplicas"} {
				x.StatusFeedbacks.Values = append(x.StatusFeedbacks.Values, workv1.FeedbackValue{Name: name, Value: workv1.FieldValue{Type: workv1.ValueTypeInteger, Integer: ptr.To[int64](1)}})
			}
		}
		status.ResourceStatus.Manifests = append(status.ResourceStatus.Manifests, x)
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	agent, err := agentClient(a.config, w.Namespace)
	if err != nil {
		return err
	}
	a.writes.Add(1)
	return agent.Status().Patch(ctx, w, client.RawPatch(types.MergePatchType, patch))
}

// follow watches objects until done returns true. A watch that the server ends, as
// its reader was too slow, is opened again, and begins with what there is then.
func follow[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, done func(watch.EventType, T) bool, options ...client.ListOption) error {
	for {
		events, err := c.Watch(ctx, list, options...)
		if err != nil {
			return err
		}
		for event := range events.ResultChan() {
			if o, ok := event.Object.(T); ok && done(event.Type, o) {
				events.Stop()
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// patience is how long nothing may happen to the add-ons.
const patience = time.Minute

// until waits until so many add-ons in clusters satisfy a condition.
func (b *addOnBench) until(ctx context.Context, n int, is func(*addonv1alpha1.ManagedClusterAddOn) bool) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	satisfied := map[string]bool{}
	var last *addonv1alpha1.ManagedClusterAddOn
	idle := time.AfterFunc(patience, func() { stop(errors.New("nothing has happened for a minute")) })
	defer idle.Stop()
	err := follow(ctx, b.watch, &addonv1alpha1.ManagedClusterAddOnList{}, func(_ watch.EventType, a *addonv1alpha1.ManagedClusterAddOn) bool {
		idle.Reset(patience)
		if is(a) {
			satisfied[a.Namespace+"/"+a.Name] = true
		} else {
			last = a
		}
		return len(satisfied) >= n
	})
	if err != nil {
		return fmt.Errorf("%w (%w): %d of %d are done, and one is not: %+v", err, context.Cause(ctx), len(satisfied), n, last)
	}
	return nil
}

// untilGone waits until no cluster has an add-on.
func (b *addOnBench) untilGone(ctx context.Context) error {
	for begin := time.Now(); time.Since(begin) < 10*patience; time.Sleep(time.Second) {
		left := &addonv1alpha1.ManagedClusterAddOnList{}
		b.ownReads++
		if err := b.admin.List(ctx, left, client.Limit(1)); err != nil || len(left.Items) == 0 {
			return err
		}
	}
	return errors.New("there are add-ons left in clusters")
}
