package admission

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// gatedSet is a replica set of an image, with annotations.
func gatedSet(image string, annotations map[string]string) *unstructured.Unstructured {
	text, _ := json.Marshal(annotations)
	return object([]byte(`{"metadata":{"namespace":"ns","name":"web","annotations":` + string(text) + `},"spec":` +
		`{"placementRefs":[{"name":"p"}],"manifestWorkTemplate":{"workload":{"manifests":[{"apiVersion":"v1","kind":` +
		`"ConfigMap","metadata":{"name":"a"},"data":{"image":"` + image + `"}}]}}}}`))
}

// gated are annotations with a gate before production, and others.
func gated(others ...string) map[string]string {
	out := map[string]string{muster.RolloutGatesAnnotation: `[{"group":"production"}]`}
	for i := 0; i < len(others); i += 2 {
		if out[others[i]] = others[i+1]; others[i+1] == "" {
			delete(out, others[i])
		}
	}
	return out
}

// Who may write a replica set may not let it through its gates, by whatever annotation.
func TestGatesNeedTheRightToApprove(t *testing.T) {
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	content, err := contentOfSet(gatedSet("v1", nil))
	if err != nil {
		t.Fatal(err)
	}
	approvals := func(by string) string {
		return rollout.Gated{}.Approve(rollout.Approval{Group: "production", Content: content, By: by, At: noon})
	}
	const (
		gates, approve, approved, paused = muster.RolloutGatesAnnotation, muster.ApproveRolloutAnnotation,
			muster.RolloutApprovalsAnnotation, muster.RolloutPausedAnnotation
	)
	for name, x := range map[string]struct {
		now, before map[string]string
		// asked is whether the right is asked for.
		asked bool
		// want are the approvals afterwards, and refused what an author with the right is told.
		want, refused string
	}{
		"a new one with gates":  {now: gated()},
		"gates for one without": {now: gated(), before: map[string]string{}},
		"other gates":           {now: gated(gates, `[{"group":"none"}]`), before: gated(), asked: true},
		"no gates":              {now: map[string]string{}, before: gated(), asked: true},
		"an approval": {now: gated(approve, "production"), before: gated(), asked: true,
			want: approvals("somebody")},
		"one of what was looked at": {now: gated(approve, "production@"+content), before: gated(), asked: true,
			want: approvals("somebody")},
		"one of what has changed": {now: gated(approve, "production@sha256:x"), before: gated(), asked: true,
			refused: "look again"},
		"one of another group": {now: gated(approve, "prod"), before: gated(), asked: true,
			refused: `"prod", before which there is no gate`},
		"a forged approval":           {now: gated(approved, approvals("jo")), before: gated()},
		"a new one with a forged one": {now: gated(approved, approvals("jo"))},
		"an approval that is kept":    {now: gated(), before: gated(approved, approvals("jo")), want: approvals("jo")},
		"an approval that is replaced": {now: gated(approved, approvals("x")), before: gated(approved,
			approvals("jo")), want: approvals("jo")},
		"a typo": {now: gated(gates, `[{"groups":"production"}]`), before: map[string]string{},
			refused: "unknown field"},
		"half a pause":  {now: gated(paused, "1"), before: gated(), refused: "write true or false"},
		"a pause":       {now: gated(paused, "true"), before: gated()},
		"a stored typo": {now: map[string]string{gates: "x"}, before: map[string]string{gates: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, allow := range []bool{true, false} {
				asked := false
				plugin := rolloutGates{clock: clocktesting.NewFakePassiveClock(noon), server: &server{
					authorizer: authorizer.AuthorizerFunc(
						func(_ context.Context, a authorizer.Attributes) (authorizer.Decision,
							string, error) {
							asked = true
							if a.GetVerb() != "approve" || a.GetResource() != "manifestworkreplicasets" ||
								a.GetNamespace() != "ns" ||
								a.GetName() != "web" {
								t.Errorf("asked for %+v", a)
							}
							if allow {
								return authorizer.DecisionAllow, "", nil
							}
							return authorizer.DecisionNoOpinion, "", nil
						},
					)}}
				now, operation := gatedSet("v1", x.now), admission.Create
				var before *unstructured.Unstructured
				if x.before != nil {
					before, operation = gatedSet("v0", x.before), admission.Update
				}
				err := plugin.Admit(t.Context(), replicaSetAttributes(operation, now, before, ""), nil)
				switch {
				case asked != x.asked:
					t.Errorf("asked: %v", asked)
				case x.asked && !allow:
					if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "it needs the verb approve") {
						t.Errorf("got %v", err)
					}
				case x.refused != "":
					if err == nil || !strings.Contains(err.Error(), x.refused) {
						t.Errorf("got %v, want %q", err, x.refused)
					}
				case err != nil:
					t.Error(err)
				case now.GetAnnotations()[approved] != x.want || now.GetAnnotations()[approve] != "":
					t.Errorf("got %q, want %q", now.GetAnnotations(), x.want)
				}
			}
		})
	}
}
