package provider

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
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
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
	accTest(t,
		resource.TestStep{
			Config: config("managed_cluster = \"bt\"\n  ttl = \"1h\"\n  description = \"golden image\""),
			Check: resource.ComposeTestCheckFunc(remember, func(*terraform.State) error {
				secret := &corev1.Secret{}
				someone(t).get(secret, "kube-system", "bootstrap-token-"+id)
				token := tokenOf(secret)
				if token.String() != first || token.Groups != "system:bootstrappers:managedcluster:bt" || secret.Type != corev1.SecretTypeBootstrapToken || secret.Labels["app"] != "cluster-manager" {
					return fmt.Errorf("got %+v of type %s with %v", token, secret.Type, secret.Labels)
				}
				if left := time.Until(token.Expires); left < 55*time.Minute || left > time.Hour {
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
			PreConfig: func() { someone(t).remove(&corev1.Secret{}, "kube-system", "bootstrap-token-"+id) },
			Config:    config("managed_cluster = \"bt\""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(tokenAddress, plancheck.ResourceActionCreate),
			}},
			ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownValue(tokenAddress, tfjsonpath.New("expires_at"), knownvalue.Null())},
			Check:             remember,
		},
	)
	if someone(t).exists(&corev1.Secret{}, "kube-system", "bootstrap-token-"+id) {
		t.Error("destroying has not revoked the token")
	}
}

func TestAccBootstrapTokenBadInput(t *testing.T) {
	accTest(t, resource.TestStep{
		Config:      `resource "muster_bootstrap_token" "test" { ttl = "soon" }`,
		PlanOnly:    true,
		ExpectError: regexp.MustCompile(`"soon" is not a duration`),
	})
}

func TestAccBootstrapKubeconfig(t *testing.T) {
	var opened string
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
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
				if c := config.Clusters["hub"]; c == nil || c.Server != acc.hub.URL || len(c.CertificateAuthorityData) == 0 {
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
	if someone(t).exists(&corev1.Secret{}, "kube-system", "bootstrap-token-"+id) {
		t.Error("the token is still valid after Terraform is done")
	}
}

// A bound token lets one cluster in and no other.
func TestAccBootstrapTokenIsBound(t *testing.T) {
	accTest(t, resource.TestStep{
		Config: `resource "muster_bootstrap_token" "test" { managed_cluster = "bound" }`,
		Check: func(s *terraform.State) error {
			o := someone(t)
			ca, err := o.client.CAData()
			if err != nil {
				return err
			}
			token := s.RootModule().Resources[tokenAddress].Primary.Attributes["token"]
			agent, err := newClient(kube.Connection{Host: o.client.Host(), CA: string(ca), Token: token}, "agent", kube.DefaultRetryBudget)
			if err != nil {
				return err
			}
			ctx, cancel := o.context()
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
			o.remove(&clusterv1.ManagedCluster{}, "", "bound")
			return nil
		},
	})
}

func TestTokensRoundTrip(t *testing.T) {
	token, err := newBootstrapToken("c1", cluster.BoundBootstrapGroup("c1"), "why")
	if err != nil {
		t.Fatal(err)
	}
	token.TTL, token.Expires = "1h", time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	if got := tokenOf(token.object()); got != token {
		t.Errorf("got %+v, want %+v", got, token)
	}
	if !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`).MatchString(token.String()) {
		t.Errorf("%q has not the form of a token", token)
	}
	other, err := newBootstrapToken("c1", "g", "")
	if err != nil || other.ID == token.ID || other.Secret == token.Secret {
		t.Errorf("two tokens are alike: %v, %v, %v", token, other, err)
	}
}
