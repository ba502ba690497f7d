package hub_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Whatever a hub has that is not a cluster's: no cluster can be called so that
// it would be its own.
func TestNothingOfTheHubsCanBeAClusters(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	clusterName(t, "names")
	taken := map[string]string{} // names of clusters, and what they would share
	note := func(what, name, prefix string) {
		of, ok := strings.CutPrefix(name, prefix)
		if ok && len(validation.IsDNS1123Label(of)) == 0 {
			taken[of] = what + " " + name
		}
	}
	namespaces := &corev1.NamespaceList{}
	testkit.Must(t, c.List(ctx, namespaces))
	for _, n := range namespaces.Items {
		if n.Labels[cluster.NameLabel] == "" {
			note("namespace", n.Name, "")
		}
	}
	roles, bindings, roleBindings := &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}
	testkit.Must(t, c.List(ctx, roles))
	testkit.Must(t, c.List(ctx, bindings))
	testkit.Must(t, c.List(ctx, roleBindings))
	for _, r := range roles.Items {
		if r.Labels[cluster.NameLabel] == "" {
			note("cluster role", r.Name, cluster.RoleName(""))
		}
	}
	var subjects []rbacv1.Subject
	for _, b := range bindings.Items {
		if b.Labels[cluster.NameLabel] == "" {
			note("cluster role binding", b.Name, cluster.RoleName(""))
			subjects = append(subjects, b.Subjects...)
		}
	}
	for _, b := range roleBindings.Items {
		if b.Labels[cluster.NameLabel] == "" {
			subjects = append(subjects, b.Subjects...)
		}
	}
	for _, s := range subjects {
		if s.Kind == rbacv1.GroupKind {
			note("group", s.Name, cluster.Group(""))
			note("group", s.Name, cluster.GroupWithoutPrefix(""))
			note("group", s.Name, cluster.BoundBootstrapGroup(""))
		}
	}
	for _, want := range []string{"default", "kube-system", "open-cluster-management-hub"} {
		if taken[want] == "" {
			t.Errorf("%s is not among what the hub has: %v", want, taken)
		}
	}
	for name, what := range taken {
		mc := newCluster(name)
		mc.Spec.HubAcceptsClient = new(bool)
		*mc.Spec.HubAcceptsClient = true
		if err := c.Create(ctx, mc); !apierrors.IsBadRequest(err) && !apierrors.IsForbidden(err) {
			t.Errorf("a cluster called %q was accepted, and has the %s (%v)", name, what, err)
		}
	}
}
