package hostile

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
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// tenancy is a namespace with a logical cloud on one cluster, whose agent is an
// attacker's, and a tenant with all rights on requests.
type tenancy struct {
	namespace, cluster, user, hubID string
	tenant, agent, admin            client.Client
	tenantConfig, agentConfig       *rest.Config
}

func newTenancy(t *testing.T, name string, limit int32) *tenancy {
	t.Helper()
	ctx := context.Background()
	x := &tenancy{namespace: name + "-team", cluster: name + "-cluster", admin: hub.admin(t)}
	x.user = "system:serviceaccount:" + x.namespace + ":tenant"
	x.tenantConfig = hub.Tenant(t, x.namespace, "tenant",
		rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{"accessrequests", "accessrequests/status", "clustercredentials", "clustercredentials/status"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{
			APIGroups: []string{muster.GroupName}, Resources: []string{"logicalclouds"}, ResourceNames: []string{"prod"},
			Verbs: []string{"use"},
		})
	x.agentConfig = hub.Joined(t, x.cluster, "a")
	x.tenant, x.agent = testfleet.Client(t, x.tenantConfig), testfleet.Client(t, x.agentConfig)
	info := &corev1.ConfigMap{}
	testkit.Must(t, x.admin.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.Name}, info))
	x.hubID = info.Data[hubinfo.HubIDKey]
	testkit.Must(t, x.admin.Create(ctx, &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: "default"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "default"},
	}))
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: "p"}}
	p.Spec.Tolerations = []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists}}
	p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"hostile": name}}}}}
	testkit.Must(t, x.admin.Create(ctx, p))
	testkit.Must(t, x.admin.Patch(ctx, clusterNamed(x.cluster, false), mergePatchf(`{"metadata":{"labels":{"hostile":%q},"annotations":{%q:"Certificate"}}}`, name, muster.UserAccessAnnotation)))
	lc := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: "prod"}}
	lc.Spec.Placements = []v1alpha1.PlacementReference{{Name: "p"}}
	lc.Spec.Namespace.Name = name + "-apps"
	lc.Spec.Access.MaxRequestsPerUser = limit
	lc.Spec.Grants = []v1alpha1.Grant{{Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}, Users: []string{x.user}}}
	testkit.Must(t, x.admin.Create(ctx, lc))
	t.Cleanup(func() {
		for _, o := range []client.Object{lc, p} {
			_ = x.admin.Delete(ctx, o)
		}
	})
	return x
}

// csr is a certificate request whose subject change may falsify.
func (x *tenancy) csr(t testing.TB, key *ecdsa.PrivateKey, user string, change func(*pkix.Name)) []byte {
	t.Helper()
	hash, err := access.KeyHash(key.Public())
	testkit.Must(t, err)
	subject := access.Subject(x.hubID, user, hash)
	change(&subject)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	testkit.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func (x *tenancy) request(csr []byte, user string) *v1alpha1.AccessRequest {
	r := &v1alpha1.AccessRequest{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, GenerateName: "r-"}}
	r.Spec = v1alpha1.AccessRequestSpec{LogicalCloud: "prod", ManagedCluster: x.cluster, User: user, Request: csr}
	return r
}

func asIs(*pkix.Name) {}

func accessKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	return key
}

// comply is an agent that says of all works that they are applied, until a request
// has a credential.
func (x *tenancy) comply(t testing.TB, r *v1alpha1.AccessRequest) *v1alpha1.ClusterCredential {
	t.Helper()
	ctx := context.Background()
	credential := &v1alpha1.ClusterCredential{}
	testkit.Eventually(t, func() error {
		works := &workv1.ManifestWorkList{}
		if err := x.agent.List(ctx, works, client.InNamespace(x.cluster)); err != nil {
			return err
		}
		for i := range works.Items {
			w := &works.Items[i]
			available := "True"
			if strings.HasPrefix(w.Name, "muster-cloud-probe-") {
				available = "False"
			}
			const c = `{"type":%q,"status":%q,"reason":"Test","message":"","observedGeneration":%d,"lastTransitionTime":"2026-01-01T00:00:00Z"}`
			err := x.agent.Status().Patch(ctx, w, mergePatchf(`{"status":{"conditions":[`+c+`,`+c+`]}}`, "Applied", "True", w.Generation, "Available", available, w.Generation))
			if client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		return x.agent.Get(ctx, client.ObjectKey{Namespace: x.cluster, Name: muster.Credential(string(r.UID))}, credential)
	})
	return credential
}

// A tenant with all rights on requests and credentials gets nothing but its own
// access.
func TestTenantAsksForMore(t *testing.T) {
	ctx := context.Background()
	x := newTenancy(t, "asks", 3)
	key := accessKey(t)
	good := x.csr(t, key, x.user, asIs)
	for what, r := range map[string]*v1alpha1.AccessRequest{
		"for another user":              x.request(x.csr(t, key, "jo", asIs), "jo"),
		"for another service account":   x.request(x.csr(t, key, "system:serviceaccount:kube-system:root", asIs), "system:serviceaccount:kube-system:root"),
		"for a controller":              x.request(good, "system:kube-controller-manager"),
		"with another user's name":      x.request(x.csr(t, key, "jo", asIs), ""),
		"with a controller's name":      x.request(x.csr(t, key, x.user, func(n *pkix.Name) { n.CommonName = "system:kube-controller-manager" }), ""),
		"with system:masters":           x.request(x.csr(t, key, x.user, func(n *pkix.Name) { n.Organization = []string{"system:masters"} }), ""),
		"with a second organisation":    x.request(x.csr(t, key, x.user, func(n *pkix.Name) { n.Organization = append(n.Organization, "system:masters") }), ""),
		"with the group of another key": x.request(x.csr(t, key, x.user, func(n *pkix.Name) { n.Organization = []string{access.KeyGroup(strings.Repeat("0", 32))} }), ""),
		"with no request":               x.request([]byte("x"), ""),
	} {
		refused(t, "a tenant asks "+what, x.tenant.Create(ctx, r))
	}
	other := x.request(good, "")
	other.Spec.LogicalCloud = "other"
	refused(t, "a tenant asks for a cloud that it may not use", x.tenant.Create(ctx, other))

	r := x.request(good, "")
	r.Spec.Requester = v1alpha1.Requester{Username: "admin", Groups: []string{"system:masters"}}
	testkit.Must(t, x.tenant.Create(ctx, r))
	err := error(nil)
	if r.Spec.Requester.Username != x.user || strings.Contains(fmt.Sprint(r.Spec.Requester.Groups), "masters") {
		err = fmt.Errorf("the requester is %+v", r.Spec.Requester)
	}
	harmless(t, "a tenant says that somebody else asks", err)
	refused(t, "a tenant approves", x.tenant.Status().Patch(ctx, r.DeepCopy(), mergePatchf(
		`{"status":{"conditions":[{"type":"Approved","status":"True","reason":"Me","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"keyHash":%q}}`, strings.Repeat("0", 32))))
	refused(t, "a tenant changes its request", x.tenant.Patch(ctx, r.DeepCopy(), mergePatchf(`{"spec":{"user":"jo"}}`)))
	refused(t, "a tenant takes off the finalizer", x.tenant.Patch(ctx, r.DeepCopy(), mergePatchf(`{"metadata":{"finalizers":null}}`)))
	refused(t, "a tenant makes a credential", x.tenant.Create(ctx, &v1alpha1.ClusterCredential{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: muster.Credential(string(r.UID))}, Spec: v1alpha1.ClusterCredentialSpec{Mode: v1alpha1.AccessCertificate},
	}))

	// A flood.
	admitted := 0
	for range 60 {
		if x.tenant.Create(ctx, x.request(good, "")) == nil {
			admitted++
		}
	}
	if admitted != 2 {
		err = fmt.Errorf("%d of 60 were admitted beside the first", admitted)
	}
	harmless(t, "a tenant floods the hub with requests", err)
	harmless(t, "a tenant floods the hub with events", testkit.Poll(testkit.Timeout, func() error {
		listed := &eventsv1.EventList{}
		testkit.Must(t, x.admin.List(ctx, listed, client.InNamespace(x.namespace)))
		listed.Items = slices.DeleteFunc(listed.Items, func(e eventsv1.Event) bool {
			return e.Reason != muster.EventAccessRefused
		})
		if n := len(listed.Items); n < 9 || n > 12 { // one for each kind of refusal above
			return fmt.Errorf("there are %d events about refusals", n)
		}
		return nil
	}))
}

// An agent hands in what it was not asked for, and answers for others.
func TestAgentLiesAboutAccess(t *testing.T) {
	ctx := context.Background()
	x := newTenancy(t, "lies", 20)
	other := testfleet.Client(t, hub.Joined(t, "lies-other", "a"))
	stolen, key := accessKey(t), accessKey(t)
	hash, err := access.KeyHash(key.Public())
	testkit.Must(t, err)
	certificate := func(subject pkix.Name, key *ecdsa.PrivateKey, lifetime time.Duration) []byte {
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: subject, NotBefore: time.Now(), NotAfter: time.Now().Add(lifetime),
		}, &x509.Certificate{SerialNumber: big.NewInt(2)}, key.Public(), accessKey(t))
		testkit.Must(t, err)
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	own := access.Subject(x.hubID, x.user, hash)
	for what, chain := range map[string][]byte{
		"another subject":  certificate(access.Subject(x.hubID, "jo", hash), key, time.Hour),
		"a system subject": certificate(pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}}, key, time.Hour),
		"another key":      certificate(own, stolen, time.Hour),
		"a year":           certificate(own, key, 365*24*time.Hour),
		"no certificate":   []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
	} {
		r := x.request(x.csr(t, key, x.user, asIs), "")
		testkit.Must(t, x.tenant.Create(ctx, r))
		c := x.comply(t, r)
		refused(t, "an agent reads another cluster's credential", other.Get(ctx, client.ObjectKeyFromObject(c), &v1alpha1.ClusterCredential{}))
		answer := c.DeepCopy()
		answer.Status.Certificate = chain
		answer.Status.Conditions = []metav1.Condition{{Type: muster.ConditionIssued, Status: metav1.ConditionTrue, Reason: "CertificateIssued", LastTransitionTime: metav1.Now()}}
		refused(t, "an agent answers another cluster's credential", other.Status().Update(ctx, answer.DeepCopy()))
		refused(t, "an agent changes what it is asked for", x.agent.Update(ctx, answer.DeepCopy()))
		testkit.Must(t, x.agent.Status().Patch(ctx, answer.DeepCopy(), client.MergeFrom(c)))
		err := testkit.Poll(testkit.Timeout, func() error {
			if err := x.admin.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(r.Status.Conditions, muster.ConditionFailed) {
				return fmt.Errorf("conditions %+v", r.Status.Conditions)
			}
			return nil
		})
		if len(r.Status.Certificate) > 0 {
			err = errors.New("it was passed on")
		}
		harmless(t, "an agent hands in "+what, err)
	}
	refused(t, "an agent reads requests", x.agent.List(ctx, &v1alpha1.AccessRequestList{}, client.InNamespace(x.namespace)))
	refused(t, "an agent makes itself a credential", x.agent.Create(ctx, &v1alpha1.ClusterCredential{ObjectMeta: metav1.ObjectMeta{Namespace: x.cluster, Name: "x"}}))
}
