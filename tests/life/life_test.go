package life

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// A cluster joins, renews its certificate for as long as it lives, survives
// outages, is denied and let in again, loses its token, moves to another hub,
// and leaves without a trace.
func TestLifeOfACluster(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	first, second := newHub(t, clk), newHub(t, clk)
	m := newMember(t, clk)
	before := map[string][]string{
		"the first hub": inventory(t, first.config), "the second hub": inventory(t, second.config), "the cluster": inventory(t, env.Config("life")),
	}
	ctx := context.Background()
	step := func(what string) { t.Logf("%s: %s", clk.Now().Format("15:04"), what) }

	step("join")
	token := first.token(cluster.BoundBootstrapGroup(name))
	m.giveBootstrap(first.kubeconfig(token))
	m.start()
	m.accept(first, true)
	m.alive(first, clk.Now())
	m.giveWork(first, "one")
	m.clean(first)

	renewals := 0
	renew := func(h *fleetHub) {
		t.Helper()
		was := m.certificate()
		m.goOnUntilRenewalIsDue()
		m.renewed(h, was)
		renewals++
	}
	step("ten renewals")
	for range 10 {
		renew(first)
	}

	step("an outage of the hub while a renewal is due")
	was := m.certificate()
	first.halt()
	m.goOnUntilRenewalIsDue()
	m.says("cannot be reached")
	first.start()
	m.renewed(first, was)
	renewals++

	step("denied, over a renewal")
	was = m.certificate()
	m.accept(first, false)
	// The agent may still finish with its works, and only then the hub calls it
	// denied.
	testkit.Must(t, first.client.Delete(ctx, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "one"}}))
	m.lacksWork("one")
	testkit.Eventually(t, first.look(is(cluster.ConditionHubAccepted, metav1.ConditionFalse)))
	m.says("has denied the cluster")
	m.goOnUntilRenewalIsDue()
	// The hub looks at the lease when something happens, or by the real clock.
	testkit.Must(t, first.client.Patch(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"x":"y"}}}`))))
	testkit.Eventually(t, first.look(is(cluster.ConditionAvailable, metav1.ConditionUnknown)))
	if n := len(m.requests(first)); n != 0 || m.certificate() != was {
		t.Errorf("the denied cluster has asked for a certificate (%d requests)", n)
	}

	step("accepted again")
	m.accept(first, true)
	m.renewed(first, was)
	renewals++
	m.giveWork(first, "two")

	step("the token expires")
	testkit.Must(t, first.refuses(token, false))
	testkit.Must(t, first.client.Get(ctx, client.ObjectKeyFromObject(token), token))
	token.Data["expiration"] = []byte(time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
	testkit.Must(t, first.client.Update(ctx, token))
	testkit.Eventually(t, func() error { return first.refuses(token, true) })
	m.gone(first.client, token)
	for range 8 {
		renew(first)
	}
	if renewals != 20 {
		t.Errorf("%d renewals, want 20", renewals)
	}

	step("an outage for longer than the certificate lives")
	was = m.certificate()
	first.halt()
	clk.Step(2 * lifetime)
	m.says("cannot be reached")
	first.start()
	m.says("does not know the credentials in the bootstrap kubeconfig")
	if m.certificate() != was {
		t.Error("the agent has another certificate, which nobody can have signed")
	}

	step("a new token heals it")
	token = first.token(cluster.BoundBootstrapGroup(name))
	m.giveBootstrap(first.kubeconfig(token))
	m.approve(first) // nobody but an administrator lets in a second agent of a cluster that has joined
	m.renewed(first, was)
	testkit.Must(t, first.client.Get(ctx, types.NamespacedName{Namespace: name, Name: "two"}, &workv1.ManifestWork{}))

	step("it leaves the first hub for the second")
	testkit.Must(t, first.client.Delete(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	m.gone(first.client, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
	m.lacksWork("two")
	testkit.Must(t, first.client.Delete(ctx, token))
	was = m.certificate()
	token = second.token(cluster.BoundBootstrapGroup(name))
	m.giveBootstrap(second.kubeconfig(token))
	m.accept(second, true)
	m.renewed(second, was)
	m.giveWork(second, "three")
	renew(second)

	step("it leaves for good")
	testkit.Must(t, second.client.Delete(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	m.gone(second.client, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
	m.lacksWork("three")
	m.halt()
	testkit.Must(t, second.client.Delete(ctx, token))
	expectAdded(t, m, "the cluster", env.Config("life"), before, []string{
		"configmaps " + namespace + "/kube-root-ca.crt",
		"namespaces " + namespace,
		"secrets " + namespace + "/" + cluster.BootstrapSecret,
		"secrets " + namespace + "/" + cluster.HubKubeconfigSecret,
		"serviceaccounts " + namespace + "/default",
	})
	m.uninstall()

	// Upstream, too, leaves the namespace with its lease, for an administrator to
	// delete.
	kept := []string{"coordination.k8s.io/leases " + name + "/" + cluster.LeaseName, "namespaces " + name}
	expectAdded(t, m, "the first hub", first.config, before, kept)
	expectAdded(t, m, "the second hub", second.config, before, kept)
	expectAdded(t, m, "the cluster", env.Config("life"), before, nil)
}
