package klusterlet_test

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// The hub gets another URL. The agent follows and rewrites its bootstrap kubeconfig:
// that is no drift, and neither the next plan nor the next change has it register again.
func TestAccKlusterletFollowsItsHub(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	program, err := acctest.Acc.Builder.Path(acctest.Acc.Dir)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "moving-hub-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	hub, err := testhub.StartHub(program, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Kill() })
	at, err := url.Parse(hub.URL)
	if err != nil {
		t.Fatal(err)
	}
	before, after := hub.URL, "https://localhost:"+at.Port()
	managed := acctest.OutsiderOf(t, process)
	var certificate string
	registeredOnce := func() {
		identity := &corev1.Secret{}
		managed.Get(identity, cluster.AgentNamespace, cluster.HubKubeconfigSecret)
		now := string(identity.Data[cluster.TLSCertKey])
		if certificate != "" && now != certificate {
			t.Error("the agent has another certificate: nobody was to register again")
		}
		certificate = now
	}
	move := func() {
		registeredOnce()
		if err := hub.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := hub.RestartWith("--external-url", after, "--additional-external-urls", before); err != nil {
			t.Fatal(err)
		}
		mc, bootstrap := &clusterv1.ManagedCluster{}, &corev1.Secret{}
		acctest.OutsiderOf(t, hub).Wait(mc, "", "moves", func() bool {
			c := meta.FindStatusCondition(mc.Status.Conditions, muster.ConditionHubEndpointCurrent)
			return c != nil && c.Reason == muster.ReasonEndpointCurrent && strings.Contains(c.Message, after)
		})
		managed.Wait(bootstrap, cluster.AgentNamespace, cluster.BootstrapSecret, func() bool {
			return strings.Contains(string(bootstrap.Data[cluster.KubeconfigKey]), after)
		})
	}
	config := func(body string) string {
		return fmt.Sprintf("provider \"muster\" {\n  kubeconfig_path = %q\n}\n", hub.Kubeconfig) + onboardingConfig("moves", process.Kubeconfig, body)
	}
	changed := config("  annotations = { note = \"moved\" }\n")
	acctest.Run(t,
		resource.TestStep{Config: config(""), ConfigStateChecks: isReady()},
		resource.TestStep{PreConfig: move, Config: config(""), PlanOnly: true},
		resource.TestStep{
			Config: changed, ConfigPlanChecks: plannedAction(plancheck.ResourceActionUpdate), ConfigStateChecks: isReady(),
		},
		resource.TestStep{PreConfig: registeredOnce, Config: changed, PlanOnly: true},
	)
}
