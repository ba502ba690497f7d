package listing

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// SetsOfCluster is the set in which the cluster's label puts it.
func SetsOfCluster(object *clusterv1.ManagedCluster) []string {
	return []string{object.Labels[cluster.ClusterSetLabel]}
}

// DescribeCluster tells the cluster's set and how far it has come.
func DescribeCluster(object *clusterv1.ManagedCluster) string {
	var words []string
	if set := object.Labels[cluster.ClusterSetLabel]; set != "" {
		words = append(words, "set "+set)
	}
	joined := meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined)
	switch {
	case !object.Spec.AcceptsClient():
		words = append(words, "not accepted")
	case !joined:
		words = append(words, "not joined")
	case !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionAvailable):
		words = append(words, "not available")
	default:
		words = append(words, "available")
	}
	return strings.Join(words, ", ")
}
