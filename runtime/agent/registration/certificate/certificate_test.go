package certificate

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

func TestRenewAt(t *testing.T) {
	from := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		life   time.Duration
		chance float64
		want   time.Duration
	}{
		{100 * time.Hour, 0, 80 * time.Hour},
		{100 * time.Hour, 1, 75 * time.Hour},
		{100 * time.Hour, 0.5, 77*time.Hour + 30*time.Minute},
		{0, 0.5, 0},
	} {
		if got := RenewAt(from, from.Add(tc.life), tc.chance).Sub(from); got.Round(time.Second) != tc.want {
			t.Errorf("a life of %s, chance %v: renewed after %s, want %s", tc.life, tc.chance, got, tc.want)
		}
	}
}

func TestRequest(t *testing.T) {
	names := identity.Names{Cluster: "c1", Agent: "abcde"}
	keyPEM, csr, err := newRequest(names, 0)
	if err != nil {
		t.Fatal(err)
	}
	if csr.Spec.ExpirationSeconds != nil {
		t.Errorf("asks for a life of %d s, want that left to the hub", *csr.Spec.ExpirationSeconds)
	}
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if len(request.DNSNames)+len(request.IPAddresses)+len(request.URIs) != 0 || request.SignatureAlgorithm != x509.ECDSAWithSHA256 {
		t.Errorf("request %+v", request)
	}
	if block, _ := pem.Decode(keyPEM); block == nil || block.Type != "EC PRIVATE KEY" {
		t.Errorf("key %s", keyPEM)
	}
}

const self = "system:open-cluster-management:c1:a1"

func by(user string) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Username = user }
}

// asking gives requests the content of an agent's.
func asking(t *testing.T, agent string) func(*certificatesv1.CertificateSigningRequest) {
	t.Helper()
	_, csr, err := newRequest(identity.Names{Cluster: "c1", Agent: agent}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Spec.Request, r.Spec.SignerName = csr.Spec.Request, csr.Spec.SignerName
	}
}

func request(name string, change ...func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{cluster.NameLabel: "c1"}},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Username: self},
	}
	for _, c := range change {
		c(r)
	}
	return r
}

func with(kind certificatesv1.RequestConditionType) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "R", Message: "m"})
	}
}

func signed(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = []byte("cert") }

func ofAddOn(r *certificatesv1.CertificateSigningRequest) { r.Labels[cluster.AddOnNameLabel] = "a" }

func others(n int, change ...func(*certificatesv1.CertificateSigningRequest)) []*certificatesv1.CertificateSigningRequest {
	var all []*certificatesv1.CertificateSigningRequest
	for i := range n {
		all = append(all, request(fmt.Sprintf("c1-other%d", i), change...))
	}
	return all
}

func TestNext(t *testing.T) {
	mine := func(change ...func(*certificatesv1.CertificateSigningRequest)) []*certificatesv1.CertificateSigningRequest {
		return append(others(9), request("c1-mine", change...))
	}
	for _, tc := range []struct {
		name     string
		requests []*certificatesv1.CertificateSigningRequest
		mine     string
		want     step
	}{
		{"nothing yet", nil, "", makeRequest},
		{"requests whose keys are lost", others(9), "", makeRequest},
		{"ten of them, in whatever state", append(others(9), request("c1-x", with(certificatesv1.CertificateDenied))), "", awaitRoom},
		{"ten of add-ons", others(10, ofAddOn), "", makeRequest},
		{"ours is gone", others(3), "c1-mine", makeRequest},
		{"ours is undecided", mine(), "c1-mine", awaitApproval},
		{"ours is undecided, and there are too many", append(mine(), others(10)...), "c1-mine", awaitApproval},
		{"ours is approved", mine(with(certificatesv1.CertificateApproved)), "c1-mine", awaitSignature},
		{"ours is signed", mine(with(certificatesv1.CertificateApproved), signed), "c1-mine", take},
		{"ours is denied", mine(with(certificatesv1.CertificateDenied)), "c1-mine", awaitRemoval},
		{"ours could not be signed", mine(with(certificatesv1.CertificateApproved), with(certificatesv1.CertificateFailed)), "c1-mine", awaitRemoval},
		{"one of that name that an add-on made", []*certificatesv1.CertificateSigningRequest{request("c1-mine", ofAddOn, with(certificatesv1.CertificateApproved), signed)}, "c1-mine", makeRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, _ := next(tc.requests, self, true, tc.mine); got != tc.want {
				t.Errorf("got step %d, want %d", got, tc.want)
			}
		})
	}
}

func TestOnlyItsOwnRequestsCountForAnAgent(t *testing.T) {
	const token, other = "system:bootstrap:abcdef", "system:open-cluster-management:c2:a"
	for name, x := range map[string]struct {
		requests []*certificatesv1.CertificateSigningRequest
		renewing bool
		want     step
	}{
		"renewing, others asked for it":      {others(20, by(token), asking(t, "a1")), true, makeRequest},
		"renewing, another cluster did":      {others(20, by(other), asking(t, "a1")), true, makeRequest},
		"renewing, it did itself":            {others(10), true, awaitRoom},
		"joining, it asked before":           {others(10, by(token), asking(t, "a1")), false, awaitRoom},
		"joining, others asked for others":   {others(20, by(token), asking(t, "b")), false, makeRequest},
		"joining, others asked for anything": {others(20, by(token)), false, makeRequest},
		"joining, another cluster did":       {others(20, by(other), asking(t, "a1")), false, makeRequest},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := next(x.requests, self, x.renewing, ""); got != x.want {
				t.Errorf("got step %d, want %d", got, x.want)
			}
		})
	}
}

func TestDenialIsExplained(t *testing.T) {
	if got, want := Why(request("c1-mine", with(certificatesv1.CertificateDenied))), "Denied R: m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A request that was made with other credentials counts until one is signed, and only
// with the key that it was made with.
func TestFirstSignedRequestIsTaken(t *testing.T) {
	r := &Requester{request: "c1-first", keyPEM: []byte("first")}
	r.AskAgain()
	r.request, r.keyPEM = "c1-second", []byte("second")
	r.AskAgain()
	r.AskAgain() // with nothing under way it changes nothing
	if cert, _ := r.takeFormer([]*certificatesv1.CertificateSigningRequest{request("c1-first"), request("c1-other", signed)}); cert != nil {
		t.Errorf("it takes %s, which is not its own", cert)
	}
	cert, key := r.takeFormer([]*certificatesv1.CertificateSigningRequest{request("c1-first"), request("c1-second", signed)})
	if string(cert) != "cert" || string(key) != "second" || r.former != nil || r.request != "" {
		t.Errorf("it takes %s with the key %s, and keeps %v", cert, key, r.former)
	}
}

func TestRefusalsOfOneKindLookTheSame(t *testing.T) {
	refusal := func(name string) string {
		return nameless(apierrors.NewForbidden(certificatesv1.Resource("certificatesigningrequests"), name, errors.New("no"))).Error()
	}
	if a, b := refusal("c1-abcde"), refusal("c1-fghij"); a != b || !strings.Contains(a, "is forbidden: no") {
		t.Errorf("%q and %q", a, b)
	}
	if err := nameless(errors.New("a \"b\"")); err.Error() != "a \"b\"" {
		t.Error(err)
	}
}
