package authorization

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// A certificate that would be void from the start is not issued: its holder would keep it,
// and be refused for as long as it is valid.
func TestNoCertificateIsVoidFromTheStart(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// The hub's signer backdates by five minutes.
	signed := func(issue time.Time, name, group string) []byte {
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name, Organization: []string{group}},
			NotBefore: issue.Add(-5 * time.Minute), NotAfter: issue.Add(time.Hour),
		}, &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}}, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	agent, agents := cluster.CommonName("c1", "b"), cluster.Group("c1")
	addOns := cluster.ClusterAddOnGroup("c1", "x")
	const earlier, replaced = "an earlier managed cluster", "whose place \"b\" has taken"
	never, second := time.Time{}, noon.Add(time.Second)
	for what, x := range map[string]struct {
		change      func(*clusterv1.ManagedCluster)
		voided      time.Time
		certificate []byte
		refused     string
	}{
		"an agent's, as the earlier cluster goes":  {nil, noon, signed(noon, agent, agents), earlier},
		"an agent's, a second later":               {nil, noon, signed(second, agent, agents), ""},
		"an agent's of the first cluster":          {nil, never, signed(noon, agent, agents), ""},
		"an agent's that has just taken over":      {taken, never, signed(noon, agent+"2", agents), ""},
		"an add-on's, as the earlier cluster goes": {nil, noon, signed(noon, "x", addOns), earlier},
		"an add-on's, in the take-over's second":   {taken, never, signed(noon, "x", addOns), replaced},
		"an add-on's, after the take-over":         {taken, never, signed(noon.Add(2*time.Second), "x", addOns), ""},
	} {
		f := newFleet(t)
		f.cluster(t, "c1", x.change)
		f.namespace(t, "c1", "c1", x.voided)
		err := f.checkCertificate(x.certificate)
		if (err != nil) != (x.refused != "") || err != nil && !strings.Contains(err.Error(), x.refused) {
			t.Errorf("%s: got %v, want %q", what, err, x.refused)
		}
	}
}
