package fleet_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/clusterset"
)

// world is one namespace with one bound cluster set, both of the same name.
type clusterSetWorld struct {
	*testworld.World
	name string
}

// newWorld makes a world with clusters of the given names.
func newClusterSetWorld(t testing.TB, clusters ...string) *clusterSetWorld {
	t.Helper()
	w := &clusterSetWorld{World: env.World(t)}
	w.name = w.BoundSet()
	for _, c := range clusters {
		w.Make(testworld.Member(w.name, c))
	}
	return w
}

// startControllers runs the controllers of cluster sets until the test ends.
func startClusterSets(t testing.TB) {
	t.Helper()
	env.StartManager(t, func(m manager.Manager) error {
		c := m.GetClient()
		for _, r := range []interface {
			Register(m manager.Manager) error
		}{
			clusterset.NewDefaults(c), clusterset.NewStatus(c, clusterset.NewMembers()), clusterset.NewBindings(c), clusterset.NewNamespaces(c),
		} {
			if err := r.Register(m); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *clusterSetWorld) key() types.NamespacedName {
	return types.NamespacedName{Namespace: w.name, Name: w.name}
}

// named is a cluster by its name alone.
func (w *clusterSetWorld) named(name string) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + name}}
}

func (w *clusterSetWorld) set() *clusterv1beta2.ManagedClusterSet { return testworld.Set(w.name) }

func (w *clusterSetWorld) binding() *clusterv1beta2.ManagedClusterSetBinding {
	return testworld.Binding(w.name)
}
