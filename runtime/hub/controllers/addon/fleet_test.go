package addon_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	addoncontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/configuration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/deploy"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
)

// noon is when the tests' clock starts.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// fleet is some clusters and one add-on, whose name is that of the namespace of its
// placements and of the cluster set. The tests play the placement controller, the
// add-on's manager and the agents. The controllers run only when they are told to.
type fleet struct {
	*testworld.World
	clock  *clocktesting.FakePassiveClock
	writes *testkit.Writes
	name   string

	install, configuration reconcile.Reconciler
	// stages are all, and registration and deploying without each other.
	stages, registration, deploying reconcile.Reconciler
	// events are those of what is deployed.
	events *events.FakeRecorder
	// wait is when the last pass wanted to look again.
	wait time.Duration
}

// newFleet makes clusters, written as in "a b".
func newFleet(t testing.TB, clusters string) *fleet {
	t.Helper()
	return newFleetWith(t, clusters, deploy.Options{Overrides: true})
}

// newFleetWith is newFleet with other options.
func newFleetWith(t testing.TB, clusters string, o deploy.Options) *fleet {
	t.Helper()
	f := &fleet{World: env.World(t), clock: clocktesting.NewFakePassiveClock(noon)}
	counting, writes := env.Counting(t)
	f.writes = writes
	f.install = addoncontrollers.NewInstaller(counting, selection.BoundSets, nil, nil)
	as, err := addons.NewManager(env.Config("muster-test"), client.Options{Scheme: counting.Scheme(), Mapper: counting.RESTMapper()})
	f.Must(err)
	registering := registration.NewController(counting, counting, counting, as, f.clock)
	f.events = events.NewFakeRecorder(1000)
	f.configuration = configuration.NewController(counting, counting, f.events, f.clock, selection.BoundSets)
	deploying := deploy.NewController(counting, counting, counting, f.events, f.clock, o)
	owners := addoncontrollers.NewOwners(counting)
	f.stages = addoncontrollers.NewStages(counting, owners, registering, deploying)
	f.registration = addoncontrollers.NewStages(counting, registering)
	f.deploying = addoncontrollers.NewStages(counting, owners, deploying)
	f.name = f.BoundSet()
	for name := range strings.FieldsSeq(clusters) {
		f.member(name, map[string]string{cluster.ClusterSetLabel: f.name}, nil)
	}
	return f
}

func (f *fleet) full(cluster string) string { return f.name + "-" + cluster }

// member makes an accepted cluster and its namespace.
func (f *fleet) member(name string, labels, annotations map[string]string) *clusterv1.ManagedCluster {
	f.Helper()
	f.Make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.full(name)}})
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: f.full(name), Labels: labels, Annotations: annotations},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)},
	}
	f.Make(mc)
	return mc
}

// place has a placement select clusters, by groups as in "0:a,b 1:c". It creates the
// placement, too.
func (f *fleet) place(name, groups string) *clusterv1beta1.Placement {
	f.Helper()
	ctx := context.Background()
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: name}}
	if err := f.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
		f.Must(f.Create(ctx, p))
	}
	f.Must(f.DeleteAllOf(ctx, &clusterv1beta1.PlacementDecision{}, client.InNamespace(f.name), client.MatchingLabels{cluster.PlacementLabel: name}))
	p.Status = clusterv1beta1.PlacementStatus{DecisionGroups: []clusterv1beta1.DecisionGroupStatus{}}
	for i, field := range strings.Fields(groups) {
		index, clusters, _ := strings.Cut(field, ":")
		d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: fmt.Sprintf("%s-decision-%d", name, i), Labels: map[string]string{
			cluster.PlacementLabel: name, cluster.DecisionGroupIndexLabel: index}}}
		f.Must(f.Create(ctx, d))
		d.Status.Decisions = []clusterv1beta1.ClusterDecision{}
		for c := range strings.SplitSeq(clusters, ",") {
			d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: f.full(c)})
			p.Status.NumberOfSelectedClusters++
		}
		f.Must(f.Status().Update(ctx, d))
	}
	f.Must(f.Status().Update(ctx, p))
	return p
}

// strategy is how a placement of the fleet installs the add-on.
func (f *fleet) strategy(name, settings string, rollouts ...clusterv1alpha1.RolloutStrategy) addonv1alpha1.PlacementStrategy {
	s := addonv1alpha1.PlacementStrategy{PlacementRef: addonv1alpha1.PlacementRef{Namespace: f.name, Name: name}, Configs: f.settings(settings)}
	for _, r := range rollouts {
		s.RolloutStrategy = r
	}
	return s
}

// setting is the kind of configuration that most tests use.
var setting = addonv1alpha1.ConfigGroupResource{Group: "example.org", Resource: "settings"}

// settings are configurations, of the kind setting unless they say "resource/name".
func (f *fleet) settings(names string) (out []addonv1alpha1.AddOnConfig) {
	for name := range strings.FieldsSeq(names) {
		kind := setting
		if resource, rest, other := strings.Cut(name, "/"); other {
			kind.Resource, name = resource, rest
		}
		out = append(out, addonv1alpha1.AddOnConfig{ConfigGroupResource: kind, ConfigReferent: addonv1alpha1.ConfigReferent{Namespace: f.name, Name: name}})
	}
	return out
}

// define makes the add-on. Without placements its strategy is Manual.
func (f *fleet) define(defaults string, placements ...addonv1alpha1.PlacementStrategy) *addonv1alpha1.ClusterManagementAddOn {
	f.Helper()
	a := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	for _, c := range f.settings(defaults) {
		a.Spec.SupportedConfigs = append(a.Spec.SupportedConfigs, addonv1alpha1.ConfigMeta{ConfigGroupResource: c.ConfigGroupResource, DefaultConfig: &c.ConfigReferent})
	}
	if len(placements) > 0 {
		a.Spec.InstallStrategy = addonv1alpha1.InstallStrategy{Type: "Placements", Placements: placements}
	}
	f.Make(a)
	return a
}

func (f *fleet) definition() *addonv1alpha1.ClusterManagementAddOn {
	f.Helper()
	a := &addonv1alpha1.ClusterManagementAddOn{}
	f.Must(f.Get(context.Background(), types.NamespacedName{Name: f.name}, a))
	return a
}

// manual makes the add-on in a cluster as a user does.
func (f *fleet) manual(cluster, settings string) *addonv1alpha1.ManagedClusterAddOn {
	f.Helper()
	a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: f.full(cluster), Name: f.name}}
	a.Spec.Configs = f.settings(settings)
	f.Make(a)
	return a
}

// in is the add-on in a cluster.
func (f *fleet) in(cluster string) *addonv1alpha1.ManagedClusterAddOn {
	f.Helper()
	a := &addonv1alpha1.ManagedClusterAddOn{}
	f.Must(f.Get(context.Background(), types.NamespacedName{Namespace: f.full(cluster), Name: f.name}, a))
	return a
}

// installed are the clusters that have the add-on.
func (f *fleet) installed() string {
	f.Helper()
	var out []string
	for _, a := range f.all() {
		out = append(out, strings.TrimPrefix(a.Namespace, f.name+"-"))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (f *fleet) all() []addonv1alpha1.ManagedClusterAddOn {
	f.Helper()
	list := &addonv1alpha1.ManagedClusterAddOnList{}
	f.Must(f.List(context.Background(), list, client.MatchingFields{"metadata.name": f.name}))
	return list.Items
}

// pass has every controller look at everything until none writes any more. It
// returns how often they wrote.
func (f *fleet) pass() int64 {
	f.Helper()
	before := f.writes.Count()
	for range 10 {
		n := f.writes.During(func() {
			f.Reconcile(f.install, types.NamespacedName{Name: f.name})
			f.wait = f.Reconcile(f.configuration, types.NamespacedName{Name: f.name}).RequeueAfter
			for _, a := range f.all() {
				f.Reconcile(f.deploying, client.ObjectKeyFromObject(&a))
			}
		})
		if n == 0 {
			return f.writes.Count() - before
		}
	}
	f.Fatal("the controllers write again and again")
	return 0
}

// hash has the add-on's manager find configurations: each name with its hash. The
// kind is that of any configuration of the name.
func (f *fleet) hash(hashes map[string]string) {
	f.Helper()
	a := f.definition()
	f.ReportOn(a, func() {
		configs.SetHashes(&a.Status, func(c addonv1alpha1.AddOnConfig) (string, bool) {
			hash, ok := hashes[c.Name]
			return hash, ok
		})
	})
	for _, x := range f.all() {
		changed := false
		for i, r := range x.Status.ConfigReferences {
			own := slices.ContainsFunc(x.Spec.Configs, func(c addonv1alpha1.AddOnConfig) bool { return c.Name == r.DesiredConfig.Name })
			if hash, ok := hashes[r.DesiredConfig.Name]; ok && own && r.DesiredConfig.SpecHash != hash {
				x.Status.ConfigReferences[i].DesiredConfig.SpecHash, changed = hash, true
			}
		}
		if changed {
			f.Must(f.Status().Update(context.Background(), &x))
		}
	}
}

// deploy has the add-on's manager deploy what is configured in clusters, and the
// agents apply it, with success or without.
func (f *fleet) deploy(clusters string, success bool) {
	f.Helper()
	ctx := context.Background()
	for name := range strings.FieldsSeq(clusters) {
		a := f.in(name)
		f.ReportOn(a, func() {
			meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
				Type: addon.ConditionManifestApplied, Status: metav1.ConditionTrue,
				Reason: "AddonManifestApplied", Message: "manifests of addon are applied successfully",
			})
			a.Status.SupportedConfigs = []addonv1alpha1.ConfigGroupResource{setting, {Group: setting.Group, Resource: "others"}}
		})
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "addon-" + a.Name + "-deploy-0"}}
		absent := f.Get(ctx, client.ObjectKeyFromObject(w), w) != nil
		w.Labels = map[string]string{cluster.AddOnNameLabel: a.Name}
		w.Annotations = nil
		if value, ok := configs.SpecHashAnnotation(a.Status.ConfigReferences); ok {
			w.Annotations = map[string]string{work.SpecHashAnnotation: value}
		}
		w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"x"}}`)}}}
		if absent {
			f.Make(w)
		} else {
			f.Must(f.Update(ctx, w))
		}
		f.done(w, success)
	}
}

// done has a cluster's agent apply a work, with success or without.
func (f *fleet) done(w *workv1.ManifestWork, success bool) {
	f.Helper()
	status := metav1.ConditionFalse
	if success {
		status = metav1.ConditionTrue
	}
	f.ReportOn(w, func() {
		for _, which := range []string{work.ConditionApplied, work.ConditionAvailable} {
			meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
				Type: which, Status: status, Reason: "Test", Message: "said the agent", ObservedGeneration: w.Generation,
			})
		}
	})
}

// references are the configurations of an add-on in a cluster, as "name=hash", with
// "!" behind those that are applied.
func (f *fleet) references(cluster string) string {
	f.Helper()
	var out []string
	for _, r := range f.in(cluster).Status.ConfigReferences {
		field := r.DesiredConfig.Name
		if h := r.DesiredConfig.SpecHash; h != "" {
			field += "=" + h
		}
		if r.LastAppliedConfig != nil && *r.LastAppliedConfig == *r.DesiredConfig {
			field += "!"
		}
		out = append(out, field)
	}
	return strings.Join(out, " ")
}

func (f *fleet) mustHave(want map[string]string) {
	f.Helper()
	got := map[string]string{}
	for cluster := range want {
		got[cluster] = f.references(cluster)
	}
	if !maps.Equal(got, want) {
		f.Errorf("the configurations are %q, want %q", got, want)
	}
}

// condition is one of an add-on in a cluster, as "status/reason/message".
func (f *fleet) condition(cluster, which string) string {
	f.Helper()
	return text(f.in(cluster).Status.Conditions, which)
}

// progress is what the add-on says of a placement.
func (f *fleet) progress(placement int) string {
	f.Helper()
	return text(f.definition().Status.InstallProgressions[placement].Conditions, "Progressing")
}

func (f *fleet) mustProgress(placement int, want string) {
	f.Helper()
	if got := f.progress(placement); got != want {
		f.Errorf("the placement %d is %q, want %q", placement, got, want)
	}
}

func text(conditions []metav1.Condition, which string) string {
	c := meta.FindStatusCondition(conditions, which)
	if c == nil {
		return ""
	}
	return strings.Join([]string{string(c.Status), c.Reason, c.Message}, "/")
}

func keyOf(o client.Object) types.NamespacedName { return client.ObjectKeyFromObject(o) }

// host has the hosting cluster "host" apply what belongs to the add-on of another
// one, with success or without.
func (f *fleet) host(name string, success bool) {
	f.Helper()
	ctx := context.Background()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: f.full("host"), Name: "addon-" + f.name + "-deploy-hosting-" + f.full(name) + "-0"}}
	w.Labels = map[string]string{cluster.AddOnNameLabel: f.name, addon.AddOnNamespaceLabel: f.full(name)}
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"y"}}`)}}}
	if f.Get(ctx, keyOf(w), w) != nil {
		f.Make(w)
	}
	f.done(w, success)
}
