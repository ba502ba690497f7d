package managedcluster

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// cached is a cache with these cluster roles.
type cached struct {
	client.Client
	roles map[string]bool
}

func (c cached) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if c.roles[key.Name] {
		return nil
	}
	return apierrors.NewNotFound(rbacv1.Resource("clusterroles"), key.Name)
}

// When the roles are there, a new cluster is no reason to look for clusters.
func TestANewClusterConcernsSharedRolesThatAreMissing(t *testing.T) {
	for name, x := range map[string]struct {
		roles map[string]bool
		want  bool
	}{
		"none is there":  {nil, true},
		"one is missing": {map[string]bool{cluster.WorkRole: true}, true},
		"both are there": {map[string]bool{cluster.WorkRole: true, cluster.RegistrationRole: true}, false},
	} {
		mc := &clusterv1.ManagedCluster{}
		events := NewSharedRoles(cached{roles: x.roles}, nil, nil).clusterComesOrGoes()
		if got := events.Create(event.CreateEvent{Object: mc}); got != x.want {
			t.Errorf("%s: a new cluster passes: %v, want %v", name, got, x.want)
		}
		if !events.Delete(event.DeleteEvent{Object: mc}) {
			t.Errorf("%s: a deletion does not pass", name)
		}
		if events.Update(event.UpdateEvent{ObjectOld: mc, ObjectNew: mc}) {
			t.Errorf("%s: a change passes", name)
		}
	}
}
