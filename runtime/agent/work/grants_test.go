package work_test

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
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
		s.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
			Type: workv1.ExecutorSubjectTypeServiceAccount, ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: f.target, Name: "deployer"},
		}}
	}, f.configMap("a", "one"))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: f.target, Name: "deployer"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.target, Name: "deployer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "deployer"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: f.target, Name: "deployer"}},
	}
	f.must(f.client.Create(context.Background(), role))
	f.must(f.client.Create(context.Background(), binding))
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
