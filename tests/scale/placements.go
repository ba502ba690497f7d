package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

const (
	// groupLabel names the clusters of a placement.
	groupLabel = "resource-group"
	// setNamespace is where placements and replica sets are.
	setNamespace = "default"
)

// newReplicaSet brings a namespace, a config map of 1 KB and a Deployment of no replicas
// into the clusters of a placement.
func newReplicaSet(name, placement string) *workv1alpha1.ManifestWorkReplicaSet {
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: setNamespace, Name: name}}
	set.Spec.ManifestWorkTemplate.Workload.Manifests = content(name, "x")
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{
		Name: placement, RolloutStrategy: clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeAll},
	}}
	return set
}

// content is what a replica set brings; text fills the config map.
func content(name, text string) []workv1.Manifest {
	var all []workv1.Manifest
	for _, manifest := range []string{
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"NAME"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"NAME","name":"content"},"data":{"text":"` +
			strings.Repeat(text, 1024/len(text)) + `"}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"NAME","name":"app"},
			"spec":{"replicas":0,"selector":{"matchLabels":{"app":"NAME"}},"template":{
				"metadata":{"labels":{"app":"NAME"}},
				"spec":{"containers":[{"name":"app","image":"example.org/app:1"}]}}}}`,
	} {
		raw := runtime.RawExtension{Raw: []byte(strings.ReplaceAll(manifest, "NAME", name))}
		all = append(all, workv1.Manifest{RawExtension: raw})
	}
	return all
}

// place makes a placement that picks the clusters of a resource group, and a replica set for
// it. A staged one changes its clusters one half of an env after the other.
func (s *simulation) place(ctx context.Context, name string, group int, staged bool) error {
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: setNamespace, Name: name}}
	p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
		LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{groupLabel: fmt.Sprint(group % s.groups())}},
	}}}
	// A cluster that is away for a while keeps its works.
	p.Spec.Tolerations = []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists}}
	set := newReplicaSet(name, name)
	set.Labels = map[string]string{groupLabel: fmt.Sprint(group % s.groups())}
	if staged {
		set.Spec.PlacementRefs[0].RolloutStrategy.Type = clusterv1alpha1.RolloutTypeProgressivePerGroup
		for _, env := range []string{"staging", "canary", "prod"} {
			for _, half := range []string{"0", "1"} {
				g := clusterv1beta1.DecisionGroup{GroupName: env + "-" + half}
				g.GroupClusterSelector.LabelSelector.MatchLabels = map[string]string{"env": env, "half": half}
				p.Spec.DecisionStrategy.GroupStrategy.DecisionGroups =
					append(p.Spec.DecisionStrategy.GroupStrategy.DecisionGroups, g)
			}
		}
	}
	if err := s.hub.client.Create(ctx, p); err != nil {
		return err
	}
	return s.hub.client.Create(ctx, set)
}

// change gives a replica set another content. It tries until the hub takes it.
func (s *simulation) change(ctx context.Context, name, text string) error {
	set := newReplicaSet(name, name)
	set.Spec.ManifestWorkTemplate.Workload.Manifests = content(name, text)
	patch, err := patchOf(map[string]any{"spec": map[string]any{"manifestWorkTemplate": map[string]any{
		"workload": set.Spec.ManifestWorkTemplate.Workload,
	}}})
	if err != nil {
		return err
	}
	return s.insist(ctx, func(ctx context.Context) error { return s.hub.client.Patch(ctx, set, patch) })
}

// insist tries until the hub takes a request, or for as long as patience goes.
func (s *simulation) insist(ctx context.Context, request func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, s.patience)
	defer stop()
	var last error
	err := retry.Until(ctx, clock.RealClock{}, retry.Quick(time.Second), func(ctx context.Context) error {
		if err := request(ctx); err != nil {
			if ctx.Err() == nil {
				last = err
			}
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// remove deletes a placement and its replica set, and returns when the replica set is gone.
func (s *simulation) remove(ctx context.Context, name string) error {
	of := metav1.ObjectMeta{Namespace: setNamespace, Name: name}
	for _, o := range []client.Object{
		&workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: of}, &clusterv1beta1.Placement{ObjectMeta: of},
	} {
		if err := s.hub.client.Delete(ctx, o); err != nil {
			return err
		}
	}
	return s.sets.await(ctx, s.patience, "replica sets of the name "+name+" are left", 0, named(name))
}

func named(name string) func(client.Object) bool {
	return func(o client.Object) bool { return o.GetName() == name }
}

// names are n names with a prefix.
func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return all
}

// rolledOut waits until all clusters of n replica sets with a prefix have reported on the
// content with which the sets are at text, which is how their config maps begin.
func (s *simulation) rolledOut(ctx context.Context, prefix string, n int, text string) error {
	sizes := s.groupSizes()
	return s.sets.await(ctx, s.patience, "replica sets are reported by all clusters", n, func(o client.Object) bool {
		if !strings.HasPrefix(o.GetName(), prefix) {
			return false
		}
		set := o.(*workv1alpha1.ManifestWorkReplicaSet)
		for _, kind := range []string{work.ConditionPlacementRolledOut, work.ConditionManifestworkApplied} {
			c := meta.FindStatusCondition(set.Status.Conditions, kind)
			if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != set.Generation {
				return false
			}
		}
		size := sizes[set.Labels[groupLabel]]
		return set.Status.Summary.Total == size && set.Status.Summary.Available == size &&
			strings.Contains(string(set.Spec.ManifestWorkTemplate.Workload.Manifests[1].Raw), `"text":"`+text)
	})
}

// groupSizes are how many clusters each resource group has.
func (s *simulation) groupSizes() map[string]int {
	sizes := map[string]int{}
	for _, m := range s.members {
		sizes[m.labels[groupLabel]]++
	}
	return sizes
}

// forEach does something with each, some at a time.
func forEach[T any](ctx context.Context, all []T, do func(ctx context.Context, t T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, t := range all {
		g.Go(func() error { return do(ctx, t) })
	}
	return g.Wait()
}

func patchOf(v any) (client.Patch, error) {
	data, err := json.Marshal(v)
	return client.RawPatch(types.MergePatchType, data), err
}
