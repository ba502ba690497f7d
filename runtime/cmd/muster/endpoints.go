package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// endpoint is in a word whether an agent is where the hub wants it.
func endpoint(conditions []metav1.Condition) string {
	c := meta.FindStatusCondition(conditions, muster.ConditionHubEndpointCurrent)
	if c == nil {
		return "unknown"
	}
	return c.Reason
}

// follower is how far the agents of some clusters have followed the hub.
type follower struct {
	generation int64 // 0 when the agent has not said
	state      string
}

// hubStatus is where a hub is, and how many agents have followed it there.
type hubStatus struct {
	URLs       []string       `json:"urls"`
	Generation int64          `json:"generation"`
	Agents     []agentsStatus `json:"agents"`
}

// agentsStatus are the agents that have followed equally far.
type agentsStatus struct {
	// Generation is absent where the agents have not said.
	Generation int64    `json:"generation,omitempty"`
	State      string   `json:"state"`
	Clusters   []string `json:"clusters"`
}

// readEndpoints reads where a hub is, and groups the clusters by how far their agents
// have followed. It is nil where nobody reports it.
func readEndpoints(ctx context.Context, c client.Client, clusters []clusterv1.ManagedCluster) (*hubStatus, error) {
	config := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.EndpointsName}, config)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil // a hub of Open Cluster Management, or somebody who may not know
	}
	if err != nil {
		return nil, fmt.Errorf("read where the hub is: %w", err)
	}
	published, err := hubinfo.ParseEndpoints(config.Data)
	if err != nil {
		return nil, fmt.Errorf("the ConfigMap %s/%s cannot be used: %w: start the hub again, which writes it", metav1.NamespacePublic, hubinfo.EndpointsName, err)
	}
	h := &hubStatus{URLs: published.URLs, Generation: published.Generation, Agents: []agentsStatus{}}
	for f, names := range followers(clusters) {
		h.Agents = append(h.Agents, agentsStatus{f.generation, f.state, names})
	}
	byKey(h.Agents, func(a agentsStatus) string { return fmt.Sprintf("%020d %s", a.Generation, a.State) })
	return h, nil
}

// print prints where the hub is, and how many agents have followed it there, unless
// it has never moved and all have.
func (h *hubStatus) print(t tables) {
	if h == nil {
		return
	}
	current := func(a agentsStatus) bool {
		return a.Generation == h.Generation && a.State == muster.ReasonEndpointCurrent
	}
	if h.Generation == 1 && (len(h.Agents) == 0 || len(h.Agents) == 1 && current(h.Agents[0])) {
		return
	}
	t.row()
	t.row("HUB", "GENERATION", "AGENTS", "STATE", "CLUSTERS")
	for _, a := range h.Agents {
		generation := "unknown"
		if a.Generation > 0 {
			generation = fmt.Sprintf("%d of %d", a.Generation, h.Generation)
		}
		listed := "all others"
		if !current(a) {
			listed = named(a.Clusters)
		}
		t.row(strings.Join(h.URLs, ","), generation, fmt.Sprint(len(a.Clusters)), a.State, listed)
	}
}

// followers are the joined clusters by what their agents say of the hub's endpoint.
func followers(clusters []clusterv1.ManagedCluster) map[follower][]string {
	groups := map[follower][]string{}
	for _, m := range clusters {
		if !meta.IsStatusConditionTrue(m.Status.Conditions, cluster.ConditionJoined) {
			continue
		}
		f := follower{state: "unknown"}
		if c := meta.FindStatusCondition(m.Status.Conditions, muster.ConditionHubEndpointCurrent); c != nil {
			f = follower{muster.EndpointGeneration(c.Message), c.Reason}
			if a := meta.FindStatusCondition(m.Status.Conditions, cluster.ConditionAvailable); a != nil && a.Status == metav1.ConditionUnknown {
				f.state += ", offline"
			}
		}
		groups[f] = append(groups[f], m.Name)
	}
	return groups
}
