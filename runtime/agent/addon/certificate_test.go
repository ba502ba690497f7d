package addon_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func TestAddOnGetsItsCertificateForTheHub(t *testing.T) {
	f := started(t)
	user := registration.User(f.hub, "a", "worker")
	m := f.addOn("a", forHub(user, registration.Groups(f.hub, "a")...))
	s := f.stored("a-hub-kubeconfig", nil)

	if got := slices.Sorted(maps.Keys(s.Data)); !slices.Equal(got, []string{"cluster-name", "kubeconfig", "tls.crt", "tls.key"}) {
		t.Errorf("the Secret has %v", got)
	}
	if string(s.Data["cluster-name"]) != f.hub || s.Type != corev1.SecretTypeOpaque {
		t.Errorf("cluster %s, type %s", s.Data["cluster-name"], s.Type)
	}
	if _, err := tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"]); err != nil {
		t.Error(err)
	}
	if got := leaf(t, s).Subject; got.CommonName != user ||
		!slices.Equal(slices.Sorted(slices.Values(got.Organization)), slices.Sorted(slices.Values(registration.Groups(f.hub, "a")))) {
		t.Errorf("subject %s", got)
	}
	config, err := clientcmd.Load(s.Data["kubeconfig"])
	f.must(err)
	c, a, hub := config.Contexts["default-context"], config.AuthInfos["default-auth"], config.Clusters["the-hub"]
	if config.CurrentContext != "default-context" || c == nil || c.Cluster != "the-hub" || c.AuthInfo != "default-auth" || c.Namespace != "configuration" ||
		a == nil || a.ClientCertificate != "tls.crt" || a.ClientKey != "tls.key" || a.TokenFile != "" ||
		hub == nil || hub.Server != "https://hub.example.org:6443" || string(hub.CertificateAuthorityData) != "the authority" || hub.ProxyURL != "http://proxy:3128" {
		t.Errorf("kubeconfig\n%s", s.Data["kubeconfig"])
	}

	f.must(f.asked("a", 1))
	r := f.requests("a")[0]
	block, _ := pem.Decode(r.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	f.must(err)
	if !strings.HasPrefix(r.Name, "addon-"+f.hub+"-a-") || r.Spec.SignerName != "kubernetes.io/kube-apiserver-client" ||
		!slices.Equal(request.DNSNames, []string{"a.addon.open-cluster-management.io"}) || r.Labels["open-cluster-management.io/addon-name"] != "a" {
		t.Errorf("request %s %+v %v", r.Name, r.Labels, request.DNSNames)
	}
	if err := registration.CheckRequest(&r, "a", "worker"); err != nil {
		t.Errorf("the hub would not approve it: %v", err)
	}
	f.condition(m, "ClusterCertificateRotated", "True", "ClientCertificateUpdated",
		fmt.Sprintf("client certificate rotated starting from %v to %v", leaf(t, s).NotBefore, leaf(t, s).NotAfter))
	if d := m.Status.Registrations[0].KubeClient.Driver; d != "csr" {
		t.Errorf("the driver is %q", d)
	}
	if strings.Contains(f.logged(), "PRIVATE KEY") || strings.Contains(fmt.Sprint(m.Status), "PRIVATE KEY") {
		t.Error("a key was told")
	}
}

func TestAddOnGetsACertificateOfItsOwnSigner(t *testing.T) {
	f := started(t)
	f.addOn("a", signedBy("example.com/x"))
	s := f.stored("a-example.com-x-client-cert", nil)
	if got := slices.Sorted(maps.Keys(s.Data)); !slices.Equal(got, []string{"cluster-name", "tls.crt", "tls.key"}) {
		t.Errorf("the Secret has %v", got)
	}
	if got := leaf(t, s).Subject.String(); got != "CN=u,OU=ou" {
		t.Errorf("subject %s", got)
	}
	if r := f.requests("a")[0]; r.Spec.SignerName != "example.com/x" {
		t.Errorf("asked the signer %s", r.Spec.SignerName)
	}
}

// A signer of an add-on may give another subject than was asked for: that is no reason
// to ask again. The hub's own may not.
func TestSubjectOfTheSigner(t *testing.T) {
	f := newFixture(t)
	f.hubDoes(func(r *certificatesv1.CertificateSigningRequest) error {
		return f.signWith(r, func(c *x509.Certificate) { c.Subject.CommonName = "somebody" })
	})
	f.start()
	f.addOn("a", signedBy("example.com/x"))
	m := f.addOn("b", forHub("u", "g"))
	f.stored("a-example.com-x-client-cert", nil)
	f.condition(m, "ClusterCertificateRotated", "False", "ClientCertificateUpdateFailed",
		"Failed to rotated client certificate what was signed cannot be used: its subject is another one")
	f.restart()
	f.stays(func() error { return f.asked("a", 1) })
	if f.secret(f.install, "b-hub-kubeconfig") != nil {
		t.Error("a certificate of somebody else was stored")
	}
}

func TestRegistrationsWithoutContentAreLeftOut(t *testing.T) {
	f := started(t)
	m := f.addOn("a", signedBy("example.com/x"))
	// What the definition refuses, a hub of another make may have.
	f.says(m, func(m *addonv1beta1.ManagedClusterAddOn) {
		m.Status.Registrations = []addonv1beta1.RegistrationConfig{
			{Type: addonv1beta1.RegistrationTypeCustomSigner}, {Type: addonv1beta1.RegistrationTypeKubeClient}, signedBy("example.com/x"),
		}
	})
	f.stored("a-example.com-x-client-cert", nil)
	// One for the hub gets a block, and the subject that agents have without one.
	s := f.stored("a-hub-kubeconfig", nil)
	if got := leaf(t, s).Subject.CommonName; got != registration.User(f.hub, "a", "a") {
		t.Errorf("subject %s", got)
	}
	f.eventually(func() error {
		if !strings.Contains(f.logged(), "customSigner.signerName is missing") {
			return errors.New("the agent does not say what it leaves out")
		}
		return nil
	})
}

func TestCredentialIsHeldForItsNamespace(t *testing.T) {
	f := newFixture(t)
	f.install += "-later"
	f.start()
	m := f.addOn("a", forHub("u", "g"))
	f.eventually(func() error { return f.asked("a", 1) })
	f.eventually(func() error {
		if !strings.Contains(f.logged(), "does not exist in the managed cluster") {
			return errors.New("the agent does not hold a credential")
		}
		return nil
	})
	f.step(31 * time.Second)
	f.condition(m, "ClusterCertificateRotated", "False", "ClientCertificateUpdateFailed", "the namespace "+f.install+" does not exist in the managed cluster")
	f.must(f.asked("a", 1))
	f.must(f.Create(f.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.install}}))
	f.stored("a-hub-kubeconfig", nil)
	f.condition(m, "ClusterCertificateRotated", "True", "ClientCertificateUpdated", "")
	f.must(f.asked("a", 1))
	f.must(f.Delete(f.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.install}}))
}

func TestCertificateIsRenewedInGoodTime(t *testing.T) {
	f := started(t)
	m := f.addOn("a", forHub("u", "g"), signedBy("example.com/x"))
	first, other := f.stored("a-hub-kubeconfig", nil), f.stored("a-example.com-x-client-cert", nil)
	f.condition(m, "ClusterCertificateRotated", "True", "ClientCertificateUpdated", "")
	f.step(lifetime * 74 / 100)
	f.stays(func() error { return f.asked("a", 2) })
	f.step(lifetime * 7 / 100)
	second := f.stored("a-hub-kubeconfig", another(first))
	f.stored("a-example.com-x-client-cert", another(other))
	f.condition(m, "ClusterCertificateRotated", "True", "ClientCertificateUpdated", fmt.Sprint(leaf(t, second).NotAfter))
	f.must(f.asked("a", 4))
	// One that has expired while the agent was away is replaced, too.
	f.stop()
	f.clock.Step(2 * lifetime)
	f.start()
	f.stored("a-hub-kubeconfig", another(second))
}

// When this agent has taken another one's place, the hub takes no certificate that it
// issued before. That of a signer of the add-on's own is as good as before.
func TestCertificateOfTheFormerAgentIsReplaced(t *testing.T) {
	f := started(t)
	f.addOn("a", forHub("u", "g"), signedBy("example.com/x"))
	first := f.stored("a-hub-kubeconfig", nil)
	f.stored("a-example.com-x-client-cert", nil)
	f.stop()
	issued := cluster.IssuedAt(leaf(t, first).NotBefore)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.hub}}
	mc.Annotations, _ = cluster.TakeOver(nil, "agent", issued, issued)
	f.must(f.Create(f.ctx, mc))
	defer func() { f.must(f.Delete(f.ctx, mc)) }()
	f.clock.Step(time.Minute)
	f.start()
	second := f.stored("a-hub-kubeconfig", another(first))
	f.must(f.asked("a", 3))
	f.restart()
	f.stays(func() error {
		if got := f.secret(f.install, second.Name); got == nil || got.ResourceVersion != second.ResourceVersion {
			return errors.New("the Secret was written once more")
		}
		return f.asked("a", 3)
	})
}

func TestChangesOfARegistration(t *testing.T) {
	f := started(t)
	m := f.addOn("a", forHub("u", "g"), signedBy("example.com/x"))
	first := f.stored("a-hub-kubeconfig", nil)
	f.stored("a-example.com-x-client-cert", nil)

	// The Secret stays until there is another certificate.
	f.hubDoes(f.ignore)
	f.says(m, func(m *addonv1beta1.ManagedClusterAddOn) { m.Status.Registrations[0].KubeClient.Subject.User = "v" })
	f.eventually(func() error { return f.asked("a", 3) })
	if s := f.secret(f.install, "a-hub-kubeconfig"); s == nil || another(first)(s) == nil {
		t.Errorf("the first certificate went before there was another one")
	}
	f.hubDoes(f.sign)
	f.stored("a-hub-kubeconfig", func(s *corev1.Secret) error {
		if got := leaf(t, s).Subject.CommonName; got != "v" {
			return fmt.Errorf("it is of %s", got)
		}
		return nil
	})

	f.says(m, func(m *addonv1beta1.ManagedClusterAddOn) {
		m.Status.Registrations[1].CustomSigner.SignerName = "example.com/y"
	})
	f.stored("a-example.com-y-client-cert", nil)
	f.removed(f.install, "a-example.com-x-client-cert")

	former := f.install
	f.install = f.own + "-other"
	f.must(f.Create(f.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.install}}))
	f.says(m, func(m *addonv1beta1.ManagedClusterAddOn) { m.Status.Namespace = f.install })
	f.stored("a-hub-kubeconfig", nil)
	f.stored("a-example.com-y-client-cert", nil)
	f.removed(former, "a-hub-kubeconfig")
	f.removed(former, "a-example.com-y-client-cert")

	f.says(m, func(m *addonv1beta1.ManagedClusterAddOn) { m.Status.Registrations = m.Status.Registrations[:1] })
	f.removed(f.install, "a-example.com-y-client-cert")
	f.must(f.Delete(f.ctx, m))
	f.removed(f.install, "a-hub-kubeconfig")
	f.must(f.Delete(f.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.install}}))
}

func TestDeletedOrSpoiltSecretIsReplaced(t *testing.T) {
	f := started(t)
	f.addOn("a", forHub("u", "g"))
	s := f.stored("a-hub-kubeconfig", nil)
	f.must(f.Delete(f.ctx, s))
	next := f.storedLater("a-hub-kubeconfig", another(s)) // not at once, as it was just had
	next.Data["tls.key"] = []byte("x")
	f.must(f.Update(f.ctx, next))
	f.storedLater("a-hub-kubeconfig", another(next))
}

// The hub is asked no more when it has ten requests, however often the registration
// changes.
func TestLimitOfRequests(t *testing.T) {
	f := newFixture(t)
	f.hubDoes(f.ignore)
	f.start()
	m := f.addOn("a", forHub("u", "g"))
	f.eventually(func() error { return f.asked("a", 1) })
	for i := range 15 {
		f.says(m, func(m *addonv1beta1.ManagedClusterAddOn) {
			m.Status.Registrations[0].KubeClient.Subject.User = fmt.Sprintf("u%d", i)
		})
		f.eventually(func() error { return f.asked("a", min(i+2, 10)) })
	}
	f.condition(m, "ClusterCertificateRotated", "False", "ClientCertificateUpdateFailed",
		"Stop creating csr since there are too many csr created already on hub")
	f.stays(func() error { return f.asked("a", 10) })
	f.hubDoes(f.sign)
	for _, r := range f.requests("a") {
		f.must(f.Delete(f.ctx, &r))
	}
	f.stored("a-hub-kubeconfig", func(s *corev1.Secret) error {
		if got := leaf(t, s).Subject.CommonName; got != "u14" {
			return fmt.Errorf("it is of %s", got)
		}
		return nil
	})
	f.condition(m, "ClusterCertificateRotated", "True", "ClientCertificateUpdated", "")
}

// Requests that somebody else has made under the add-on's labels keep it from nothing.
func TestRequestsOfOthersDoNotCount(t *testing.T) {
	f := newFixture(t)
	f.hubDoes(f.ignore)
	f.addOn("a", forHub("u", "g"))
	other := newFixture(t)
	for range 12 {
		r := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "x-", Labels: registration.RequestLabels(f.hub, "a")},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: request(t), SignerName: "example.com/x", Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			},
		}
		other.must(other.Create(other.ctx, r))
	}
	f.start()
	f.eventually(func() error { return f.asked("a", 13) })
}

func TestDeniedRequestWaitsForItsRemoval(t *testing.T) {
	f := newFixture(t)
	f.hubDoes(f.deny)
	f.start()
	m := f.addOn("a", forHub("u", "g"))
	f.condition(m, "ClusterCertificateRotated", "False", "ClientCertificateUpdateFailed", "(Denied Test: for a reason)")
	f.stays(func() error { return f.asked("a", 1) })
	f.hubDoes(f.sign)
	r := f.requests("a")[0]
	f.must(f.Delete(f.ctx, &r))
	f.stored("a-hub-kubeconfig", nil)
}

// An agent that starts, or that has stored everything, asks for nothing.
func TestRestartAsksForNothing(t *testing.T) {
	f := started(t)
	m := f.addOn("a", forHub("u", "g"), signedBy("example.com/x"))
	s := f.stored("a-hub-kubeconfig", nil)
	f.stored("a-example.com-x-client-cert", nil)
	f.condition(m, "ClusterCertificateRotated", "True", "ClientCertificateUpdated", "")
	f.restart()
	f.stays(func() error {
		if got := f.secret(f.install, s.Name); got == nil || got.ResourceVersion != s.ResourceVersion {
			return errors.New("the Secret was written once more")
		}
		return f.asked("a", 2)
	})
}

// Another address, authority or proxy of the hub needs other credentials, at once.
func TestAnotherEndpointOfTheHub(t *testing.T) {
	f := started(t)
	f.addOn("a", forHub("u", "g"), signedBy("example.com/x"))
	s := f.stored("a-hub-kubeconfig", nil)
	f.stored("a-example.com-x-client-cert", nil)
	f.stop()
	f.endpoint.Server = "https://elsewhere.example.org"
	f.start()
	f.stored("a-hub-kubeconfig", func(now *corev1.Secret) error {
		if !strings.Contains(string(now.Data["kubeconfig"]), "https://elsewhere.example.org") {
			return errors.New("its kubeconfig leads to the former address")
		}
		return another(s)(now)
	})
	f.must(f.asked("a", 3)) // the signer has nothing to do with it
}
