package registration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/gc"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/managedcluster"
)

// grants are the objects that give the agents of a cluster their rights.
func grants(name string) []client.Object {
	labels := map[string]string{cluster.NameLabel: name}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster.Group(name)}}
	role := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	return []client.Object{
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName(name), Labels: labels}, RoleRef: role(cluster.RoleName(name)), Subjects: subjects},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.RegistrationBindingName(name), Labels: labels}, RoleRef: role(cluster.RegistrationRole), Subjects: subjects},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.WorkBindingName(name), Labels: labels, Finalizers: []string{"cluster.open-cluster-management.io/manifest-work-cleanup"}}, RoleRef: role(cluster.WorkRole), Subjects: subjects},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName(name), Labels: labels}},
	}
}

// A store from an earlier hub has clusters whose names are reserved, with all
// that they were granted.
func TestAHubThatStartsWithReservedNamesGrantsThemNothing(t *testing.T) {
	ctx, c := context.Background(), env.Client()
	names := []string{"work", "registration", "managed-clusters", "kube-system"}
	for _, name := range names {
		w := &world{World: testworld.New(t, c), name: name}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{cluster.NameLabel: name}}}
		if name == "kube-system" {
			w.Merge(ns, `{"metadata":{"labels":{"open-cluster-management.io/cluster-name":"kube-system"}}}`)
		} else { // with -count=2 the namespace of the first run may still be going
			w.Eventually(func() error { return w.Create(ctx, ns) })
			w.Cleanup(func() { w.Must(w.Delete(ctx, ns)) })
		}
		w.Make(&clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{cluster.APIResourceCleanupFinalizer, cluster.ResourceCleanupFinalizer}},
			Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)},
		})
		w.report(cluster.ConditionHubAccepted, metav1.ConditionTrue)
		for _, o := range grants(name) {
			w.Make(o)
		}
	}
	recorder := events.NewFakeRecorder(99)
	run(t, func(m manager.Manager) error {
		if err := managedcluster.NewSharedRoles(m.GetClient(), m.GetAPIReader(), nil).Register(m); err != nil {
			return err
		}
		return managedcluster.NewController(m.GetClient(), m.GetAPIReader(), recorder, clock.RealClock{}, managedcluster.Options{AcceptNew: true}).Register(m)
	})

	for _, name := range names {
		testkit.Eventually(t, func() error {
			mc := &clusterv1.ManagedCluster{}
			if err := c.Get(ctx, types.NamespacedName{Name: name}, mc); err != nil {
				return err
			}
			have := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionHubAccepted)
			if have == nil || have.Status != metav1.ConditionFalse || have.Reason != cluster.ReasonNameReserved || !strings.Contains(have.Message, "choose another name") {
				return fmt.Errorf("the cluster %s is reported as %+v", name, have)
			}
			return nil
		})
		select {
		case e := <-recorder.Events:
			if !strings.Contains(e, "Warning NameReserved") {
				t.Errorf("the event is %q", e)
			}
		default:
			t.Errorf("fewer events than clusters with reserved names")
		}
		for _, o := range grants(name) {
			if role, ok := o.(*rbacv1.ClusterRole); ok && cluster.SharedRole(role.Name) {
				continue
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				t.Errorf("%T %s is still there (%v)", o, client.ObjectKeyFromObject(o), err)
			}
		}
		ns := &corev1.Namespace{}
		if err := c.Get(ctx, types.NamespacedName{Name: name}, ns); err != nil || ns.Labels[cluster.NameLabel] != "" {
			t.Errorf("the namespace %s is labelled %q (%v)", name, ns.Labels, err)
		}
	}
	// The roles that all clusters share are what they should be, and stay.
	sharedRoles := func() error {
		for _, name := range []string{cluster.WorkRole, cluster.RegistrationRole} {
			role := &rbacv1.ClusterRole{}
			if err := c.Get(ctx, types.NamespacedName{Name: name}, role); err != nil {
				return err
			}
			if len(role.Rules) < 3 || slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "managedclusters") }) {
				return fmt.Errorf("the role %s has the rules %v", name, role.Rules)
			}
		}
		return nil
	}
	testkit.Eventually(t, sharedRoles)

	// Such a cluster can be deleted, and takes nothing along that is not its own.
	for _, name := range names {
		w := &world{World: testworld.New(t, c), name: name}
		w.Merge(w.cluster(), `{"metadata":{"finalizers":["%s"]}}`, cluster.APIResourceCleanupFinalizer)
		w.Must(w.Delete(ctx, w.cluster()))
		testkit.Eventually(t, func() error {
			if err := c.Get(ctx, types.NamespacedName{Name: name}, &clusterv1.ManagedCluster{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the cluster %s is still there (%w)", name, err)
			}
			return nil
		})
	}
	keep := newWorld(t, nil) // with no cluster at all the shared roles go
	testkit.Eventually(t, sharedRoles)
	_ = keep
}

func TestNothingIsDoneInTheNamespaceOfAReservedName(t *testing.T) {
	ctx := context.Background()
	w := &world{World: env.World(t), name: "kube-public"}
	w.Make(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.name, Finalizers: []string{cluster.ResourceCleanupFinalizer, holding}}})
	w.report(cluster.ConditionHubAccepted, metav1.ConditionTrue)
	w.reconcile(leasesAtNoon(w.Client))
	if err := w.Get(ctx, client.ObjectKeyFromObject(w.lease()), w.lease()); !apierrors.IsNotFound(err) {
		t.Errorf("there is a lease (%v)", err)
	}
	m := w.work("m")
	w.Must(w.Delete(ctx, w.cluster()))
	w.reconcile(cleanerOf(t, w.Client, w.Client, gc.DefaultResources()))
	if got := w.state(m); got != "kept" {
		t.Errorf("the work is %s", got)
	}
	if slices.Contains(w.cluster().Finalizers, cluster.ResourceCleanupFinalizer) {
		t.Error("the cluster is held by the cleaning of a namespace that is not its own")
	}
}

// Between the acceptance and the first look of the controller somebody may make
// a namespace of the name.
func TestANamespaceThatIsNotTheClustersIsNotTakenOver(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = ptr.To(true) })
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	w.Merge(ns, `{"metadata":{"labels":{"open-cluster-management.io/cluster-name":null}}}`)
	c := managedcluster.NewController(w.Client, w.Client, events.NewFakeRecorder(9), clock.RealClock{}, managedcluster.Options{})
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: w.name}}
	if _, err := c.Reconcile(ctx, request); err == nil || !strings.Contains(err.Error(), "kubectl label namespace "+w.name) {
		t.Errorf("got %v, want the command that hands the namespace over", err)
	}
	have := meta.FindStatusCondition(w.cluster().Status.Conditions, cluster.ConditionHubAccepted)
	if have == nil || have.Reason != cluster.ReasonError || !strings.Contains(have.Message, "is not a cluster's") {
		t.Errorf("the condition is %+v", have)
	}
	for _, o := range grants(w.name) {
		if err := w.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s is there (%v)", o, client.ObjectKeyFromObject(o), err)
		}
	}
	w.reconcile(leasesAtNoon(w.Client))
	if err := w.Get(ctx, client.ObjectKeyFromObject(w.lease()), w.lease()); !apierrors.IsNotFound(err) {
		t.Errorf("there is a lease (%v)", err)
	}

	// Handed over, it is the cluster's, and stays so when the label is lost later.
	w.Merge(ns, `{"metadata":{"labels":{"open-cluster-management.io/cluster-name":%q}}}`, w.name)
	w.reconcile(c)
	w.mustSay(cluster.ConditionHubAccepted, metav1.ConditionTrue, cluster.ReasonHubAccepted, cluster.MessageHubAccepted)
	w.Merge(ns, `{"metadata":{"labels":{"open-cluster-management.io/cluster-name":null}}}`)
	w.reconcile(c)
	w.Must(w.Get(ctx, client.ObjectKeyFromObject(ns), ns))
	if ns.Labels[cluster.NameLabel] != w.name {
		t.Errorf("the labels are %v", ns.Labels)
	}
	for _, o := range grants(w.name) {
		w.Remove(o)
	}
}
