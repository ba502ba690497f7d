package scheduling_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

func TestASnapshotIsOfWhatThePlacementDependsOn(t *testing.T) {
	const scores = " AddOnPlacementScoreList()"
	for name, x := range map[string]struct{ spec, want string }{
		"no scores": {byEnv, ""},
		"scores of a prioritizer": {
			`prioritizerPolicy: {configurations: [{scoreCoordinate: {type: AddOn, addOn: {resourceName: cost, scoreName: hourly}}}]}`, scores,
		},
		"scores of a prioritizer without weight": {
			`prioritizerPolicy: {configurations: [{scoreCoordinate: {type: AddOn, addOn: {resourceName: cost, scoreName: hourly}}, weight: 0}]}`, "",
		},
		"scores of an expression": {
			`predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.scores('x').size() > 0"]}}}]`, scores,
		},
		"an expression without": {
			`predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["has(managedCluster.metadata.labels.env)"]}}}]`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: specOf(t, x.spec)}
			var listed []string
			list := func(_ context.Context, l runtime.Object, namespace string) error {
				_, kind, _ := strings.Cut(fmt.Sprintf("%T", l), ".")
				listed = append(listed, fmt.Sprintf("%s(%s)", kind, namespace))
				return nil
			}
			if err := new(scheduling.Snapshot).Take(t.Context(), list, scheduling.Compile(p, scheduling.Options{}), now); err != nil {
				t.Fatal(err)
			}
			want := "ManagedClusterSetBindingList(ns) ManagedClusterSetList() ManagedClusterList() PlacementDecisionList()" + x.want
			if got := strings.Join(listed, " "); got != want {
				t.Errorf("listed %s, want %s", got, want)
			}
		})
	}
}

func TestASnapshotSaysWhatCouldNotBeListed(t *testing.T) {
	list := func(_ context.Context, l runtime.Object, _ string) error {
		if _, ok := l.(*clusterv1alpha1.AddOnPlacementScoreList); ok {
			return errors.New("no connection")
		}
		return nil
	}
	err := new(scheduling.Snapshot).Take(t.Context(), list, nil, now)
	if err == nil || err.Error() != "list the add-ons' placement scores: no connection" {
		t.Errorf("got %v", err)
	}
}

func TestTheInputOfASnapshot(t *testing.T) {
	s := &scheduling.Snapshot{Now: now}
	for i, name := range []string{"a", "b", "c", "d"} {
		set := []string{"one", "one", "two", "unbound"}[i]
		s.Clusters = append(s.Clusters, clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{cluster.ClusterSetLabel: set}}})
	}
	for _, name := range []string{"one", "two", "unbound"} {
		s.Sets = append(s.Sets, clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for namespace, set := range map[string]string{"ns": "one", "other": "unbound"} {
		for _, name := range []string{set, "two", "gone"} {
			s.Bindings = append(s.Bindings, clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		}
	}
	for name, clusterName := range map[string]string{"p-decision-1": "a", "p-decision-2": "c", "q-decision-1": "a"} {
		d := clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		d.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: clusterName}}
		s.Decisions = append(s.Decisions, d)
	}
	s.Scores = []clusterv1alpha1.AddOnPlacementScore{{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "cost"}}}

	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: clusterv1beta1.PlacementSpec{ClusterSets: []string{"one"}}}
	in := s.Input(p)
	var names []string
	for _, c := range in.Clusters {
		names = append(names, c.Name)
	}
	got := fmt.Sprint(names, in.Sets.Bound, in.Sets.Eligible, slices.Sorted(maps.Keys(in.Selected)), in.Elsewhere, in.Now.Equal(now), in.Placement == p)
	if want := "[a b] [one two] [one] [a c] map[a:1] true true"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if in.Score("b", "cost") != &s.Scores[0] || in.Score("a", "cost") != nil || in.Score("b", "carbon") != nil {
		t.Error("the scores are not looked up by cluster and name")
	}
}
