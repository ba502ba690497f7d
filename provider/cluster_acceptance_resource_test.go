package provider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
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

// A denial takes the agent's rights, an acceptance gives them back, whoever
// denied it.
func TestAccClusterAcceptanceDeniesAndAcceptsAgain(t *testing.T) {
	rights := func(want bool) resource.TestCheckFunc {
		return func(*terraform.State) error {
			o := someone(t)
			object := &clusterv1.ManagedCluster{}
			o.get(object, "", "ca-again")
			if got := meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted); got != want {
				return fmt.Errorf("the condition of acceptance is %v, want %v", got, want)
			}
			for _, binding := range []string{cluster.RegistrationBindingName("ca-again"), cluster.WorkBindingName("ca-again")} {
				if got := o.exists(&rbacv1.RoleBinding{}, "ca-again", binding); got != want {
					return fmt.Errorf("the binding %s is there: %v, want %v", binding, got, want)
				}
			}
			return nil
		}
	}
	work := &workv1.ManifestWork{}
	work.Namespace, work.Name, work.Finalizers = "ca-again", "held", []string{"example.org/held"}
	work.Spec.Workload.Manifests = []workv1.Manifest{{}}
	work.Spec.Workload.Manifests[0].Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`)
	t.Cleanup(func() {
		ctx, cancel := someone(t).context()
		defer cancel()
		_ = someone(t).client.MergePatch(ctx, work, outsiderManager, json.RawMessage(`{"metadata":{"finalizers":null}}`))
	})
	accTest(t,
		resource.TestStep{Config: acceptanceConfig("ca-again", ""), Check: rights(true)},
		resource.TestStep{Config: acceptanceConfig("ca-again", "accepted = false"), Check: rights(false)},
		resource.TestStep{Config: acceptanceConfig("ca-again", "accepted = true"), Check: rights(true)},
		resource.TestStep{
			PreConfig: func() {
				o := someone(t)
				o.patch(&clusterv1.ManagedCluster{}, "", "ca-again", `{"spec":{"hubAcceptsClient":false}}`)
				object := &clusterv1.ManagedCluster{}
				o.wait(object, "", "ca-again", func() bool {
					return meta.IsStatusConditionFalse(object.Status.Conditions, cluster.ConditionHubAccepted)
				})
			},
			Config: acceptanceConfig("ca-again", ""),
			Check:  rights(true),
		},
		// With works left, the denial is done as far as it goes.
		resource.TestStep{
			PreConfig: func() { someone(t).apply(work) },
			Config:    acceptanceConfig("ca-again", "accepted = false\n  timeouts { update = \"2s\" }"),
			Check: func(*terraform.State) error {
				object := &clusterv1.ManagedCluster{}
				someone(t).get(object, "", "ca-again")
				if object.Spec.AcceptsClient() || someone(t).exists(&rbacv1.RoleBinding{}, "ca-again", cluster.RegistrationBindingName("ca-again")) {
					return fmt.Errorf("the cluster has its rights")
				}
				return nil
			},
		},
		resource.TestStep{
			PreConfig: func() {
				someone(t).patch(work, "ca-again", "held", `{"metadata":{"finalizers":null}}`)
				someone(t).remove(work, "ca-again", "held")
			},
			Config: acceptanceConfig("ca-again", ""),
			Check:  rights(true),
		},
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
		if err := o.withToken(token.String()).Create(ctx, certificateRequest(t, name)); err != nil {
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
