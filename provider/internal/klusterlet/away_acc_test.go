package klusterlet_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// silentServer takes connections and never answers, like a cluster behind a broken
// network.
func silentServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "https://" + listener.Addr().String()
}

// A cluster that does not answer costs a refresh some seconds and a warning. What
// changes nothing in it does not call it, and what does is tried again later.
func TestAccKlusterletOfAClusterThatIsAway(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	managed := acctest.OutsiderOf(t, process)
	w := acctest.NewWorkspace(t)
	file := filepath.Join(t.TempDir(), "config")
	raw, err := os.ReadFile(process.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	point := func(at string) {
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(raw), process.URL, at)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := func(body string) string {
		return klusterletConfig(file, "bootstrap = { enabled = false }\n"+body) + `
resource "terraform_data" "next" { input = muster_klusterlet.test.image }
output "standing" {
  value = "joined=${muster_klusterlet.test.joined} offline=${muster_klusterlet.test.offline} problems=${length(muster_klusterlet.test.problems)}"
}
`
	}
	apply := func(config string) string {
		t.Helper()
		said, ok := w.Apply(config)
		if !ok {
			t.Fatal(said)
		}
		return said
	}
	point(process.URL)
	apply(config(""))

	point(silentServer(t))
	began := time.Now()
	said := w.Plan(config(""))
	acctest.Says(t, said, "No changes.", `The agent in cluster "kl" was not checked`)
	if took := time.Since(began); took > time.Minute || strings.Count(said, "was not checked") != 1 {
		t.Errorf("after %s: %s", took, said)
	}

	point("https://127.0.0.1:1")
	said = apply(config(`
  on_failure            = "continue"
  keep_works_on_destroy = true
  timeouts { update = "2s" }
`))
	acctest.Says(t, said, "1 changed", "connection refused")
	changed := config(`
  image      = "example.com/agent:next"
  on_failure = "continue"
  timeouts { update = "2s" }
`)
	said = apply(changed)
	acctest.Says(t, said, `Cannot install the agent in cluster "kl"`, "connection refused", "the next apply tries this again", "2 changed",
		"joined=false offline=false problems=1") // another address is no outage

	point(process.URL)
	acctest.Says(t, apply(changed), "1 changed", "joined=false offline=false problems=0")
	deployment := &appsv1.Deployment{}
	managed.Get(deployment, "kl-agent", klusterlet.Name)
	if got := deployment.Spec.Template.Spec.Containers[0].Image; got != "example.com/agent:next" {
		t.Errorf("the agent's image is %s", got)
	}
	acctest.Says(t, w.Plan(changed), "No changes.")
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}
