package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// secretWords are what the managed cluster's Secret holds, and nobody may learn.
var secretWords = []string{"supersecret", "c3VwZXJzZWNyZXQ=", "tell-nobody"}

// A hostile author of works tries to get out of the executor that they may use,
// and to bring the agent down.
func TestHostileWorks(t *testing.T) {
	m := hub.join(t, "hostile-works")
	m.tenant(t)
	author := testfleet.Client(t, hub.Tenant(t, m.name, "author",
		rbacv1.PolicyRule{APIGroups: []string{work.GroupName}, Resources: []string{"manifestworks"}, Verbs: []string{"get", "list", "create", "update", "patch", "delete"}},
		rbacv1.PolicyRule{APIGroups: []string{work.GroupName}, Resources: []string{"manifestworks"}, ResourceNames: []string{"system:serviceaccount:tenant:limited"}, Verbs: []string{"execute-as"}},
	))
	t.Run("executors that are nobody", func(t *testing.T) { refuseExecutors(t, author, m.name) })
	t.Run("reading what the executor may not get", func(t *testing.T) { readSecrets(t, author, m, executor("tenant", "limited")) })
	t.Run("deleting what the executor may not delete", func(t *testing.T) { deleteOthers(t, author, m) })
	t.Run("rights that are taken away", func(t *testing.T) { loseRights(t, author, m) })
}

// Where works without an executor need a right, too, none gets around it.
func TestNoExecutorWhereOneIsNeeded(t *testing.T) {
	w := ownWorld(t, "--feature-gates", "NilExecutorValidating=true")
	author := testfleet.Client(t, w.Tenant(t, "c1", "author", rbacv1.PolicyRule{APIGroups: []string{work.GroupName}, Resources: []string{"manifestworks"}, Verbs: []string{"get", "create", "update", "patch"}}))
	for what, e := range map[string]*workv1.ManifestWorkExecutor{
		"nobody":               nil,
		"no account":           {Subject: workv1.ManifestWorkExecutorSubject{Type: workv1.ExecutorSubjectTypeServiceAccount}},
		"no subject":           {},
		"the agent's account":  executor("open-cluster-management-agent", work.AgentServiceAccount),
		"an account of itself": executor("c1", "author"),
	} {
		mw := newWork(t, "c1", "w", configMap("kube-system", "x"))
		mw.Spec.Executor = e
		refused(t, "a work executed by "+what, author.Create(context.Background(), mw))
	}
}

func executor(namespace, name string) *workv1.ManifestWorkExecutor {
	return &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type: workv1.ExecutorSubjectTypeServiceAccount, ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: namespace, Name: name},
	}}
}

// tenant makes what a tenant of a managed cluster has, a namespace and a service
// account that may do what it likes with config maps there, but not delete, and
// a Secret in another namespace.
func (m *member) tenant(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	object := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "tenant", Name: name} }
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}},
		&rbacv1.Role{ObjectMeta: object("limited"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}}}},
		&rbacv1.Role{ObjectMeta: object("writer"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"create", "update", "patch", "get"}}}},
		&rbacv1.RoleBinding{ObjectMeta: object("limited"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "limited"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "tenant", Name: "limited"}}},
		&rbacv1.RoleBinding{ObjectMeta: object("writer"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "writer"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "tenant", Name: "writer"}}},
		topSecret(),
	} {
		testkit.Must(t, m.admin.Create(ctx, o))
	}
}

func topSecret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "topsecret", Annotations: map[string]string{"note": "tell-nobody"}},
		StringData: map[string]string{"password": "supersecret"},
	}
}

func refuseExecutors(t *testing.T, author client.Client, cluster string) {
	ctx := context.Background()
	cm := configMap("tenant", "nobody")
	for what, e := range map[string]*workv1.ManifestWorkExecutor{
		"another's account":      executor("kube-system", "admin"),
		"no account":             {Subject: workv1.ManifestWorkExecutorSubject{Type: workv1.ExecutorSubjectTypeServiceAccount}},
		"no subject":             {},
		"another type":           {Subject: workv1.ManifestWorkExecutorSubject{Type: "User", ServiceAccount: executor("tenant", "limited").Subject.ServiceAccount}},
		"an empty name":          executor("tenant", ""),
		"an empty namespace":     executor("", "limited"),
		"a colon in the name":    executor("tenant", "limited:x"),
		"the namespace's colon":  executor("system:serviceaccount:tenant", "limited"),
		"an account of the hub":  executor("kube-system", "default"),
		"the group of everybody": executor("tenant", "system:masters"),
	} {
		w := newWork(t, cluster, "nobody", cm)
		w.Spec.Executor = e
		err := author.Create(ctx, w)
		refused(t, "a work executed by "+what, err)
	}
	w := newWork(t, cluster, "changes", cm)
	w.Spec.Executor = executor("tenant", "limited")
	testkit.Must(t, author.Create(ctx, w))
	refused(t, "a work that changes to another's executor", author.Patch(ctx, w, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"executor":{"subject":{"serviceAccount":{"name":"writer"}}}}}`))))
	refused(t, "a work that drops its account", author.Patch(ctx, w, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"executor":{"subject":{"serviceAccount":null}}}}`))))
	testkit.Must(t, author.Delete(ctx, w))
	refused(t, "a deleted work that changes to another's executor", ignoreGone(author.Patch(ctx, w, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"executor":{"subject":{"serviceAccount":{"name":"writer"}}}}}`)))))
}

// ignoreGone takes what is gone for what was refused.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return apierrors.NewBadRequest("it is gone")
	}
	return err
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"k": "v"}}
}

// spying is a work that wants to know everything of a Secret.
func spying(t testing.TB, cluster, name, secret string, strategy workv1.UpdateStrategyType) *workv1.ManifestWork {
	w := newWork(t, cluster, name, &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: secret},
	})
	id := workv1.ResourceIdentifier{Resource: "secrets", Namespace: "kube-system", Name: secret}
	w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: id,
		UpdateStrategy:     &workv1.UpdateStrategy{Type: strategy},
		FeedbackRules: []workv1.FeedbackRule{{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{
			{Name: "pw", Path: ".data.password"}, {Name: "note", Path: ".metadata.annotations.note"}, {Name: "uid", Path: ".metadata.uid"},
		}}},
		ConditionRules: []workv1.ConditionRule{
			{Type: workv1.ConditionRuleTypeCEL, Condition: "Spy", CELExpressions: []string{`"password" in object.data`}, MessageExpression: `string(object.data.password)`},
			{Type: workv1.ConditionRuleTypeCEL, Condition: "Complete", CELExpressions: []string{`object.data.password.startsWith("c3")`}, MessageExpression: `object.metadata.annotations.note`},
		},
	}}
	return w
}

// judged waits until the agent has judged a work, and returns all that is reported
// of it: its status and its events.
func judged(t testing.TB, w *workv1.ManifestWork) (status workv1.ManifestWorkStatus, all string) {
	t.Helper()
	ctx, admin := context.Background(), hub.admin(t)
	testkit.Eventually(t, func() error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(w), w); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(w.Status.Conditions, work.ConditionApplied); c == nil || c.ObservedGeneration != w.Generation {
			return fmt.Errorf("the work %s is not judged yet: %+v", w.Name, w.Status)
		}
		return nil
	})
	events := &corev1.EventList{}
	testkit.Must(t, admin.List(ctx, events, client.InNamespace(w.Namespace)))
	text, err := json.Marshal(w.Status)
	testkit.Must(t, err)
	all = string(text)
	for _, e := range events.Items {
		if e.InvolvedObject.Name == w.Name {
			all += "\n" + e.Message
		}
	}
	return w.Status, all
}

func readSecrets(t *testing.T, author client.Client, m *member, as *workv1.ManifestWorkExecutor) {
	ctx := context.Background()
	for _, strategy := range []workv1.UpdateStrategyType{"Update", "CreateOnly", "ServerSideApply", "ReadOnly"} {
		// The one is there, the other is not: both have to look alike.
		var texts []string
		for _, secret := range []string{"topsecret", "nosecret1"} {
			w := spying(t, m.name, strings.ToLower(string(strategy))+"-"+secret, secret, strategy)
			w.Spec.Executor = as
			testkit.Must(t, author.Create(ctx, w))
			status, all := judged(t, w)
			harmless(t, fmt.Sprintf("feedback and rules on %s with the strategy %s", secret, strategy), revealsNothing(status, all))
			for _, c := range status.ResourceStatus.Manifests[0].Conditions {
				texts = append(texts, strings.ReplaceAll(fmt.Sprint(c.Type, c.Status, c.Reason, c.Message), secret, "SECRET"))
			}
			testkit.Must(t, author.Delete(ctx, w))
		}
		if half := len(texts) / 2; strings.Join(texts[:half], "\n") != strings.Join(texts[half:], "\n") {
			t.Errorf("with the strategy %s, a Secret that is there can be distinguished from one that is not:\n%s", strategy, strings.Join(texts, "\n"))
		}
	}
}

// revealsNothing is nil when what is reported of a work says nothing of the Secret.
func revealsNothing(status workv1.ManifestWorkStatus, all string) error {
	for _, word := range secretWords {
		if strings.Contains(all, word) {
			return fmt.Errorf("%q is reported: %s", word, all)
		}
	}
	if len(status.ResourceStatus.Manifests) != 1 {
		return fmt.Errorf("the status has %d manifests", len(status.ResourceStatus.Manifests))
	}
	entry := status.ResourceStatus.Manifests[0]
	c := meta.FindStatusCondition(entry.Conditions, work.ConditionAvailable)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != work.ReasonResourceMissing ||
		!strings.Contains(c.Message, "may not get") && !strings.Contains(c.Message, "executor") {
		return fmt.Errorf("the condition Available reveals whether the Secret is there: %+v", c)
	}
	if len(entry.StatusFeedbacks.Values) > 0 {
		return fmt.Errorf("there is feedback: %+v", entry.StatusFeedbacks.Values)
	}
	for _, kind := range []string{"Spy", "Complete"} {
		if meta.FindStatusCondition(entry.Conditions, kind) != nil || meta.FindStatusCondition(status.Conditions, kind) != nil {
			return fmt.Errorf("the condition %s is reported: %s", kind, all)
		}
	}
	return nil
}

// deleteOthers has works name what is not theirs, and drops them.
func deleteOthers(t *testing.T, author client.Client, m *member) {
	ctx := context.Background()
	for what, policy := range map[string]*workv1.DeleteOption{
		"by default": nil,
		"foreground": {PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground},
		"orphaning":  {PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan},
		"selectively": {PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan, SelectivelyOrphan: &workv1.SelectivelyOrphan{
			OrphaningRules: []workv1.OrphaningRule{{Resource: "secrets", Namespace: "kube-system", Name: "topsecret"}},
		}},
	} {
		w := spying(t, m.name, "delete-"+strings.ReplaceAll(what, " ", "-"), "topsecret", "Update")
		w.Spec.Executor, w.Spec.DeleteOption = executor("tenant", "limited"), policy
		testkit.Must(t, author.Create(ctx, w))
		judged(t, w)
		testkit.Must(t, author.Delete(ctx, w))
		testkit.Eventually(t, func() error {
			if err := author.Get(ctx, client.ObjectKeyFromObject(w), w); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the work is still there: %v", err)
			}
			return nil
		})
		secret := &corev1.Secret{}
		harmless(t, "deleting a work that names another's Secret, "+what, m.admin.Get(ctx, client.ObjectKeyFromObject(topSecret()), secret))
		if len(secret.OwnerReferences) > 0 {
			t.Errorf("the Secret is owned by %+v", secret.OwnerReferences)
		}
	}
}

// loseRights takes away from an executor what it could get, and sees that what
// was reported is reported no longer.
func loseRights(t *testing.T, author client.Client, m *member) {
	ctx := context.Background()
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "own"}, StringData: map[string]string{"password": "supersecret"}}
	w := newWork(t, m.name, "lose", secret)
	w.Spec.Executor = executor("tenant", "writer")
	w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "secrets", Namespace: "tenant", Name: "own"},
		FeedbackRules:      []workv1.FeedbackRule{{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{{Name: "pw", Path: ".data.password"}}}},
		ConditionRules:     []workv1.ConditionRule{{Type: workv1.ConditionRuleTypeCEL, Condition: "Spy", CELExpressions: []string{`true`}, MessageExpression: `string(object.data.password)`}},
	}}
	testkit.Must(t, hub.admin(t).Create(ctx, w))
	if _, all := judged(t, w); !strings.Contains(all, "c3VwZXJzZWNyZXQ=") {
		t.Fatalf("what the executor may get is not reported: %s", all)
	}
	live := &corev1.Secret{}
	testkit.Must(t, m.admin.Get(ctx, client.ObjectKeyFromObject(secret), live))

	// The type of a Secret cannot change, so it would be deleted and made again.
	replaced := newWork(t, m.name, "x", &corev1.Secret{TypeMeta: secret.TypeMeta, ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "own"}, Type: "example.org/other"})
	testkit.Must(t, hub.admin(t).Get(ctx, client.ObjectKeyFromObject(w), w))
	patch := client.MergeFrom(w.DeepCopy())
	w.Spec.Workload = replaced.Spec.Workload
	testkit.Must(t, hub.admin(t).Patch(ctx, w, patch))
	status, _ := judged(t, w)
	var problem error
	if meta.IsStatusConditionTrue(status.Conditions, work.ConditionApplied) {
		problem = fmt.Errorf("it was applied: %+v", status)
	}
	after := &corev1.Secret{}
	testkit.Must(t, m.admin.Get(ctx, client.ObjectKeyFromObject(secret), after))
	if after.UID != live.UID {
		problem = fmt.Errorf("the Secret was deleted and made again")
	}
	harmless(t, "having a Secret deleted by an executor that may not delete", problem)

	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "writer"}}
	testkit.Must(t, m.admin.Delete(ctx, binding))
	testkit.Eventually(t, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:tenant:writer",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: "tenant", Name: "own"},
		}}
		if err := m.admin.Create(ctx, review); err != nil || review.Status.Allowed {
			return fmt.Errorf("the right is still there: %v", err)
		}
		return nil
	})
	testkit.Must(t, hub.admin(t).Get(ctx, client.ObjectKeyFromObject(w), w))
	patch = client.MergeFrom(w.DeepCopy())
	w.Spec.DeleteOption = nil // any change has the rights asked for again
	testkit.Must(t, hub.admin(t).Patch(ctx, w, patch))
	status, all := judged(t, w)
	harmless(t, "what an executor could once get", revealsNothing(status, all))
}
