package hub_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What upstream's work agent sends to the hub, from taking a work to letting it
// go.
func TestUpstreamWorkAgent(t *testing.T) {
	ctx := t.Context()
	const finalizer = "cluster.open-cluster-management.io/manifest-work-cleanup"
	name := clusterName(t, "up-work")
	config := joined(t, name, "a")
	hub, agent, works := clientFor(t, admin), clientFor(t, config), informers(t, config, agentWatches(name))["manifestworks"]

	w := newWork(configMapManifest("a"))
	w.Namespace = name
	testkit.Must(t, hub.Create(ctx, w))
	sees(t, works, name+"/w", func(cached) error { return nil })

	// It holds on to the work before it applies anything.
	before := w.DeepCopy()
	testkit.Must(t, agent.Patch(ctx, w, upstreamPatch(t, before, map[string]any{"metadata": map[string]any{"finalizers": []string{finalizer}}})))
	if err := agent.Patch(ctx, w.DeepCopy(), upstreamPatch(t, before, map[string]any{"metadata": map[string]any{"finalizers": nil}})); !apierrors.IsConflict(err) {
		t.Errorf("a patch that is based on an old state: %v", err)
	}

	// It reports, with what a rule wants to know of the object.
	report := map[string]any{
		"conditions": []any{
			map[string]any{"type": "Applied", "status": "True", "reason": "AppliedManifestWorkComplete", "message": "Apply manifest work complete", "observedGeneration": w.Generation, "lastTransitionTime": "2026-01-01T00:00:00Z"},
			map[string]any{"type": "Available", "status": "True", "reason": "ResourcesAvailable", "message": "All resources are available", "observedGeneration": w.Generation, "lastTransitionTime": "2026-01-01T00:00:00Z"},
		},
		"resourceStatus": map[string]any{"manifests": []any{map[string]any{
			"resourceMeta":   map[string]any{"ordinal": 0, "group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps", "namespace": "default", "name": "a"},
			"conditions":     []any{map[string]any{"type": "Applied", "status": "True", "reason": "AppliedManifestComplete", "message": "Apply manifest complete", "lastTransitionTime": "2026-01-01T00:00:00Z"}},
			"statusFeedback": map[string]any{"values": []any{map[string]any{"name": "n", "fieldValue": map[string]any{"type": "Integer", "integer": 3}}}},
		}}},
	}
	testkit.Must(t, agent.Status().Patch(ctx, w, upstreamPatch(t, w, map[string]any{"status": report})))
	got := &workv1.ManifestWork{}
	testkit.Must(t, hub.Get(ctx, client.ObjectKeyFromObject(w), got))
	if err := conditionIs(got.Status.Conditions, "Available", metav1.ConditionTrue, "ResourcesAvailable", "All resources are available"); err != nil {
		t.Error(err)
	}
	if m := got.Status.ResourceStatus.Manifests; len(m) != 1 || m[0].ResourceMeta.Resource != "configmaps" || len(m[0].StatusFeedbacks.Values) != 1 {
		t.Errorf("the report has become %+v", m)
	}

	// It tells of events in the old way too.
	testkit.Must(t, agent.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: name, Name: "w.1"},
		InvolvedObject: corev1.ObjectReference{APIVersion: workv1.GroupVersion.String(), Kind: "ManifestWork", Namespace: name, Name: "w"},
		Reason:         "ResourceCreated", Type: corev1.EventTypeNormal,
	}))

	// It lets go of the work, which then goes.
	testkit.Must(t, hub.Delete(ctx, w))
	sees(t, works, name+"/w", func(o cached) error {
		if o.GetDeletionTimestamp() == nil {
			return fmt.Errorf("the work is not deleted")
		}
		return nil
	})
	testkit.Must(t, agent.Get(ctx, client.ObjectKeyFromObject(w), w))
	testkit.Must(t, agent.Patch(ctx, w, upstreamPatch(t, w, map[string]any{"metadata": map[string]any{"finalizers": nil}})))
	waitGone(t, w)
}
