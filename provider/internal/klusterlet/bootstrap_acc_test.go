package klusterlet_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// tokensOf are the Secrets of the credentials that Terraform has made for a cluster
// and that are still valid.
func tokensOf(t *testing.T, name string) []corev1.Secret {
	t.Helper()
	o := acctest.Someone(t)
	ctx, cancel := o.Context()
	defer cancel()
	var found []corev1.Secret
	for _, namespace := range []string{"kube-system", cluster.Namespace} {
		secrets := &corev1.SecretList{}
		if err := o.Client.List(ctx, secrets, kube.ListOptions{Namespace: namespace, LabelSelector: "muster-fleet.io/bootstrap-of=" + name}); err != nil {
			t.Fatal(err)
		}
		found = append(found, secrets.Items...)
	}
	return found
}

// handedOver is the token in the cluster's bootstrap kubeconfig.
func handedOver(o *acctest.Outsider) string {
	o.T.Helper()
	secret := &corev1.Secret{}
	o.Get(secret, cluster.AgentNamespace, cluster.BootstrapSecret)
	_, token, _ := strings.Cut(string(secret.Data[cluster.KubeconfigKey]), "token: ")
	token, _, _ = strings.Cut(token, "\n")
	return token
}

// The provider makes the bootstrap kubeconfig in the apply that needs one, and only
// there. It is in no state, and void once the agent has joined.
func TestAccKlusterletMakesItsBootstrapKubeconfig(t *testing.T) {
	t.Parallel()
	const name = "bootstrapped"
	process := acctest.DevCluster(t)
	managed := acctest.OutsiderOf(t, process)
	config := func(body string) string { return onboardingConfig(name, process.Kubeconfig, body) }
	var token string
	another := func(s *terraform.State) error {
		now := handedOver(managed)
		if now == "" || now == token {
			return fmt.Errorf("no other bootstrap kubeconfig was handed over")
		}
		token = now
		if strings.Contains(fmt.Sprint(s), token) {
			return fmt.Errorf("the token is in the state")
		}
		if left := tokensOf(t, name); len(left) > 0 {
			return fmt.Errorf("%d tokens are left", len(left))
		}
		return nil
	}
	theSame := func(*terraform.State) error {
		if handedOver(managed) != token {
			return fmt.Errorf("another bootstrap kubeconfig was handed over")
		}
		return nil
	}
	update := plannedAction(plancheck.ResourceActionUpdate)
	acctest.Run(t,
		resource.TestStep{Config: config(""), ConfigStateChecks: isReady(), Check: another},
		resource.TestStep{Config: config(""), PlanOnly: true},
		// Nothing of this takes another one.
		resource.TestStep{Config: config(`bootstrap = { ttl = "20m", credential = "service_account" }`), ConfigPlanChecks: update, Check: theSame},
		resource.TestStep{Config: config(`args = ["-v=1"]`), ConfigPlanChecks: update, ConfigStateChecks: isReady(), Check: theSame},
		// This does, with what an earlier run has left.
		resource.TestStep{
			PreConfig: func() { leaveToken(t, name, uidOf(t, managed)) },
			Config:    config("bootstrap = { version = 1 }"), ConfigPlanChecks: update, ConfigStateChecks: isReady(), Check: another,
		},
		resource.TestStep{
			PreConfig: func() { managed.Remove(&corev1.Secret{}, cluster.AgentNamespace, cluster.BootstrapSecret) },
			Config:    config("bootstrap = { version = 1 }"), ConfigPlanChecks: update, ConfigStateChecks: isReady(), Check: another,
		},
		resource.TestStep{
			Config: config(`bootstrap = { version = 2, credential = "service_account", ttl = "10m" }`), ConfigPlanChecks: update, ConfigStateChecks: isReady(), Check: another,
		},
	)
}

// uidOf is the UID of a cluster.
func uidOf(t *testing.T, o *acctest.Outsider) string {
	t.Helper()
	namespace := &corev1.Namespace{}
	o.Get(namespace, "", "kube-system")
	return string(namespace.UID)
}

// leaveToken is what a run that was killed leaves.
func leaveToken(t *testing.T, name, uid string) {
	t.Helper()
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = "kube-system", "left-over-"+name
	secret.Labels = map[string]string{"muster-fleet.io/bootstrap-of": name}
	secret.Annotations = map[string]string{"muster-fleet.io/bootstrap-for": uid}
	acctest.Someone(t).Apply(secret)
}

// A Secret that somebody else has put there is used, unless the configuration asks
// for another one.
func TestAccKlusterletLeavesABootstrapKubeconfigOfSomebodyElse(t *testing.T) {
	t.Parallel()
	const name = "brought"
	process := acctest.DevCluster(t)
	managed := acctest.OutsiderOf(t, process)
	config := func(body string) string {
		return acctest.AcceptanceConfig(name, "") + fmt.Sprintf(`
resource "muster_klusterlet" "test" {
  cluster_name       = muster_managed_cluster.test.name
  cluster_connection = { kubeconfig_path = %q }
  wait_for_bootstrap = false
%s
}
`, process.Kubeconfig, body)
	}
	foreign := &corev1.Secret{Data: map[string][]byte{cluster.KubeconfigKey: []byte(`
apiVersion: v1
kind: Config
current-context: b
clusters: [{name: h, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: b, user: {token: foreign}}]
contexts: [{name: b, context: {cluster: h, user: b}}]
`)}}
	foreign.Namespace, foreign.Name = cluster.AgentNamespace, cluster.BootstrapSecret
	isForeign := func(want bool) resource.TestCheckFunc {
		return func(*terraform.State) error {
			if got := strings.HasPrefix(handedOver(managed), "foreign"); got != want {
				return fmt.Errorf("the bootstrap kubeconfig is somebody else's: %v", got)
			}
			return nil
		}
	}
	acctest.Run(t,
		resource.TestStep{
			PreConfig: func() {
				managed.Namespace(cluster.AgentNamespace)
				managed.Apply(foreign)
			},
			Config: config(""), Check: isForeign(true),
		},
		resource.TestStep{Config: config("bootstrap = { enabled = false }"), Check: isForeign(true)},
		resource.TestStep{
			Config: config("bootstrap = {}"), ConfigPlanChecks: plannedAction(plancheck.ResourceActionUpdate),
			Check: resource.ComposeTestCheckFunc(isForeign(false), func(*terraform.State) error {
				if left := tokensOf(t, name); len(left) != 1 || left[0].Data["expiration"] == nil {
					return fmt.Errorf("%d tokens let the agent in that nobody waits for", len(left))
				}
				return nil
			}),
		},
	)
}

func TestAccKlusterletBootstrapBadInput(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ body, want string }{
		"both":         {"bootstrap = {}\n  bootstrap_kubeconfig_wo = \"x\"\n  bootstrap_kubeconfig_wo_version = 1", `bootstrap_kubeconfig_wo`},
		"short life":   {`bootstrap = { credential = "service_account", ttl = "5m" }`, `(?s)ttl is "5m", and tokens of service\s+accounts live for 10m at least`},
		"credential":   {`bootstrap = { credential = "password" }`, `(?s)credential.*bootstrap_token.*service_account`},
		"server":       {`bootstrap = { server = "hub:6443" }`, `"hub:6443" is not a URL`},
		"version only": {`bootstrap_kubeconfig_wo_version = 1`, `(?s)needs a bootstrap kubeconfig.*leave both\s+out`},
	} {
		t.Run(name, func(t *testing.T) {
			acctest.Run(t, resource.TestStep{Config: klusterletConfig("/nowhere", test.body), PlanOnly: true, ExpectError: regexp.MustCompile(test.want)})
		})
	}
}
