package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// requestFor is a certificate request with any subject.
func (f *fixture) requestFor(subject pkix.Name) []byte {
	f.t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, f.key)
	f.must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// A hub that lies, or whose admission was got around, gets nothing, and no
// certificate request is made for it.
func TestAgentThatIsLiedToByTheHub(t *testing.T) {
	f := newFixture(t)
	made := f.countCreatedRequests()
	f.start()
	hash := keyHash(t, f.key.Public())
	group := []string{useraccess.KeyGroup(hash)}
	type spec = v1alpha1.ClusterCredentialSpec
	for name, tc := range map[string]struct {
		change func(*spec)
		words  string
	}{
		"an administrator": {func(s *spec) {
			s.Request = f.requestFor(pkix.Name{CommonName: useraccess.CommonName(hubID, s.User), Organization: []string{"system:masters"}})
		}, "subject"},
		"a second group": {func(s *spec) {
			s.Request = f.requestFor(pkix.Name{CommonName: useraccess.CommonName(hubID, s.User), Organization: append(group, "system:masters")})
		}, "subject"},
		"the controller manager": {func(s *spec) {
			s.Request = f.requestFor(pkix.Name{CommonName: "system:kube-controller-manager", Organization: group})
		}, "subject"},
		"a node": {func(s *spec) {
			s.Request = f.requestFor(pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}})
		}, "subject"},
		"another user than the request's":    {func(s *spec) { s.User = "al@example.com" }, "subject"},
		"another hub":                        {func(s *spec) { s.HubID = "ffffffff" }, "of the hub"},
		"no user":                            {func(s *spec) { s.User = "" }, "no user"},
		"no requester":                       {func(s *spec) { s.Requester = "" }, "no requester"},
		"a system user":                      {func(s *spec) { s.User = "system:admin" }, "name of Kubernetes"},
		"a forged UID":                       {func(s *spec) { s.AccessRequest.UID = "another" }, "UID"},
		"no UID":                             {func(s *spec) { s.AccessRequest.UID = "" }, "UID"},
		"a path for a namespace":             {func(s *spec) { s.Namespace = "../kube-system" }, "no name of a namespace"},
		"no certificate request":             {func(s *spec) { s.Request = nil }, "not PEM"},
		"no key for tokens":                  {func(s *spec) { s.Mode, s.SealTo = v1alpha1.AccessToken, nil }, "sealTo"},
		"a key with which nothing is secret": {func(s *spec) { s.Mode, s.SealTo = v1alpha1.AccessToken, make([]byte, 32) }, "nothing is secret"},
		"a lifetime for ever":                {func(s *spec) { s.ExpirationSeconds = 1 << 30 }, "lifetime"},
		"a negative lifetime":                {func(s *spec) { s.ExpirationSeconds = -1 }, "lifetime"},
	} {
		t.Run(name, func(t *testing.T) {
			c := f.credential(func(c *v1alpha1.ClusterCredential) { tc.change(&c.Spec) })
			f.refused(c, muster.ReasonRequestTampered, tc.words)
			f.reported(muster.ReasonRequestTampered, tc.words)
		})
	}
	for _, namespace := range []string{"kube-system", "kube-public", "default", f.own, "open-cluster-management-agent"} {
		for _, m := range []v1alpha1.AccessMode{v1alpha1.AccessCertificate, v1alpha1.AccessToken, v1alpha1.AccessAuto} {
			c := f.credential(func(c *v1alpha1.ClusterCredential) { c.Spec.Namespace, c.Spec.Mode = namespace, m })
			f.refused(c, muster.ReasonRefusedByPolicy, "belongs to Kubernetes or to the agent")
		}
	}
	if n := made(); n > 0 {
		t.Errorf("%d certificate requests were made", n)
	}
}

// countCreatedRequests counts the certificate requests that the agent stores.
func (f *fixture) countCreatedRequests() func() int {
	var mu sync.Mutex
	n := 0
	f.wrap = func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/certificatesigningrequests") && r.URL.Query().Get("dryRun") == "" {
				mu.Lock()
				n++
				mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// as is a client of somebody else in the cluster, with all rights.
func (f *fixture) as(user string) client.Client {
	config := env.Config("test")
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	return env.ClientFor(f.t, config)
}

// Somebody else's certificate request of the name that the agent would use is not
// approved, whatever it says, nor deleted.
func TestSomebodyElsesRequestIsNotApproved(t *testing.T) {
	for name, tc := range map[string]struct {
		labelled, same, running bool
	}{
		"seen by the watch":             {labelled: true},
		"without the agent's labels":    {},
		"with what the agent would ask": {labelled: true, same: true},
		"found by a running agent":      {running: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if tc.running {
				f.start()
			}
			c := f.honest()
			r := &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Name: c.Name},
				Spec: certificatesv1.CertificateSigningRequestSpec{
					Request:    f.requestFor(pkix.Name{CommonName: "system:kube-controller-manager"}),
					SignerName: "kubernetes.io/kube-apiserver-client", Usages: []certificatesv1.KeyUsage{"client auth", "digital signature"},
				},
			}
			if tc.labelled {
				r.Labels = map[string]string{muster.AccessHubLabel: hubID, muster.AccessClusterLabel: f.hub}
			}
			if tc.same {
				r.Spec.Request, r.Spec.ExpirationSeconds = c.Spec.Request, &c.Spec.ExpirationSeconds
			}
			f.must(f.as("mallory").Create(f.ctx, r))
			t.Cleanup(func() { _ = f.Delete(f.ctx, r) })
			f.must(f.Create(f.ctx, c))
			if !tc.running {
				f.start()
			}
			f.eventually(func() error { return f.isRefused(c, muster.ReasonRequestTampered, "did not make") })
			f.must(f.Get(f.ctx, client.ObjectKeyFromObject(r), r))
			if len(r.Status.Conditions) > 0 || r.Spec.Username != "mallory" {
				t.Errorf("the request is %+v with %+v", r.Spec, r.Status)
			}
			// When the hub drops the credential, it is still somebody else's.
			f.must(f.Delete(f.ctx, c))
			next := f.credential(nil)
			f.issued(next)
			f.must(f.Get(f.ctx, client.ObjectKeyFromObject(r), r))
		})
	}
}

// Between the agent's creation and its approval, somebody puts a request of their
// own into the place of the agent's.
func TestRequestThatIsReplacedBeforeItsApprovalIsNotApproved(t *testing.T) {
	f := newFixture(t)
	var once sync.Once
	var theirs types.UID
	f.wrap = func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/approval") {
				once.Do(func() { theirs = f.replace(strings.Split(r.URL.Path, "/")[5]) })
			}
			return next.RoundTrip(r)
		})
	}
	f.start()
	c := f.credential(nil)
	f.eventually(func() error {
		f.clock.Step(1e9) // the agent tries again by its clock
		return f.isRefused(c, muster.ReasonRequestTampered, "did not make")
	})
	r := &certificatesv1.CertificateSigningRequest{}
	f.must(f.Get(f.ctx, types.NamespacedName{Name: c.Name}, r))
	if r.UID != theirs || len(r.Status.Conditions) > 0 {
		t.Errorf("the request is %s, want %s, with %+v", r.UID, theirs, r.Status)
	}
}

// replace puts somebody else's request into the place of one.
func (f *fixture) replace(name string) types.UID {
	mallory := f.as("mallory")
	r := &certificatesv1.CertificateSigningRequest{}
	f.must(mallory.Get(f.ctx, types.NamespacedName{Name: name}, r))
	f.must(mallory.Delete(f.ctx, r))
	evil := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: r.Labels, Annotations: r.Annotations}, Spec: *r.Spec.DeepCopy(),
	}
	evil.Spec.Username, evil.Spec.UID, evil.Spec.Groups, evil.Spec.Extra = "", "", nil, nil
	evil.Spec.Request = f.requestFor(pkix.Name{CommonName: "system:kube-controller-manager"})
	f.must(mallory.Create(f.ctx, evil))
	return evil.UID
}

// A service account of the right name that the cloud's work has not made gets no
// token: otherwise everybody who may create service accounts in the namespace would
// choose the rights that the user gets.
func TestServiceAccountThatTheWorkHasNotMadeGetsNoToken(t *testing.T) {
	f := newFixture(t)
	hash := keyHash(t, f.seal.PublicKey())
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.cloud, Name: useraccess.ServiceAccount(hash)}}
	f.must(f.Create(f.ctx, sa))
	f.start()
	c := f.credential(mode(v1alpha1.AccessToken))
	f.waits(c, muster.ReasonServiceAccountMissing)
	// The work's record names another object of this name.
	forged := sa.DeepCopy()
	forged.UID = uuid.NewUUID()
	f.account(forged)
	f.eventually(func() error {
		f.clock.Step(1e9)
		f.must(f.Get(f.ctx, client.ObjectKeyFromObject(c), c))
		if len(c.Status.SealedToken) > 0 {
			t.Fatal("a token was issued")
		}
		for _, condition := range c.Status.Conditions {
			if condition.Reason == muster.ReasonTryingAgain && strings.Contains(condition.Message, string(forged.UID)) {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", c.Status.Conditions)
	})
	f.account(sa)
	f.eventually(func() error {
		f.clock.Step(60e9)
		return f.isIssued(c)
	})
}

// A curve that muster does not take, signed by itself, is refused as well.
func TestWeakKeyIsRefused(t *testing.T) {
	f := started(t)
	key, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	f.must(err)
	request, err := useraccess.NewRequest(key, hubID, "jo@example.com")
	f.must(err)
	f.refused(f.credential(func(c *v1alpha1.ClusterCredential) { c.Spec.Request = request }), muster.ReasonRequestTampered, "P-256 or P-384")
}
