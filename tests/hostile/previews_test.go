package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// previewed has a real agent answer a preview of a work, and returns all of the answer.
func previewed(t *testing.T, author client.Client, w *workv1.ManifestWork, deletes bool) string {
	t.Helper()
	p := &v1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, GenerateName: "hostile-"}}
	if p.Spec.WorkName = w.Name; !deletes {
		p.Spec.Work = &w.Spec
	}
	testkit.Must(t, author.Create(t.Context(), p))
	testkit.Eventually(t, func() error {
		err := author.Get(t.Context(), client.ObjectKeyFromObject(p), p)
		if err == nil && meta.FindStatusCondition(p.Status.Conditions, muster.ConditionPreviewed) == nil {
			err = fmt.Errorf("the preview of %s has no answer", w.Name)
		}
		return err
	})
	for i := range p.Status.Conditions {
		p.Status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	data, err := json.Marshal(p.Status)
	testkit.Must(t, err)
	return string(data)
}

// The author of previews learns no more than an executor that they may use, and changes
// nothing in the cluster.
func TestHostilePreviews(t *testing.T) {
	ctx := context.Background()
	m := hub.join(t, "hostile-previews")
	m.tenant(t)
	author := testfleet.Client(t, hub.Tenant(t, m.name, "previewer",
		rbacv1.PolicyRule{APIGroups: []string{work.GroupName}, Resources: []string{"manifestworks"},
			Verbs: []string{"get", "list", "create", "update", "patch", "delete"}},
		rbacv1.PolicyRule{APIGroups: []string{work.GroupName}, Resources: []string{"manifestworks"},
			ResourceNames: []string{"system:serviceaccount:tenant:limited"}, Verbs: []string{"execute-as"}},
		rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{"workpreviews",
			"workpreviews/status"},
			Verbs: []string{"*"}},
	))
	limited := executor("tenant", "limited")
	w := newWork(t, m.name, "spy", configMap("tenant", "x"))
	for what, e := range map[string]*workv1.ManifestWorkExecutor{
		"another's account": executor("kube-system", "admin"),
		"no account": {
			Subject: workv1.ManifestWorkExecutorSubject{Type: workv1.ExecutorSubjectTypeServiceAccount},
		},
		"a tenant's writer": executor("tenant", "writer"),
	} {
		p := &v1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{Namespace: m.name, Name: "refused"}}
		p.Spec = v1alpha1.WorkPreviewSpec{WorkName: "spy", Work: w.Spec.DeepCopy()}
		p.Spec.Work.Executor = e
		refused(t, "a preview executed by "+what, author.Create(ctx, p))
	}
	p := &v1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "elsewhere"}}
	p.Spec = v1alpha1.WorkPreviewSpec{WorkName: "spy"}
	refused(t, "a preview in another namespace", author.Create(ctx, p))

	for _, strategy := range []workv1.UpdateStrategyType{"Update", "CreateOnly", "ServerSideApply", "ReadOnly"} {
		for _, deletes := range []bool{false, true} {
			// The one is there, the other is not: both have to look alike.
			var answers []string
			for _, secret := range []string{"topsecret", "nosecret1"} {
				spy := spying(t, m.name, strings.ToLower(string(strategy))+"-"+secret, secret, strategy)
				spy.Spec.Executor = limited
				if deletes { // then the AppliedManifestWork lists it
					testkit.Must(t, author.Create(ctx, spy))
					judged(t, spy)
				}
				said := previewed(t, author, spy, deletes)
				answers = append(answers, strings.ReplaceAll(said, secret, "SECRET"))
				for _, word := range secretWords {
					if strings.Contains(said, word) {
						t.Errorf("a preview says %q: %s", word, said)
					}
				}
				if deletes {
					testkit.Must(t, author.Delete(ctx, spy))
				}
			}
			attempts.Add(1)
			if answers[0] != answers[1] {
				t.Errorf("%s, deleting %t: a Secret that is there can be distinguished from one that is "+
					"not:\n%s", strategy, deletes,
					strings.Join(answers, "\n"))
				continue
			}
			refusals.Add(1)
		}
	}
	secret := &corev1.Secret{}
	testkit.Must(t, m.admin.Get(ctx, types.NamespacedName{Namespace: "kube-system", Name: "topsecret"}, secret))
	if len(secret.OwnerReferences) > 0 || len(secret.Labels) > 0 {
		t.Errorf("the Secret has changed: %+v", secret.ObjectMeta)
	}
}

// Who may change a replica set and not approve it gets around no gate.
func TestHostileRollouts(t *testing.T) {
	ctx := context.Background()
	admin := hub.admin(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hostile-rollouts"}}
	testkit.Must(t, admin.Create(ctx, namespace))
	deployer := testfleet.Client(t, hub.Tenant(t, namespace.Name, "deployer", rbacv1.PolicyRule{
		APIGroups: []string{work.GroupName}, Resources: []string{"manifestworkreplicasets",
			"manifestworkreplicasets/status"},
		Verbs: []string{"get", "list", "create", "update", "patch", "delete"},
	}))
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "gated"}}
	set.Annotations = map[string]string{muster.RolloutGatesAnnotation: `[{"group":"production"}]`}
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p"}}
	set.Spec.ManifestWorkTemplate = newWork(t, namespace.Name, "w", configMap("default", "x")).Spec
	testkit.Must(t, deployer.Create(ctx, set))
	approvals := fmt.Sprintf(`[{"group":"production","content":"x","by":"admin","at":%q}]`,
		time.Now().Format(time.RFC3339))
	annotate := func(key, value string) error {
		data := `{"metadata":{"annotations":{"` + key + `":` + value + `}}}`
		return deployer.Patch(ctx, set.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(data)))
	}
	for what, err := range map[string]error{
		"approves":          annotate(muster.ApproveRolloutAnnotation, `"production"`),
		"approves all":      annotate(muster.ApproveRolloutAnnotation, `"*"`),
		"removes the gates": annotate(muster.RolloutGatesAnnotation, "null"),
		"empties the gates": annotate(muster.RolloutGatesAnnotation, `"[]"`),
		"moves the gate":    annotate(muster.RolloutGatesAnnotation, `"[{\"group\":\"none\"}]"`),
		"opens a window": annotate(muster.RolloutGatesAnnotation, `"[{\"group\":\"production\",`+
			`\"window\":{\"from\":\"00:00\",\"to\":\"00:00\"}}]"`),
		"makes the gates unreadable": annotate(muster.RolloutGatesAnnotation, `"none"`),
	} {
		refused(t, "a deployer "+what, err)
	}
	// Nobody but the hub writes approvals: what others write of them is left out.
	other := approvedSet(set, approvals)
	testkit.Must(t, deployer.Create(ctx, other))
	quoted, err := json.Marshal(approvals)
	testkit.Must(t, err)
	testkit.Must(t, annotate(muster.RolloutApprovalsAnnotation, string(quoted)))
	for what, o := range map[string]*workv1alpha1.ManifestWorkReplicaSet{"creates an approved set": other,
		"forges an approval": set} {
		attempts.Add(1)
		testkit.Must(t, admin.Get(ctx, client.ObjectKeyFromObject(o), o))
		if has := o.Annotations[muster.RolloutApprovalsAnnotation]; has != "" {
			t.Errorf("a deployer %s: it has %s", what, has)
			continue
		}
		refusals.Add(1)
	}
}

// approvedSet is another set, with an approval from the beginning.
func approvedSet(set *workv1alpha1.ManifestWorkReplicaSet, approvals string) *workv1alpha1.ManifestWorkReplicaSet {
	other := set.DeepCopy()
	other.Name, other.ResourceVersion, other.UID = "other", "", ""
	other.Annotations[muster.RolloutApprovalsAnnotation] = approvals
	return other
}
