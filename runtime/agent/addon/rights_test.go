package addon_test

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// The agent does with the rights that the klusterlet gives it, without those for
// works, in the namespace of add-ons. In another one it says which role it needs there.
func TestRightsOfTheKlusterletSuffice(t *testing.T) {
	f := newFixture(t)
	f.identity = &rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + f.own + ":" + klusterlet.ServiceAccount,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	o := klusterlet.Options{ClusterName: f.hub}
	o.Namespace = f.own
	for _, object := range klusterlet.Render(o) {
		object := object.(client.Object)
		switch b := object.(type) {
		case *rbacv1.ClusterRoleBinding:
			if b.RoleRef.Name == klusterlet.WorkRole {
				continue // as an owner does who does not trust the hub with everything
			}
			b.RoleRef.Name = f.hub + b.RoleRef.Name
		case *rbacv1.RoleBinding:
			b.RoleRef.Name = f.hub + b.RoleRef.Name
		case *rbacv1.Role, *rbacv1.ClusterRole:
		case *corev1.Namespace:
			if b.Name == addon.DefaultInstallNamespace {
				f.must(f.Create(f.ctx, object))
				t.Cleanup(func() { _ = f.Delete(f.ctx, object) })
			}
			continue
		default:
			continue
		}
		object.SetName(f.hub + object.GetName())
		f.must(f.Create(f.ctx, object))
		t.Cleanup(func() { _ = f.Delete(f.ctx, object) })
	}
	f.start()
	elsewhere := f.install
	f.install = addon.DefaultInstallNamespace
	m := f.addOn("a", forHub("u", "g"))
	f.stored("a-hub-kubeconfig", nil)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.install, Name: "a"}}
	f.renew(lease)
	f.condition(m, "Available", "True", "ManagedClusterAddOnLeaseUpdated", "")
	f.must(f.Delete(f.ctx, m))
	f.removed(f.install, "a-hub-kubeconfig")

	f.install = elsewhere
	other := f.addOn("b", forHub("u", "g"))
	f.condition(other, "ClusterCertificateRotated", "False", "ClientCertificateUpdateFailed", "bind the ClusterRole "+cluster.AddOnRole)
	f.condition(other, "Available", "Unknown", "ManagedClusterAddOnLeaseNotFound", "bind the ClusterRole "+cluster.AddOnRole)
	f.must(f.asked("b", 0))
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.install, Name: "addons"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.own, Name: klusterlet.ServiceAccount}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: f.hub + cluster.AddOnRole},
	}
	f.must(f.Create(f.ctx, binding))
	f.eventually(func() error {
		f.clock.Step(10e9) // the agent tries again by its clock
		if f.secret(f.install, "b-hub-kubeconfig") == nil {
			return errMissing
		}
		return nil
	})
}
