package addon_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/csr"
)

const (
	kubeSigner   = "kubernetes.io/kube-apiserver-client"
	customSigner = "example.org/signer"
	grpcServer   = "system:serviceaccount:open-cluster-management-hub:grpc-server-sa"
)

// fixture is an accepted cluster with an add-on from a template, which has registrations
// for the hub and for a signer of its own. The Secret of that is in the namespace of
// the add-on's name.
type csrFixture struct {
	*testworld.World
	addOn, cluster string
	controller     *csr.Controller
	events         *events.FakeRecorder
	key            *ecdsa.PrivateKey
}

func newCSRFixture(t testing.TB) *csrFixture {
	t.Helper()
	f := &csrFixture{World: env.World(t), events: events.NewFakeRecorder(100)}
	as, err := addons.NewManager(env.Config("test"), client.Options{Scheme: f.Scheme(), Mapper: f.RESTMapper()})
	f.Must(err)
	f.controller = csr.NewController(f.Client, f.Client, f.Client, as, f.events, clocktesting.NewFakePassiveClock(time.Now()))
	f.addOn, f.cluster = f.Namespace(), f.Namespace()
	f.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.Must(err)
	f.Make(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.cluster}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}})
	kind := v1alpha1.ConfigGroupResource{Group: "addon.open-cluster-management.io", Resource: "addontemplates"}
	f.Make(&v1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: f.addOn}, Spec: v1alpha1.ClusterManagementAddOnSpec{
		SupportedConfigs: []v1alpha1.ConfigMeta{{ConfigGroupResource: kind}},
	}})
	template := &v1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: f.addOn}}
	template.Spec.AddonName = f.addOn
	template.Spec.Registration = []v1alpha1.RegistrationSpec{
		{Type: v1alpha1.RegistrationTypeKubeClient},
		{Type: v1alpha1.RegistrationTypeCustomSigner, CustomSigner: &v1alpha1.CustomSignerRegistrationConfig{
			SignerName: customSigner, SigningCA: v1alpha1.SigningCARef{Namespace: f.addOn, Name: "ca"},
		}},
	}
	f.Make(template)
	a := &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster, Name: f.addOn}}
	f.Make(a)
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AddOnTemplate"))
	f.Must(f.Get(context.Background(), types.NamespacedName{Name: f.addOn}, stored))
	hash, err := configs.Hash(stored.Object)
	f.Must(err)
	referent := v1alpha1.ConfigReferent{Name: f.addOn}
	a.Status.ConfigReferences = []v1alpha1.ConfigReference{{
		ConfigGroupResource: kind, ConfigReferent: referent, DesiredConfig: &v1alpha1.ConfigSpecHash{ConfigReferent: referent, SpecHash: hash},
	}}
	subject := v1alpha1.Subject{User: f.user(), Groups: f.groups()}
	a.Status.Registrations = []v1alpha1.RegistrationConfig{{SignerName: kubeSigner, Subject: subject}, {SignerName: customSigner, Subject: subject}}
	f.Must(f.Status().Update(context.Background(), a))
	return f
}

func (f *csrFixture) user() string { return f.groups()[0] + ":agent:" + f.addOn + "-agent" }

func (f *csrFixture) groups() []string {
	return []string{"system:open-cluster-management:cluster:" + f.cluster + ":addon:" + f.addOn, "system:open-cluster-management:addon:" + f.addOn}
}

// request is a certificate request, and who makes it.
type request struct {
	name, signer, who string
	labels            map[string]string
	annotations       map[string]string
	content           x509.CertificateRequest
}

// honest is the request of the cluster's agent.
func (f *csrFixture) honest(signer string) request {
	return request{
		name: "addon-" + f.cluster + "-" + f.addOn + "-", signer: signer, who: "system:open-cluster-management:" + f.cluster + ":agent",
		labels: map[string]string{"open-cluster-management.io/cluster-name": f.cluster, "open-cluster-management.io/addon-name": f.addOn},
		content: x509.CertificateRequest{
			Subject: pkix.Name{CommonName: f.user(), Organization: f.groups()}, DNSNames: []string{f.addOn + ".addon.open-cluster-management.io"},
		},
	}
}

// send makes a request in the name of its user. There is no admission here.
func (f *csrFixture) send(r request) types.NamespacedName {
	f.Helper()
	key, err := f.trySend(r)
	f.Must(err)
	return key
}

func (f *csrFixture) trySend(r request) (types.NamespacedName, error) {
	f.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.Must(err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &r.content, key)
	f.Must(err)
	o := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: r.name, Labels: r.labels, Annotations: r.annotations},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: r.signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
	config := env.Config("test")
	config.Impersonate = rest.ImpersonationConfig{UserName: r.who, Groups: []string{"system:masters"}}
	err = env.ClientFor(f, config).Create(context.Background(), o)
	f.Cleanup(func() { _ = f.Delete(context.Background(), o) })
	return client.ObjectKeyFromObject(o), err
}

func (f *csrFixture) judged(key types.NamespacedName) (*certificatesv1.CertificateSigningRequest, reconcile.Result) {
	f.Helper()
	result := f.Reconcile(f.controller, key)
	o := &certificatesv1.CertificateSigningRequest{}
	f.Must(f.Get(context.Background(), key, o))
	return o, result
}

func approved(r *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == "Approved" && c.Reason == "AutoApprovedByHubCSRApprovingController" && c.Message == "Auto approving addon agent certificate."
	})
}

// heard are the events since the last call.
func (f *csrFixture) heard() string {
	var out []string
	for {
		select {
		case e := <-f.events.Events:
			out = append(out, e)
		default:
			return strings.Join(out, "\n")
		}
	}
}

// allowSecrets lets the add-on manager read the Secret ca, and no other.
func (f *csrFixture) allowSecrets() {
	f.Helper()
	meta := metav1.ObjectMeta{Namespace: f.addOn, Name: "signing-ca"}
	f.Make(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"ca"}, Verbs: []string{"get"}}}})
	f.Make(&rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "open-cluster-management-hub", Name: "addon-manager-controller-sa"}},
	})
}

// authority makes the Secret.
func (f *csrFixture) authority() *corev1.Secret {
	f.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, f.key.Public(), f.key)
	f.Must(err)
	key, err := x509.MarshalPKCS8PrivateKey(f.key)
	f.Must(err)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.addOn, Name: "ca"}, Data: map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}}
	f.Make(s)
	return s
}

func certificateOf(t testing.TB, r *certificatesv1.CertificateSigningRequest) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(r.Status.Certificate)
	if block == nil {
		t.Fatalf("%s has no certificate: %+v", r.Name, r.Status)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The hub's own signer follows an approval, with the subject of an add-on.
func TestAnAgentGetsItsCertificateForTheHub(t *testing.T) {
	for name, change := range map[string]func(*csrFixture, *request){
		"two groups": func(*csrFixture, *request) {},
		"three groups, as older agents have": func(_ *csrFixture, r *request) {
			r.content.Subject.Organization = append(r.content.Subject.Organization, "system:authenticated")
		},
		"by the gRPC server": func(_ *csrFixture, r *request) {
			r.annotations = map[string]string{"open-cluster-management.io/csr-user": r.who}
			r.who = grpcServer
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCSRFixture(t)
			r := f.honest(kubeSigner)
			change(f, &r)
			key := f.send(r)
			if o, _ := f.judged(key); !approved(o) {
				t.Fatalf("not approved: %+v\n%s", o.Status.Conditions, f.heard())
			}
			f.Eventually(func() error {
				o := &certificatesv1.CertificateSigningRequest{}
				if err := f.Get(context.Background(), key, o); err != nil || len(o.Status.Certificate) == 0 {
					return errors.Join(err, fmt.Errorf("no certificate: %+v", o.Status))
				}
				if got := certificateOf(t, o).Subject; got.CommonName != f.user() || len(got.Organization) != len(r.content.Subject.Organization) {
					t.Errorf("the subject is %s", got)
				}
				return nil
			})
		})
	}
}

// What an agent of another cluster, or one that wants more, asks for is never approved:
// neither for the hub nor for a signer of the add-on.
func TestForgedRequestsAreNotApproved(t *testing.T) {
	const other = "system:open-cluster-management:other"
	for name, change := range map[string]func(*csrFixture, *request){
		"by another cluster's agent":      func(_ *csrFixture, r *request) { r.who = other + ":agent" },
		"by a cluster with a longer name": func(f *csrFixture, r *request) { r.who = "system:open-cluster-management:" + f.cluster + "2:agent" },
		"by nobody's agent":               func(f *csrFixture, r *request) { r.who = "system:open-cluster-management:" + f.cluster },
		"by the add-on's own agent":       func(f *csrFixture, r *request) { r.who = f.user() },
		"by a user who says who they are": func(_ *csrFixture, r *request) {
			r.annotations = map[string]string{"open-cluster-management.io/csr-user": r.who}
			r.who = "mallory"
		},
		"by the gRPC server for another": func(_ *csrFixture, r *request) {
			r.annotations = map[string]string{"open-cluster-management.io/csr-user": other + ":agent"}
			r.who = grpcServer
		},
		"by the gRPC server for nobody": func(_ *csrFixture, r *request) { r.who = grpcServer },
		"as another cluster": func(_ *csrFixture, r *request) {
			r.content.Subject.CommonName = strings.ReplaceAll(r.content.Subject.CommonName, ":cluster:", ":cluster:x")
		},
		"as the cluster's agent": func(_ *csrFixture, r *request) { r.content.Subject.CommonName = r.who },
		"as an administrator":    func(_ *csrFixture, r *request) { r.content.Subject.CommonName = "admin" },
		"without a name":         func(_ *csrFixture, r *request) { r.content.Subject.CommonName = "" },
		"as an administrator, too": func(_ *csrFixture, r *request) {
			r.content.Subject.Organization = append(r.content.Subject.Organization, "system:masters")
		},
		"with another add-on's group": func(_ *csrFixture, r *request) {
			r.content.Subject.Organization = append(r.content.Subject.Organization, "system:open-cluster-management:addon:other")
		},
		"with another cluster's group": func(_ *csrFixture, r *request) {
			r.content.Subject.Organization[0] = "system:open-cluster-management:cluster:other:addon:x"
		},
		"with a group twice and one less":   func(_ *csrFixture, r *request) { r.content.Subject.Organization[1] = r.content.Subject.Organization[0] },
		"with a label of another cluster":   func(_ *csrFixture, r *request) { r.labels["open-cluster-management.io/cluster-name"] = "other" },
		"with a label of another add-on":    func(_ *csrFixture, r *request) { r.labels["open-cluster-management.io/addon-name"] = "other" },
		"with no label of a cluster":        func(_ *csrFixture, r *request) { delete(r.labels, "open-cluster-management.io/cluster-name") },
		"with a name that hides the add-on": func(_ *csrFixture, r *request) { r.name = "harmless-" },
		"for a signer that is not its own":  func(_ *csrFixture, r *request) { r.signer = "example.org/other" },
	} {
		for _, signer := range []string{kubeSigner, customSigner} {
			t.Run(name+" "+signer, func(t *testing.T) {
				f := newCSRFixture(t)
				f.allowSecrets()
				f.authority()
				r := f.honest(signer)
				change(f, &r)
				key, err := f.trySend(r)
				if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "system:masters") {
					return // that is refused sooner
				}
				f.Must(err)
				if o, _ := f.judged(key); len(o.Status.Conditions) > 0 || len(o.Status.Certificate) > 0 {
					t.Errorf("the status is %+v", o.Status)
				}
			})
		}
	}
}

// A certificate of a signer says who the agent is to others: these names are its own.
func TestASignersRequestHasTheSubjectOfItsRegistration(t *testing.T) {
	for name, change := range map[string]func(*csrFixture, *request){
		"a unit":       func(_ *csrFixture, r *request) { r.content.Subject.OrganizationalUnit = []string{"x"} },
		"a country":    func(_ *csrFixture, r *request) { r.content.Subject.Country = []string{"DE"} },
		"a group less": func(_ *csrFixture, r *request) { r.content.Subject.Organization = r.content.Subject.Organization[:1] },
		"another name": func(_ *csrFixture, r *request) { r.content.DNSNames = []string{"the.server.example.org"} },
		"another name, too": func(_ *csrFixture, r *request) {
			r.content.DNSNames = append(r.content.DNSNames, "the.server.example.org")
		},
		"an address":     func(_ *csrFixture, r *request) { r.content.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} },
		"a mail address": func(_ *csrFixture, r *request) { r.content.EmailAddresses = []string{"a@example.org"} },
	} {
		t.Run(name, func(t *testing.T) {
			f := newCSRFixture(t)
			r := f.honest(customSigner)
			change(f, &r)
			if o, _ := f.judged(f.send(r)); len(o.Status.Conditions) > 0 {
				t.Errorf("the status is %+v", o.Status)
			}
			if said := f.heard(); !strings.Contains(said, "CertificateRequestNotApproved") {
				t.Errorf("the events are %q", said)
			}
		})
	}
}

// The Secret is read as the service account that its owner has to allow it.
func TestASignersCertificate(t *testing.T) {
	f := newCSRFixture(t)
	key := f.send(f.honest(customSigner))
	o, result := f.judged(key)
	if !approved(o) || len(o.Status.Certificate) > 0 || result.RequeueAfter == 0 {
		t.Errorf("without the right to the Secret: %+v, again in %s", o.Status, result.RequeueAfter)
	}
	said := f.heard()
	for _, want := range []string{
		"CertificateRequestNotSigned", "the Secret " + f.addOn + "/ca", "its owner has not allowed it",
		"give the service account addon-manager-controller-sa of the namespace open-cluster-management-hub the right to get this one Secret",
	} {
		if strings.Count(said, want) != 2 { // for the request, and for the add-on
			t.Errorf("the events lack %q: %s", want, said)
		}
	}
	f.allowSecrets()
	f.Eventually(func() error { // the authorizer learns of roles by a watch
		f.judged(key)
		if said := f.heard(); !strings.Contains(said, "it does not exist: create it") {
			return errors.New(said)
		}
		return nil
	})
	secret := f.authority()
	whole := secret.Data["tls.key"]
	secret.Data["tls.key"] = nil
	f.Must(f.Update(context.Background(), secret))
	if o, result := f.judged(key); len(o.Status.Certificate) > 0 || result.RequeueAfter == 0 || !strings.Contains(f.heard(), "its tls.key is not PEM") {
		t.Errorf("with a broken Secret: %+v, again in %s", o.Status, result.RequeueAfter)
	}
	secret.Data["tls.key"] = whole
	f.Must(f.Update(context.Background(), secret))
	o, result = f.judged(key)
	if got := certificateOf(t, o); got.Subject.CommonName != f.user() || !slices.Equal(got.DNSNames, []string{f.addOn + ".addon.open-cluster-management.io"}) || result.RequeueAfter != 0 {
		t.Errorf("got a certificate for %s and %v, again in %s", got.Subject, got.DNSNames, result.RequeueAfter)
	}
}

// A template that names another's Secret gets nothing from it.
func TestASecretOfAnotherNamespaceIsNotRead(t *testing.T) {
	f, other := newCSRFixture(t), newCSRFixture(t)
	f.allowSecrets()
	other.authority()
	template := &v1alpha1.AddOnTemplate{}
	f.Must(f.Get(context.Background(), types.NamespacedName{Name: f.addOn}, template))
	template.Spec.Registration[1].CustomSigner.SigningCA.Namespace = other.addOn
	f.Must(f.Update(context.Background(), template))
	o, _ := f.judged(f.send(f.honest(customSigner)))
	if said := f.heard(); len(o.Status.Certificate) > 0 || !strings.Contains(said, "its owner has not allowed it") {
		t.Errorf("got %+v, and the events %s", o.Status, said)
	}
}

// An add-on with a manager of its own is left to it.
func TestRequestsOfOtherManagersAddOnsAreLeftAlone(t *testing.T) {
	f := newCSRFixture(t)
	definition := &v1alpha1.ClusterManagementAddOn{}
	f.Must(f.Get(context.Background(), types.NamespacedName{Name: f.addOn}, definition))
	definition.Spec.SupportedConfigs = nil
	f.Must(f.Update(context.Background(), definition))
	for _, signer := range []string{kubeSigner, customSigner} {
		if o, _ := f.judged(f.send(f.honest(signer))); len(o.Status.Conditions) > 0 {
			t.Errorf("%s: the status is %+v", signer, o.Status)
		}
	}
	if said := f.heard(); said != "" {
		t.Errorf("the events are %s", said)
	}
}

// A denied cluster's agent has lost its rights; what it has asked for before is not
// approved either.
func TestClustersThatAreNotAcceptedGetNothing(t *testing.T) {
	f := newCSRFixture(t)
	mc := &clusterv1.ManagedCluster{}
	f.Must(f.Get(context.Background(), types.NamespacedName{Name: f.cluster}, mc))
	for patch, want := range map[string]string{
		`{"spec":{"hubAcceptsClient":false}}`: "is not accepted",
		`{"spec":{"hubAcceptsClient":true},"metadata":{"annotations":{"muster-fleet.io/agent":"another"}}}`: "has taken the place of",
	} {
		f.Merge(mc, patch)
		o, _ := f.judged(f.send(f.honest(kubeSigner)))
		if said := f.heard(); len(o.Status.Conditions) > 0 || !strings.Contains(said, want) {
			t.Errorf("the status is %+v, and the events %q, want %q", o.Status, said, want)
		}
	}
}

// A request that came before its add-on was ready is judged once it is.
func TestEarlyRequestsAreJudgedLater(t *testing.T) {
	f := newCSRFixture(t)
	a := &v1alpha1.ManagedClusterAddOn{}
	f.Must(f.Get(context.Background(), types.NamespacedName{Namespace: f.cluster, Name: f.addOn}, a))
	status := a.Status.DeepCopy()
	a.Status = v1alpha1.ManagedClusterAddOnStatus{}
	f.Must(f.Status().Update(context.Background(), a))
	key := f.send(f.honest(kubeSigner))
	env.StartManager(t, func(m manager.Manager) error {
		if err := addons.Index(m.GetFieldIndexer()); err != nil {
			return err
		}
		as, err := addons.NewManager(m.GetConfig(), client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper()})
		f.Must(err)
		return csr.NewController(m.GetClient(), m.GetCache(), m.GetAPIReader(), as, f.events, clocktesting.NewFakePassiveClock(time.Now())).Register(m)
	})
	f.Eventually(func() error {
		if said := f.heard(); !strings.Contains(said, "no AddOnTemplate is configured for it yet") {
			return fmt.Errorf("the events are %q", said)
		}
		return nil
	})
	f.ReportOn(a, func() { a.Status = *status })
	f.Eventually(func() error {
		o := &certificatesv1.CertificateSigningRequest{}
		if err := f.Get(context.Background(), key, o); err != nil || !approved(o) || len(o.Status.Certificate) == 0 {
			return errors.Join(err, fmt.Errorf("the status is %+v", o.Status))
		}
		return nil
	})
}
