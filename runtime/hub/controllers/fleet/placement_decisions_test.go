package fleet_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

func TestDecisionIsLabelledAndOwned(t *testing.T) {
	w := newPlacementWorld(t, "b", "a")
	w.place(clusterv1beta1.PlacementSpec{})
	w.mustDecide("1[0/]=a,b")
	d, p := w.decisions()[0], w.placement()
	if !maps.Equal(d.Labels, map[string]string{
		"cluster.open-cluster-management.io/placement":            "p",
		"cluster.open-cluster-management.io/decision-group-index": "0",
		"cluster.open-cluster-management.io/decision-group-name":  "",
	}) {
		t.Errorf("the labels are %v", d.Labels)
	}
	owner := metav1.OwnerReference{APIVersion: "cluster.open-cluster-management.io/v1beta1", Kind: "Placement", Name: "p", UID: p.UID}
	if len(d.OwnerReferences) != 1 || !ptr.Deref(d.OwnerReferences[0].Controller, false) || !ptr.Deref(d.OwnerReferences[0].BlockOwnerDeletion, false) {
		t.Fatalf("the owners are %+v", d.OwnerReferences)
	}
	got := d.OwnerReferences[0]
	got.Controller, got.BlockOwnerDeletion = nil, nil
	if got != owner {
		t.Errorf("the owner is %+v, want %+v", got, owner)
	}
	for _, want := range []string{"Normal DecisionCreate Decision p-decision-1 is created", "Normal DecisionUpdate Decision p-decision-1 is updated"} {
		if got := <-w.events.Events; !strings.HasPrefix(got, want+" with placement p in namespace "+w.name) {
			t.Errorf("the event is %q, want %q…", got, want)
		}
	}
}

func TestDecisionsAreRepaired(t *testing.T) {
	for name, spoil := range map[string]func(w *placementWorld, d *clusterv1beta1.PlacementDecision){
		"another cluster": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) {
			w.Report(d, `{"status":{"decisions":[{"clusterName":"nobody","reason":""}]}}`)
		},
		"no cluster": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) {
			w.Report(d, `{"status":{"decisions":[]}}`)
		},
		"no status": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) { w.Report(d, `{"status":null}`) },
		"a reason": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) {
			w.Report(d, `{"status":{"decisions":[{"clusterName":"%s-a","reason":"luck"}]}}`, w.name)
		},
		"another group": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) {
			w.Merge(d, `{"metadata":{"labels":{"cluster.open-cluster-management.io/decision-group-index":"7"}}}`)
		},
		"without the group's label": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) {
			w.Merge(d, `{"metadata":{"labels":{"cluster.open-cluster-management.io/decision-group-index":null}}}`)
		},
		"without the placement's label": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) {
			w.Merge(d, `{"metadata":{"labels":{"cluster.open-cluster-management.io/placement":null}}}`)
		},
		"without any label": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) {
			w.Merge(d, `{"metadata":{"labels":null}}`)
		},
		"another placement's label": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) {
			w.Merge(d, `{"metadata":{"labels":{"cluster.open-cluster-management.io/placement":"q"}}}`)
		},
		"without an owner": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) {
			w.Merge(d, `{"metadata":{"ownerReferences":null}}`)
		},
		"without label and owner": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) {
			w.Merge(d, `{"metadata":{"ownerReferences":null,"labels":null}}`)
		},
		"deleted": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) {
			w.Must(w.Delete(context.Background(), d))
		},
		"one too many": func(w *placementWorld, d *clusterv1beta1.PlacementDecision) {
			w.Make(&clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "mine", Labels: d.Labels}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPlacementWorld(t, "a")
			w.place(clusterv1beta1.PlacementSpec{})
			want := w.decisions()[0]
			spoil(w, want.DeepCopy())
			w.reconcile()
			w.mustDecide("1[0/]=a")
			got := w.decisions()[0]
			if !maps.Equal(got.Labels, want.Labels) {
				t.Errorf("the labels are %v, want %v", got.Labels, want.Labels)
			}
			if len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != want.OwnerReferences[0].UID {
				t.Errorf("the owners are %+v, want %+v", got.OwnerReferences, want.OwnerReferences)
			}
			if !slices.Equal(got.Status.Decisions, want.Status.Decisions) {
				t.Errorf("the decisions are %+v, want %+v", got.Status.Decisions, want.Status.Decisions)
			}
		})
	}
}

func TestWhatOthersAddToADecisionIsKept(t *testing.T) {
	w := newPlacementWorld(t, "a")
	w.place(clusterv1beta1.PlacementSpec{})
	also := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "also"}}
	w.Make(also)
	for name, controller := range map[string]string{
		"no controller":                     "",
		"an earlier placement of that name": `,{"apiVersion":"cluster.open-cluster-management.io/v1beta1","kind":"Placement","name":"p","uid":"1","controller":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := w.decisions()[0]
			w.Merge(&d, `{"metadata":{"labels":{"team":"x"},"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"also","uid":%q}%s]}}`, also.UID, controller)
			w.reconcile()
			d = w.decisions()[0]
			if d.Labels["team"] != "x" || len(d.OwnerReferences) != 2 || d.OwnerReferences[0].Name != "also" || !metav1.IsControlledBy(&d, w.placement()) {
				t.Errorf("the labels are %v, the owners %+v, want those of others and the placement", d.Labels, d.OwnerReferences)
			}
		})
	}
}

func TestOnlyItsOwnDecisionsAreDeleted(t *testing.T) {
	w := newPlacementWorld(t, "a")
	w.place(clusterv1beta1.PlacementSpec{})
	q := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "q"}}
	w.Make(q)
	decision := func(name string, labels map[string]string, owners ...metav1.OwnerReference) {
		w.Make(&clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name, Labels: labels, OwnerReferences: owners}})
	}
	const label = "cluster.open-cluster-management.io/placement"
	of := func(p *clusterv1beta1.Placement) metav1.OwnerReference {
		return *metav1.NewControllerRef(p, clusterv1beta1.GroupVersion.WithKind("Placement"))
	}
	decision("labelled", map[string]string{label: "p"})
	decision("owned", map[string]string{label: "q"}, of(w.placement()))
	decision("labelled-but-of-another", map[string]string{label: "p"}, of(q))
	decision("p-decision-9", nil)
	decision("p-decision-last", nil)
	decision("q-decision-1", map[string]string{label: "q"}, of(q))
	w.reconcile()
	var left []string
	for _, d := range w.decisions() {
		left = append(left, d.Name)
	}
	if want := []string{"labelled-but-of-another", "p-decision-1", "p-decision-9", "p-decision-last", "q-decision-1"}; !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
}

func TestDecisionsGrowAndShrink(t *testing.T) {
	var names, first, second []string
	for i := range 101 {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	first, second = names[:100], names[100:]
	w := newPlacementWorld(t, names...)
	w.place(clusterv1beta1.PlacementSpec{})
	w.mustDecide("1[0/]=" + strings.Join(first, ",") + " 2[0/]=" + strings.Join(second, ","))
	group := w.placement().Status.DecisionGroups
	if len(group) != 1 || !slices.Equal(group[0].Decisions, []string{"p-decision-1", "p-decision-2"}) || group[0].ClustersCount != 101 {
		t.Errorf("the groups are %+v", group)
	}

	set := func(change func(*clusterv1beta1.PlacementSpec)) {
		t.Helper()
		p := w.placement()
		change(&p.Spec)
		w.Must(w.Update(context.Background(), p))
		w.reconcile()
	}
	set(func(s *clusterv1beta1.PlacementSpec) { s.NumberOfClusters = ptr.To[int32](3) })
	w.mustDecide("1[0/]=c000,c001,c002")
	set(func(s *clusterv1beta1.PlacementSpec) {
		s.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(2)
		s.DecisionStrategy.GroupStrategy.DecisionGroups = []clusterv1beta1.DecisionGroup{{GroupName: "canary", GroupClusterSelector: clusterv1beta1.GroupClusterSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"name": "c001"}},
		}}}
	})
	w.mustDecide("1[0/canary]=c001 2[1/]=c000,c002")
	if group := w.placement().Status.DecisionGroups; len(group) != 2 || group[0].DecisionGroupName != "canary" || group[1].DecisionGroupIndex != 1 || !slices.Equal(group[1].Decisions, []string{"p-decision-2"}) {
		t.Errorf("the groups are %+v", group)
	}
	set(func(s *clusterv1beta1.PlacementSpec) { s.NumberOfClusters = ptr.To[int32](0) })
	w.mustDecide("1[0/]=")
}

func TestPlacementNothingIsWrittenWhenNothingChanged(t *testing.T) {
	for name, spec := range map[string]clusterv1beta1.PlacementSpec{
		"chosen":        {},
		"two groups":    {DecisionStrategy: clusterv1beta1.DecisionStrategy{GroupStrategy: clusterv1beta1.GroupStrategy{ClustersPerDecisionGroup: intstr.FromInt32(1)}}},
		"too few":       {NumberOfClusters: ptr.To[int32](9)},
		"nothing":       {NumberOfClusters: ptr.To[int32](0)},
		"no set":        {ClusterSets: []string{"another"}},
		"misconfigured": {PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Mode: "Exact", Configurations: []clusterv1beta1.PrioritizerConfig{{ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{Type: "BuiltIn", BuiltIn: "Luck"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPlacementWorld(t, "a", "b")
			w.place(spec)
			counting, writes := env.Counting(t)
			w.hub = counting
			events := len(w.events.Events)
			w.reconcile()
			if n := writes.Count(); n != 0 || len(w.events.Events) != events {
				t.Errorf("%d writes and %d events, want none", n, len(w.events.Events)-events)
			}

			// The count is not 0 for want of a connection.
			w.Merge(w.placement(), `{"spec":{"numberOfClusters":1,"clusterSets":null,"prioritizerPolicy":null}}`)
			w.reconcile()
			if writes.Count() == 0 {
				t.Error("a change caused no write")
			}
		})
	}
}

func TestAClusterThatIsBeingDeletedLeaves(t *testing.T) {
	ctx := context.Background()
	w := newPlacementWorld(t, "a")
	going := w.cluster("going")
	going.Finalizers = []string{"example.com/wait"}
	w.Make(going)
	w.place(clusterv1beta1.PlacementSpec{})
	w.mustDecide("1[0/]=a,going")
	w.Must(w.Delete(ctx, going))
	defer w.Merge(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: going.Name}}, `{"metadata":{"finalizers":null}}`)
	w.reconcile()
	w.mustDecide("1[0/]=a")
}
