package access_test

import (
	"context"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// gone waits until an object is not there any more.
func (w *requestWorld) gone(o client.Object) {
	w.Helper()
	w.Eventually(func() error {
		if err := w.Get(context.Background(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%T %s is still there (%w)", o, o.GetName(), err)
		}
		return nil
	})
}

func TestAccessIsGivenStepByStep(t *testing.T) {
	w := newRequestWorld(t, "a")
	a := w.ask("a", func(r *v1alpha1.AccessRequest) { r.Finalizers = nil }) // as where admission has not added it
	a.becomes("Approved=True/Granted")
	a.becomes("Issued=False/WaitingForRights")
	if finalizers := a.now().Finalizers; len(finalizers) != 1 {
		t.Errorf("the finalizers are %v", finalizers)
	}
	if got := a.now().Status.KeyHash; got != a.hash {
		t.Errorf("the key hash is %q, want %q", got, a.hash)
	}
	// The agent is asked only once the rights are in the cluster.
	w.bind("a", false, a.hash)
	a.poke()
	if err := w.Get(context.Background(), client.ObjectKey{Namespace: w.full("a"), Name: muster.Credential(string(a.UID))}, &v1alpha1.ClusterCredential{}); !apierrors.IsNotFound(err) {
		t.Errorf("the agent is asked before it has applied the rights (%v)", err)
	}
	w.apply("a")
	c := a.credential()
	if c.Spec.User != "jo" || c.Spec.HubID != w.hubID || c.Spec.Namespace != w.name+"-apps" || c.Spec.ExpirationSeconds != 3600 || c.Spec.AccessRequest.UID != a.UID {
		t.Errorf("the agent is asked for %+v", c.Spec)
	}
	a.becomes("Issued=False/WaitingForAgent")
	certificate := a.sign()
	a.answer(func(s *v1alpha1.ClusterCredentialStatus) { s.Certificate = certificate })
	a.becomes("Issued=True/CertificateIssued")
	s := a.now().Status
	if string(s.Certificate) != string(certificate) || s.Serial != "abcdef" || s.NotAfter == nil || len(s.Endpoints) != 1 || s.Endpoints[0].URL != "https://a.example.com" {
		t.Errorf("it got %+v", s)
	}
	w.Eventually(func() error {
		reported := w.reported()
		if !strings.Contains(reported, `requester "jo", user "jo", subject "muster:`+w.hubID+`:jo", cluster "`+w.full("a")+`", key `+a.hash+`, serial abcdef, until `) {
			return fmt.Errorf("the events are %s", reported)
		}
		if strings.Contains(reported, "BEGIN") {
			t.Error("an event has a certificate in it")
		}
		return nil
	})
}

func TestAccessEndsByTheClock(t *testing.T) {
	w := newRequestWorld(t, "a")
	a := w.issued("a")
	w.clock.SetTime(w.clock.Now().Add(time.Hour + time.Second))
	a.poke()
	a.becomes("Expired=True/Ended")
	a.becomes("Issued=False/Ended")
	s := a.now().Status
	if len(s.Certificate) > 0 || len(s.Endpoints) > 0 || s.KeyHash == "" || s.Serial == "" || s.NotAfter == nil {
		t.Errorf("the record is %+v", s)
	}
	w.gone(a.credential0())
	w.clock.SetTime(w.clock.Now().Add(31 * 24 * time.Hour))
	a.poke()
	w.gone(a.AccessRequest)
}

// credential0 is the credential's name.
func (a *asked) credential0() *v1alpha1.ClusterCredential {
	return &v1alpha1.ClusterCredential{ObjectMeta: metav1.ObjectMeta{Namespace: a.Spec.ManagedCluster, Name: muster.Credential(string(a.UID))}}
}

// What an agent hands in is never passed on when it is not what was asked for.
func TestWhatAnAgentFakesIsNotPassedOn(t *testing.T) {
	w := newRequestWorld(t, "a")
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.Must(err)
	for name, x := range map[string]struct {
		answer func(*asked) func(*v1alpha1.ClusterCredentialStatus)
		reason string
	}{
		"another user": {forged(func(_ *asked, c *x509.Certificate) { c.Subject.CommonName = access.CommonName(w.hubID, "al") }), muster.ReasonRequestTampered},
		"a system user": {forged(func(_ *asked, c *x509.Certificate) {
			c.Subject.CommonName, c.Subject.Organization = "system:kube-controller-manager", nil
		}), muster.ReasonRequestTampered},
		"a second group": {forged(func(_ *asked, c *x509.Certificate) {
			c.Subject.Organization = append(c.Subject.Organization, "system:masters")
		}), muster.ReasonRequestTampered},
		"another key": {forged(func(_ *asked, c *x509.Certificate) { c.PublicKey = other.Public() }), muster.ReasonRequestTampered},
		"a long life": {forged(func(a *asked, c *x509.Certificate) { c.NotAfter = a.w.clock.Now().Add(365 * 24 * time.Hour) }), muster.ReasonSignerIgnoredLifetime},
		"a token": {func(*asked) func(*v1alpha1.ClusterCredentialStatus) {
			return func(s *v1alpha1.ClusterCredentialStatus) { s.SealedToken = []byte("x") }
		}, muster.ReasonRequestTampered},
		"nothing": {func(*asked) func(*v1alpha1.ClusterCredentialStatus) {
			return func(*v1alpha1.ClusterCredentialStatus) {}
		}, muster.ReasonRequestTampered},
		"no certificate": {func(*asked) func(*v1alpha1.ClusterCredentialStatus) {
			return func(s *v1alpha1.ClusterCredentialStatus) { s.Certificate = []byte("-----BEGIN PRIVATE KEY-----") }
		}, muster.ReasonRequestTampered},
		"a refusal": {func(*asked) func(*v1alpha1.ClusterCredentialStatus) {
			return func(s *v1alpha1.ClusterCredentialStatus) {
				s.Conditions = []metav1.Condition{{Type: muster.ConditionFailed, Status: metav1.ConditionTrue, Reason: muster.ReasonRefusedByPolicy, Message: "no", LastTransitionTime: metav1.Now()}}
			}
		}, muster.ReasonRefusedByPolicy},
	} {
		a := w.ask("a")
		a.becomes("Approved=True/Granted")
		w.bind("a", true, a.hash)
		a.answer(x.answer(a))
		a.becomes("Failed=True/" + x.reason)
		if s := a.now().Status; len(s.Certificate)+len(s.SealedToken) > 0 || s.Serial != "" {
			t.Errorf("%s: it got %+v", name, s)
		}
		w.gone(a.credential0())
	}
	if reported := w.reported(); strings.Count(reported, "Warning Failed") != 9 {
		t.Errorf("the events are %s", reported)
	}
}

func forged(change func(*asked, *x509.Certificate)) func(*asked) func(*v1alpha1.ClusterCredentialStatus) {
	return func(a *asked) func(*v1alpha1.ClusterCredentialStatus) {
		return func(s *v1alpha1.ClusterCredentialStatus) {
			s.Certificate = a.sign(func(c *x509.Certificate) { change(a, c) })
		}
	}
}

// Whatever the reason, access counts as withdrawn only when the cluster's agent has
// applied the cloud without the key.
func TestAccessIsWithdrawn(t *testing.T) {
	for name, x := range map[string]struct {
		lose   func(*requestWorld)
		reason string
	}{
		"the grant":  {func(w *requestWorld) { w.Merge(w.cloud(), `{"spec":{"grants":[]}}`) }, muster.ReasonNotGranted},
		"the choice": {func(w *requestWorld) { w.place() }, muster.ReasonClusterNotSelected},
		"the mode":   {func(w *requestWorld) { w.Merge(w.cloud(), `{"spec":{"access":{"modes":["Token"]}}}`) }, muster.ReasonNotGranted},
		"the set": {func(w *requestWorld) {
			w.Merge(w.cluster("a"), `{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":null}}}`)
		}, muster.ReasonClusterNotSelected},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRequestWorld(t, "a")
			a := w.issued("a")
			x.lose(w)
			a.becomes("Approved=False/" + x.reason)
			a.becomes("Revoked=False/Withdrawing")
			if len(a.now().Status.Certificate) > 0 {
				t.Error("the certificate is still there")
			}
			w.bind("a", false)
			a.poke()
			a.becomes("Revoked=False/Withdrawing")
			w.apply("a")
			a.becomes("Revoked=True/" + x.reason)
			w.gone(a.credential0())
		})
	}
}

func TestDeniedClusterKeepsTheRightsUntilTheyEnd(t *testing.T) {
	w := newRequestWorld(t, "a")
	a := w.issued("a")
	w.Merge(w.cluster("a"), `{"spec":{"hubAcceptsClient":false}}`)
	a.becomes("Approved=False/ClusterNotAccepted")
	if got := a.becomes("Revoked=False/AgentOffline"); !strings.Contains(got, "ends by itself at "+a.now().Status.NotAfter.UTC().Format(time.RFC3339)) {
		t.Errorf("the message is %q", got)
	}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	a.poke()
	a.becomes("Expired=True/Ended")
}

func TestDeletionWithdrawsAndRemembersTheKey(t *testing.T) {
	w := newRequestWorld(t, "a", "b")
	w.Merge(w.cloud(), `{"spec":{"access":{"maxLifetimeSeconds":7200}}}`)
	a := w.issued("a")
	w.available("a", metav1.ConditionUnknown)
	w.Must(w.Delete(context.Background(), a.AccessRequest))
	a.becomes("Revoked=False/AgentOffline")
	if until, revoked := w.cloud().RevokedUntil(w.full("a"), a.hash, w.clock.Now()); !revoked || until.Before(a.now().Status.NotAfter.Time) {
		t.Errorf("the key is remembered until %s (%v)", until, revoked)
	}
	// The same key again would bring the certificate back to life.
	again := w.askWith(a.key, "a")
	again.becomes("Failed=True/KeyRevoked")
	w.askWith(a.key, "b").becomes("Approved=True/Granted")
	w.bind("a", true)
	w.gone(a.credential0())
	w.gone(a.AccessRequest)
	// Entries that have ended go with the next one.
	w.clock.SetTime(w.clock.Now().Add(3 * time.Hour))
	b := w.issued("b")
	w.Must(w.Delete(context.Background(), b.AccessRequest))
	w.bind("b", true)
	w.gone(b.AccessRequest)
	if keys := w.cloud().Status.RevokedKeys; len(keys) != 1 || keys[0].KeyHash != b.hash {
		t.Errorf("the withdrawn keys are %+v", keys)
	}
}

func TestDeletionOfARenewedRequestTakesNothing(t *testing.T) {
	w := newRequestWorld(t, "a")
	a := w.issued("a")
	renewed := w.askWith(a.key, "a")
	renewed.becomes("Approved=True/Granted")
	w.Must(w.Delete(context.Background(), a.AccessRequest))
	w.gone(a.AccessRequest)
	if keys := w.cloud().Status.RevokedKeys; len(keys) > 0 {
		t.Errorf("the withdrawn keys are %+v", keys)
	}
}

func TestRequestWithoutCertificateGoesAtOnce(t *testing.T) {
	w := newRequestWorld(t, "a")
	a := w.ask("a")
	a.becomes("Approved=True/Granted")
	w.available("a", metav1.ConditionUnknown)
	w.Must(w.Delete(context.Background(), a.AccessRequest))
	w.gone(a.AccessRequest)
}

func TestDeletionEndsWithTheWork(t *testing.T) {
	w := newRequestWorld(t, "a")
	a := w.issued("a")
	w.Must(w.Delete(context.Background(), a.AccessRequest))
	a.becomes("Revoked=False/Withdrawing")
	w.Must(w.Delete(context.Background(), &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: w.full("a"), Name: muster.CloudWork(w.name, "prod")}}))
	w.gone(a.AccessRequest)
}

func TestWhyARequestWaits(t *testing.T) {
	w := newRequestWorld(t, "a")
	stranger := w.ask("a", func(r *v1alpha1.AccessRequest) {
		csr, err := access.NewRequest(mustKey(w), w.hubID, "al")
		w.Must(err)
		r.Spec.User, r.Spec.Request = "al", csr
	})
	if got := stranger.becomes("Approved=False/NotGranted"); !strings.Contains(got, `names the user "al"`) {
		t.Errorf("the message is %q", got)
	}
	w.ask("nowhere").becomes("Approved=False/ClusterNotSelected")
	a := w.ask("a")
	a.becomes("Issued=False/WaitingForRights")
	w.available("a", metav1.ConditionUnknown)
	a.becomes("Issued=False/AgentOffline")
	w.available("a", metav1.ConditionTrue)
	w.Merge(w.cluster("a"), `{"metadata":{"annotations":{"agent.open-cluster-management.io/user-access":null}}}`)
	w.bind("a", true, a.hash)
	if got := a.becomes("Issued=False/AgentUnable"); !strings.Contains(got, "--user-access") || !strings.Contains(got, "kubectl certificate approve") {
		t.Errorf("the message is %q", got)
	}
	// A grant that comes later counts, and so does an agent that learns it.
	w.Merge(w.cloud(), `{"spec":{"grants":[{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}],"users":["jo","al"]}]}}`)
	stranger.becomes("Approved=True/Granted")
	w.Merge(w.cluster("a"), `{"metadata":{"annotations":{"agent.open-cluster-management.io/user-access":"Certificate"}}}`)
	a.becomes("Issued=False/WaitingForAgent")
	// Nobody waits for ever.
	w.clock.SetTime(w.clock.Now().Add(25 * time.Hour))
	a.poke()
	a.becomes("Failed=True/WaitingForAgent")
}

func mustKey(w *requestWorld) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.Must(err)
	return key
}

func TestTokenIsHandedOnSealed(t *testing.T) {
	w := newRequestWorld(t, "a")
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	w.Must(err)
	a := w.ask("a", func(r *v1alpha1.AccessRequest) {
		r.Spec.Mode, r.Spec.Request, r.Spec.SealTo = v1alpha1.AccessToken, nil, key.PublicKey().Bytes()
	})
	a.becomes("Approved=True/Granted")
	hash, err := access.CheckSealTo(key.PublicKey().Bytes(), nil)
	w.Must(err)
	if got := a.now().Status.KeyHash; got != hash {
		t.Errorf("the key hash is %q, want %q", got, hash)
	}
	w.bind("a", true, hash)
	sealed, err := access.Seal(key.PublicKey().Bytes(), []byte("secret"), string(a.UID))
	w.Must(err)
	until := metav1.NewTime(w.clock.Now().Add(time.Hour))
	a.answer(func(s *v1alpha1.ClusterCredentialStatus) { s.SealedToken, s.NotAfter = sealed, &until })
	a.becomes("Issued=True/TokenIssued")
	if opened, err := access.Open(key, a.now().Status.SealedToken, string(a.UID)); err != nil || string(opened) != "secret" {
		t.Errorf("opened %q (%v)", opened, err)
	}
}

func TestEndpointsOfACluster(t *testing.T) {
	w := newRequestWorld(t, "a")
	w.Merge(w.cluster("a"), `{"spec":{"managedClusterClientConfigs":null}}`)
	a := w.issued("a")
	if got := a.becomes("Issued=True/CertificateIssued"); !strings.Contains(got, "EndpointUnknown") || !strings.Contains(got, "--spoke-external-server-urls") {
		t.Errorf("the message is %q", got)
	}
	w.Merge(w.cluster("a"), `{"metadata":{"annotations":{%q:"[{\"url\":\"https://lb.example.com\"}]"}}}`, muster.EndpointsAnnotation)
	w.Eventually(func() error {
		if e := a.now().Status.Endpoints; len(e) != 1 || e[0].URL != "https://lb.example.com" {
			return fmt.Errorf("the endpoints are %+v", e)
		}
		return nil
	})
}

// A credential of the right name that asks for something else is not the hub's.
func TestForeignCredentialIsReplaced(t *testing.T) {
	w := newRequestWorld(t, "a")
	a := w.ask("a")
	a.becomes("Approved=True/Granted")
	foreign := a.credential0()
	foreign.Spec = v1alpha1.ClusterCredentialSpec{
		AccessRequest: v1alpha1.RequestReference{Namespace: w.name, Name: a.Name, UID: "x"}, HubID: w.hubID, User: "system:admin",
		Namespace: "kube-system", Mode: v1alpha1.AccessCertificate, ExpirationSeconds: 3600, Requester: "jo",
	}
	w.Must(w.Create(context.Background(), foreign))
	w.bind("a", true, a.hash)
	w.Eventually(func() error {
		if c := a.credential(); c.Spec.User != "jo" {
			return fmt.Errorf("the credential is for %q", c.Spec.User)
		}
		return nil
	})
}
