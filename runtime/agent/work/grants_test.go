package work_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

// With the gate, rights are asked for once, and a right that is given takes
// effect at once.
func TestRightsOfExecutorsAreRemembered(t *testing.T) {
	l := &link{}
	f := newFixtureBehind(t, l.wrap)
	f.stop()
	gates := features.NewAgent()
	f.must(gates.Set("ExecutorValidatingCaches=true"))
	f.start(work.Options{Features: gates})
	mw := f.create("w", func(s *workv1.ManifestWorkSpec) {
		s.Executor = f.executor("deployer")
	}, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	binding := f.allow("deployer", allRightsTo("configmaps"))
	f.value("a", "one")
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	turn := 0
	testenv.Eventually(t, func() error {
		asked := l.count("subjectaccessreviews")
		turn++
		f.update(mw, func(s *workv1.ManifestWorkSpec) {
			s.Workload.Manifests[0] = f.configMap("a", fmt.Sprintf("turn-%d", turn))
		})
		f.value("a", fmt.Sprintf("turn-%d", turn))
		if n := l.count("subjectaccessreviews") - asked; n != 0 {
			return fmt.Errorf("rights that had not changed were asked for %d times", n)
		}
		return nil
	})
	f.must(f.client.Delete(context.Background(), binding))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
}
