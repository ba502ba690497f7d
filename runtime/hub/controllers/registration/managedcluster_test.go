package registration_test

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/managedcluster"
)

func runManagedCluster(t testing.TB) {
	t.Helper()
	run(t, func(m manager.Manager) error {
		return managedcluster.NewController(m.GetClient(), m.GetAPIReader(), events.NewFakeRecorder(99), clock.RealClock{}, managedcluster.Options{}).Register(m)
	})
}

// leftovers are what a hub that was killed at the wrong moment leaves of a
// cluster that is gone.
func (w *world) leftovers() []client.Object {
	w.Helper()
	labels := map[string]string{cluster.NameLabel: w.name}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: cluster.WorkRole}
	working := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.name, Name: cluster.WorkBindingName(w.name), Labels: labels, Finalizers: []string{work.ManifestWorkFinalizer},
	}, RoleRef: ref}
	registering := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: cluster.RegistrationBindingName(w.name), Labels: labels}, RoleRef: ref}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName(w.name), Labels: labels}}
	return []client.Object{working, registering, role}
}

func TestAHubThatStartsWithdrawsTheRightsOfClustersThatAreGone(t *testing.T) {
	for name, leave := range map[string]func(w *world, o client.Object){
		"before it deleted them": func(*world, client.Object) {},
		"after it deleted them":  func(w *world, o client.Object) { w.Must(w.Delete(context.Background(), o)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			left := w.leftovers()
			for _, o := range left {
				w.Make(o)
			}
			w.Remove(w.cluster())
			leave(w, left[0])
			runManagedCluster(t)
			for _, o := range left {
				testkit.Eventually(t, func() error {
					if err := w.Get(context.Background(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
						return fmt.Errorf("%T %s is still there (%v)", o, o.GetName(), err)
					}
					return nil
				})
			}
		})
	}
}
