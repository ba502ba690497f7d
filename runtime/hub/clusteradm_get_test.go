package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// The lists of clusteradm are made by the program itself, of these fields.

func TestClusteradmGetClusters(t *testing.T) {
	name := clusterName(t, "adm-clusters")
	agent := clientFor(t, joined(t, name, "a"))
	status := `{"status":{"version":{"kubernetes":"v1.35.4"},"capacity":{"cpu":"4","memory":"16Gi"},"conditions":[
		{"type":"ManagedClusterConditionAvailable","status":"True","reason":"ManagedClusterAvailable","message":"Managed cluster is available","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	testkit.Must(t, agent.Status().Patch(t.Context(), newCluster(name), client.RawPatch(types.MergePatchType, []byte(status))))

	hubCheck(t, clientsetFor(t, admin))
	testkit.Must(t, clientFor(t, admin).Get(t.Context(), types.NamespacedName{Name: "default"}, &clusterv1beta2.ManagedClusterSet{})) // --clusterset has to be there
	list := &clusterv1.ManagedClusterList{}
	testkit.Must(t, clientFor(t, admin).List(t.Context(), list, client.MatchingLabels{"cluster.open-cluster-management.io/clusterset": "default"}))
	at := slices.IndexFunc(list.Items, func(mc clusterv1.ManagedCluster) bool { return mc.Name == name })
	if at < 0 {
		t.Fatalf("%s is not in the default set", name)
	}
	mc := list.Items[at]
	cpu, memory := mc.Status.Capacity["cpu"], mc.Status.Capacity["memory"]
	available := meta.FindStatusCondition(mc.Status.Conditions, "ManagedClusterConditionAvailable")
	row := fmt.Sprint(mc.Spec.AcceptsClient(), available.Status, mc.Labels["cluster.open-cluster-management.io/clusterset"], cpu.String(), memory.String(), mc.Status.Version.Kubernetes)
	if want := fmt.Sprint(true, metav1.ConditionTrue, "default", "4", "16Gi", "v1.35.4"); row != want {
		t.Errorf("the row is %s, want %s", row, want)
	}
}

func TestClusteradmGetClusterSets(t *testing.T) {
	c := clientFor(t, admin)
	name, namespace := clusterName(t, "adm-sets"), testenv.Namespace(t, c)
	set(t, name, clusterv1beta2.ManagedClusterSelector{})
	b := bindingOf(name)
	b.Namespace = namespace
	testkit.Must(t, c.Create(t.Context(), b))

	status := func(is metav1.ConditionStatus, reason, message string) error {
		sets := &clusterv1beta2.ManagedClusterSetList{}
		if err := c.List(t.Context(), sets); err != nil {
			return err
		}
		at := slices.IndexFunc(sets.Items, func(s clusterv1beta2.ManagedClusterSet) bool { return s.Name == name })
		return conditionIs(sets.Items[at].Status.Conditions, "ClusterSetEmpty", is, reason, message)
	}
	testkit.Eventually(t, func() error { return status(metav1.ConditionTrue, "NoClusterMatched", "No ManagedCluster selected") })
	member(t, name)
	testkit.Eventually(t, func() error { return status(metav1.ConditionFalse, "ClustersSelected", "1 ManagedClusters selected") })
	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	testkit.Must(t, c.List(t.Context(), bindings))
	if !slices.ContainsFunc(bindings.Items, func(b clusterv1beta2.ManagedClusterSetBinding) bool {
		return b.Spec.ClusterSet == name && b.Namespace == namespace
	}) {
		t.Errorf("%s is not among the namespaces that the set is bound to", namespace)
	}
}

func TestClusteradmGetWorks(t *testing.T) {
	c := clientFor(t, admin)
	name := clusterName(t, "adm-works")
	agent := clientFor(t, joined(t, name, "a"))
	w := newWork(configMapManifest("a"), configMapManifest("b"))
	w.Namespace = name
	testkit.Must(t, c.Create(t.Context(), w))
	testkit.Eventually(t, func() error {
		return agent.Status().Patch(t.Context(), w, client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[
			{"type":"Applied","status":"True","reason":"AppliedManifestWorkComplete","message":"Apply manifest work complete","lastTransitionTime":"2026-01-01T00:00:00Z"},
			{"type":"Available","status":"True","reason":"ResourcesAvailable","message":"All resources are available","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)))
	})
	works := &workv1.ManifestWorkList{}
	testkit.Must(t, c.List(t.Context(), works, client.InNamespace(name), client.MatchingFields{"metadata.name": w.Name}))
	if len(works.Items) != 1 {
		t.Fatalf("%d works", len(works.Items))
	}
	got := works.Items[0]
	if !meta.IsStatusConditionTrue(got.Status.Conditions, "Applied") || !meta.IsStatusConditionTrue(got.Status.Conditions, "Available") || len(got.Spec.Workload.Manifests) != 2 {
		t.Errorf("the row is made of %+v", got)
	}
	testkit.Must(t, c.List(t.Context(), works, client.InNamespace(name), client.MatchingFields{"metadata.name": "another"}))
	if len(works.Items) != 0 {
		t.Errorf("%d works of another name", len(works.Items))
	}
}

// The program reads the first condition without looking whether there is one,
// so every placement has to have it, whatever becomes of it.
func TestClusteradmGetPlacements(t *testing.T) {
	c := clientFor(t, admin)
	for kind, x := range map[string]struct {
		bind   bool
		spec   clusterv1beta1.PlacementSpec
		reason string
		chosen int
	}{
		"satisfied":         {true, clusterv1beta1.PlacementSpec{}, "Succeedconfigured", 1},
		"without a binding": {false, clusterv1beta1.PlacementSpec{}, "Succeedconfigured", 0},
		"misconfigured":     {true, clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Configurations: []clusterv1beta1.PrioritizerConfig{{ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{BuiltIn: "Nonsense"}, Weight: ptr.To(int32(1))}}}}, "Misconfigured", 0},
	} {
		t.Run(kind, func(t *testing.T) {
			name, namespace := clusterName(t, "adm-placed"), testenv.Namespace(t, c)
			set(t, name, clusterv1beta2.ManagedClusterSelector{})
			available(t, member(t, name), metav1.ConditionTrue)
			if x.bind {
				b := bindingOf(name)
				b.Namespace = namespace
				testkit.Must(t, c.Create(t.Context(), b))
			}
			p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: x.spec}
			testkit.Must(t, c.Create(t.Context(), p))
			testkit.Eventually(t, func() error {
				placements := &clusterv1beta1.PlacementList{}
				if err := c.List(t.Context(), placements, client.MatchingFields{"metadata.name": name}); err != nil {
					return err
				}
				if len(placements.Items) != 1 || len(placements.Items[0].Status.Conditions) == 0 {
					return fmt.Errorf("%d placements, or one without a condition: %+v", len(placements.Items), placements.Items)
				}
				if first := placements.Items[0].Status.Conditions[0]; first.Type != "PlacementMisconfigured" || first.Reason != x.reason {
					return fmt.Errorf("the first condition is %+v", first)
				}
				decisions := &clusterv1beta1.PlacementDecisionList{}
				if err := c.List(t.Context(), decisions); err != nil {
					return err
				}
				chosen := 0
				for _, d := range decisions.Items { // joined by the label alone
					if d.Labels["cluster.open-cluster-management.io/placement"] == name {
						chosen += len(d.Status.Decisions)
					}
				}
				if chosen != x.chosen {
					return fmt.Errorf("%d clusters chosen, want %d", chosen, x.chosen)
				}
				return nil
			})
		})
	}
}

// It reads add-ons in v1alpha1, whatever version they were made in, and their
// works by a label.
func TestClusteradmGetAddOn(t *testing.T) {
	c := clientFor(t, admin)
	name := clusterName(t, "adm-addon")
	acceptedCluster(t, c, name)
	objects, err := dynamic.NewForConfig(admin)
	testkit.Must(t, err)
	addOns := schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: "v1beta1", Resource: "managedclusteraddons"}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		addOns.Version = version
		created, err := objects.Resource(addOns).Namespace(name).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": addOns.GroupVersion().String(), "kind": "ManagedClusterAddOn", "metadata": map[string]any{"name": "made-in-" + version}, "spec": map[string]any{},
		}}, metav1.CreateOptions{})
		testkit.Must(t, err)
		testkit.Must(t, unstructured.SetNestedSlice(created.Object, []any{map[string]any{
			"type": "Available", "status": "True", "reason": "ManagedClusterAddOnLeaseUpdated", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}, "status", "conditions"))
		_, err = objects.Resource(addOns).Namespace(name).UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
		testkit.Must(t, err)
	}
	w := newWork(configMapManifest("a"))
	w.Namespace, w.Labels = name, map[string]string{"open-cluster-management.io/addon-name": "made-in-v1beta1"}
	testkit.Must(t, c.Create(t.Context(), w))
	definition := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: name}}
	testkit.Must(t, c.Create(t.Context(), definition))
	t.Cleanup(func() { _ = c.Delete(t.Context(), definition) })

	definitions := &addonv1alpha1.ClusterManagementAddOnList{}
	testkit.Must(t, c.List(t.Context(), definitions))
	if !slices.ContainsFunc(definitions.Items, func(d addonv1alpha1.ClusterManagementAddOn) bool { return d.Name == name }) {
		t.Errorf("%s is not listed", name)
	}
	list := &addonv1alpha1.ManagedClusterAddOnList{}
	testkit.Must(t, c.List(t.Context(), list, client.InNamespace(name)))
	var rows []string
	for _, a := range list.Items {
		if meta.IsStatusConditionTrue(a.Status.Conditions, "Available") {
			rows = append(rows, a.Name)
		}
	}
	if got := strings.Join(rows, " "); got != "made-in-v1alpha1 made-in-v1beta1" {
		t.Errorf("the available add-ons are %q", got)
	}
	works := &workv1.ManifestWorkList{}
	testkit.Must(t, c.List(t.Context(), works, client.HasLabels{"open-cluster-management.io/addon-name"}, client.InNamespace(name)))
	if len(works.Items) != 1 {
		t.Errorf("%d works of add-ons", len(works.Items))
	}
}
