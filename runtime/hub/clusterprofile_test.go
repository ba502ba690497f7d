package hub_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster"
	multiclusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/multicluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

func TestClusterProfilesAreNotServedUnlessAskedFor(t *testing.T) {
	err := clientFor(t, admin).List(context.Background(), &multiclusterv1alpha1.ClusterProfileList{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want that the kind is not there", err)
	}
}

// profiles waits until a namespace has exactly these profiles of the hub.
func profiles(t testing.TB, c client.Client, namespace string, want ...string) {
	t.Helper()
	slices.Sort(want)
	testkit.Eventually(t, func() error {
		list := &multiclusterv1alpha1.ClusterProfileList{}
		if err := c.List(context.Background(), list, client.InNamespace(namespace), client.MatchingLabels{"x-k8s.io/cluster-manager": "open-cluster-management"}); err != nil {
			return err
		}
		var have []string
		for _, p := range list.Items {
			have = append(have, p.Name)
		}
		slices.Sort(have)
		if !slices.Equal(have, want) {
			return fmt.Errorf("profiles %q, want %q", have, want)
		}
		return nil
	})
}

func TestClusterProfiles(t *testing.T) {
	ctx := context.Background()
	c := otherHub(t, hub.Options{}, "ClusterProfile=true")
	in := func(set string, names ...string) {
		t.Helper()
		for _, name := range names {
			mc := newCluster(name)
			mc.Labels = map[string]string{cluster.ClusterSetLabel: set}
			testkit.Must(t, c.Create(ctx, mc))
		}
	}
	bind := func(namespace, set string) *clusterv1beta2.ManagedClusterSetBinding {
		t.Helper()
		b := &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set}}
		testkit.Must(t, c.Create(ctx, b))
		return b
	}
	for _, name := range []string{"apps", "ops"} {
		testkit.Must(t, c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	in("blue", "paris", "rome")
	in("green", "oslo")
	// Bound before there is a set: nothing yet.
	toBlue := bind("apps", "blue")
	profiles(t, c, "apps")
	for _, name := range []string{"blue", "green"} {
		testkit.Must(t, c.Create(ctx, &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	profiles(t, c, "apps", "paris", "rome")
	bind("ops", "green")
	profiles(t, c, "ops", "oslo")
	profiles(t, c, "apps", "paris", "rome")

	get := func(name string) *multiclusterv1alpha1.ClusterProfile {
		t.Helper()
		p := &multiclusterv1alpha1.ClusterProfile{}
		testkit.Must(t, c.Get(ctx, types.NamespacedName{Namespace: "apps", Name: name}, p))
		return p
	}
	eventuallyIs := func(name string, check func(*multiclusterv1alpha1.ClusterProfile) error) {
		t.Helper()
		testkit.Eventually(t, func() error {
			p := &multiclusterv1alpha1.ClusterProfile{}
			if err := c.Get(ctx, types.NamespacedName{Namespace: "apps", Name: name}, p); err != nil {
				return err
			}
			return check(p)
		})
	}

	t.Run("a profile says whose it is", func(t *testing.T) {
		p := get("paris")
		if p.Spec.DisplayName != "paris" || p.Spec.ClusterManager.Name != "open-cluster-management" ||
			p.Labels["open-cluster-management.io/cluster-name"] != "paris" || p.Labels["multicluster.x-k8s.io/clusterset"] != "blue" {
			t.Errorf("labels %v, spec %+v", p.Labels, p.Spec)
		}
	})
	t.Run("its status follows the cluster's", func(t *testing.T) {
		mc := newCluster("paris")
		testkit.Eventually(t, func() error {
			if err := c.Get(ctx, types.NamespacedName{Name: "paris"}, mc); err != nil {
				return err
			}
			mc.Status.Version.Kubernetes = "v1.36.0"
			mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "id.k8s.io", Value: "x"}, {Name: "zone", Value: "a"}}
			meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: cluster.ConditionAvailable, Status: metav1.ConditionFalse, Reason: "Down", Message: "it is down"})
			meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue, Reason: "ManagedClusterJoined", Message: "Managed cluster joined"})
			return c.Status().Update(ctx, mc)
		})
		eventuallyIs("paris", func(p *multiclusterv1alpha1.ClusterProfile) error {
			if p.Status.Version.Kubernetes != "v1.36.0" || len(p.Status.Properties) != 2 || p.Status.Properties[1] != (multiclusterv1alpha1.Property{Name: "zone", Value: "a"}) {
				return fmt.Errorf("status %+v", p.Status)
			}
			if err := conditionIs(p.Status.Conditions, multicluster.ConditionControlPlaneHealthy, metav1.ConditionFalse, "Down", "it is down"); err != nil {
				return err
			}
			return conditionIs(p.Status.Conditions, multicluster.ConditionJoined, metav1.ConditionTrue, "ManagedClusterJoined", "Managed cluster joined")
		})
	})
	t.Run("what others change is put right", func(t *testing.T) {
		p := get("rome")
		p.Spec.DisplayName, p.Labels["multicluster.x-k8s.io/clusterset"], p.Labels["own"] = "Roma", "red", "x"
		testkit.Must(t, c.Update(ctx, p))
		eventuallyIs("rome", func(p *multiclusterv1alpha1.ClusterProfile) error {
			if p.Spec.DisplayName != "rome" || p.Labels["multicluster.x-k8s.io/clusterset"] != "blue" || p.Labels["own"] != "x" {
				return fmt.Errorf("labels %v, spec %+v", p.Labels, p.Spec)
			}
			return nil
		})
		testkit.Must(t, c.Delete(ctx, p))
		eventuallyIs("rome", func(now *multiclusterv1alpha1.ClusterProfile) error {
			if now.UID == p.UID {
				return fmt.Errorf("it is still the deleted one")
			}
			return nil
		})
	})
	t.Run("a cluster's manager can't be changed", func(t *testing.T) {
		p := get("rome")
		p.Spec.ClusterManager.Name = "another"
		if err := c.Update(ctx, p); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "ClusterManager is immutable") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a cluster that changes sets moves", func(t *testing.T) {
		testkit.Must(t, c.Patch(ctx, newCluster("rome"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":"green"}}}`))))
		profiles(t, c, "apps", "paris")
		profiles(t, c, "ops", "oslo", "rome")
	})
	t.Run("a cluster in two bound sets has one profile until it is in none", func(t *testing.T) {
		all := bind("ops", "global")
		profiles(t, c, "ops", "oslo", "paris", "rome")
		testkit.Must(t, c.Delete(ctx, all))
		profiles(t, c, "ops", "oslo", "rome")
	})
	t.Run("another manager's profile is left alone", func(t *testing.T) {
		foreign := &multiclusterv1alpha1.ClusterProfile{
			ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "lima", Labels: map[string]string{"x-k8s.io/cluster-manager": "other"}},
			Spec:       multiclusterv1alpha1.ClusterProfileSpec{DisplayName: "theirs", ClusterManager: multiclusterv1alpha1.ClusterManager{Name: "other"}},
		}
		testkit.Must(t, c.Create(ctx, foreign))
		in("blue", "lima", "kyiv")
		profiles(t, c, "apps", "kyiv", "paris")
		if p := get("lima"); p.Spec.DisplayName != "theirs" || p.Generation != 1 {
			t.Errorf("it has become %+v", p)
		}
		testkit.Must(t, c.Delete(ctx, foreign))
		profiles(t, c, "apps", "kyiv", "lima", "paris")
	})
	t.Run("a deleted cluster's goes", func(t *testing.T) {
		testkit.Must(t, c.Delete(ctx, newCluster("kyiv")))
		profiles(t, c, "apps", "lima", "paris")
	})
	t.Run("those of an unbound set go", func(t *testing.T) {
		testkit.Must(t, c.Delete(ctx, toBlue))
		profiles(t, c, "apps")
	})
	t.Run("a namespace that goes takes them along", func(t *testing.T) {
		testkit.Must(t, c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ops"}}))
		profiles(t, c, "ops")
	})
}
