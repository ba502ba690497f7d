package override

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// visible is the part of a cluster that overrides see. What a cluster gets depends on
// nothing else of it, so that a report of its agent about its load changes no work.
func visible(c *clusterv1.ManagedCluster) *clusterv1.ManagedCluster {
	v := &clusterv1.ManagedCluster{}
	v.Name, v.Labels = c.Name, c.Labels
	for k, value := range c.Annotations {
		if !strings.HasPrefix(k, agentPrefix) && k != muster.PreviewsAskedAnnotation && k != muster.AddOnsAnnotation {
			if v.Annotations == nil {
				v.Annotations = map[string]string{}
			}
			v.Annotations[k] = value
		}
	}
	for _, at := range c.Spec.ManagedClusterClientConfigs {
		v.Spec.ManagedClusterClientConfigs = append(
			v.Spec.ManagedClusterClientConfigs,
			clusterv1.ClientConfig{URL: at.URL},
		)
	}
	v.Status.Version, v.Status.ClusterClaims = c.Status.Version, c.Status.ClusterClaims
	return v
}

// agentPrefix begins the annotations in which agents say what they can do.
const agentPrefix = cluster.AgentAnnotationPrefix + "/"

// Changed reports whether what overrides see of a cluster has changed.
func Changed(was, is *clusterv1.ManagedCluster) bool {
	return !maps.Equal(was.Labels, is.Labels) || !apiequality.Semantic.DeepEqual(visible(was), visible(is))
}

// subject is a cluster for which something is rendered.
type subject struct {
	*scheduling.View
	budget    *expression.Budget
	variables map[string]any
}

func newSubject(c *clusterv1.ManagedCluster) *subject {
	return &subject{View: scheduling.NewView(visible(c)), budget: expression.BudgetOf(clusterBudget)}
}

// object is the cluster as expressions see it.
func (s *subject) object() (map[string]any, error) {
	if s.variables != nil {
		return s.variables, nil
	}
	data, err := json.Marshal(s.ManagedCluster)
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	s.variables = map[string]any{managedCluster: object}
	return s.variables, nil
}
