package addonmanager

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	agentidentity "github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// An add-on's manager that speaks v1beta1 gets its agent certificates, of the hub and of
// its own signer, a role on the hub, and its health by feedback; and all of that goes
// with the add-on.
func TestAManagerGetsItsAgentCertificates(t *testing.T) {
	f := newFleet(t, "certificates", "v1beta1")
	f.join()
	f.install()
	forHub := f.stored(f.hubSecret(), has("tls.crt", "tls.key", "kubeconfig", "cluster-name"))
	user, groups := f.manager.Subject(f.cluster)
	got := leaf(t, forHub).Subject
	slices.Sort(got.Organization)
	slices.Sort(groups)
	if got.CommonName != user || !slices.Equal(got.Organization, groups) {
		t.Errorf("the certificate for the hub is for %s", got)
	}
	f.uses(hub.WithCertificate(forHub.Data["tls.crt"], forHub.Data["tls.key"]))

	signed := f.stored(f.signedSecret(), has("tls.crt", "tls.key", "cluster-name"))
	if len(signed.Data["kubeconfig"]) > 0 {
		t.Error("the Secret of the add-on's own signer has a kubeconfig")
	}
	c := leaf(t, signed)
	if err := c.CheckSignatureFrom(f.manager.CA); err != nil || !slices.Equal(c.Subject.OrganizationalUnit, []string{"unit"}) {
		t.Errorf("the certificate of the add-on's signer is for %s: %v", c.Subject, err)
	}

	f.eventually(func() error {
		a := f.addOn()
		for _, kind := range []string{"Available", "ManifestApplied", "RegistrationApplied", "ClusterCertificateRotated"} {
			if conditionOf(a, kind) != "True" {
				return fmt.Errorf("%s is not True: %v", kind, a.Object["status"])
			}
		}
		return nil
	})
	if owner := f.addOn().GetOwnerReferences(); len(owner) != 1 || owner[0].APIVersion != group+"/v1beta1" {
		t.Errorf("the owners are %+v", owner)
	}

	// Another agent finds the certificates, and asks for no others.
	before := len(f.requests())
	testkit.Must(t, f.agent.Stop())
	f.agent = f.start()
	f.available()
	for _, secret := range []*corev1.Secret{forHub, signed} {
		if now := f.stored(secret.Name, has("tls.crt")); string(now.Data["tls.crt"]) != string(secret.Data["tls.crt"]) {
			t.Errorf("the Secret %s has another certificate after a restart", secret.Name)
		}
	}
	if after := len(f.requests()); after != before {
		t.Errorf("%d certificate requests after a restart, before it %d", after, before)
	}
	f.goes()
	f.eventually(func() error { // the garbage collector follows
		list, err := f.admin.Resource(works()).Namespace(f.cluster).List(f.ctx, metav1.ListOptions{LabelSelector: addOnLabel + "=" + f.manager.Name})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("the work is still there")
		}
		return err
	})
}

// requests are the certificate requests of the add-on.
func (f *fleet) requests() []unstructured.Unstructured {
	f.Helper()
	list, err := f.admin.Resource(requests()).List(f.ctx, metav1.ListOptions{LabelSelector: addOnLabel + "=" + f.manager.Name})
	testkit.Must(f, err)
	return list.Items
}

// goes deletes the add-on in the cluster and waits until its Secrets are gone.
func (f *fleet) goes() {
	f.Helper()
	testkit.Must(f, f.resource("managedclusteraddons", f.cluster).Delete(f.ctx, f.manager.Name, metav1.DeleteOptions{}))
	f.eventually(func() error {
		for _, name := range []string{f.hubSecret(), f.signedSecret()} {
			if _, err := f.local.CoreV1().Secrets(Namespace).Get(f.ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the Secret %s is still there: %w", name, err)
			}
		}
		return nil
	})
}

// A manager that speaks v1alpha1 gets its agent tokens, where the cluster's agent is
// made to use them. The hub makes the service account, also once more.
func TestAManagerGetsItsAgentTokens(t *testing.T) {
	f := newFleet(t, "tokens", "v1alpha1")
	f.join("--addon-kubeclient-registration-auth", "token")
	f.install()
	secret := f.stored(f.hubSecret(), has("token", "kubeconfig", "cluster-name"))
	if len(secret.Data["tls.crt"]) > 0 {
		t.Error("there is a certificate beside the token")
	}
	f.uses(hub.WithToken(string(secret.Data["token"])))
	f.stored(f.signedSecret(), has("tls.crt", "tls.key"))
	account := f.manager.Name + "-agent"
	k := testfleet.Clientset(f, hub.Admin)
	testkit.Must(t, k.CoreV1().ServiceAccounts(f.cluster).Delete(f.ctx, account, metav1.DeleteOptions{}))
	again := f.stored(f.hubSecret(), func(s *corev1.Secret) error {
		if string(s.Data["token"]) == string(secret.Data["token"]) {
			return errors.New("the token is still the same")
		}
		return nil
	})
	f.uses(hub.WithToken(string(again.Data["token"])))
	f.eventually(func() error {
		if a := f.addOn(); conditionOf(a, "TokenInfrastructureReady") != "True" || conditionOf(a, "TokenRefreshed") != "True" {
			return fmt.Errorf("the status is %v", a.Object["status"])
		}
		return nil
	})
	f.goes()
	f.eventually(func() error {
		if _, err := k.CoreV1().ServiceAccounts(f.cluster).Get(f.ctx, account, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the service account is still there: %w", err)
		}
		return nil
	})
}

// The certificates are renewed in time, by the clocks of agent and manager.
func TestCertificatesAreRenewed(t *testing.T) {
	f := newFleet(t, "renewal", "v1beta1")
	clock := clocktesting.NewFakeClock(time.Now())
	f.manager.Now = clock.Now
	identity := hub.Joined(t, f.cluster, "agent")
	var log lockedLog
	ctx, cancel := context.WithCancel(f.ctx)
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() {
		testkit.Must(t, addon.Run(ctx, addon.Options{
			Part: engine.Part{
				ClusterName: f.cluster, Namespace: cluster.AgentNamespace, Hub: identity, ManagedCluster: f.config,
				Clock: clock, Log: slog.New(slog.NewTextHandler(&log, nil)),
			},
			Endpoint: agentidentity.Endpoint{Cluster: "hub", Server: hub.Admin.Host, CAData: hub.Admin.CAData},
		}))
	})
	f.install()
	first := leaf(t, f.stored(f.signedSecret(), has("tls.crt")))
	clock.Step(17 * time.Hour) // 7 of its 24 hours are left, more than a quarter
	f.eventually(func() error {
		if !clock.HasWaiters() {
			return errors.New("nothing waits for the clock")
		}
		return nil
	})
	if now := leaf(t, f.stored(f.signedSecret(), has("tls.crt"))); now.SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Error("the certificate is renewed too early")
	}
	clock.Step(3 * time.Hour)
	var second *x509.Certificate
	f.stored(f.signedSecret(), func(s *corev1.Secret) error {
		if second = leaf(t, s); second.SerialNumber.Cmp(first.SerialNumber) == 0 {
			clock.Step(time.Minute)
			return fmt.Errorf("the certificate is still the first one\n%s", log.String())
		}
		return nil
	})
	if err := second.CheckSignatureFrom(f.manager.CA); err != nil || second.NotAfter.Before(clock.Now()) {
		t.Errorf("the certificate ends at %s: %v", second.NotAfter, err)
	}
}

// lockedLog is a log that is written and read at the same time.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
