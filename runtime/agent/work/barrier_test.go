package work_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// spyOn asks for all that can be reported of secrets.
func spyOn(spec *workv1.ManifestWorkSpec) {
	configFor("", "secrets", func(o *workv1.ManifestConfigOption) {
		o.FeedbackRules = []workv1.FeedbackRule{{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{{Name: "pw", Path: ".data.password"}}}}
		rule("Spy", `"password" in object.data`)(o)
		rule(apiwork.ConditionComplete, `"password" in object.data`)(o)
		o.ConditionRules[0].MessageExpression = `string(object.data.password)`
	})(spec)
}

// createTopSecret creates the secret that no work may report.
func (f *fixture) createTopSecret() {
	f.t.Helper()
	f.must(f.client.Create(context.Background(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.target, Name: "top"},
		StringData: map[string]string{"password": "secret"},
	}))
}

// hidden waits until a work says that its object may not be read, and fails when
// it says more.
func (f *fixture) hidden(mw *workv1.ManifestWork) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		f.must(f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), mw))
		if len(mw.Status.ResourceStatus.Manifests) != 1 {
			return fmt.Errorf("the status is %+v", mw.Status)
		}
		c := meta.FindStatusCondition(mw.Status.ResourceStatus.Manifests[0].Conditions, apiwork.ConditionAvailable)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != apiwork.ReasonResourceMissing {
			return fmt.Errorf("the condition Available is %+v", c)
		}
		return nil
	})
	text, err := json.Marshal(mw.Status)
	f.must(err)
	for _, word := range []string{"c2VjcmV0", "Spy"} {
		if strings.Contains(string(text), word) {
			f.t.Errorf("%q is reported: %s", word, text)
		}
	}
}

// A hub may hold works whose executor is nobody: upstream's lets them in.
func TestExecutorsThatAreNobodyGetNothing(t *testing.T) {
	f := newFixture(t)
	f.createTopSecret()
	for name, subject := range map[string]workv1.ManifestWorkExecutorSubject{
		"no-account":     {Type: workv1.ExecutorSubjectTypeServiceAccount},
		"without-rights": f.executor("nobody").Subject,
	} {
		mw := f.create(name, func(s *workv1.ManifestWorkSpec) {
			spyOn(s)
			s.Executor = &workv1.ManifestWorkExecutor{Subject: subject}
		}, f.manifest(`{apiVersion: v1, kind: Secret, metadata: {name: top, namespace: TARGET}, data: {password: ZXZpbA==}}`))
		f.hidden(mw)
		f.wait(mw, apiwork.ConditionApplied, metav1.ConditionFalse)
	}
	top := &corev1.Secret{}
	f.must(f.client.Get(context.Background(), client.ObjectKey{Namespace: f.target, Name: "top"}, top))
	if string(top.Data["password"]) != "secret" || len(top.OwnerReferences) > 0 {
		t.Errorf("the secret became %+v", top)
	}
}

// To an executor that may read but not write the object is reported; with ReadOnly,
// that is all that is needed.
func TestObjectsAreReportedToExecutorsThatMayRead(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.createTopSecret()
	binding := f.allow("reader",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
	read := func(name string, strategy workv1.UpdateStrategyType) *workv1.ManifestWork {
		return f.create(name, func(s *workv1.ManifestWorkSpec) {
			spyOn(s)
			s.ManifestConfigs[0].ConditionRules = s.ManifestConfigs[0].ConditionRules[:1]
			s.ManifestConfigs[0].UpdateStrategy = &workv1.UpdateStrategy{Type: strategy}
			s.Executor = f.executor("reader")
		}, f.manifest(`{apiVersion: v1, kind: Secret, metadata: {name: top, namespace: TARGET}, data: {password: ZXZpbA==}}`))
	}
	reads, writes := read("reads", workv1.UpdateStrategyTypeReadOnly), read("writes", workv1.UpdateStrategyTypeUpdate)
	f.wait(reads, apiwork.ConditionApplied, metav1.ConditionTrue)
	f.wait(writes, apiwork.ConditionApplied, metav1.ConditionFalse)
	for _, mw := range []*workv1.ManifestWork{reads, writes} {
		f.condition(mw, "Spy", metav1.ConditionTrue, apiwork.ReasonRulesAggregated)
		if values := mw.Status.ResourceStatus.Manifests[0].StatusFeedbacks.Values; len(values) != 1 || *values[0].Value.String != "c2VjcmV0" {
			t.Errorf("the feedback of %s is %+v", mw.Name, values)
		}
	}

	// What was reported is hidden once the right is gone, which an agent that
	// starts asks about first of all.
	f.must(f.client.Delete(ctx, binding))
	testenv.Eventually(t, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + f.target + ":reader",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: f.target, Name: "top"},
		}}
		if err := f.client.Create(ctx, review); err != nil || review.Status.Allowed {
			return fmt.Errorf("the right is still there: %v", err)
		}
		return nil
	})
	f.stop()
	f.start(work.Options{})
	for _, mw := range []*workv1.ManifestWork{reads, writes} {
		f.hidden(mw)
		f.without(mw, "Spy")
	}
}
