package csr_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/certificates"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Whatever is sent as a certificate request: when it counts as an agent's, then
// its certificate would carry that agent's name and no group but its cluster's.
func FuzzParse(f *testing.F) {
	const signer = certificatesv1.KubeAPIServerClientSignerName
	for _, x := range []struct {
		name, commonName string
		organizations    []string
	}{
		{"paris", "system:open-cluster-management:paris:a", []string{"system:open-cluster-management:paris", "system:open-cluster-management:managed-clusters"}},
		{"paris", "system:open-cluster-management:paris:a", []string{"system:open-cluster-management:paris"}},
		{"paris", "system:open-cluster-management:paris:a", []string{"system:masters"}},
		{"paris", "system:open-cluster-management:rome:a", []string{"system:open-cluster-management:paris"}},
		{"managed-clusters", "system:open-cluster-management:managed-clusters:a", []string{"system:open-cluster-management:managed-clusters"}},
		{"a:b", "system:open-cluster-management:a:b:c", []string{"system:open-cluster-management:a:b"}},
		{"", "", nil},
	} {
		_, request := testkit.CertificateRequest(f, x.commonName, x.organizations...)
		f.Add(x.name, signer, request)
		block, _ := pem.Decode(request)
		f.Add(x.name, signer, block.Bytes)
		f.Add(x.name, "kubernetes.io/kubelet-serving", request)
	}
	ca, caKey := authority(f)
	f.Fuzz(func(t *testing.T, name, signer string, request []byte) {
		got, err := cluster.ParseRequest(map[string]string{cluster.NameLabel: name}, signer, request)
		if err != nil {
			if got != (cluster.RequestIdentity{}) {
				t.Errorf("an error and the identity %+v", got)
			}
			return
		}
		if signer != "kubernetes.io/kube-apiserver-client" || name == "" || got.Cluster != name {
			t.Fatalf("%+v from the label %q and the signer %q", got, name, signer)
		}
		user := signed(t, ca, caKey, request)
		if user == nil {
			return
		}
		if want := "system:open-cluster-management:" + name + ":" + got.Agent; user.GetName() != want || got.CommonName != want || got.Agent == "" || strings.Contains(got.Agent, ":") {
			t.Errorf("the certificate is %q's and the identity %+v, want %q", user.GetName(), got, want)
		}
		// The group of all clusters is optional, the cluster's own is not.
		groups := slices.DeleteFunc(user.GetGroups(), func(g string) bool { return g == "system:open-cluster-management:managed-clusters" })
		if !slices.Equal(groups, []string{"system:open-cluster-management:" + name}) {
			t.Errorf("the certificate is in the groups %q, besides that of all clusters", groups)
		}
	})
}

// authority makes a certificate authority.
func authority(t testing.TB) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, PublicKey: key.Public()}, key
}

// signed is who an API server takes the holder of a requested certificate for,
// once a signer has signed it; nil when that can't be.
func signed(t *testing.T, ca *x509.Certificate, key crypto.Signer, request []byte) user.Info {
	t.Helper()
	parsed, err := certificates.ParseCSR(request) // as the signer does
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(nil, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: parsed.Subject, DNSNames: parsed.DNSNames, NotAfter: time.Now().Add(time.Hour),
	}, ca, ca.PublicKey, key)
	if err != nil {
		return nil // no signer takes it
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil // no server reads it
	}
	response, ok, err := x509request.CommonNameUserConversion.User([]*x509.Certificate{certificate})
	if err != nil || !ok {
		return nil // no server lets it in
	}
	return response.User
}
