package klusterlet_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// An upgrade succeeds only when the new agent runs and has reached the hub, also when it
// goes back to a revision that was there before. Until then the agent from before stays.
func TestAccKlusterletKeepsTheAgentThatRuns(t *testing.T) {
	t.Parallel() // It mostly waits, and has a cluster of its own.
	process := ownCluster(t, filepath.Join(t.TempDir(), "cluster"))
	managed := acctest.OutsiderOf(t, process)
	w := acctest.NewWorkspace(t)
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
		own := kube.ListOptions{Namespace: cluster.AgentNamespace, LabelSelector: klusterlet.AppLabel + "=" + klusterlet.Name}
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
	crashing := config("args = [\"--nope\"]\ntimeouts { update = \"4s\" }\n")
	for _, which := range []string{"a new revision", "the same revision again"} {
		said, ok := w.Apply(crashing)
		if ok {
			t.Errorf("%s that does not run was rolled out: %s", which, said)
		}
		acctest.Says(t, said, "CrashLoopBackOff", "--nope")
		if n := runs(); n != 1 {
			t.Errorf("%s: %d agents are ready", which, n)
		}
		if said, ok := w.Apply(good); !ok {
			t.Fatal(said)
		}
	}

	elsewhere := config(fmt.Sprintf(bootstrapOf, 1) + "annotations = { to = \"nowhere\" }\n")
	said, ok := w.Apply(elsewhere)
	if ok {
		t.Error("an agent that can't reach its hub was rolled out")
	}
	acctest.Says(t, said, `The new agent in cluster "upgraded" cannot reach the hub`, "its newest pod klusterlet-agent-",
		"An agent that ran before goes on running")
	if n := runs(); n != 1 {
		t.Errorf("%d agents are ready", n)
	}
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
