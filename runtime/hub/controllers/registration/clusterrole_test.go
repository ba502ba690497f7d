package registration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/managedcluster"
)

// sharedRoles are the rules of the shared roles: groups, resources and verbs.
var sharedRoles = map[string][]string{
	"open-cluster-management:managedcluster:registration": {
		"coordination.k8s.io leases get,list,watch,update",
		"addon.open-cluster-management.io managedclusteraddons get,list,watch",
		"addon.open-cluster-management.io managedclusteraddons/status patch,update",
		"events.k8s.io events create",
	},
	"open-cluster-management:managedcluster:work": {
		",events.k8s.io events create,patch,update",
		"work.open-cluster-management.io manifestworks get,list,watch,update,patch",
		"work.open-cluster-management.io manifestworks/status patch,update",
	},
}

func sharedRole(name string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// untilRight waits until a shared role is what it should be.
func untilRight(t testing.TB, name string) *rbacv1.ClusterRole {
	t.Helper()
	role := sharedRole(name)
	testkit.Eventually(t, func() error {
		if err := env.Client().Get(context.Background(), client.ObjectKeyFromObject(role), role); err != nil {
			return err
		}
		var got []string
		for _, r := range role.Rules {
			got = append(got, strings.Join([]string{strings.Join(r.APIGroups, ","), strings.Join(r.Resources, ","), strings.Join(r.Verbs, ",")}, " "))
		}
		value, labelled := role.Labels["open-cluster-management.io/cluster-name"]
		if !slices.Equal(got, sharedRoles[name]) || !labelled || value != "" || role.Labels["example.org/fleet"] != "blue" {
			return fmt.Errorf("the role %s has the labels %v and the rules %q", name, role.Labels, got)
		}
		return nil
	})
	return role
}

func TestSharedRolesAreThereAsLongAsThereAreClusters(t *testing.T) {
	ctx := context.Background()
	run(t, func(m manager.Manager) error {
		return managedcluster.NewSharedRoles(m.GetClient(), m.GetAPIReader(), map[string]string{"example.org/fleet": "blue"}).Register(m)
	})
	first, second := newWorld(t, nil), newWorld(t, nil) // neither is accepted
	for name := range sharedRoles {
		role := untilRight(t, name)
		first.Merge(sharedRole(name), `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`)
		untilRight(t, name)
		first.Must(first.Delete(ctx, sharedRole(name)))
		testkit.Eventually(t, func() error {
			if now := untilRight(t, name); now.UID == role.UID {
				return fmt.Errorf("the role %s is still the old one", name)
			}
			return nil
		})
	}
	first.Remove(first.cluster())
	for name := range sharedRoles {
		untilRight(t, name)
	}
	second.Remove(second.cluster())
	for name := range sharedRoles {
		testkit.Eventually(t, func() error {
			if err := first.Get(ctx, client.ObjectKeyFromObject(sharedRole(name)), sharedRole(name)); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the role %s is still there (%v)", name, err)
			}
			return nil
		})
	}
}

func TestWithoutClustersAndRolesNothingIsWritten(t *testing.T) {
	c, writes := env.Counting(t)
	if _, err := managedcluster.NewSharedRoles(c, c, nil).Reconcile(context.Background(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	if writes.Count() != 0 {
		t.Errorf("%d writes", writes.Count())
	}
}
