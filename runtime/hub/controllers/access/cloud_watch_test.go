package access_test

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/logicalcloud"
)

// Whatever a cloud depends on wakes its controller.
func TestTheControllerFollowsWhatCloudsDependOn(t *testing.T) {
	w := newCloudWorld(t, "a", "b")
	env.StartManager(t, func(m manager.Manager) error {
		return logicalcloud.NewController(m.GetClient(), m.GetAPIReader(), w.clock, logicalcloud.Options{}).Register(m)
	})
	waitFor := func(what string, ok func() bool) {
		t.Helper()
		w.Eventually(func() error {
			if !ok() {
				return fmt.Errorf("%s: works %q, %q", what, w.there("prod"), w.there("zwei"))
			}
			return nil
		})
	}
	works := func(name, want string) {
		t.Helper()
		waitFor("want "+want, func() bool { return w.there(name) == want })
	}
	keys := func(want string) {
		t.Helper()
		waitFor("keys "+want, func() bool { return w.bound("prod", "a") == want })
	}
	w.cloud("prod") // before its placement
	w.place("q", "a")
	w.cloud("zwei", func(s *v1alpha1.LogicalCloudSpec) { s.Placements[0].Name = "q" })
	works("zwei", "a:probe")
	w.place("p", "a")
	works("zwei", "") // prod is older
	works("prod", "a:probe")
	w.answer("prod", false)
	works("prod", "a:work")
	request := w.request("r", "prod", "a", "jo", 1)
	keys("1")
	role := &v1alpha1.AccessRole{ObjectMeta: metav1.ObjectMeta{Name: w.role()}}
	w.Must(w.Delete(context.Background(), role))
	keys("")
	w.change("prod", func(s *v1alpha1.LogicalCloudSpec) { s.Grants = s.Grants[:0] })
	again := &v1alpha1.AccessRole{ObjectMeta: metav1.ObjectMeta{Name: w.role()}}
	again.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
	w.Must(w.Create(context.Background(), again))
	w.change("prod", func(s *v1alpha1.LogicalCloudSpec) {
		s.Grants = []v1alpha1.Grant{{Role: w.role(), Users: []string{"jo"}}}
	})
	keys("1")
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.full("a")}}
	w.Merge(mc, `{"spec":{"hubAcceptsClient":false}}`)
	keys("")
	w.Merge(mc, `{"spec":{"hubAcceptsClient":true}}`)
	keys("1")
	w.Must(w.Delete(context.Background(), request))
	keys("")
	w.apply("prod")
	w.Must(w.Delete(context.Background(), w.get("prod")))
	works("prod", "a:work(going)")
	works("zwei", "")
	w.leave("prod")
	works("zwei", "a:probe") // the namespace can be had now
}
