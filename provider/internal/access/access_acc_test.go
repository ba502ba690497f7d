package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// newRequest is a certificate request in PEM for a user.
func newRequest(t *testing.T, user string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	text, err := access.NewRequest(key, playedHubID, user)
	testkit.Must(t, err)
	return string(text)
}

func requestConfig(namespace, cluster, csr, more string) string {
	return fmt.Sprintf("resource \"muster_access_request\" \"ci\" {\n  logical_cloud   = \"%s/prod\"\n  managed_cluster = %q\n  csr_pem         = %q\n%s\n}\n", namespace, cluster, csr, more)
}

// names are the access requests of a namespace.
func names(t *testing.T, someone *acctest.Outsider, namespace string) []string {
	t.Helper()
	list := &v1alpha1.AccessRequestList{}
	ctx, cancel := someone.Context()
	defer cancel()
	testkit.Must(t, someone.Client.List(ctx, list, kube.ListOptions{Namespace: namespace}))
	var names []string
	for _, r := range list.Items {
		names = append(names, r.Name)
	}
	return names
}

// An issued request is in the state, and renewed in good time: the former one goes
// when the new one is issued.
func TestAccRequestLives(t *testing.T) {
	w, someone := playedHub(t)
	someone.Namespace("ar-lives")
	csr := newRequest(t, "jo")
	config := requestConfig("ar-lives", "paris", csr, "")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.Plan(config), "No changes.")
	first := names(t, someone, "ar-lives")
	shown := w.MustRun("state", "show", "muster_access_request.ci")
	acctest.Says(t, shown, "BEGIN CERTIFICATE", "https://paris.example.com:6443")

	id := "ar-lives/" + first[0]
	imported := acctest.NewTerraform(t)
	imported.Init(config)
	imported.MustRun("import", "muster_access_request.ci", id)
	acctest.Says(t, imported.Plan(config), "No changes.")

	due := requestConfig("ar-lives", "paris", csr, `  renew_before = "8h"`) // of 8 hours
	acctest.Says(t, w.Plan(due), "will be updated in-place", "certificate_pem")
	if said, ok := w.Apply(due); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	second := names(t, someone, "ar-lives")
	if len(second) != 1 || second[0] == first[0] {
		t.Errorf("before the renewal %v, and after it %v", first, second)
	}

	someone.Remove(&v1alpha1.AccessRequest{}, "ar-lives", second[0])
	acctest.Says(t, w.Plan(config), "will be created")
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
	if left := names(t, someone, "ar-lives"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A request that can't go says what holds it, and when access ends by itself.
func TestAccRequestIsHeld(t *testing.T) {
	w, someone := playedHub(t)
	someone.Namespace("ar-held")
	config := requestConfig("ar-held", "paris", newRequest(t, "jo"), `  timeouts { delete = "1s" }`)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	name := names(t, someone, "ar-held")[0]
	someone.Patch(&v1alpha1.AccessRequest{}, "ar-held", name, `{"metadata":{"finalizers":["example.com/audit"]}}`)
	said, ok := w.Destroy()
	if ok {
		t.Error("it can't be gone")
	}
	acctest.Says(t, said, "Not withdrawn yet: ", `Finalizer example.com/audit, set by "kubectl-edit": the one who set it has to remove it first`, "The certificate ends by itself at ")
	someone.Patch(&v1alpha1.AccessRequest{}, "ar-held", name, `{"metadata":{"finalizers":null}}`)
	if said, ok = w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// A renewal that is refused leaves access as it is, and nothing behind.
func TestAccRefusedRenewalKeepsAccess(t *testing.T) {
	w, someone := playedHub(t)
	someone.Namespace("ar-kept")
	csr := newRequest(t, "jo")
	if said, ok := w.Apply(requestConfig("ar-kept", "paris", csr, "")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	before := names(t, someone, "ar-kept")
	said, ok := w.Apply(requestConfig("ar-kept", "paris", newRequest(t, silent), `  timeouts { update = "2s" }`))
	if ok {
		t.Fatalf("a renewal without an answer succeeds: %s", acctest.Excerpt(said))
	}
	acctest.Says(t, said, `No access: access to cluster "paris" of logical cloud "ar-kept/prod"`, "no answer within 2s")
	if after := names(t, someone, "ar-kept"); len(after) != 1 || after[0] != before[0] {
		t.Errorf("before %v, after %v", before, after)
	}
}

func TestAccRefusedRequestSaysWhy(t *testing.T) {
	w, someone := playedHub(t)
	someone.Namespace("ar-refused")
	said, ok := w.Apply(requestConfig("ar-refused", "lost", newRequest(t, "jo"), ""))
	if ok {
		t.Fatal("a refused request succeeds")
	}
	acctest.Says(t, said, "Approved is False (RefusedByPolicy): nobody gets in here.", "Ask the cluster's owner", "muster-access-policy")
	said, ok = w.Apply(requestConfig("ar-refused", "slow", newRequest(t, "jo"), `  timeouts { create = "1s" }`))
	if ok {
		t.Fatal("a request without an answer succeeds")
	}
	acctest.Says(t, said, "There was no answer within 1s: the hub has not decided yet", "kubectl describe accessrequest -n ar-refused slow-")
}

func TestAccBadRequestsAreRefusedAtPlan(t *testing.T) {
	w, _ := playedHub(t)
	good := newRequest(t, "jo")
	for config, says := range map[string]string{
		requestConfig("x", "paris", "hello", ""):                                     "it is not PEM",
		requestConfig("x", "paris", good+good, ""):                                   "it must be alone",
		requestConfig("x", "paris", good, `  ttl = "1m"`):                            `ttl is "1m", but it takes whole seconds from 10m`,
		requestConfig("x", "paris", good, "  ttl = \"1h\"\n  renew_before = \"1h\""): "so every apply would ask again",
		requestConfig("x", "paris", good, `  groups = ["g"]`):                        "user",
		strings.ReplaceAll(requestConfig("x", "paris", good, ""), "x/prod", "prod"):  `"prod" does not name a logical cloud`,
		`ephemeral "muster_cluster_kubeconfig" "x" { logical_cloud = "a/b" }`:        "Set managed_cluster to one of the cloud's clusters",
	} {
		acctest.Says(t, w.Plan(config), says)
	}
}

// The subject is what the hub takes, also for a key that the same apply makes.
func TestAccSubject(t *testing.T) {
	w, _ := playedHub(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	hash, err := access.KeyHash(key.Public())
	testkit.Must(t, err)
	config := fmt.Sprintf("data \"muster_access_subject\" \"x\" {\n  public_key_pem = %q\n}\n\noutput \"x\" {\n  value = data.muster_access_subject.x\n}\n", publicPEM(t, key))
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	var got map[string]string
	testkit.Must(t, json.Unmarshal([]byte(w.MustRun("output", "-json", "x")), &got))
	want := access.Subject(playedHubID, got["user"], hash)
	if got["user"] == "" || got["common_name"] != want.CommonName || got["organization"] != want.Organization[0] {
		t.Errorf("got %v, want %v", got, want)
	}
	said, ok := w.Apply(strings.ReplaceAll(config, "PUBLIC KEY", "PRIVATE KEY"))
	if ok || strings.Contains(said, hash) {
		t.Errorf("a private key: %s", said)
	}
	acctest.Says(t, said, "use public_key_pem of the tls_private_key")
}

// An identity that may only read plans a request.
func TestAccReadersPlanRequests(t *testing.T) {
	w, someone := playedHub(t)
	someone.Namespace("ar-reader")
	config := requestConfig("ar-reader", "paris", newRequest(t, "ci"), `  user = "ci"`)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	reader := someone.Identity("ar-reader", rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}})
	acctest.Says(t, w.Plan(reader+config), "No changes.")
	acctest.Says(t, w.Plan(reader+requestConfig("ar-reader", "rome", newRequest(t, "ci"), `  user = "ci"`)), "must be replaced")
}

// The kubeconfig is for this run: the requests are gone after it, and neither the
// state nor the plan has a key.
func TestAccEphemeralKubeconfig(t *testing.T) {
	w, someone := playedHub(t)
	someone.Namespace("ar-run")
	tokens := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: "ar-run", Name: "tokens"}}
	tokens.Spec.Placements, tokens.Spec.Namespace.Name = []v1alpha1.PlacementReference{{Name: "p"}}, "apps"
	tokens.Spec.Access.Modes = []v1alpha1.AccessMode{v1alpha1.AccessToken}
	someone.Apply(tokens)
	config := `
ephemeral "muster_cluster_kubeconfig" "x" {
  logical_cloud    = "ar-run/prod"
  managed_clusters = ["paris", "eks"]
  ttl              = "1h"
}

ephemeral "muster_cluster_kubeconfig" "one" {
  logical_cloud   = "ar-run/prod"
  managed_cluster = "rome"
}

# The one mode that the cloud allows is asked for.
ephemeral "muster_cluster_kubeconfig" "tokens" {
  logical_cloud   = "ar-run/tokens"
  managed_cluster = "rome"
}

resource "terraform_data" "x" {
  provisioner "local-exec" {
    command = <<-SH
      test -n "$KEY" && test "$TOKEN" = sesame && test "$ONE" = https://rome.example.com:6443 && test "$TOKENS" = sesame && cat > seen.kubeconfig <<'EOF'
      ${ephemeral.muster_cluster_kubeconfig.x.kubeconfig}
      EOF
    SH
    environment = {
      KEY   = ephemeral.muster_cluster_kubeconfig.x.clusters["paris"].client_key
      TOKEN = ephemeral.muster_cluster_kubeconfig.x.clusters["eks"].token
      ONE   = ephemeral.muster_cluster_kubeconfig.one.host

      TOKENS = ephemeral.muster_cluster_kubeconfig.tokens.token
    }
  }
}
`
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	seen, err := os.ReadFile(filepath.Join(w.Dir, "seen.kubeconfig"))
	testkit.Must(t, err)
	for _, want := range []string{"@paris", "@eks", "sesame", "https://paris.example.com:6443"} {
		if !strings.Contains(string(seen), want) {
			t.Errorf("the kubeconfig has no %s: %s", want, seen)
		}
	}
	if left := names(t, someone, "ar-run"); len(left) > 0 {
		t.Errorf("after the run there are still %v", left)
	}
	state, err := os.ReadFile(filepath.Join(w.Dir, "terraform.tfstate"))
	testkit.Must(t, err)
	for _, secret := range []string{"PRIVATE KEY", "client-key-data", "sesame"} {
		if strings.Contains(string(state), secret) {
			t.Errorf("%s is in the state", secret)
		}
	}
}

// One cluster that refuses is named, and what was asked for is withdrawn.
func TestAccEphemeralKubeconfigRefused(t *testing.T) {
	w, someone := playedHub(t)
	someone.Namespace("ar-norun")
	said, ok := w.Apply(`
ephemeral "muster_cluster_kubeconfig" "x" {
  logical_cloud    = "ar-norun/prod"
  managed_clusters = ["paris", "lost"]
}
`)
	if ok {
		t.Fatal("it succeeds")
	}
	acctest.Says(t, said, `No access to cluster "lost" of logical cloud "ar-norun/prod"`, "nobody gets in here")
	if left := names(t, someone, "ar-norun"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func publicPEM(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	testkit.Must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}
