package managedcluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func TestChangedIgnoresWhatAgentsReport(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) func(*clusterv1.ManagedCluster) {
		return func(c *clusterv1.ManagedCluster) {
			c.Status.Conditions = []metav1.Condition{{Type: kind, Status: status}}
		}
	}
	for name, x := range map[string]struct {
		change func(*clusterv1.ManagedCluster)
		want   bool
	}{
		"a resync":                   {func(c *clusterv1.ManagedCluster) { c.ResourceVersion = "1" }, true},
		"a new spec":                 {func(c *clusterv1.ManagedCluster) { c.Generation++ }, true},
		"a deletion":                 {func(c *clusterv1.ManagedCluster) { c.DeletionTimestamp = ptr.To(metav1.Now()) }, true},
		"a finalizer":                {func(c *clusterv1.ManagedCluster) { c.Finalizers = []string{"a/b"} }, true},
		"the acceptance":             {condition(cluster.ConditionHubAccepted, metav1.ConditionTrue), true},
		"the availability":           {condition(cluster.ConditionAvailable, metav1.ConditionTrue), false},
		"a label":                    {func(c *clusterv1.ManagedCluster) { c.Labels = map[string]string{"a": "b"} }, false},
		"what the agent has to tell": {func(c *clusterv1.ManagedCluster) { c.Status.Version.Kubernetes = "v1.99.0" }, false},
	} {
		was := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "paris", ResourceVersion: "1", Generation: 1}}
		is := was.DeepCopy()
		is.ResourceVersion = "2"
		x.change(is)
		if got := clusterChanged(was, is); got != x.want {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}
