package hub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/gc"
)

const holding = "example.org/holding"

// acceptedCluster makes a cluster and waits until it has its namespace.
func acceptedCluster(t testing.TB, c client.Client, name string) {
	t.Helper()
	mc := newCluster(name)
	mc.Spec.HubAcceptsClient = ptr.To(true)
	testkit.Must(t, c.Create(context.Background(), mc))
	testkit.Eventually(t, func() error {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(mc), mc); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionHubAccepted) {
			return fmt.Errorf("not accepted: %+v", mc.Status.Conditions)
		}
		return nil
	})
}

// heldAddOn and heldWork make objects that only go when they are released.
func heldAddOn(t testing.TB, c client.Client, namespace, name string) *addonv1alpha1.ManagedClusterAddOn {
	t.Helper()
	a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{holding}}}
	testkit.Must(t, c.Create(context.Background(), a))
	return a
}

func heldWork(t testing.TB, c client.Client, namespace, name, priority string) *workv1.ManifestWork {
	t.Helper()
	w := newWork(configMapManifest(name))
	w.Namespace, w.Name, w.Finalizers = namespace, name, []string{holding}
	if priority != "" {
		w.Annotations = map[string]string{cluster.CleanupPriorityAnnotation: priority}
	}
	testkit.Must(t, c.Create(context.Background(), w))
	return w
}

func release(t testing.TB, c client.Client, o client.Object) {
	t.Helper()
	testkit.Must(t, c.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// awaitDeleting waits until exactly these objects are being deleted.
func awaitDeleting(t testing.TB, c client.Client, deleting, alive []client.Object) {
	t.Helper()
	testkit.Eventually(t, func() error {
		for i, o := range append(append([]client.Object{}, deleting...), alive...) {
			if err := c.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if want := i < len(deleting); want != (o.GetDeletionTimestamp() != nil) {
				return fmt.Errorf("%T %s is being deleted: %v, want %v", o, o.GetName(), !want, want)
			}
		}
		return nil
	})
}

func awaitRemaining(t testing.TB, c client.Client, name, message string) {
	t.Helper()
	mc := newCluster(name)
	testkit.Eventually(t, func() error {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(mc), mc); err != nil {
			return err
		}
		have := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionDeleting)
		if have == nil || have.Status != metav1.ConditionFalse || have.Reason != "ResourceRemaining" || !strings.HasPrefix(have.Message, message) {
			return fmt.Errorf("condition %+v, want %q", have, message)
		}
		return nil
	})
}

func TestDeletedClusterIsEmptiedInOrder(t *testing.T) {
	c := clientFor(t, admin)
	name := clusterName(t, "emptied")
	acceptedCluster(t, c, name)
	addOn := heldAddOn(t, c, name, "a")
	first, odd := heldWork(t, c, name, "first", ""), heldWork(t, c, name, "odd", "101")
	second, last := heldWork(t, c, name, "second", "7"), heldWork(t, c, name, "last", "100")
	testkit.Must(t, c.Delete(context.Background(), newCluster(name)))

	awaitDeleting(t, c, []client.Object{addOn}, []client.Object{first, odd, second, last})
	awaitRemaining(t, c, name, "The resource managedclusteraddons is remaning, the remaining count is 1, the finalizer pending count is 1")
	release(t, c, addOn)
	awaitDeleting(t, c, []client.Object{first, odd}, []client.Object{second, last})
	awaitRemaining(t, c, name, "The resource manifestworks is remaning, the remaining count is 4, the finalizer pending count is 2")
	release(t, c, first)
	// Not before all of the priority are gone.
	awaitRemaining(t, c, name, "The resource manifestworks is remaning, the remaining count is 3, the finalizer pending count is 1")
	awaitDeleting(t, c, []client.Object{odd}, []client.Object{second, last})
	release(t, c, odd)
	awaitDeleting(t, c, []client.Object{second}, []client.Object{last})
	release(t, c, second)
	awaitDeleting(t, c, []client.Object{last}, nil)
	release(t, c, last)
	waitGone(t, newCluster(name))
}

func TestWhatIsLeftOfAClusterThatWasFreedByForceIsDeleted(t *testing.T) {
	c := clientFor(t, admin)
	name := clusterName(t, "forced")
	acceptedCluster(t, c, name)
	w := heldWork(t, c, name, "w", "")
	testkit.Must(t, c.Delete(context.Background(), newCluster(name)))
	awaitDeleting(t, c, []client.Object{w}, nil)
	second := heldWork(t, c, name, "second", "5") // its turn has not come
	testkit.Must(t, c.Patch(context.Background(), newCluster(name), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	waitGone(t, newCluster(name))
	release(t, c, w)
	awaitDeleting(t, c, []client.Object{second}, nil)
	release(t, c, second)
	waitGone(t, second)

	// Not so in a namespace that never was a cluster's.
	plain := testenv.Namespace(t, c)
	kept := newWork(configMapManifest("kept"))
	kept.Namespace, kept.Name = plain, "kept"
	testkit.Must(t, c.Create(context.Background(), kept))
	other := clusterName(t, "probe")
	acceptedCluster(t, c, other)
	testkit.Must(t, c.Delete(context.Background(), newCluster(other)))
	waitGone(t, newCluster(other))
	testkit.Must(t, c.Get(context.Background(), client.ObjectKeyFromObject(kept), kept))
}

func TestHubCleansWhatItIsAskedTo(t *testing.T) {
	ctx := context.Background()
	resources, err := gc.ParseResources([]string{"example.org/v1/unknowns", "v1/configmaps", "work.open-cluster-management.io/v1/manifestworks"})
	testkit.Must(t, err)
	c := otherHub(t, hub.Options{CleanedResources: resources}, "ResourceCleanup=true")
	acceptedCluster(t, c, "paris")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "paris", Name: "m", Finalizers: []string{holding}}}
	testkit.Must(t, c.Create(ctx, m))
	w := heldWork(t, c, "paris", "w", "")
	testkit.Must(t, c.Delete(ctx, newCluster("paris")))
	awaitDeleting(t, c, []client.Object{m}, []client.Object{w})
	awaitRemaining(t, c, "paris", "The resource configmaps is remaning, the remaining count is 1,")
	release(t, c, m)
	// Nothing tells of config maps: they are looked at again after 5 s.
	awaitDeleting(t, c, []client.Object{w}, nil)
	release(t, c, w)
	testkit.Eventually(t, func() error {
		if err := c.Get(ctx, types.NamespacedName{Name: "paris"}, newCluster("paris")); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there (%v)", err)
		}
		return nil
	})
}

func TestAddOnsShowInTheClustersLabels(t *testing.T) {
	ctx := context.Background()
	c := clientFor(t, admin)
	name := clusterName(t, "featured")
	acceptedCluster(t, c, name)
	a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "search"}}
	testkit.Must(t, c.Create(ctx, a))
	label := func(want string) {
		t.Helper()
		waitForCluster(t, name, func(mc *clusterv1.ManagedCluster) error {
			if got := mc.Labels["feature.open-cluster-management.io/addon-search"]; got != want {
				return fmt.Errorf("the label is %q, want %q", got, want)
			}
			return nil
		})
	}
	report := func(status metav1.ConditionStatus) {
		t.Helper()
		testkit.Eventually(t, func() error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
				return err
			}
			meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{Type: addon.ConditionAvailable, Status: status, Reason: "Test"})
			return c.Status().Update(ctx, a)
		})
	}
	available(t, name, metav1.ConditionTrue)
	label("unreachable")
	report(metav1.ConditionTrue)
	label("available")
	report(metav1.ConditionFalse)
	label("unhealthy")

	// A cluster that falls silent takes its add-ons with it.
	available(t, name, metav1.ConditionUnknown)
	testkit.Eventually(t, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		mc := newCluster(name)
		if err := c.Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			return err
		}
		want := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable)
		return conditionIs(a.Status.Conditions, addon.ConditionAvailable, metav1.ConditionUnknown, want.Reason, want.Message)
	})
	label("unreachable")
	testkit.Must(t, c.Delete(ctx, a))
	label("")
}

func TestFailedCleanupIsReportedInAnEvent(t *testing.T) {
	ctx := context.Background()
	// Access reviews can be created and not listed, by nobody.
	resources, err := gc.ParseResources([]string{"authorization.k8s.io/v1/localsubjectaccessreviews"})
	testkit.Must(t, err)
	c := otherHub(t, hub.Options{CleanedResources: resources}, "ResourceCleanup=true")
	acceptedCluster(t, c, "rome")
	testkit.Must(t, c.Delete(ctx, newCluster("rome")))
	testkit.Eventually(t, func() error {
		mc := newCluster("rome")
		if err := c.Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			return err
		}
		have := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionDeleting)
		if have == nil || have.Reason != "DeletingError" || !strings.Contains(have.Message, "localsubjectaccessreviews") {
			return fmt.Errorf("condition %+v", have)
		}
		list := &eventsv1.EventList{}
		if err := c.List(ctx, list, client.InNamespace("rome")); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == "ResourceCleanupFail" && e.Type == corev1.EventTypeWarning && strings.Contains(e.Note, "localsubjectaccessreviews") {
				return nil
			}
		}
		return fmt.Errorf("no such event among %d", len(list.Items))
	})
}
