package deploy

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// hook is what is to run in a place before an add-on is deleted.
type hook struct {
	place     works.Place
	finalizer string
	// cluster is where it runs, nil if it is gone.
	cluster *clusterv1.ManagedCluster
	have    []*workv1.ManifestWork
	// content is what the template says now; nil if that is not known.
	content *works.Content
}

// work is the work that runs it, nil if there is none yet.
func (h hook) work() *workv1.ManifestWork {
	for _, w := range h.have {
		if w.Name == h.place.HookName() {
			return w
		}
	}
	return nil
}

// manifests are what is to run. The template may be gone, or be newer than what the
// cluster has; its works have kept what belongs to them.
func (h hook) manifests() []*unstructured.Unstructured {
	if h.content != nil {
		return h.content.Hooks
	}
	return works.KeptHooks(h.place, h.have)
}

// belongs reports whether a work was made for this add-on, and not for an earlier one
// of its name.
func (h hook) belongs(w *workv1.ManifestWork) bool {
	return h.place.Host != "" || metav1.IsControlledBy(w, h.place.AddOn)
}

// impossible says why a hook will never run; nothing if it may.
func (h hook) impossible() string {
	switch {
	case h.cluster == nil && h.place.Host != "":
		return fmt.Sprintf("the hosting cluster %s is gone, or is being removed", h.place.Host)
	case h.cluster == nil:
		return fmt.Sprintf("the cluster %s is gone", h.place.Namespace())
	case !h.cluster.DeletionTimestamp.IsZero() && !h.cluster.Spec.AcceptsClient():
		return fmt.Sprintf("the cluster %s is being removed and is denied, so its agent gets nothing new", h.cluster.Name)
	}
	return ""
}

// waits says what the deletion of an add-on waits for, and what to do if that does not
// come.
func (r *report) waits(p *pass, h hook, problem string) {
	text := []string{fmt.Sprintf("hook manifestWork %s is not completed.", h.place.HookName())}
	switch {
	case problem != "":
		text = append(text, problem+".", fmt.Sprintf("Put that right (a Job or Pod that has failed runs again when it is deleted in the cluster %s),", h.place.Namespace()),
			fmt.Sprintf("or remove the finalizer %s from the ManagedClusterAddOn %s/%s to go on without.", h.finalizer, p.addOn.Namespace, p.addOn.Name))
	case !h.cluster.Spec.AcceptsClient():
		text = append(text, fmt.Sprintf("The cluster %s is denied, so its agent gets nothing new: accept it, or remove the finalizer %s from the ManagedClusterAddOn to go on without.", h.cluster.Name, h.finalizer))
	case availability(h.cluster) == metav1.ConditionUnknown:
		text = append(text, fmt.Sprintf("The cluster %s is not heard of: it goes on when the cluster is back, or without the hook when the finalizer %s is removed from the ManagedClusterAddOn.", h.cluster.Name, h.finalizer))
	}
	r.hook(metav1.Condition{Status: metav1.ConditionFalse, Reason: addon.ReasonHookNotCompleted, Message: strings.Join(text, " ")})
}

// hook says how a hook is. One that is waited for counts more than one that is done.
func (r *report) hook(c metav1.Condition) {
	c.Type = addon.ConditionHookManifestCompleted
	for i, have := range r.set {
		if have.Type == c.Type {
			if have.Status == metav1.ConditionTrue {
				r.set[i] = c
			}
			return
		}
	}
	r.set = append(r.set, c)
}
