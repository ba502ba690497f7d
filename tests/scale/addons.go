package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
func measureAddOns(ctx context.Context, h *server, clusters int) error {
	b := &addOnBench{server: h, fleet: clusters, each: addOnsEach}
	playing, stop := context.WithCancel(ctx)
	defer stop()
	b.playAgents(playing)
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
	*server
	fleet int
	each  int // add-ons in each cluster
	// agentWrites is how many writes the agents have sent.
	agentWrites atomic.Int64
}

// prepare makes the fleet, and a placement that selects all of it.
func (b *addOnBench) prepare(ctx context.Context) error {
	err := b.step(b.fleet, "accepted", func() error { return b.accept(ctx, "cluster", b.fleet) })
	if err == nil {
		err = b.step(b.fleet, "status reported", func() error { return each(ctx, "cluster", b.fleet, atOnce, b.report) })
	}
	if err != nil {
		return err
	}
	placement := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: addOnNamespace, Name: "default"}}
	binding := &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: placement.ObjectMeta}
	binding.Spec.ClusterSet = "default"
	for _, o := range []client.Object{binding, placement} {
		if err := b.client.Create(ctx, o); err != nil {
			return err
		}
	}
	return eventually(func() (bool, error) {
		err := b.client.Get(ctx, client.ObjectKeyFromObject(placement), placement)
		return int(placement.Status.NumberOfSelectedClusters) == b.fleet, err
	})
}

// cost prints what something costs, divided by n. own of the writes are the
// benchmark's.
func (b *addOnBench) cost(ctx context.Context, what string, n, own float64, do func() error) error {
	before, err := b.settled(ctx)
	if err != nil {
		return err
	}
	byAgents, begin := b.agentWrites.Load(), time.Now()
	if err := b.step(b.fleet, what, do); err != nil {
		return fmt.Errorf("measure an %s: %w", what, err)
	}
	took := time.Since(begin)
	after, err := b.settled(ctx)
	if err != nil {
		return err
	}
	cost := after.since(before, own+float64(b.agentWrites.Load()-byAgents))
	say("requests per "+what, "%8.2f writes, %.2f reads, %.2f conflicts, %.2f ms CPU, %.0f /s",
		cost.writes/n, cost.reads/n, cost.conflicts/n, ms(cost.cpu)/n, n/took.Seconds())
	cost.printWrites(n)
	return nil
}

// install makes the add-ons, and waits until each is available in each cluster.
func (b *addOnBench) install(ctx context.Context) error {
	config := &addonv1alpha1.AddOnDeploymentConfig{ObjectMeta: metav1.ObjectMeta{Namespace: addOnNamespace, Name: "bench"}}
	config.Spec.CustomizedVariables = []addonv1alpha1.CustomizedVariable{{Name: "GREETING", Value: "hello"}}
	if err := b.client.Create(ctx, config); err != nil {
		return err
	}
	for i := range b.each {
		name := fmt.Sprintf("bench-%d", i)
		for _, o := range []client.Object{newTemplate(name), b.newAddOn(name, i == 0)} {
			if err := b.client.Create(ctx, o); err != nil {
				return err
			}
		}
	}
	return b.until(ctx, b.fleet*b.each, func(a *addonv1alpha1.ManagedClusterAddOn) bool {
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
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: "cluster-0", Name: "bench-0"}, one); err != nil {
		return err
	}
	b.ownReads++
	_, before := appliedHash(one)
	patch := []byte(`{"spec":{"customizedVariables":[{"name":"GREETING","value":"good day"}]}}`)
	if err := b.client.Patch(ctx, config, client.RawPatch(types.MergePatchType, patch)); err != nil {
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
	for i := range b.each {
		a := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bench-%d", i)}}
		if err := b.client.Delete(ctx, a); err != nil {
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
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"NAME"},
			"data":{"cluster":"{{CLUSTER_NAME}}","greeting":"{{GREETING}}"}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"default","name":"NAME"},
			"spec":{"replicas":1,"selector":{"matchLabels":{"app":"NAME"}},"template":{"metadata":{"labels":{"app":"NAME"}},
				"spec":{"containers":[{"name":"agent","image":"example.org/agent:1"}]}}}}`,
	} {
		raw := runtime.RawExtension{Raw: []byte(strings.ReplaceAll(manifest, "NAME", name))}
		t.Spec.AgentSpec.Workload.Manifests = append(t.Spec.AgentSpec.Workload.Manifests, workv1.Manifest{RawExtension: raw})
	}
	return t
}

// newAddOn is the add-on of a template, in all clusters. One that is configured uses
// the deployment configuration.
func (b *addOnBench) newAddOn(name string, configured bool) *addonv1alpha1.ClusterManagementAddOn {
	a := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: name}}
	kind := func(resource string) addonv1alpha1.ConfigMeta {
		of := addonv1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: resource}
		return addonv1alpha1.ConfigMeta{ConfigGroupResource: of}
	}
	template, config := kind(addon.TemplateResource), kind(addon.DeploymentConfigResource)
	template.DefaultConfig = &addonv1alpha1.ConfigReferent{Name: name}
	if configured {
		config.DefaultConfig = &addonv1alpha1.ConfigReferent{Namespace: addOnNamespace, Name: "bench"}
	}
	a.Spec.SupportedConfigs = []addonv1alpha1.ConfigMeta{template, config}
	placement := addonv1alpha1.PlacementRef{Namespace: addOnNamespace, Name: "default"}
	a.Spec.InstallStrategy = addonv1alpha1.InstallStrategy{
		Type: addonv1alpha1.InstallStrategyPlacements, Placements: []addonv1alpha1.PlacementStrategy{{PlacementRef: placement}},
	}
	return a
}

// playAgents begins to play the work agents of all clusters: whatever work of an add-on
// there is, they report it as applied and available, with the feedback of a Deployment
// that runs.
func (b *addOnBench) playAgents(ctx context.Context) {
	seen := make(chan *workv1.ManifestWork, 100_000)
	go func() {
		err := b.follow(ctx, &workv1.ManifestWorkList{}, func(kind watch.EventType, o runtime.Object) bool {
			w, ok := o.(*workv1.ManifestWork)
			if ok && kind != watch.Deleted && w.DeletionTimestamp.IsZero() && !reported(w) {
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
					if err := b.reportWork(ctx, w); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
						fmt.Printf("the agent of %s could not report on %s: %v\n", w.Namespace, w.Name, err)
					}
				}
			}
		}()
	}
}

// reported reports whether the agent has reported on the work as it is.
func reported(w *workv1.ManifestWork) bool {
	c := meta.FindStatusCondition(w.Status.Conditions, work.ConditionAvailable)
	return c != nil && c.ObservedGeneration == w.Generation
}

func (b *addOnBench) reportWork(ctx context.Context, w *workv1.ManifestWork) error {
	condition := func(kind string) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "Bench", ObservedGeneration: w.Generation,
			LastTransitionTime: metav1.Now(),
		}
	}
	status := workv1.ManifestWorkStatus{
		Conditions: []metav1.Condition{condition(work.ConditionApplied), condition(work.ConditionAvailable)},
	}
	for i, m := range w.Spec.Workload.Manifests {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(m.Raw); err != nil {
			return err
		}
		x := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{
			Ordinal: int32(i), Version: "v1", Kind: o.GetKind(), Name: o.GetName(), Namespace: o.GetNamespace(),
			Resource: "configmaps",
		}, Conditions: status.Conditions}
		if o.GetKind() == "Deployment" {
			x.ResourceMeta.Group, x.ResourceMeta.Resource = "apps", "deployments"
			one := workv1.FieldValue{Type: workv1.ValueTypeInteger, Integer: ptr.To[int64](1)}
			for _, name := range []string{"ReadyReplicas", "Replicas", "AvailableReplicas"} {
				x.StatusFeedbacks.Values = append(x.StatusFeedbacks.Values, workv1.FeedbackValue{Name: name, Value: one})
			}
		}
		status.ResourceStatus.Manifests = append(status.ResourceStatus.Manifests, x)
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	agent, err := b.agent(w.Namespace)
	if err != nil {
		return err
	}
	b.agentWrites.Add(1)
	return agent.Status().Patch(ctx, w, client.RawPatch(types.MergePatchType, patch))
}

// follow watches objects until done returns true. A watch that the server ends, as
// its reader was too slow, is opened again, and begins with what there is then.
func (b *addOnBench) follow(
	ctx context.Context, list client.ObjectList, done func(watch.EventType, runtime.Object) bool, options ...client.ListOption,
) error {
	for ctx.Err() == nil {
		events, err := b.client.Watch(ctx, list, options...)
		if err != nil {
			return err
		}
		for event := range events.ResultChan() {
			if done(event.Type, event.Object) {
				events.Stop()
				return nil
			}
		}
	}
	return ctx.Err()
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
	err := b.follow(ctx, &addonv1alpha1.ManagedClusterAddOnList{}, func(_ watch.EventType, o runtime.Object) bool {
		a, ok := o.(*addonv1alpha1.ManagedClusterAddOn)
		if !ok {
			return false
		}
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
		if err := b.client.List(ctx, left, client.Limit(1)); err != nil || len(left.Items) == 0 {
			return err
		}
	}
	return errors.New("there are add-ons left in clusters")
}
