package cluster_test

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

func TestParseRequest(t *testing.T) {
	paris := map[string]string{cluster.NameLabel: "paris"}
	const client = certificatesv1.KubeAPIServerClientSignerName
	for name, x := range map[string]struct {
		labels        map[string]string
		signer        string
		commonName    string
		organizations []string
		err           string // a part of it; empty when there is none
	}{
		"one group":           {paris, client, "system:open-cluster-management:paris:a", []string{"system:open-cluster-management:paris"}, ""},
		"both groups":         {paris, client, "system:open-cluster-management:paris:a", []string{"system:open-cluster-management:managed-clusters", "system:open-cluster-management:paris"}, ""},
		"no label":            {nil, client, "system:open-cluster-management:paris:a", []string{"system:open-cluster-management:paris"}, "label"},
		"another signer":      {paris, "kubernetes.io/kubelet-serving", "system:open-cluster-management:paris:a", []string{"system:open-cluster-management:paris"}, "signer"},
		"another's label":     {map[string]string{cluster.NameLabel: "rome"}, client, "system:open-cluster-management:paris:a", []string{"system:open-cluster-management:paris"}, "organizations"},
		"another's name":      {paris, client, "system:open-cluster-management:rome:a", []string{"system:open-cluster-management:paris"}, "common name"},
		"a group too many":    {paris, client, "system:open-cluster-management:paris:a", []string{"system:open-cluster-management:paris", "system:masters"}, "organizations"},
		"masters":             {paris, client, "system:open-cluster-management:paris:a", []string{"system:masters"}, "organizations"},
		"no group":            {paris, client, "system:open-cluster-management:paris:a", nil, "organizations"},
		"only the common one": {paris, client, "system:open-cluster-management:paris:a", []string{"system:open-cluster-management:managed-clusters"}, "organizations"},
		"no agent":            {paris, client, "system:open-cluster-management:paris", []string{"system:open-cluster-management:paris"}, "common name"},
		"three parts":         {paris, client, "system:open-cluster-management:paris:a:b", []string{"system:open-cluster-management:paris"}, "common name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, request := testkit.CertificateRequest(t, x.commonName, x.organizations...)
			got, err := cluster.ParseRequest(x.labels, x.signer, request)
			switch {
			case x.err == "" && err != nil:
				t.Error(err)
			case x.err == "" && (got.Cluster != "paris" || got.Agent != "a" || got.CommonName != x.commonName):
				t.Errorf("got %+v", got)
			case x.err != "" && (err == nil || !strings.Contains(err.Error(), x.err)):
				t.Errorf("got error %v, want one about the %s", err, x.err)
			}
		})
	}
}

func TestParseRequestRefusesWhatIsNoRequest(t *testing.T) {
	labels := map[string]string{cluster.NameLabel: "paris"}
	for name, data := range map[string]string{
		"nothing":       "",
		"no PEM":        "hello",
		"another block": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"broken":        "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
	} {
		if _, err := cluster.ParseRequest(labels, certificatesv1.KubeAPIServerClientSignerName, []byte(data)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
