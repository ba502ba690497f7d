package life

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

// revision counts the writes to a hub's store, from any client.
func (h *fleetHub) revision() int {
	h.t.Helper()
	list, err := h.kube.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{})
	testkit.Must(h.t, err)
	n, err := strconv.Atoi(list.ResourceVersion)
	testkit.Must(h.t, err)
	return n
}

// beats is how many heartbeats the agent has given.
func (m *member) beats() (int, error) {
	response, err := http.Get("http://" + m.options.HealthAddress + "/metrics")
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "muster_agent_heartbeats_total "); ok {
			return strconv.Atoi(value)
		}
	}
	return 0, fmt.Errorf("there is no count of heartbeats")
}

// A fleet that nothing happens to costs its hub one request for each heartbeat, and one write
// for three: neither the agent nor the hub's controllers write what has not changed.
func TestAHeartbeatIsOneRequestAndNothingElseIs(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	h, m := newHub(t, clk), newMember(t, clk)
	m.giveBootstrap(h.kubeconfig(h.token(cluster.BoundBootstrapGroup(name))))
	m.start()
	m.accept(h, true)
	m.alive(h, clk.Now())
	settle := func() int {
		t.Helper()
		last, same := -1, 0
		m.settled(func() bool {
			if now := h.revision(); now != last {
				last, same = now, 0
			}
			same++
			return same > 100
		})
		return last
	}

	writes := settle()
	first, err := m.beats()
	testkit.Must(t, err)
	before := h.requests()
	looks := map[string]int{"lease": h.passes("lease"), "clocksync": h.passes("clocksync")}
	const beats = 20
	for i := range beats {
		// A heartbeat is due, and a look at the cluster's health and version, after
		// which the status is the same.
		reads := h.requests()[home]["GET"]
		clk.Step(beat)
		m.settled(func() bool {
			n, err := m.beats()
			testkit.Must(t, err)
			return n > first+i && h.requests()[home]["GET"] >= reads+2
		})
	}
	now, err := m.beats()
	testkit.Must(t, err)
	if got, stored := settle()-writes, (now-first)/3; got < stored || got > stored+2 || now-first < beats {
		t.Errorf("%d writes for %d heartbeats", got, now-first)
	}
	// An agent that lives in time, by a clock in step, makes the hub's controllers do nothing.
	for controller, passes := range looks {
		if got := h.passes(controller) - passes; passes == 0 || got != 0 {
			t.Errorf("the controller %s has reconciled %d times for %d heartbeats, after %d times before",
				controller, got, now-first, passes)
		}
	}
	// The store does not see a request that changes nothing.
	spent := h.requests().since(before)
	if got, want := spent[h.agentHost()], (methods{"PUT": now - first}); !maps.Equal(got, want) {
		t.Errorf("the agent has sent %v to the hub for %d heartbeats, want %v", got, now-first, want)
	}
	if got := spent[h.ownHost()].writes(); len(got) > 0 {
		t.Errorf("the hub's controllers have sent %v for %d heartbeats", got, now-first)
	}
	if got := spent[home].writes(); len(got) > 0 {
		t.Errorf("the agent has sent %v to the managed cluster for %d heartbeats", got, now-first)
	}

	// What does change costs one write, of whatever size.
	writes, before = settle(), h.requests()
	claim := &clusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "zone"}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "a"}}
	testkit.Must(t, env.Client().Create(context.Background(), claim))
	t.Cleanup(func() { testkit.Must(t, env.Client().Delete(context.Background(), claim)) })
	m.settled(func() bool {
		mc := &clusterv1.ManagedCluster{}
		testkit.Must(t, h.client.Get(context.Background(), types.NamespacedName{Name: name}, mc))
		return len(mc.Status.ClusterClaims) == 1
	})
	if got := settle() - writes; got != 1 {
		t.Errorf("%d writes for a change of the status, want 1", got)
	}
	spent = h.requests().since(before)
	if got, want := spent[h.agentHost()], (methods{"PATCH": 1}); !maps.Equal(got, want) {
		t.Errorf("the agent has sent %v to the hub for a change of the status, want %v", got, want)
	}
	if got := spent[h.ownHost()].writes(); len(got) > 0 {
		t.Errorf("the hub's controllers have sent %v for a change of the status", got)
	}
}
