package addon_test

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

func (f *fixture) reason(m *addonv1beta1.ManagedClusterAddOn, want string) error {
	f.must(f.Get(f.ctx, client.ObjectKeyFromObject(m), m))
	if c := meta.FindStatusCondition(m.Status.Conditions, "Available"); c == nil || c.Reason != want {
		return fmt.Errorf("available: %+v, want %s", c, want)
	}
	return nil
}

// A hub can't have Secrets written where the managed cluster or the agent itself lives:
// an add-on called bootstrap would bring the agent another hub.
func TestNamespacesThatAreNotForAddOns(t *testing.T) {
	f := started(t)
	for name, namespace := range map[string]string{"a": metav1.NamespaceSystem, "b": "kube-public", "bootstrap": f.own, "d": "Not_A_Name"} {
		f.install = namespace
		m := f.addOn(name, forHub("u", "g"))
		f.condition(m, "ClusterCertificateRotated", "False", "ClientCertificateUpdateFailed", "give the add-on another install namespace")
		if s := f.secretIn(namespace, name+"-hub-kubeconfig"); s {
			t.Errorf("a Secret was written into %s", namespace)
		}
		f.must(f.asked(name, 0))
	}
}

func (f *fixture) secretIn(namespace, name string) bool {
	return f.Get(f.ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{}) == nil
}

// A Secret of somebody else is neither overwritten nor deleted, and nothing is asked
// for that could not be stored.
func TestSecretsOfOthersStay(t *testing.T) {
	f := newFixture(t)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.install, Name: "a-hub-kubeconfig"}, Data: map[string][]byte{"password": []byte("x")}}
	f.must(f.Create(f.ctx, foreign))
	f.start()
	m := f.addOn("a", forHub("u", "g"))
	f.condition(m, "ClusterCertificateRotated", "False", "ClientCertificateUpdateFailed",
		"the Secret "+f.install+"/a-hub-kubeconfig is there, and is not the agent's: rename or delete it")
	f.must(f.asked("a", 0))
	f.must(f.Delete(f.ctx, m))
	f.addOn("b", forHub("u", "g"))
	f.stored("b-hub-kubeconfig", nil)
	if s := f.secret(f.install, "a-hub-kubeconfig"); s == nil || s.ResourceVersion != foreign.ResourceVersion {
		t.Error("the Secret of somebody else was touched")
	}
}

// Names of add-ons and signers may run together in the name of a Secret. The one that
// has it keeps it, and the other says so.
func TestTwoAddOnsDoNotShareASecret(t *testing.T) {
	f := started(t)
	f.addOn("a", signedBy("x-bb.io/c"))
	s := f.stored("a-x-bb.io-c-client-cert", nil)
	m := f.addOn("a-x", signedBy("bb.io/c"))
	f.condition(m, "ClusterCertificateRotated", "False", "ClientCertificateUpdateFailed", `was made for the add-on "a"`)
	if now := f.secret(f.install, s.Name); now == nil || now.ResourceVersion != s.ResourceVersion {
		t.Error("the Secret was written by the other add-on")
	}
}

// A credential of an add-on from before muster's agent came is taken over as it is.
func TestCredentialOfAnEarlierAgentIsTakenOver(t *testing.T) {
	f := started(t)
	m := f.addOn("a", forHub("u", "g"))
	made := f.stored("a-hub-kubeconfig", nil)
	f.condition(m, "ClusterCertificateRotated", "True", "ClientCertificateUpdated", "")
	f.stop()
	f.must(f.Delete(f.ctx, made))
	before := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.install, Name: made.Name}, Data: maps.Clone(made.Data)}
	before.Data["token"] = []byte("from another driver")
	f.must(f.Create(f.ctx, before))
	f.start()
	f.stored("a-hub-kubeconfig", func(s *corev1.Secret) error {
		if s.Labels["muster-fleet.io/addon-agent"] != f.own || another(made)(s) == nil || len(s.Data) != 4 {
			return fmt.Errorf("it is %v with %d keys", s.Labels, len(s.Data))
		}
		return nil
	})
	f.must(f.asked("a", 1))
	f.must(f.Delete(f.ctx, m))
	f.removed(f.install, "a-hub-kubeconfig")
}

// Credentials of add-ons and registrations that went while the agent was away are
// removed, and nothing else: not of an add-on that the hub has yet to look at, and not
// those of another agent.
func TestLeftOverCredentialsAreRemoved(t *testing.T) {
	f := started(t)
	gone, less, restored := f.addOn("gone", forHub("u", "g")), f.addOn("less", forHub("u", "g"), signedBy("example.com/x")), f.addOn("restored", forHub("u", "g"))
	for _, name := range []string{"gone-hub-kubeconfig", "less-hub-kubeconfig", "less-example.com-x-client-cert", "restored-hub-kubeconfig"} {
		f.stored(name, nil)
	}
	for _, m := range []*addonv1beta1.ManagedClusterAddOn{gone, less, restored} {
		f.condition(m, "ClusterCertificateRotated", "True", "ClientCertificateUpdated", "")
	}
	f.stop()
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.install, Name: "x-hub-kubeconfig", Labels: map[string]string{"muster-fleet.io/addon-agent": "another"}}}
	f.must(f.Create(f.ctx, other))
	f.must(f.Delete(f.ctx, gone))
	f.says(less, func(m *addonv1beta1.ManagedClusterAddOn) { m.Status.Registrations = m.Status.Registrations[:1] })
	f.says(restored, func(m *addonv1beta1.ManagedClusterAddOn) {
		m.Status = addonv1beta1.ManagedClusterAddOnStatus{Namespace: f.install}
	})
	f.start()
	f.removed(f.install, "gone-hub-kubeconfig")
	f.removed(f.install, "less-example.com-x-client-cert")
	f.condition(restored, "Available", "Unknown", "ManagedClusterAddOnLeaseNotFound", "")
	for _, name := range []string{"less-hub-kubeconfig", "x-hub-kubeconfig", "restored-hub-kubeconfig"} {
		if f.secret(f.install, name) == nil {
			t.Errorf("%s was removed", name)
		}
	}
	f.says(less, func(m *addonv1beta1.ManagedClusterAddOn) { m.Status.Namespace = f.own + "-x" })
	f.removed(f.install, "less-hub-kubeconfig")
}
