package hub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/install"
)

// otherHub runs a hub beside the one that the tests share, and returns the
// administrator's client.
func otherHub(t testing.TB, o hub.Options, gates string) client.Client {
	t.Helper()
	o.DataDir = t.TempDir()
	set := features.NewHub()
	testkit.Must(t, set.Set(gates))
	o.Features = set
	ready, stop, err := start(o)
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stop the hub: %v", err)
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", ready.Kubeconfig)
	testkit.Must(t, err)
	config.QPS = -1
	return clientFor(t, config)
}

func TestHubWithOtherGates(t *testing.T) {
	ctx := context.Background()
	labels := map[string]string{"example.org/fleet": "blue"}
	c := otherHub(t, hub.Options{Labels: labels}, "DefaultClusterSet=false,ResourceCleanup=false,ManagedClusterAutoApproval=true,AddonManagement=false")
	mc := newCluster("paris")
	testkit.Must(t, c.Create(ctx, mc))
	current := func() (*clusterv1.ManagedCluster, error) {
		mc := newCluster("paris")
		return mc, c.Get(ctx, client.ObjectKeyFromObject(mc), mc)
	}
	awaitAccepted := func(status metav1.ConditionStatus) {
		t.Helper()
		testkit.Eventually(t, func() error {
			mc, err := current()
			if err == nil && !meta.IsStatusConditionPresentAndEqual(mc.Status.Conditions, cluster.ConditionHubAccepted, status) {
				err = fmt.Errorf("conditions %+v", mc.Status.Conditions)
			}
			return err
		})
	}

	t.Run("ManagedClusterAutoApproval accepts a new cluster", func(t *testing.T) {
		awaitAccepted(metav1.ConditionTrue)
		mc, err := current()
		testkit.Must(t, err)
		if mc.Annotations[cluster.AutoAcceptedAnnotation] == "" {
			t.Error("it is not noted that the hub accepted the cluster by itself")
		}
	})
	t.Run("and does so only once", func(t *testing.T) {
		testkit.Must(t, c.Patch(ctx, newCluster("paris"), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"hubAcceptsClient":false}}`))))
		awaitAccepted(metav1.ConditionFalse)
		if mc, err := current(); err != nil || mc.Spec.AcceptsClient() {
			t.Errorf("the hub has accepted the cluster again (%v)", err)
		}
	})
	t.Run("DefaultClusterSet=false leaves the cluster without a set", func(t *testing.T) {
		if got, ok := mc.Labels[cluster.ClusterSetLabel]; ok {
			t.Errorf("the cluster is in the set %q", got)
		}
	})
	t.Run("and makes no sets", func(t *testing.T) {
		sets := &clusterv1beta2.ManagedClusterSetList{}
		testkit.Must(t, c.List(ctx, sets))
		if len(sets.Items) != 0 {
			t.Errorf("there are %d sets", len(sets.Items))
		}
	})
	t.Run("ResourceCleanup=false keeps no deleted cluster for its resources", func(t *testing.T) {
		if slices.Contains(mc.Finalizers, cluster.ResourceCleanupFinalizer) {
			t.Errorf("finalizers %q", mc.Finalizers)
		}
		testkit.Must(t, c.Delete(ctx, newCluster("paris")))
		testkit.Eventually(t, func() error {
			if _, err := current(); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the cluster is still there (%v)", err)
			}
			return nil
		})
	})
	definition := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "search"}}
	addOn := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "search"}}
	testkit.Must(t, c.Create(ctx, definition))
	testkit.Must(t, c.Create(ctx, addOn))
	t.Run("labels are on all objects of a cluster", func(t *testing.T) {
		testkit.Must(t, c.Create(ctx, newCluster("rome")))
		for _, o := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "rome"}},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName("rome")}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName("rome")}},
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: cluster.RegistrationBindingName("rome")}},
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: cluster.WorkBindingName("rome")}},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: cluster.RegistrationRole}},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: cluster.WorkRole}},
		} {
			testkit.Eventually(t, func() error {
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
					return err
				}
				if _, ours := o.GetLabels()[cluster.NameLabel]; !ours || o.GetLabels()["example.org/fleet"] != "blue" {
					return fmt.Errorf("%T %s has the labels %v", o, o.GetName(), o.GetLabels())
				}
				return nil
			})
		}
	})
	t.Run("AddonManagement=false leaves add-ons to another manager", func(t *testing.T) {
		testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(addOn), addOn))
		if len(addOn.OwnerReferences) != 0 || len(addOn.Status.Conditions) != 0 {
			t.Errorf("the add-on is %+v", addOn)
		}
	})
}

// What the other hub of these tests leaves to another manager, this one does: an
// add-on in a cluster belongs to its definition, is configured, and goes with it.
func TestAddonManagement(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	name := clusterName(t, "managed")
	acceptedCluster(t, c, name)
	definition := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: name}}
	addOn := &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}}
	testkit.Must(t, c.Create(ctx, definition))
	testkit.Must(t, c.Create(ctx, addOn))
	testkit.Eventually(t, func() error {
		testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(addOn), addOn))
		if len(addOn.OwnerReferences) != 1 || !meta.IsStatusConditionTrue(addOn.Status.Conditions, "Configured") {
			return fmt.Errorf("the add-on is %+v", addOn)
		}
		return nil
	})
	testkit.Must(t, c.Delete(ctx, definition))
	testkit.Eventually(t, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(addOn), addOn); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the add-on is still there (%v)", err)
		}
		return nil
	})
}

// Administrators let templates give rights away by a label on a cluster role, as with
// upstream, and a hub that starts again leaves it at that.
func TestTheAddOnManagerHasTheRightsOfLabelledRoles(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: clusterName(t, "granted"), Labels: map[string]string{"open-cluster-management.io/aggregate-to-addon-manager": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"endpoints"}, Verbs: []string{"get"}}},
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:open-cluster-management-hub:addon-manager-controller-sa",
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "endpoints", Namespace: "default"},
	}}
	allowed := func() bool {
		now := review.DeepCopy()
		testkit.Must(t, c.Create(ctx, now))
		return now.Status.Allowed
	}
	if allowed() {
		t.Fatal("it is allowed without a grant")
	}
	testkit.Must(t, c.Create(ctx, role))
	testkit.Eventually(t, func() error {
		if !allowed() {
			return errors.New("it is not allowed")
		}
		return nil
	})
	for _, o := range install.AddOnRoles() {
		testkit.Must(t, apply.Applier{Client: c, Live: c}.Apply(ctx, o))
	}
	if !allowed() {
		t.Error("what was granted is gone when the hub starts again")
	}
}

func TestHubRefusesOptionsThatItCannotServe(t *testing.T) {
	gate := features.NewHub()
	testkit.Must(t, gate.Set("ClusterImporter=true"))
	for name, x := range map[string]struct {
		options hub.Options
		want    []string
	}{
		"a gate with nothing behind it":     {hub.Options{Features: gate}, []string{"--feature-gates", "ClusterImporter", "set it to false"}},
		"a label that is none":              {hub.Options{Labels: map[string]string{"a b": "c"}}, []string{"--labels", "a b=c"}},
		"the label that names the clusters": {hub.Options{Labels: map[string]string{cluster.NameLabel: "x"}}, []string{"--labels", cluster.NameLabel, "choose another"}},
	} {
		t.Run(name, func(t *testing.T) {
			x.options.DataDir = t.TempDir()
			err := hub.Run(context.Background(), x.options, func(hub.Ready) {})
			if err == nil {
				t.Fatal("the hub ran")
			}
			for _, part := range x.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
		})
	}
}
