package action

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// force does in the place of a lost cluster's agent what the hub waits for.
func (d *detaching) force(ctx context.Context) {
	d.mu.Lock()
	silent, works, addOns := d.silent, maps.Clone(d.works), maps.Clone(d.addOns)
	d.mu.Unlock()
	patient := d.Clock.Now().Sub(d.begun) < d.grace
	if !d.forced || patient && !silent {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(addOns)) {
		a := addOns[name]
		d.push(ctx, "add-on", a, &addonv1alpha1.ManagedClusterAddOn{}, a.Finalizers, patient)
	}
	for _, name := range slices.Sorted(maps.Keys(works)) {
		w := works[name]
		if d.push(ctx, "work", w, &workv1.ManifestWork{}, []string{work.ManifestWorkFinalizer}, patient) {
			d.mu.Lock()
			d.left = append(d.left, fmt.Sprintf("%s: %s", name, describeObjects(w)))
			d.mu.Unlock()
		}
	}
}

// push deletes an object if the hub has not, and removes finalizers from it. It
// reports whether it has removed any. What the hub may still come to is left to it
// for a while.
func (d *detaching) push(
	ctx context.Context, what string, object, empty kube.Object, finalizers []string, patient bool,
) bool {
	if object.GetDeletionTimestamp() == nil {
		if !patient {
			_, err := d.client.Delete(ctx, empty, d.cluster, object.GetName(), object.GetUID())
			d.warnOnce(ctx, fmt.Sprintf("delete the %s %s", what, object.GetName()), err)
		}
		return false
	}
	err := crud.RemoveFinalizers(ctx, d.client, object, empty, finalizers...)
	if apierrors.IsConflict(err) || kube.IsNotFound(err, object.GetName()) {
		return false // it has none of them, or it changed: the next look has the news
	}
	d.warnOnce(ctx, fmt.Sprintf("remove the finalizer of the %s %s", what, object.GetName()), err)
	if err == nil {
		d.say("The %s %s goes without its agent.", what, object.GetName())
	}
	return err == nil
}

// warnOnce says once that something of force failed.
func (d *detaching) warnOnce(ctx context.Context, doing string, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	text := hub.Explain(d.client.Host(), doing, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reported[text] {
		return
	}
	if d.reported == nil {
		d.reported = map[string]bool{}
	}
	d.reported[text] = true
	d.warn("Cannot "+doing, "%s", text)
}

// warnOfLeftObjects explains what force has left in the cluster.
func (d *detaching) warnOfLeftObjects() {
	if len(d.left) == 0 {
		return
	}
	d.warn(fmt.Sprintf("Objects are left in the cluster %q", d.cluster),
		"The agent did not clean up, so the hub no longer knows of what these works have made there, and nothing "+
			"will remove it:\n  %s\n\n"+
			"If the cluster still exists, remove from it these objects, the agent (kubectl delete namespace %s) and "+
			"the agent's records (kubectl get appliedmanifestworks; they carry the finalizer %s).",
		strings.Join(d.left, "\n  "), cluster.AgentNamespace, work.AppliedManifestWorkFinalizer)
}

// describeWorks lists works and what each waits for.
func describeWorks(works map[string]*workv1.ManifestWork, silent bool) string {
	var reported []string
	for _, name := range slices.Sorted(maps.Keys(works)) {
		w := works[name]
		text := name
		deleting := meta.FindStatusCondition(w.Status.Conditions, work.ConditionDeleting)
		switch {
		case w.DeletionTimestamp == nil:
			text += " (the hub has not begun to delete it)"
		case silent && slices.Contains(w.Finalizers, work.ManifestWorkFinalizer):
			text += " (waits for the agent, which the hub does not hear from)"
		case deleting != nil:
			text += " (" + deleting.Message + ")"
		case len(w.Finalizers) > 0:
			text += " (finalizers: " + strings.Join(w.Finalizers, ", ") + ")"
		}
		reported = append(reported, text)
	}
	return text.List(reported, 5)
}

// describeObjects lists the objects of a work.
func describeObjects(w *workv1.ManifestWork) string {
	var reported []string
	for _, m := range w.Spec.Workload.Manifests {
		var object struct {
			Kind     string `json:"kind"`
			Metadata struct{ Namespace, Name string }
		}
		if json.Unmarshal(m.Raw, &object) != nil {
			continue
		}
		name := strings.TrimPrefix(object.Metadata.Namespace+"/"+object.Metadata.Name, "/")
		reported = append(reported, object.Kind+" "+name)
	}
	return text.List(reported, 10)
}

func sorted(list []string) []string { return attribute.Sorted(list) }
