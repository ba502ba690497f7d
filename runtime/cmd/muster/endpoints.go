package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
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

// maxNamed is how many clusters a row names.
const maxNamed = 10

// follower is how far the agents of some clusters have followed the hub.
type follower struct {
	generation int64 // 0 when the agent has not said
	state      string
}

// printEndpoints prints where the hub is, and how many agents have followed it
// there, unless it has never moved and all have.
func printEndpoints(ctx context.Context, row func(...string), c client.Client, clusters []clusterv1.ManagedCluster) error {
	config := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.EndpointsName}, config)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil // a hub of Open Cluster Management, or somebody who may not know
	}
	if err != nil {
		return fmt.Errorf("read where the hub is: %w", err)
	}
	published, err := hubinfo.ParseEndpoints(config.Data)
	if err != nil {
		return fmt.Errorf("the ConfigMap %s/%s cannot be used: %w: start the hub again, which writes it", metav1.NamespacePublic, hubinfo.EndpointsName, err)
	}
	groups := followers(clusters)
	current := follower{published.Generation, muster.ReasonEndpointCurrent}
	if published.Generation == 1 && (len(groups) == 0 || len(groups) == 1 && len(groups[current]) > 0) {
		return nil
	}
	row("")
	row("HUB", "GENERATION", "AGENTS", "STATE", "CLUSTERS")
	urls := strings.Join(published.URLs, ",")
	for _, f := range slices.SortedFunc(maps.Keys(groups), func(a, b follower) int {
		return strings.Compare(fmt.Sprintf("%020d %s", a.generation, a.state), fmt.Sprintf("%020d %s", b.generation, b.state))
	}) {
		names := groups[f]
		generation := "unknown"
		if f.generation > 0 {
			generation = fmt.Sprintf("%d of %d", f.generation, published.Generation)
		}
		listed := "all others"
		if f != current {
			listed = strings.Join(names[:min(len(names), maxNamed)], ",")
			if more := len(names) - maxNamed; more > 0 {
				listed += fmt.Sprintf(" and %d more", more)
			}
		}
		row(orDash(urls), generation, fmt.Sprint(len(names)), f.state, listed)
	}
	return nil
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
