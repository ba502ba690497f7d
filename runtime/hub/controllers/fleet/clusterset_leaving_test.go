package fleet_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/clusterset"
)

const keep = `{"metadata":{"finalizers":["example.com/wait"]}}`

// leave deletes an object that stays until the test ends.
func (w *clusterSetWorld) leave(o client.Object) {
	w.Helper()
	w.Merge(o, keep)
	w.Cleanup(func() { w.Release(o) })
	w.Must(w.Delete(context.Background(), o))
}

// namespacesOf has the controller compute the namespaces of a cluster, and
// returns them with what it logged.
func (w *clusterSetWorld) namespacesOf(name string) (got, logged []string) {
	w.Helper()
	ctx := log.IntoContext(context.Background(), funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
	mc := w.named(name)
	_, err := clusterset.NewNamespaces(w.Client).Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(mc)})
	w.Must(err)
	w.Must(w.Get(ctx, client.ObjectKeyFromObject(mc), mc))
	for _, n := range mc.Status.ManagedNamespaces {
		got = append(got, n.Name)
	}
	return got, logged
}

func TestASetThatGoesIsStillBound(t *testing.T) {
	w := newClusterSetWorld(t)
	w.leave(w.set())
	_, err := clusterset.NewBindings(w.Client).Reconcile(context.Background(), reconcile.Request{NamespacedName: w.key()})
	w.Must(err)
	b := w.binding()
	w.Must(w.Get(context.Background(), client.ObjectKeyFromObject(b), b))
	if c := b.Status.Conditions; len(c) != 1 || c[0].Type != "Bound" || c[0].Status != metav1.ConditionTrue || c[0].Reason != "ClusterSetBound" {
		t.Errorf("the conditions are %+v", c)
	}
}

func TestASetThatGoesWantsNoNamespaces(t *testing.T) {
	w := newClusterSetWorld(t, "a")
	w.Merge(w.set(), `{"spec":{"managedNamespaces":[{"name":"one"}]}}`)
	if got, _ := w.namespacesOf("a"); !slices.Equal(got, []string{"one"}) {
		t.Fatalf("the namespaces are %q", got)
	}
	w.leave(w.set())
	if got, _ := w.namespacesOf("a"); len(got) != 0 {
		t.Errorf("the namespaces are %q", got)
	}
}

func TestAClusterThatGoesKeepsTheNamespacesThatItWasGiven(t *testing.T) {
	w := newClusterSetWorld(t, "a")
	w.Merge(w.set(), `{"spec":{"managedNamespaces":[{"name":"one"}]}}`)
	w.namespacesOf("a")
	w.leave(w.named("a"))
	w.Merge(w.set(), `{"spec":{"managedNamespaces":[{"name":"two"}]}}`)
	if got, logged := w.namespacesOf("a"); !slices.Equal(got, []string{"one"}) || len(logged) != 0 {
		t.Errorf("the namespaces are %q, the log says %q", got, logged)
	}
}

func TestChangedNamespacesAreLoggedByUpstreamsName(t *testing.T) {
	w := newClusterSetWorld(t, "a")
	w.Merge(w.set(), `{"spec":{"managedNamespaces":[{"name":"one"}]}}`)
	_, logged := w.namespacesOf("a")
	if len(logged) != 1 || !strings.Contains(logged[0], `"event"="ManagedNamespacesUpdated"`) || !strings.Contains(logged[0], w.name+"-a") {
		t.Errorf("the log says %q", logged)
	}
	if _, logged := w.namespacesOf("a"); len(logged) != 0 {
		t.Errorf("nothing has changed, and the log says %q", logged)
	}
}
