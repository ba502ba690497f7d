package apply_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
)

// A work has the agent's finalizer from the start only where an agent is there that takes
// it off again.
func TestWhichWorksHaveTheAgentsFinalizerFromTheStart(t *testing.T) {
	deleted := metav1.Now()
	tests := map[string]struct {
		change func(mc *clusterv1.ManagedCluster)
		want   []string
	}{
		"an agent of muster": {want: []string{work.ManifestWorkFinalizer}},
		"another agent":      {change: func(mc *clusterv1.ManagedCluster) { mc.Annotations = nil }},
		"a silent agent": {change: func(mc *clusterv1.ManagedCluster) {
			mc.Status.Conditions[0].Status = metav1.ConditionUnknown
		}},
		"not joined yet": {change: func(mc *clusterv1.ManagedCluster) { mc.Status.Conditions = nil }},
		"a cluster that is being deleted": {change: func(mc *clusterv1.ManagedCluster) {
			mc.DeletionTimestamp, mc.Finalizers = &deleted, []string{"example.org/hold"}
		}},
		"no such cluster": {change: func(mc *clusterv1.ManagedCluster) { mc.Name = "other" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
				Name: "a", Annotations: map[string]string{muster.WorkPreviewsAnnotation: "true"},
			}}
			meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
				Type: cluster.ConditionAvailable, Status: metav1.ConditionTrue, Reason: "Test",
			})
			if tc.change != nil {
				tc.change(mc)
			}
			hub := fake.NewClientBuilder().WithScheme(api.Scheme()).WithObjects(mc).Build()
			w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "w"}}
			if err := apply.CreateWork(t.Context(), hub, w); err != nil {
				t.Fatal(err)
			}
			have := &workv1.ManifestWork{}
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(w), have); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(have.Finalizers, tc.want) {
				t.Errorf("the finalizers are %q, want %q", have.Finalizers, tc.want)
			}
		})
	}
}
