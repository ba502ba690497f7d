package placement

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func TestRelevantChangesOfAClusterPass(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*clusterv1.ManagedCluster)
		want   bool
	}{
		"none":       {func(*clusterv1.ManagedCluster) {}, false},
		"labels":     {func(c *clusterv1.ManagedCluster) { c.Labels = map[string]string{"a": "b"} }, true},
		"a deletion": {func(c *clusterv1.ManagedCluster) { c.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time} }, true},
		"taints":     {func(c *clusterv1.ManagedCluster) { c.Spec.Taints = []clusterv1.Taint{{Key: "a"}} }, true},
		"claims": {func(c *clusterv1.ManagedCluster) {
			c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "a"}}
		}, true},
		"allocatable": {func(c *clusterv1.ManagedCluster) {
			c.Status.Allocatable[clusterv1.ResourceCPU] = resource.MustParse("2")
		}, true},
		"capacity": {func(c *clusterv1.ManagedCluster) { c.Status.Capacity = nil }, true},
		"a rewriting": {func(c *clusterv1.ManagedCluster) {
			c.Status.Allocatable[clusterv1.ResourceCPU] = resource.MustParse("1000m")
		}, false},
		"a version":     {func(c *clusterv1.ManagedCluster) { c.Status.Version.Kubernetes = "v1.99.0" }, false},
		"a condition":   {func(c *clusterv1.ManagedCluster) { c.Status.Conditions = []metav1.Condition{{Type: "a"}} }, false},
		"acceptance":    {func(c *clusterv1.ManagedCluster) { c.Spec.HubAcceptsClient = ptr.To(true) }, false},
		"an annotation": {func(c *clusterv1.ManagedCluster) { c.Annotations = map[string]string{"a": "b"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			was := &clusterv1.ManagedCluster{}
			was.Status.Allocatable = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse("1")}
			was.Status.Capacity = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse("1")}
			is := was.DeepCopy()
			x.change(is)
			if got := relevant.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != x.want {
				t.Errorf("passes: %v, want %v", got, x.want)
			}
		})
	}
}
