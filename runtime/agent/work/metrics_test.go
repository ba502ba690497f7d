package work_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestMetricsCountWorksByState(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := newFixture(t)
	f.stop()
	f.start(work.Options{Metrics: work.NewMetrics(registry)})
	good := f.create("good", nil, f.configMap("a", "one"))
	bad := f.create("bad", strategy(workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply}), f.configMap("theirs", "one"))
	f.wait(good, apiwork.ConditionAvailable, metav1.ConditionTrue)
	f.wait(bad, apiwork.ConditionAvailable, metav1.ConditionTrue)
	f.must(f.client.Patch(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.target, Name: "theirs"}},
		client.RawPatch(types.ApplyPatchType, f.configMap("theirs", "two").Raw), client.FieldOwner("somebody"), client.ForceOwnership))
	f.wait(bad, apiwork.ConditionApplied, metav1.ConditionFalse)
	numbers := func(want map[string]float64) {
		t.Helper()
		testenv.Eventually(t, func() error {
			families, err := registry.Gather()
			f.must(err)
			got := map[string]float64{}
			for _, family := range families {
				for _, m := range family.GetMetric() {
					name := family.GetName()
					for _, l := range m.GetLabel() {
						name += " " + l.GetValue()
					}
					got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
			for name, n := range want {
				if got[name] < n || got[name] > n && strings.HasPrefix(name, "muster_works ") {
					return fmt.Errorf("%s is %v, want %v; all: %v", name, got[name], n, got)
				}
			}
			return nil
		})
	}
	numbers(map[string]float64{"muster_works available": 1, "muster_works failed": 1, "muster_works deleting": 0, "muster_work_apply_conflicts_total apply": 1, "muster_work_apply_duration_seconds success Update": 1})
	f.must(f.client.Delete(context.Background(), good))
	f.gone(good)
	numbers(map[string]float64{"muster_works available": 0, "muster_works failed": 1, "muster_works deleting": 0})
}
