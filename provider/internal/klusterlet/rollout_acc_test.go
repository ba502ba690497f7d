package klusterlet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	corev1 "k8s.io/api/core/v1"

	installed "github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	muster "github.com/muster-fleet/terraform-provider-muster/provider"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/tests/inprocess"
)

// withPatience is the provider with less patience with agents that don't run.
type withPatience struct {
	provider.Provider
	stuck, contact *time.Duration
}

// Resources implements provider.Provider.
func (p withPatience) Resources(ctx context.Context) []func() resource.Resource {
	resources := p.Provider.Resources(ctx)
	for i, made := range resources {
		var named resource.MetadataResponse
		made().Metadata(ctx, resource.MetadataRequest{ProviderTypeName: "muster"}, &named)
		if named.TypeName == "muster_klusterlet" {
			resources[i] = func() resource.Resource { return klusterlet.NewWith(*p.stuck, *p.contact) }
		}
	}
	return resources
}

// An upgrade succeeds only when the new agent runs and has reached the hub, also when it
// goes back to a revision that was there before. Until then the agent from before stays.
func TestAccKlusterletKeepsTheAgentThatRuns(t *testing.T) {
	t.Parallel()
	process := acctest.DevCluster(t)
	managed := acctest.OutsiderOf(t, process)
	stuck, contact := time.Minute, time.Minute
	server := providerserver.NewProtocol6WithError(withPatience{muster.New("test")(), &stuck, &contact})
	w := inprocess.NewWorkspace(t, map[string]func() (tfprotov6.ProviderServer, error){"muster": server})
	config := func(body string) string { return onboardingConfig("upgraded", process.Kubeconfig, body) }
	good := config("")
	if said, ok := w.Apply(good); !ok {
		t.Fatal(said)
	}
	runs := func() (ready int) {
		t.Helper()
		ctx, cancel := managed.Context()
		defer cancel()
		pods := &corev1.PodList{}
		own := kube.ListOptions{Namespace: cluster.AgentNamespace, LabelSelector: installed.AppLabel + "=" + installed.Name}
		if err := managed.Client.List(ctx, pods, own); err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods.Items {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		return ready
	}
	for _, x := range []struct {
		which, limit, says string
		stuck              time.Duration
	}{
		{"a new revision", "1m", "stuck for 2s", 2 * time.Second},
		{"the same revision again", "4s", "within 4s it was not rolled out", time.Minute},
	} {
		stuck = x.stuck
		crashing := config(fmt.Sprintf("args = [\"--no-such-flag\"]\ntimeouts { update = %q }\n", x.limit))
		said, ok := w.Apply(crashing)
		if ok {
			t.Errorf("%s that does not run was rolled out: %s", x.which, said)
		}
		acctest.Says(t, said, x.says, "CrashLoopBackOff", "no-such-flag")
		if n := runs(); n != 1 {
			t.Errorf("%s: %d agents are ready", x.which, n)
		}
		if said := w.Plan(crashing); strings.Contains(said, "No changes.") {
			t.Errorf("%s: nobody tries again: %s", x.which, said)
		}
		if said, ok := w.Apply(good); !ok {
			t.Fatal(said)
		}
	}

	contact = 5 * time.Second
	elsewhere := config(fmt.Sprintf(bootstrapOf, 1) + "annotations = { to = \"nowhere\" }\n")
	said, ok := w.Apply(elsewhere)
	if ok {
		t.Error("an agent that can't reach its hub was rolled out")
	}
	acctest.Says(t, said, `The new agent in cluster "upgraded" cannot reach the hub`, "its newest pod klusterlet-agent-", "not ready after 5s",
		"An agent that ran before goes on running")
	if n := runs(); n != 1 {
		t.Errorf("%d agents are ready", n)
	}
	contact = time.Minute
	if said, ok := w.Apply(good); !ok {
		t.Fatal(said)
	}
	if said := w.Plan(good); !strings.Contains(said, "No changes.") {
		t.Error(said)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(said)
	}
}
