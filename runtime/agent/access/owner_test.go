package access_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

func TestOwnerHasTheLastWord(t *testing.T) {
	for name, tc := range map[string]struct {
		policy map[string]string
		mode   v1alpha1.AccessMode
		words  string
	}{
		"off":                  {map[string]string{"enabled": "false"}, v1alpha1.AccessCertificate, "switched user access off"},
		"tokens only":          {map[string]string{"modes": "Token"}, v1alpha1.AccessCertificate, "only Token"},
		"certificates only":    {map[string]string{"modes": "Certificate"}, v1alpha1.AccessToken, "only Certificate"},
		"shorter":              {map[string]string{"maxLifetimeSeconds": "600"}, v1alpha1.AccessCertificate, "10m0s at most"},
		"not there":            {map[string]string{"allowedNamespaces": "team-*"}, v1alpha1.AccessCertificate, "namespace"},
		"not this user":        {map[string]string{"forbiddenUsers": "jo@*"}, v1alpha1.AccessCertificate, "jo@example.com"},
		"not by this user":     {map[string]string{"forbiddenUsers": "ci"}, v1alpha1.AccessCertificate, `"ci" asks for`},
		"a word spelt wrong":   {map[string]string{"enbled": "true"}, v1alpha1.AccessCertificate, "can't be read"},
		"a value spelt wrong":  {map[string]string{"enabled": "yes"}, v1alpha1.AccessToken, "use true or false"},
		"a lifetime with unit": {map[string]string{"maxLifetimeSeconds": "1h"}, v1alpha1.AccessAuto, "number of seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.policy(tc.policy)
			f.start()
			c := f.credential(mode(tc.mode))
			f.refused(c, muster.ReasonRefusedByPolicy, tc.words)
			// The owner changes their mind, and the agent goes on at once.
			f.bring(keyHash(t, f.seal.PublicKey()))
			f.policy(nil)
			f.issued(c)
		})
	}
}

func TestOwnerTakesBackWhatWasIssued(t *testing.T) {
	f := started(t)
	sa := f.bring(keyHash(t, f.seal.PublicKey()))
	certificate, token := f.credential(nil), f.credential(mode(v1alpha1.AccessToken))
	f.issued(certificate)
	f.issued(token)
	plain, err := useraccess.Open(f.seal, token.Status.SealedToken, string(token.Spec.AccessRequest.UID))
	f.must(err)
	if f.whoIs(string(plain)) == "" {
		t.Fatal("the token is no good")
	}
	// A mistake in the policy takes nothing back.
	f.policy(map[string]string{"enabled": "flase"})
	f.refused(f.credential(nil), muster.ReasonRefusedByPolicy, "flase")
	f.issued(certificate)
	f.issued(token)

	f.policy(map[string]string{"enabled": "false"})
	f.refused(token, muster.ReasonRefusedByPolicy, "its tokens are void")
	f.refused(certificate, muster.ReasonRefusedByPolicy, "can't be recalled: it is valid until")
	if certificate.Status.KeyHash == "" || certificate.Status.NotAfter == nil {
		t.Errorf("the hub can't tell which key to shut out: %+v", certificate.Status)
	}
	if err := f.Get(f.ctx, client.ObjectKeyFromObject(sa), sa); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the service account is still there: %v", err)
	}
	f.eventually(func() error { // the API server remembers tokens for some seconds
		if who := f.whoIs(string(plain)); who != "" {
			return fmt.Errorf("the token is still good for %s", who)
		}
		return nil
	})
	f.reported(muster.ReasonRefusedByPolicy, "its tokens are void")
	// What was taken back stays so.
	f.policy(nil)
	f.issued(f.credential(nil))
	f.must(f.isRefused(certificate, muster.ReasonRefusedByPolicy, ""))
	f.must(f.isRefused(token, muster.ReasonRefusedByPolicy, ""))
}

func TestRequestThatIsDeniedInTheClusterFails(t *testing.T) {
	f := newFixture(t)
	var once sync.Once
	f.wrap = func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/approval") {
				once.Do(func() { f.deny(strings.Split(r.URL.Path, "/")[5]) })
			}
			return next.RoundTrip(r)
		})
	}
	f.start()
	c := f.credential(mode(v1alpha1.AccessAuto))
	f.eventually(func() error {
		f.clock.Step(time.Second)
		return f.isRefused(c, muster.ReasonRequestDenied, "not on my watch")
	})
	f.refused(c, muster.ReasonRequestDenied, "")
}

// deny denies a certificate request as somebody in the cluster.
func (f *fixture) deny(name string) {
	r := &certificatesv1.CertificateSigningRequest{}
	f.must(f.Get(f.ctx, client.ObjectKey{Name: name}, r))
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "No", Message: "not on my watch",
	}}
	f.must(f.SubResource("approval").Update(f.ctx, r))
}

// The agent does with the rights that the klusterlet gives it, without those for
// works, and says what it lacks without them.
func TestRightsOfTheKlusterletSuffice(t *testing.T) {
	f := newFixture(t)
	account := "system:serviceaccount:" + f.own + ":klusterlet-agent-sa"
	f.identity = &rest.ImpersonationConfig{UserName: account, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	o := klusterlet.Options{ClusterName: f.hub}
	o.Namespace, o.UserAccess = f.own, true
	grant := func(names ...string) {
		for _, object := range klusterlet.Render(o) {
			object := object.(client.Object)
			switch object.(type) {
			case *rbacv1.Role, *rbacv1.RoleBinding, *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding:
			default:
				continue
			}
			for _, name := range names {
				if object.GetName() != name {
					continue
				}
				object.SetName(f.hub + object.GetName())
				if b, ok := object.(*rbacv1.ClusterRoleBinding); ok {
					b.RoleRef.Name = f.hub + b.RoleRef.Name
				}
				if b, ok := object.(*rbacv1.RoleBinding); ok {
					b.RoleRef.Name = f.hub + b.RoleRef.Name
				}
				f.must(f.Create(f.ctx, object))
				t.Cleanup(func() { _ = f.Delete(f.ctx, object) })
			}
		}
	}
	grant(klusterlet.RegistrationRole, klusterlet.NamespaceRole)
	f.bring(keyHash(t, f.seal.PublicKey()))
	f.start()
	f.eventually(func() error {
		if !strings.Contains(f.logged(), "the agent lacks rights to watch the managed cluster") {
			return fmt.Errorf("it does not say what it lacks")
		}
		return nil
	})
	c, token := f.credential(nil), f.credential(mode(v1alpha1.AccessToken))
	grant(klusterlet.AccessRole)
	f.eventually(func() error {
		if got, _ := f.annotation(); got != "Certificate,Token" {
			f.clock.Step(10 * time.Second) // the agent looks again by its clock
			return fmt.Errorf("it reports %q", got)
		}
		return nil
	})
	f.issued(c)
	f.issued(token)
	f.reported("CertificateIssued")
	f.policy(map[string]string{"enabled": "false"})
	f.refused(token, muster.ReasonRefusedByPolicy, "void")
}

// At a hub that has no user access the agent looks once an hour, without a word.
func TestUpstreamHubIsAskedOnceAnHour(t *testing.T) {
	f := newFixture(t)
	var mu sync.Mutex
	var requests []string
	upstream := true
	f.wrapHub = func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if upstream {
				requests = append(requests, r.URL.Path)
				r = r.Clone(r.Context())
				r.URL.Path = "/api/v1/namespaces/kube-public/configmaps/none"
			}
			return next.RoundTrip(r)
		})
	}
	seen := func(n int) {
		t.Helper()
		f.eventually(func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(requests) != n {
				return fmt.Errorf("%d requests, want %d: %v", len(requests), n, requests)
			}
			return nil
		})
	}
	f.start()
	f.reports("")
	seen(1)
	f.step(59 * time.Minute)
	seen(1)
	f.step(time.Minute)
	seen(2)
	f.step(time.Hour)
	seen(3)
	if log := f.logged(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "level=DEBUG") || strings.Contains(log, "err=") {
		t.Errorf("the log is\n%s", log)
	}
	mu.Lock()
	upstream = false
	mu.Unlock()
	f.step(time.Hour)
	f.issued(f.credential(nil))
	f.reports("Certificate,Token")
}

// The credentials of a hub are let go of when it drops them, and other agents'
// requests are left alone.
func TestLeftOverRequestsAreRemoved(t *testing.T) {
	f := newFixture(t)
	f.setSigner(nil)
	f.start()
	c := f.credential(nil)
	r := f.request(c, isApproved)
	f.must(f.Delete(f.ctx, c))
	f.eventually(func() error { return f.hasNoRequest(c) })
	// Somebody else's, with the agent's labels.
	theirs := &certificatesv1.CertificateSigningRequest{Spec: *r.Spec.DeepCopy()}
	theirs.Name, theirs.Labels = "muster-access-theirs", r.Labels
	theirs.Spec.Username, theirs.Spec.UID, theirs.Spec.Groups, theirs.Spec.Extra = "", "", nil, nil
	f.must(f.as("mallory").Create(f.ctx, theirs))
	f.setSigner(f.sign)
	f.issued(f.credential(nil))
	f.must(f.Get(f.ctx, client.ObjectKeyFromObject(theirs), theirs))
}

// Many at once, with nothing that is written twice.
func TestManyCredentialsAtOnce(t *testing.T) {
	const n = 60
	f := newFixture(t)
	writes := map[string]int{}
	var mu sync.Mutex
	count := func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/events") && !strings.Contains(r.URL.Path, "accessreviews") {
				mu.Lock()
				writes[r.Method]++
				mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	}
	f.wrap, f.wrapHub = count, count
	var all []*v1alpha1.ClusterCredential
	for range n {
		all = append(all, f.credential(nil))
	}
	f.start()
	for _, c := range all {
		f.issued(c)
	}
	mu.Lock()
	defer mu.Unlock()
	// Created, approved, reported, deleted.
	if writes[http.MethodPost] != n || writes[http.MethodPut] != n || writes[http.MethodPatch] != n || writes[http.MethodDelete] != n {
		t.Errorf("writes for %d credentials: %v", n, writes)
	}
}
