package useraccess_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

const hub = "0123abcd"

func ask(mode v1alpha1.AccessMode) useraccess.Ask {
	return useraccess.Ask{Namespace: "team-a", Cloud: "prod", Cluster: "paris", User: "jo", HubID: hub, Mode: mode, Lifetime: time.Hour}
}

func newKeys(t *testing.T) useraccess.Keys {
	t.Helper()
	keys, err := useraccess.NewKeys()
	testkit.Must(t, err)
	return keys
}

// signed is the certificate that a cluster would issue for a request.
func signed(t *testing.T, csr []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(csr)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	testkit.Must(t, err)
	authority := newKeys(t).Certificate
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: request.Subject, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, authority)
	testkit.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// What the client asks for is what the hub takes, and the key stays here.
func TestRequestIsWhatTheHubTakes(t *testing.T) {
	keys := newKeys(t)
	for _, mode := range []v1alpha1.AccessMode{v1alpha1.AccessCertificate, v1alpha1.AccessToken, v1alpha1.AccessAuto} {
		request, err := ask(mode).Request(keys)
		testkit.Must(t, err)
		if has := len(request.Spec.Request) > 0; has != (mode != v1alpha1.AccessToken) {
			t.Errorf("%s: a certificate request: %v", mode, has)
		}
		if has := len(request.Spec.SealTo) == 32; has != (mode != v1alpha1.AccessCertificate) {
			t.Errorf("%s: a key to seal to: %v", mode, has)
		}
		if len(request.Spec.Request) > 0 {
			_, err := access.CheckRequest(request.Spec.Request, hub, "jo")
			testkit.Must(t, err)
		}
		if request.Spec.ExpirationSeconds != 3600 || !strings.HasPrefix(request.Name, "paris-") {
			t.Errorf("%s: %+v", mode, request)
		}
	}
}

func TestCredentialIsForItsKeyOnly(t *testing.T) {
	keys := newKeys(t)
	request, err := ask(v1alpha1.AccessCertificate).Request(keys)
	testkit.Must(t, err)
	request.Status.Certificate = signed(t, request.Spec.Request)
	if _, err := useraccess.Open(request, keys, hub); !errors.Is(err, useraccess.ErrNoEndpoint) {
		t.Errorf("without an address: %v", err)
	}
	request.Status.Conditions = []metav1.Condition{{Type: muster.ConditionIssued, Message: "the cluster has issued a certificate; EndpointUnknown: the annotation x: it is not a list"}}
	if _, err := useraccess.Open(request, keys, hub); !errors.Is(err, useraccess.ErrNoEndpoint) || err.Error() != "the annotation x: it is not a list" {
		t.Errorf("with an annotation that can't be read: %v", err)
	}
	request.Status.Endpoints = []v1alpha1.Endpoint{{URL: "https://paris:6443", CABundle: []byte("ca")}}
	credential, err := useraccess.Open(request, keys, hub)
	testkit.Must(t, err)
	if len(credential.Key) == 0 || credential.NotAfter.IsZero() {
		t.Errorf("incomplete: %+v", credential)
	}
	if key, err := useraccess.ParseKey(credential.Key); err != nil || !key.Equal(keys.Certificate) {
		t.Errorf("the key does not survive its file: %v", err)
	}

	other, err := ask(v1alpha1.AccessCertificate).Request(newKeys(t))
	testkit.Must(t, err)
	request.Status.Certificate = signed(t, other.Spec.Request)
	if _, err := useraccess.Open(request, keys, hub); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("a forged certificate: %v", err)
	}
}

func TestSealedTokenIsOpened(t *testing.T) {
	keys := newKeys(t)
	request, err := ask(v1alpha1.AccessToken).Request(keys)
	testkit.Must(t, err)
	request.UID = "uid"
	request.Status.SealedToken, err = access.Seal(request.Spec.SealTo, []byte("token"), "uid")
	testkit.Must(t, err)
	request.Status.Endpoints = []v1alpha1.Endpoint{{URL: "https://paris:6443"}}
	if c, err := useraccess.Open(request, keys, hub); err != nil || c.Token != "token" {
		t.Errorf("%q, %v", c.Token, err)
	}
	if _, err := useraccess.Open(request, newKeys(t), hub); err == nil {
		t.Error("another key opens the token")
	}
}

func TestProgress(t *testing.T) {
	now := time.Now()
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "so it is"}
	}
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		age        time.Duration
		answered   bool
		want       useraccess.State
		says       string
	}{
		"nothing yet":             {nil, 0, false, useraccess.Waiting, "the hub has not decided"},
		"approved":                {[]metav1.Condition{condition("Approved", yes, "Granted")}, time.Hour, false, useraccess.Waiting, "agent has not answered"},
		"not selected, just made": {[]metav1.Condition{condition("Approved", no, muster.ReasonClusterNotSelected)}, time.Second, false, useraccess.Waiting, "so it is"},
		"not selected":            {[]metav1.Condition{condition("Approved", no, muster.ReasonClusterNotSelected)}, time.Minute, false, useraccess.Refused, "placements select"},
		"revoked key, just made":  {[]metav1.Condition{condition("Approved", no, muster.ReasonKeyRevoked)}, time.Second, false, useraccess.Refused, "Use a new key"},
		"agent is away":           {[]metav1.Condition{condition("Failed", yes, muster.ReasonAgentOffline)}, time.Hour, false, useraccess.Waiting, "goes on when"},
		"agent can't":             {[]metav1.Condition{condition("Failed", yes, muster.ReasonAgentUnable)}, 0, false, useraccess.Refused, "--user-access"},
		"issued, without answer":  {[]metav1.Condition{condition("Issued", yes, "Issued")}, 0, false, useraccess.Waiting, "Issued"},
		"issued":                  {[]metav1.Condition{condition("Approved", yes, "Granted"), condition("Issued", yes, "Issued")}, 0, true, useraccess.Issued, ""},
		"expired":                 {[]metav1.Condition{condition("Issued", yes, "Issued"), condition("Expired", yes, "Expired")}, 0, true, useraccess.Refused, "has ended"},
		"withdrawn":               {[]metav1.Condition{condition("Issued", yes, "Issued"), condition("Revoked", yes, "Revoked")}, 0, true, useraccess.Refused, "withdrawn"},
	} {
		request := &v1alpha1.AccessRequest{}
		request.CreationTimestamp = metav1.NewTime(now.Add(-tc.age))
		request.Status.Conditions = tc.conditions
		if tc.answered {
			request.Status.Certificate = []byte("x")
		}
		if got, text := useraccess.Progress(request, now); got != tc.want || !strings.Contains(text, tc.says) {
			t.Errorf("%s: %v %q", name, got, text)
		}
	}
}

func TestKubeconfigHasDCMsNames(t *testing.T) {
	entry := func(cluster string) useraccess.Entry {
		return useraccess.Entry{Cluster: cluster, User: "jo", Endpoint: v1alpha1.Endpoint{URL: "https://" + cluster}}
	}
	for name, tc := range map[string]struct {
		entries []useraccess.Entry
		user    string
	}{
		"one": {[]useraccess.Entry{entry("paris")}, "jo"},
		"two": {[]useraccess.Entry{entry("paris"), entry("rome")}, "jo@paris"},
	} {
		text, err := useraccess.Kubeconfig(tc.entries, "team-a-prod")
		testkit.Must(t, err)
		config, err := clientcmd.Load(text)
		testkit.Must(t, err)
		context := config.Contexts["jo@paris"]
		if config.CurrentContext != "jo@paris" || context.Cluster != "paris" || context.AuthInfo != tc.user || context.Namespace != "team-a-prod" {
			t.Errorf("%s: %s", name, text)
		}
		if len(config.AuthInfos) != len(tc.entries) {
			t.Errorf("%s: %d users", name, len(config.AuthInfos))
		}
	}
}

func TestBadInputIsRefused(t *testing.T) {
	for _, text := range []string{"", "prod", "/prod", "team-a/", "a/b/c"} {
		if _, _, err := useraccess.SplitCloud(text); err == nil {
			t.Errorf("%q is taken for a cloud", text)
		}
	}
	for _, d := range []time.Duration{time.Second, time.Hour + time.Millisecond, 9000 * time.Hour, -time.Hour} {
		if useraccess.CheckLifetime(d) == nil {
			t.Errorf("%s is taken for a lifetime", d)
		}
	}
}
