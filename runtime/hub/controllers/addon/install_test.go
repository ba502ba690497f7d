package addon_test

import (
	"context"
	"maps"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	addoncontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/configuration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
)

const lifecycle = "addon.open-cluster-management.io/lifecycle"

func (f *fleet) mustBeIn(want string) {
	f.Helper()
	f.pass()
	if got := f.installed(); got != want {
		f.Errorf("the add-on is in the clusters %q, want %q", got, want)
	}
}

func TestAnAddOnFollowsItsPlacements(t *testing.T) {
	f := newFleet(t, "a b c")
	f.place("p", "0:a,b")
	f.place("q", "0:b")
	definition := f.define("", f.strategy("p", ""), f.strategy("q", ""))
	f.mustBeIn("a b")

	a := f.in("a")
	if len(a.OwnerReferences) != 1 {
		t.Fatalf("the owners are %+v", a.OwnerReferences)
	}
	want := metav1.OwnerReference{APIVersion: "addon.open-cluster-management.io/v1beta1", Kind: "ClusterManagementAddOn", Name: f.name, UID: definition.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}
	if got := a.OwnerReferences[0]; got.APIVersion != want.APIVersion || got.Kind != want.Kind || got.Name != want.Name || got.UID != want.UID || !*got.Controller || !*got.BlockOwnerDeletion {
		t.Errorf("the owner is %+v, want %+v", got, want)
	}

	f.Must(f.Delete(context.Background(), a))
	f.mustBeIn("a b")
	f.place("p", "0:b,c")
	f.mustBeIn("b c")
	f.manual("a", "")
	f.mustBeIn("b c")
	f.place("p", "")
	f.mustBeIn("b")
	if n := f.pass(); n != 0 {
		t.Errorf("%d writes although nothing changed", n)
	}
}

func TestAnAddOnWithoutItsPlacementIsRemoved(t *testing.T) {
	f := newFleet(t, "a b")
	p := f.place("p", "0:a,b")
	f.define("", f.strategy("p", ""))
	f.mustBeIn("a b")
	f.Remove(p)
	f.mustBeIn("")
}

func TestNothingIsRemovedWhileDecisionsAreRewritten(t *testing.T) {
	f := newFleet(t, "a b c")
	p := f.place("p", "0:a,b")
	f.define("", f.strategy("p", ""))
	f.mustBeIn("a b")
	f.place("p", "0:c")
	f.Report(p, `{"status":{"numberOfSelectedClusters":2}}`)
	f.mustBeIn("a b c")
	f.Report(p, `{"status":{"numberOfSelectedClusters":1}}`)
	f.mustBeIn("c")
}

// A decision may name any cluster, and anybody may have written it.
func TestDecisionsInstallNowhereElse(t *testing.T) {
	f := newFleet(t, "a")
	f.member("foreign", map[string]string{cluster.ClusterSetLabel: "another"}, nil)
	denied := f.member("denied", map[string]string{cluster.ClusterSetLabel: f.name}, nil)
	f.Merge(denied, `{"spec":{"hubAcceptsClient":false}}`)
	f.place("p", "0:a,foreign,denied,missing")
	f.define("", f.strategy("p", ""))
	f.mustBeIn("a")
	refused := "its decisions name clusters that get nothing: " + f.full("foreign") + ", " + f.full("missing") +
		": not in a cluster set that is bound to the namespace " + f.name + " and that the placement may choose from (bind it with a ManagedClusterSetBinding); " +
		f.full("denied") + ": not accepted by the hub"
	f.mustProgress(0, "False/Completed/selected clusters 2. configured addons 1/1 completed with no errors, 0 failed 0 timeout. "+refused)
	if got, want := <-f.events.Events, "Warning ClustersNotSelected placement "+f.name+"/p: "+refused; got != want {
		t.Errorf("the event is %q, want %q", got, want)
	}
	f.pass()
	if n := len(f.events.Events); n > 0 {
		t.Errorf("%d more events although nothing changed", n)
	}
	f.Merge(denied, `{"spec":{"hubAcceptsClient":true}}`)
	f.mustBeIn("a denied")
	f.Merge(denied, `{"spec":{"hubAcceptsClient":false}}`)
	f.mustBeIn("a denied")
}

// Where the rule of bound sets is off, decisions alone count, as upstream.
func TestWithoutTheRuleDecisionsAloneInstall(t *testing.T) {
	f := newFleet(t, "a")
	f.install = addoncontrollers.NewInstaller(f.Client, selection.AnyCluster, nil, nil)
	f.configuration = configuration.NewController(f.Client, f.Client, f.events, f.clock, selection.AnyCluster)
	f.member("foreign", map[string]string{cluster.ClusterSetLabel: "another"}, nil)
	f.place("p", "0:a,foreign,missing")
	f.define("", f.strategy("p", ""))
	f.mustBeIn("a foreign")
}

func TestManualAndSelfManagedAddOnsAreLeftToOthers(t *testing.T) {
	for name, x := range map[string]struct {
		annotations map[string]string
		manual      bool
		managed     bool
	}{
		"managed":           {nil, false, true},
		"managed by name":   {map[string]string{lifecycle: "addon-manager"}, false, true},
		"self":              {map[string]string{lifecycle: "self"}, false, false},
		"an empty one":      {map[string]string{lifecycle: ""}, false, false},
		"installed by hand": {nil, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "a b")
			f.place("p", "0:a")
			f.manual("b", "")
			a := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: f.name, Annotations: x.annotations}}
			want := "b"
			if !x.manual {
				a.Spec.InstallStrategy = addonv1alpha1.InstallStrategy{Type: "Placements", Placements: []addonv1alpha1.PlacementStrategy{f.strategy("p", "")}}
				if x.managed {
					want = "a"
				}
			}
			f.Make(a)
			f.mustBeIn(want)
			if owned := len(f.in(want).OwnerReferences) > 0; owned != x.managed {
				t.Errorf("the add-on has an owner: %v, want %v", owned, x.managed)
			}
			if configured := f.condition(want, "Configured") != ""; configured != x.managed {
				t.Errorf("the add-on is configured: %v, want %v", configured, x.managed)
			}
			if got := f.definition().Annotations; !maps.Equal(got, x.annotations) {
				t.Errorf("the definition's annotations are %v, want %v", got, x.annotations)
			}
		})
	}
}

func TestOwners(t *testing.T) {
	f := newFleet(t, "a b c")
	definition := f.define("")
	other := &addonv1alpha1.AddOnDeploymentConfig{ObjectMeta: metav1.ObjectMeta{Namespace: f.full("b"), Name: "other"}}
	f.Make(other)
	f.manual("a", "")
	b := f.manual("b", "")
	b.OwnerReferences = []metav1.OwnerReference{{APIVersion: "addon.open-cluster-management.io/v1alpha1", Kind: "AddOnDeploymentConfig", Name: "other", UID: other.UID, Controller: ptr.To(true)}}
	f.Must(f.Update(context.Background(), b))
	c := f.manual("c", "")
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "addon.open-cluster-management.io/v1alpha1", Kind: "ClusterManagementAddOn", Name: f.name, UID: definition.UID}}
	f.Must(f.Update(context.Background(), c))
	f.pass()
	for cluster, want := range map[string]struct {
		count      int
		controller bool
	}{"a": {1, true}, "b": {2, false}, "c": {1, true}} {
		owners := f.in(cluster).OwnerReferences
		last := owners[len(owners)-1]
		if len(owners) != want.count || last.UID != definition.UID || last.APIVersion != "addon.open-cluster-management.io/v1beta1" || ptr.Deref(last.Controller, false) != want.controller {
			t.Errorf("the owners in %s are %+v", cluster, owners)
		}
	}
	if n := f.pass(); n != 0 {
		t.Errorf("%d writes although nothing changed", n)
	}
}

func TestAddOnsGetTheirClustersAnnotations(t *testing.T) {
	const hosting, values = "addon.open-cluster-management.io/hosting-cluster-name", "addon.open-cluster-management.io/values"
	f := newFleet(t, "c")
	mc := f.member("a", map[string]string{cluster.ClusterSetLabel: f.name}, map[string]string{"addon.open-cluster-management.io/x": "1", "addon.open-cluster-management.iox": "2", "example.org/x": "3"})
	f.place("p", "0:a")
	f.define("", f.strategy("p", ""))
	f.pass()
	mustBe := func(when string, want map[string]string) {
		t.Helper()
		if got := f.in("a").Annotations; !maps.Equal(got, want) {
			t.Errorf("%s the annotations are %v, want %v", when, got, want)
		}
	}
	mustBe("at first", map[string]string{"addon.open-cluster-management.io/x": "1", "addon.open-cluster-management.iox": "2"})

	// A user's own, and an add-on that no definition is for.
	f.Merge(f.in("a"), `{"metadata":{"annotations":{%q:"{}",%q:"host"}}}`, values, hosting)
	orphan := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: mc.Name, Name: "orphan"}}
	f.Make(orphan)
	c := addoncontrollers.NewAnnotations(f, f)
	change := func(patch string) {
		t.Helper()
		before := maps.Clone(mc.Annotations)
		f.Merge(mc, patch)
		if !c.Note(mc.Name, before, mc.Annotations) {
			t.Fatal("the change is of no interest")
		}
		f.Reconcile(c, types.NamespacedName{Name: mc.Name})
	}
	change(`{"metadata":{"annotations":{"addon.open-cluster-management.io/x":"4","addon.open-cluster-management.io/y":"5"}}}`)
	mustBe("after a change", map[string]string{"addon.open-cluster-management.io/x": "4", "addon.open-cluster-management.io/y": "5", "addon.open-cluster-management.iox": "2", values: "{}", hosting: "host"})
	change(`{"metadata":{"annotations":{"addon.open-cluster-management.io/x":null,"addon.open-cluster-management.iox":null}}}`)
	mustBe("after a removal", map[string]string{"addon.open-cluster-management.io/y": "5", values: "{}", hosting: "host"})
	if c.Note(mc.Name, mc.Annotations, map[string]string{"addon.open-cluster-management.io/y": "5", "example.org/x": "9"}) {
		t.Error("others' annotations are of interest")
	}
	f.Must(f.Get(context.Background(), client.ObjectKeyFromObject(orphan), orphan))
	if len(orphan.Annotations) != 0 {
		t.Errorf("an add-on without a definition has %v", orphan.Annotations)
	}

	f.Merge(f.definition(), `{"spec":{"installStrategy":{"type":"Manual","placements":null}}}`)
	change(`{"metadata":{"annotations":{"addon.open-cluster-management.io/y":"6"}}}`)
	mustBe("with the strategy Manual", map[string]string{"addon.open-cluster-management.io/y": "5", values: "{}", hosting: "host"})
}

func TestADefinitionThatGoesInstallsNothing(t *testing.T) {
	f := newFleet(t, "a")
	f.place("p", "0:a")
	definition := f.define("", f.strategy("p", ""))
	f.Merge(definition, `{"metadata":{"finalizers":["example.org/holding"]}}`)
	f.Must(f.Delete(context.Background(), definition))
	f.mustBeIn("")
	f.Release(definition)
	if err := f.Get(context.Background(), client.ObjectKeyFromObject(definition), definition); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	f.Reconcile(f.install, types.NamespacedName{Name: f.name})
	f.Reconcile(f.configuration, types.NamespacedName{Name: f.name})
}
