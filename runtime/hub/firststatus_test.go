package hub_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// A cluster set has its status in the answer to the request that creates it, and the
// hub does not write it a second time: not after a create, not after a server-side
// apply, whatever status the client sends along, and for members that are there.
func TestNewClusterSetsHaveTheirStatus(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	empty := func(s *clusterv1beta2.ManagedClusterSet) error {
		return conditionIs(s.Status.Conditions, cluster.ConditionClusterSetEmpty, metav1.ConditionTrue, cluster.ReasonNoClusterMatched, cluster.MessageNoClusterMatched)
	}
	selected := func(s *clusterv1beta2.ManagedClusterSet) error {
		return conditionIs(s.Status.Conditions, cluster.ConditionClusterSetEmpty, metav1.ConditionFalse, cluster.ReasonClustersSelected, "1 ManagedClusters selected")
	}
	name := clusterName(t, "first-status")
	apply := func(text string) *clusterv1beta2.ManagedClusterSet {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": clusterv1beta2.GroupVersion.String(), "kind": "ManagedClusterSet",
			"metadata": map[string]any{"name": name + "-applied", "labels": map[string]any{"text": text}},
			"spec":     map[string]any{"clusterSelector": map[string]any{"selectorType": "ExclusiveClusterSetLabel"}},
			"status": map[string]any{"conditions": []any{map[string]any{
				"type": cluster.ConditionClusterSetEmpty, "status": "False", "reason": "Invented", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z",
			}}},
		}}
		testkit.Must(t, c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("first-status"), client.ForceOwnership))
		s := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: u.GetName()}}
		testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(s), s))
		if s.ResourceVersion != u.GetResourceVersion() {
			t.Errorf("the set %s has been written again", s.Name)
		}
		return s
	}

	created := set(t, name, clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.ExclusiveClusterSetLabel})
	testkit.Must(t, empty(created))
	applied := apply("one")
	t.Cleanup(func() { _ = c.Delete(ctx, applied) })
	testkit.Must(t, empty(applied))

	// The hub has looked at both sets once it has looked at a later change of one.
	member(t, name)
	eventually(t, created, selected)
	populated := set(t, name+"-populated", clusterv1beta2.ManagedClusterSelector{
		SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{cluster.ClusterSetLabel: name}},
	})
	testkit.Must(t, selected(populated))
	member(t, applied.Name)
	eventually(t, applied, selected)
	now := &clusterv1beta2.ManagedClusterSet{}
	testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(populated), now))
	if now.ResourceVersion != populated.ResourceVersion {
		t.Errorf("the set %s has been written again:\n%+v\n%+v", now.Name, populated, now)
	}

	// A later apply leaves the status alone.
	testkit.Must(t, selected(apply("two")))
}

// A dry run writes no status either, and an object that is refused counts nowhere.
func TestADryRunOfAClusterSetWritesNothing(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	s := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: clusterName(t, "dry")}}
	testkit.Must(t, c.Create(ctx, s, client.DryRunAll))
	if err := c.Get(ctx, client.ObjectKeyFromObject(s), s); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("got %v, want that it is not there", err)
	}
	s = &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	s.Spec.ClusterSelector.SelectorType = "Invented"
	if err := c.Create(ctx, s); err == nil {
		t.Errorf("the set %s was created", s.Name)
	}
}

// An add-on that the hub installs from a template has its configuration and its
// registration from the write that creates it, and its work comes without another one.
func TestInstalledAddOnsHaveTheirStatus(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	name := clusterName(t, "first-addon")
	set(t, name, clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.ExclusiveClusterSetLabel})
	in := member(t, name)
	accept(t, in, true)
	waitForCluster(t, in, func(mc *clusterv1.ManagedCluster) error {
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionHubAccepted) {
			return errors.New("the cluster is not accepted")
		}
		return nil
	})
	template := &addonv1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template.Spec.AddonName = name
	template.Spec.AgentSpec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"x"}}`),
	}}}
	kind := addonv1alpha1.ConfigMeta{DefaultConfig: &addonv1alpha1.ConfigReferent{Name: name}}
	kind.Group, kind.Resource = addon.GroupName, addon.TemplateResource
	a := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: name}}
	a.Spec.SupportedConfigs = []addonv1alpha1.ConfigMeta{kind}
	a.Spec.InstallStrategy = addonv1alpha1.InstallStrategy{
		Type: addonv1alpha1.InstallStrategyPlacements,
		Placements: []addonv1alpha1.PlacementStrategy{
			{PlacementRef: addonv1alpha1.PlacementRef{Namespace: "default", Name: name}},
		},
	}
	binding := &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	binding.Spec.ClusterSet = name
	placement := &clusterv1beta1.Placement{ObjectMeta: binding.ObjectMeta}
	placement.Spec.ClusterSets = []string{name}
	for _, o := range []client.Object{template, binding, placement, a} {
		testkit.Must(t, c.Create(ctx, o))
		t.Cleanup(func() { _ = c.Delete(ctx, o) })
	}
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "addon-" + name + "-deploy-0"}}
	eventually(t, work, func(*workv1.ManifestWork) error { return nil })
	installed := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name}}
	testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(installed), installed))
	for _, which := range []string{addon.ConditionConfigured, "RegistrationApplied", addon.ConditionProgressing} {
		if meta.FindStatusCondition(installed.Status.Conditions, which) == nil {
			t.Errorf("there is no condition %s: %+v", which, installed.Status)
		}
	}
	for _, f := range installed.ManagedFields {
		if f.Subresource == "status" {
			t.Errorf("%s has written the status: %s", f.Manager, f.FieldsV1)
		}
	}
}
