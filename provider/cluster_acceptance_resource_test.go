package provider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

const acceptanceAddress = "muster_cluster_acceptance.test"

func acceptanceConfig(name, body string) string {
	return clusterConfig(name, "") + fmt.Sprintf("resource \"muster_cluster_acceptance\" \"test\" {\n  managed_cluster = muster_managed_cluster.test.name\n%s\n}\n", body)
}

func TestAccClusterAcceptance(t *testing.T) {
	accepts := func(want bool) resource.TestCheckFunc {
		return func(*terraform.State) error {
			object := &clusterv1.ManagedCluster{}
			someone(t).get(object, "", "ca-basic")
			if object.Spec.AcceptsClient() != want {
				return fmt.Errorf("hubAcceptsClient is %v", object.Spec.AcceptsClient())
			}
			return nil
		}
	}
	accTest(t,
		resource.TestStep{
			Config: acceptanceConfig("ca-basic", ""),
			Check: resource.ComposeTestCheckFunc(accepts(true), func(*terraform.State) error {
				object := &clusterv1.ManagedCluster{}
				someone(t).get(object, "", "ca-basic")
				if !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted) || !someone(t).exists(&corev1.Namespace{}, "", "ca-basic") {
					return fmt.Errorf("it did not wait until the hub had acted")
				}
				return nil
			}),
		},
		resource.TestStep{
			ResourceName: acceptanceAddress, ImportState: true, ImportStateId: "ca-basic",
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "managed_cluster",
		},
		resource.TestStep{
			PreConfig: func() {
				someone(t).patch(&clusterv1.ManagedCluster{}, "", "ca-basic", `{"spec":{"hubAcceptsClient":false}}`)
			},
			Config: acceptanceConfig("ca-basic", ""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acceptanceAddress, plancheck.ResourceActionUpdate),
			}},
			Check: accepts(true),
		},
		// Applying the cluster's record must not withdraw the acceptance.
		resource.TestStep{
			Config: `resource "muster_managed_cluster" "test" {
  name   = "ca-basic"
  labels = { changed = "yes" }
}
resource "muster_cluster_acceptance" "test" {
  managed_cluster = muster_managed_cluster.test.name
}`,
			Check: accepts(true),
		},
		resource.TestStep{Config: acceptanceConfig("ca-basic", "accepted = false"), Check: accepts(false)},
		resource.TestStep{Config: acceptanceConfig("ca-basic", ""), Check: accepts(true)},
		resource.TestStep{Config: clusterConfig("ca-basic", ""), Check: accepts(false)},
	)
}

func TestAccClusterAcceptanceOfAnUnknownCluster(t *testing.T) {
	accTest(t, resource.TestStep{
		Config: `resource "muster_cluster_acceptance" "test" {
  managed_cluster = "nobody"
  timeouts { create = "2s" }
}`,
		ExpectError: regexp.MustCompile(`(?s)There is no managed cluster "nobody".*kubectl\s+get\s+managedclusters`),
	})
	if someone(t).exists(&clusterv1.ManagedCluster{}, "", "nobody") {
		t.Error("accepting has made a cluster")
	}
}

func TestAccClusterAcceptanceFollowsADeletedCluster(t *testing.T) {
	accTest(t,
		resource.TestStep{Config: acceptanceConfig("ca-gone", "")},
		resource.TestStep{
			PreConfig: func() { someone(t).remove(&clusterv1.ManagedCluster{}, "", "ca-gone") },
			Config:    acceptanceConfig("ca-gone", ""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acceptanceAddress, plancheck.ResourceActionCreate),
			}},
		},
	)
}

// Where an agent comes with a token for any cluster, its certificate request
// waits for approval.
func TestAccClusterAcceptanceApprovesTheRequest(t *testing.T) {
	token := "resource \"muster_bootstrap_token\" \"any\" {}\n"
	accTest(t,
		resource.TestStep{Config: clusterConfig("ca-csr", "") + token},
		resource.TestStep{
			Config:      acceptanceConfig("ca-csr", "approve_csr = true\n  timeouts { create = \"3s\" }") + token,
			ExpectError: regexp.MustCompile(`(?s)No certificate request of managed cluster "ca-csr".*approve_csr = false`),
		},
		resource.TestStep{
			PreConfig: func() {
				requestCertificate(t, "ca-csr")
			},
			Config: acceptanceConfig("ca-csr", "approve_csr = true") + token,
			Check: func(*terraform.State) error {
				object := &certificatesv1.CertificateSigningRequest{}
				someone(t).get(object, "", "ca-csr-request")
				if judge(object, "ca-csr", nil) != approved {
					return fmt.Errorf("the request is not approved: %v", object.Status.Conditions)
				}
				return nil
			},
		},
	)
}

// requestCertificate plays an agent with the token that is in the fleet.
func requestCertificate(t *testing.T, name string) {
	t.Helper()
	o := someone(t)
	secrets := &corev1.SecretList{}
	ctx, cancel := o.context()
	defer cancel()
	if err := o.client.List(ctx, secrets, kube.ListOptions{Namespace: "kube-system", LabelSelector: "app=cluster-manager"}); err != nil {
		t.Fatal(err)
	}
	for i := range secrets.Items {
		token := tokenOf(&secrets.Items[i])
		if token.Groups != cluster.BootstrapGroup {
			continue
		}
		ca, err := o.client.CAData()
		if err != nil {
			t.Fatal(err)
		}
		agent, err := newClient(kube.Connection{Host: o.client.Host(), CA: string(ca), Token: token.String()}, "agent", kube.DefaultRetryBudget)
		if err != nil {
			t.Fatal(err)
		}
		if err := agent.Create(ctx, certificateRequest(t, name)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("there is no token for any cluster")
}

func certificateRequest(t *testing.T, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: cluster.CommonName(name, "agent1"), Organization: []string{cluster.Group(name), cluster.ManagedClustersGroup},
	}}, key)
	if err != nil {
		t.Fatal(err)
	}
	object := &certificatesv1.CertificateSigningRequest{}
	object.Name, object.Labels = name+"-request", map[string]string{cluster.NameLabel: name}
	object.Spec = certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeAPIServerClientSignerName,
		Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
	}
	return object
}
