package hub_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// The works of a replica set have no managed fields, until somebody applies one.
func TestManagedFieldsBeginWithTheFirstApply(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "of-a-set", Labels: map[string]string{work.ReplicaSetLabel: "default.set"},
	}}
	mw.Spec.Workload.Manifests = []workv1.Manifest{configMapManifest("a")}
	testkit.Must(t, c.Create(ctx, mw))
	t.Cleanup(func() { _ = c.Delete(ctx, mw) })
	report := func(reason string) {
		t.Helper()
		mw.Status.Conditions = []metav1.Condition{{
			Type: work.ConditionApplied, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Now(),
		}}
		testkit.Must(t, c.Status().Update(ctx, mw))
	}
	managers := func() (out []string) {
		t.Helper()
		testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(mw), mw))
		for _, f := range mw.ManagedFields {
			out = append(out, f.Manager+" "+f.Subresource)
		}
		slices.Sort(out)
		return out
	}
	report("First")
	mw.Spec.Workload.Manifests = []workv1.Manifest{configMapManifest("b")}
	testkit.Must(t, c.Update(ctx, mw))
	if got := managers(); got != nil {
		t.Errorf("the managers are %q", got)
	}

	labelled := func(label, value string) client.Patch {
		return client.RawPatch(types.ApplyPatchType, fmt.Appendf(nil,
			`{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"labels":{%q:%q}}}`,
			label, value))
	}
	testkit.Must(t, c.Patch(ctx, mw, labelled("by", "me"), client.FieldOwner("me")))
	if got := managers(); !slices.Equal(got, []string{"before-first-apply ", "me "}) {
		t.Errorf("after an apply the managers are %q", got)
	}
	report("Second")
	if got := managers(); len(got) != 3 || got[0] != "before-first-apply " || got[2] != "me " {
		t.Errorf("after a report the managers are %q", got)
	}

	// What was there before still belongs to somebody.
	err := c.Patch(ctx, mw.DeepCopy(), labelled(work.ReplicaSetLabel, "default.other"), client.FieldOwner("you"))
	if !apierrors.IsConflict(err) {
		t.Errorf("the label of a set was taken over: got %v, want a conflict", err)
	}
}
