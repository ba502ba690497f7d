package csr_test

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/certtest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/registration/csr"
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
		_, request := certtest.Request(f, x.commonName, x.organizations...)
		f.Add(x.name, signer, request)
		block, _ := pem.Decode(request)
		f.Add(x.name, signer, block.Bytes)
		f.Add(x.name, "kubernetes.io/kubelet-serving", request)
	}
	f.Fuzz(func(t *testing.T, name, signer string, request []byte) {
		got, err := csr.Parse(map[string]string{cluster.NameLabel: name}, signer, request)
		if err != nil {
			if got != (csr.Identity{}) {
				t.Errorf("an error and the identity %+v", got)
			}
			return
		}
		if signer != "kubernetes.io/kube-apiserver-client" || name == "" || got.Cluster != name {
			t.Fatalf("%+v from the label %q and the signer %q", got, name, signer)
		}
		block, _ := pem.Decode(request)
		parsed, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if want := "system:open-cluster-management:" + name + ":" + got.Agent; parsed.Subject.CommonName != want || got.CommonName != want || got.Agent == "" {
			t.Errorf("the certificate would be %q's, not %q's", parsed.Subject.CommonName, want)
		}
		for _, o := range parsed.Subject.Organization {
			if !slices.Contains([]string{"system:open-cluster-management:" + name, "system:open-cluster-management:managed-clusters"}, o) {
				t.Errorf("the certificate would be in the group %q", o)
			}
		}
	})
}
