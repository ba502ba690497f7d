package registration_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

const tokenAddress = "muster_bootstrap_token.test"

func TestAccBootstrapToken(t *testing.T) {
	config := func(body string) string {
		return fmt.Sprintf("resource \"muster_bootstrap_token\" \"test\" {\n%s\n}\n", body)
	}
	var id, first string
	remember := func(s *terraform.State) error {
		attributes := s.RootModule().Resources[tokenAddress].Primary.Attributes
		if id = attributes["token_id"]; first == "" {
			first = attributes["token"]
		}
		return nil
	}
	acctest.Run(t,
		resource.TestStep{
			Config: config("managed_cluster = \"bt\"\n  ttl = \"1h\"\n  description = \"golden image\""),
			Check: resource.ComposeTestCheckFunc(remember, func(*terraform.State) error {
				secret := &corev1.Secret{}
				acctest.Someone(t).Get(secret, "kube-system", "bootstrap-token-"+id)
				token := string(secret.Data["token-id"]) + "." + string(secret.Data["token-secret"])
				groups, revokes := string(secret.Data["auth-extra-groups"]), secret.Annotations[cluster.TokenRevocationAnnotation] == cluster.RevokeRequests
				if token != first || groups != "system:bootstrappers:managedcluster:bt" || secret.Type != corev1.SecretTypeBootstrapToken || secret.Labels["app"] != "cluster-manager" || !revokes {
					return fmt.Errorf("got groups %q of type %s with %v and %v", groups, secret.Type, secret.Labels, secret.Annotations)
				}
				expires, err := time.Parse(time.RFC3339, string(secret.Data["expiration"]))
				if err != nil {
					return err
				}
				if left := time.Until(expires); left < 55*time.Minute || left > time.Hour {
					return fmt.Errorf("it expires in %s", left)
				}
				return nil
			}),
		},
		resource.TestStep{
			ResourceName: tokenAddress, ImportState: true, ImportStateIdFunc: func(*terraform.State) (string, error) { return id, nil },
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "token_id",
		},
		resource.TestStep{
			Config: config("managed_cluster = \"bt\"\n  ttl = \"2h\"\n  description = \"golden image\""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(tokenAddress, plancheck.ResourceActionUpdate),
				plancheck.ExpectUnknownValue(tokenAddress, tfjsonpath.New("expires_at")),
				plancheck.ExpectSensitiveValue(tokenAddress, tfjsonpath.New("token")),
			}},
			Check: func(s *terraform.State) error {
				if got := s.RootModule().Resources[tokenAddress].Primary.Attributes["token"]; got != first {
					return fmt.Errorf("a longer life made another token")
				}
				return nil
			},
		},
		resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Remove(&corev1.Secret{}, "kube-system", "bootstrap-token-"+id) },
			Config:    config("managed_cluster = \"bt\""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(tokenAddress, plancheck.ResourceActionCreate),
			}},
			ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownValue(tokenAddress, tfjsonpath.New("expires_at"), knownvalue.Null())},
			Check:             remember,
		},
	)
	if acctest.Someone(t).Exists(&corev1.Secret{}, "kube-system", "bootstrap-token-"+id) {
		t.Error("destroying has not revoked the token")
	}
}

// A token's scope is kept by the hub, and what it counted comes back.
func TestAccBootstrapTokenScope(t *testing.T) {
	config := func(body string) string {
		return "resource \"muster_bootstrap_token\" \"test\" {\n" + body + "\n}\n"
	}
	const labels = `cluster_labels = { env = "edge", "cluster.open-cluster-management.io/clusterset" = "edge" }`
	var token string
	register := func(name string) error {
		o := acctest.Someone(t)
		agent := o.WithToken(token)
		ctx, cancel := o.Context()
		defer cancel()
		mc := &clusterv1.ManagedCluster{}
		mc.Name = name
		return agent.Create(ctx, mc)
	}
	remember := func(s *terraform.State) error {
		token = s.RootModule().Resources[tokenAddress].Primary.Attributes["token"]
		return nil
	}
	usedBy := func(names ...string) []statecheck.StateCheck {
		var checks []knownvalue.Check
		for _, name := range names {
			checks = append(checks, knownvalue.StringExact(name))
		}
		return []statecheck.StateCheck{statecheck.ExpectKnownValue(tokenAddress, tfjsonpath.New("used_by"), knownvalue.ListExact(checks))}
	}
	t.Cleanup(func() {
		for _, name := range []string{"scoped-a", "scoped-b"} {
			acctest.Someone(t).Remove(&clusterv1.ManagedCluster{}, "", name)
		}
	})
	acctest.Run(t,
		resource.TestStep{Config: config(labels + "\n  max_clusters = 1"), Check: remember, ConfigStateChecks: usedBy()},
		resource.TestStep{
			PreConfig: func() {
				if err := register("scoped-a"); err != nil {
					t.Fatal(err)
				}
				if err := register("scoped-b"); err == nil || !strings.Contains(err.Error(), "may register 1 cluster ") {
					t.Fatalf("a second cluster: %v", err)
				}
				mc := &clusterv1.ManagedCluster{}
				acctest.Someone(t).Get(mc, "", "scoped-a")
				if mc.Labels["env"] != "edge" || mc.Labels[cluster.ClusterSetLabel] != "edge" {
					t.Fatalf("labels %v", mc.Labels)
				}
			},
			Config:            config(labels + "\n  max_clusters = 2"),
			ConfigPlanChecks:  resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(tokenAddress, plancheck.ResourceActionUpdate)}},
			ConfigStateChecks: usedBy("scoped-a"),
		},
		resource.TestStep{
			PreConfig: func() {
				if err := register("scoped-b"); err != nil {
					t.Fatal(err)
				}
			},
			Config:      config(labels + "\n  max_clusters = 1"),
			ExpectError: regexp.MustCompile(`(?s)max_clusters is 1, and 2 clusters were registered.*scoped-a, scoped-b`),
		},
		resource.TestStep{
			// Without limit and labels, the count stays.
			Config:            config(""),
			ConfigStateChecks: append(usedBy("scoped-a", "scoped-b"), statecheck.ExpectKnownValue(tokenAddress, tfjsonpath.New("max_clusters"), knownvalue.Null())),
		},
		resource.TestStep{
			PreConfig: func() {
				secret := &corev1.Secret{}
				id, _, _ := strings.Cut(token, ".")
				acctest.Someone(t).Patch(secret, "kube-system", "bootstrap-token-"+id, `{"metadata":{"annotations":{"muster-fleet.io/token-max-clusters":"1000"}}}`)
			},
			// A limit that somebody else set, where the configuration has none, is
			// theirs.
			Config:           config(""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
		},
		resource.TestStep{
			// A configuration that sets one takes it over.
			Config:           config("max_clusters = 500"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
		},
	)
}

func TestAccBootstrapTokenForSeveralClusters(t *testing.T) {
	config := func(names string) string {
		return fmt.Sprintf("resource \"muster_bootstrap_token\" \"test\" {\n  managed_clusters = [%s]\n}\n", names)
	}
	groups := func(want string) resource.TestCheckFunc {
		return func(s *terraform.State) error {
			secret := &corev1.Secret{}
			acctest.Someone(t).Get(secret, "kube-system", "bootstrap-token-"+s.RootModule().Resources[tokenAddress].Primary.Attributes["token_id"])
			if got := string(secret.Data["auth-extra-groups"]); got != want {
				return fmt.Errorf("groups %q, want %q", got, want)
			}
			return nil
		}
	}
	acctest.Run(t,
		resource.TestStep{
			Config: config(`"sc-b", "sc-a"`),
			Check:  groups("system:bootstrappers:managedcluster:sc-a,system:bootstrappers:managedcluster:sc-b"),
		},
		resource.TestStep{
			ResourceName: tokenAddress, ImportState: true, ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "token_id",
			ImportStateIdFunc: func(s *terraform.State) (string, error) {
				return s.RootModule().Resources[tokenAddress].Primary.Attributes["token_id"], nil
			},
		},
		resource.TestStep{
			Config:           config(`"sc-a"`),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(tokenAddress, plancheck.ResourceActionReplace)}},
		},
	)
}

func TestAccBootstrapTokenBadInput(t *testing.T) {
	for body, want := range map[string]string{
		`ttl = "soon"`:                                        `"soon" is not a duration`,
		`max_clusters = 0`:                                    `(?s)max_clusters.*between 1 and 1000`,
		`cluster_labels = { "a b" = "c" }`:                    `a b`,
		`managed_clusters = ["A"]`:                            `"A" cannot be used as cluster name`,
		"managed_cluster = \"a\"\nmanaged_clusters = [\"b\"]": `managed_clusters`,
	} {
		acctest.Run(t, resource.TestStep{
			Config:      "resource \"muster_bootstrap_token\" \"test\" {\n" + body + "\n}\n",
			PlanOnly:    true,
			ExpectError: regexp.MustCompile(want),
		})
	}
}

func TestAccBootstrapKubeconfig(t *testing.T) {
	var opened string
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(),
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_10_0)},
		Steps: []resource.TestStep{{
			Config: `
ephemeral "muster_bootstrap_kubeconfig" "test" {
  managed_cluster = "bk"
  ttl             = "10m"
}
provider "echo" {
  data = ephemeral.muster_bootstrap_kubeconfig.test
}
resource "echo" "test" {}`,
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue("echo.test", tfjsonpath.New("data").AtMapKey("token"), knownvalue.StringRegexp(regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`))),
			},
			Check: func(s *terraform.State) error {
				attributes := s.RootModule().Resources["echo.test"].Primary.Attributes
				opened = attributes["data.token"]
				config, err := clientcmd.Load([]byte(attributes["data.kubeconfig"]))
				if err != nil {
					return err
				}
				if c := config.Clusters["hub"]; c == nil || c.Server != acctest.Acc.Hub.URL || len(c.CertificateAuthorityData) == 0 {
					return fmt.Errorf("the kubeconfig leads to %+v", c)
				}
				if config.AuthInfos["bootstrap"].Token != opened {
					return fmt.Errorf("the kubeconfig has another token")
				}
				return nil
			},
		}},
	})
	id, _, _ := strings.Cut(opened, ".")
	if acctest.Someone(t).Exists(&corev1.Secret{}, "kube-system", "bootstrap-token-"+id) {
		t.Error("the token is still valid after Terraform is done")
	}
}

// A service account's token registers any cluster, and is void once Terraform is
// done.
func TestAccBootstrapKubeconfigOfAServiceAccount(t *testing.T) {
	var opened string
	login := func() error {
		o := acctest.Someone(t)
		agent := o.WithToken(opened)
		ctx, cancel := o.Context()
		defer cancel()
		return agent.List(ctx, &clusterv1.ManagedClusterList{}, kube.ListOptions{})
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(),
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_10_0)},
		Steps: []resource.TestStep{
			{
				Config: `
ephemeral "muster_bootstrap_kubeconfig" "test" {
  credential = "service_account"
  ttl        = "5m"
}
provider "echo" {
  data = ephemeral.muster_bootstrap_kubeconfig.test
}
resource "echo" "test" {}`,
				ExpectError: regexp.MustCompile(`ttl is "5m", and tokens of service accounts live for 10m at least`),
			},
			{
				Config: `
ephemeral "muster_bootstrap_kubeconfig" "test" {
  credential = "service_account"
  ttl        = "15m"
}
provider "echo" {
  data = ephemeral.muster_bootstrap_kubeconfig.test
}
resource "echo" "test" {}`,
				Check: func(s *terraform.State) error {
					attributes := s.RootModule().Resources["echo.test"].Primary.Attributes
					opened = attributes["data.token"]
					config, err := clientcmd.Load([]byte(attributes["data.kubeconfig"]))
					if err != nil {
						return err
					}
					if config.AuthInfos["bootstrap"].Token != opened || strings.Count(opened, ".") != 2 {
						return fmt.Errorf("the kubeconfig has no token of a service account")
					}
					return nil
				},
			},
		},
	})
	if err := login(); !apierrors.IsUnauthorized(err) {
		t.Errorf("the token is still good after Terraform is done: %v", err)
	}
	secrets := &corev1.SecretList{}
	ctx, cancel := acctest.Someone(t).Context()
	defer cancel()
	if err := acctest.Someone(t).Client.List(ctx, secrets, kube.ListOptions{Namespace: cluster.Namespace}); err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets.Items {
		if strings.HasPrefix(s.Name, "terraform-bootstrap-") {
			t.Errorf("the Secret %s is left", s.Name)
		}
	}
}

// A bound token lets one cluster in and no other.
func TestAccBootstrapTokenIsBound(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		Config: `resource "muster_bootstrap_token" "test" { managed_cluster = "bound" }`,
		Check: func(s *terraform.State) error {
			o := acctest.Someone(t)
			token := s.RootModule().Resources[tokenAddress].Primary.Attributes["token"]
			agent := o.WithToken(token)
			ctx, cancel := o.Context()
			defer cancel()
			other := &clusterv1.ManagedCluster{}
			other.Name = "another"
			if err := agent.Create(ctx, other); err == nil {
				return fmt.Errorf("the token of one cluster has registered another")
			}
			own := &clusterv1.ManagedCluster{}
			own.Name = "bound"
			if err := agent.Create(ctx, own); err != nil {
				return err
			}
			o.Remove(&clusterv1.ManagedCluster{}, "", "bound")
			return nil
		},
	})
}
