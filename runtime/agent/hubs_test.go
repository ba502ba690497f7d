package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

// fastClock runs faster than the real one, so that minutes of waiting pass in
// seconds, and nobody else has to move it on.
type fastClock struct {
	clock.RealClock
	start  time.Time
	factor time.Duration
}

func (c fastClock) Now() time.Time                         { return c.start.Add(time.Since(c.start) * c.factor) }
func (c fastClock) Since(t time.Time) time.Duration        { return c.Now().Sub(t) }
func (c fastClock) NewTimer(d time.Duration) clock.Timer   { return c.RealClock.NewTimer(d / c.factor) }
func (c fastClock) After(d time.Duration) <-chan time.Time { return c.RealClock.After(d / c.factor) }

// hubsOf are the hubs of a cluster that has several.
type hubsOf struct {
	*fleetCluster
}

// bootstrapFile makes a kubeconfig with a token of a hub that is bound to the
// cluster.
func (f hubsOf) bootstrapFile(h *testHub) string {
	f.t.Helper()
	content, err := kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Context: "bootstrap", Server: h.url, CAData: h.ca,
		Token: h.bootstrapToken(f.t, cluster.BoundBootstrapGroup(f.name)),
	}.YAML()
	must(f.t, err)
	file := filepath.Join(f.t.TempDir(), "kubeconfig")
	must(f.t, os.WriteFile(file, content, 0o600))
	return file
}

func (f hubsOf) acceptOn(h *testHub, yes bool) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := h.client.Get(context.Background(), client.ObjectKey{Name: f.name}, mc); err != nil {
			return err
		}
		mc.Spec.HubAcceptsClient = ptr.To(yes)
		return h.client.Update(context.Background(), mc)
	})
}

func (f hubsOf) awaitOn(h *testHub, status metav1.ConditionStatus) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := h.client.Get(context.Background(), client.ObjectKey{Name: f.name}, mc); err != nil {
			return err
		}
		if !meta.IsStatusConditionPresentAndEqual(mc.Status.Conditions, cluster.ConditionAvailable, status) {
			return fmt.Errorf("on the hub %s: %+v", h.url, mc.Status.Conditions)
		}
		return nil
	})
}

func (f hubsOf) leaseOn(h *testHub) *coordinationv1.Lease {
	f.t.Helper()
	lease := &coordinationv1.Lease{}
	must(f.t, h.client.Get(context.Background(), client.ObjectKey{Namespace: f.name, Name: cluster.LeaseName}, lease))
	return lease
}

// server is the hub that the stored identity is for.
func (f hubsOf) server() string {
	config, err := clientcmd.Load([]byte(f.identity()[cluster.KubeconfigKey]))
	if err != nil || config.Clusters["hub"] == nil {
		return ""
	}
	return config.Clusters["hub"].Server
}

func TestAgentMovesBetweenHubs(t *testing.T) {
	var second testHub
	stopSecond, err := second.start(t.Context())
	must(t, err)
	stopped := false
	defer func() {
		if !stopped {
			stopSecond()
		}
	}()
	f := hubsOf{newCluster(t, "several")}
	gates := features.NewAgent()
	must(t, gates.Set("MultipleHubs=true"))
	f.options.Features = gates
	f.options.BootstrapKubeconfig = ""
	f.options.BootstrapKubeconfigs = []string{f.bootstrapFile(&fleet), f.bootstrapFile(&second)}
	f.options.HubConnectionTimeoutSeconds = 10
	f.options.Clock = fastClock{start: time.Now(), factor: 10}

	// The first that can be used is the first of the list.
	f.start()
	f.acceptOn(&fleet, true)
	f.awaitOn(&fleet, metav1.ConditionTrue)
	if f.server() != fleet.url {
		t.Fatalf("the agent is registered with %s, want %s", f.server(), fleet.url)
	}
	agentName := f.identity()[cluster.AgentNameKey]

	// A denial sends it on to the next.
	f.acceptOn(&fleet, false)
	f.acceptOn(&second, true)
	f.awaitOn(&second, metav1.ConditionTrue)
	if f.server() != second.url || f.identity()[cluster.AgentNameKey] != agentName {
		t.Fatalf("the agent %s is registered with %s, want %s with %s", f.identity()[cluster.AgentNameKey], f.server(), agentName, second.url)
	}

	// There it stays, though the first would take it again, also after a restart.
	f.acceptOn(&fleet, true)
	f.stopAgent()
	lease := f.leaseOn(&second)
	f.start()
	testenv.Eventually(t, func() error {
		if f.leaseOn(&second).ResourceVersion == lease.ResourceVersion {
			return fmt.Errorf("no heartbeat yet since the restart")
		}
		return nil
	})
	if f.server() != second.url {
		t.Fatalf("the agent went back to %s", f.server())
	}

	// A hub that is only silent between heartbeats keeps it: the allowed silence
	// is over four times before the next one, which is the first thing that a
	// session does when it begins again.
	lease = f.leaseOn(&second)
	passed := f.options.Clock.Now().Add(45 * time.Second)
	testenv.Eventually(t, func() error {
		if f.options.Clock.Now().Before(passed) {
			return fmt.Errorf("the time is not over")
		}
		return nil
	})
	if f.leaseOn(&second).ResourceVersion != lease.ResourceVersion {
		t.Fatal("the agent has given up a hub that answers")
	}

	// An outage that lasts sends it back.
	mc := f.get()
	must(t, fleet.client.Status().Patch(t.Context(), mc, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"conditions":null}}`))))
	stopSecond()
	stopped = true
	f.awaitOn(&fleet, metav1.ConditionTrue)
	if f.server() != fleet.url {
		t.Errorf("the agent is registered with %s, want %s", f.server(), fleet.url)
	}
}

func TestAgentWaitsWhileNoHubCanBeUsed(t *testing.T) {
	f := hubsOf{newCluster(t, "no-hub")}
	gates := features.NewAgent()
	must(t, gates.Set("MultipleHubs=true"))
	f.options.Features = gates
	f.options.BootstrapKubeconfig = ""
	missing := filepath.Join(t.TempDir(), "kubeconfig")
	f.options.BootstrapKubeconfigs = []string{missing, f.bootstrapFile(&fleet)}
	f.options.HealthAddress = testkit.FreeAddress(t)
	must(t, fleet.client.Create(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name}}))
	f.start()
	for _, part := range []string{"none of the hubs", missing, "does not accept the cluster " + f.name} {
		f.awaitAnswer("/livez", 200, part)
	}
	f.acceptOn(&fleet, true)
	f.awaitOn(&fleet, metav1.ConditionTrue)
}
