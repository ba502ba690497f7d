package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/health"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// carryOut writes works, and returns those that there are then.
func (c *Controller) carryOut(ctx context.Context, have []*workv1.ManifestWork, changes []works.Change) ([]*workv1.ManifestWork, error) {
	out := slices.Clone(have)
	var problems []error
	for _, change := range changes {
		is, err := c.write(ctx, change)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		out = slices.DeleteFunc(out, func(w *workv1.ManifestWork) bool { return w == change.Have })
		if is != nil {
			out = append(out, is)
		}
	}
	return out, errors.Join(problems...)
}

// write writes a work, and returns it as it is then; nil when it is deleted.
func (c *Controller) write(ctx context.Context, change works.Change) (*workv1.ManifestWork, error) {
	switch {
	case change.Want == nil:
		return nil, c.delete(ctx, change.Have)
	case change.Have == nil:
		return change.Want, c.create(ctx, change)
	}
	return c.patch(ctx, change)
}

func (c *Controller) patch(ctx context.Context, change works.Change) (*workv1.ManifestWork, error) {
	data, err := change.Patch()
	if err != nil {
		return nil, err
	}
	w := &workv1.ManifestWork{}
	w.Namespace, w.Name = change.Have.Namespace, change.Have.Name
	err = client.IgnoreNotFound(c.client.Patch(ctx, w, client.RawPatch(types.MergePatchType, data)))
	return w, patch.Explain(err, "patch the work %s", w.Name)
}

// create makes a work. One of its name that the cache does not know of belongs to
// somebody else, or the cache is behind.
func (c *Controller) create(ctx context.Context, change works.Change) error {
	w := change.Want.DeepCopy()
	err := apply.CreateWork(ctx, c.client, w)
	switch {
	case err == nil, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // or the cluster is being removed
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("create the work %s: %w", w.Name, err)
	}
	there := &workv1.ManifestWork{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(w), there); err != nil {
		return client.IgnoreNotFound(err)
	}
	for key, value := range w.Labels {
		if there.Labels[key] == value {
			continue
		}
		if ours := metav1.GetControllerOf(w); ours != nil && metav1.IsControlledBy(there, &metav1.ObjectMeta{UID: ours.UID}) {
			_, err := c.patch(ctx, works.Change{Have: there, Want: change.Want}) // somebody has taken the label away
			return err
		}
		return fmt.Errorf("there is a work %s already that is not the add-on's, as it lacks the label %s: %s: delete it, or add the label if the add-on may overwrite it",
			w.Name, key, value)
	}
	return nil // an event follows
}

func (c *Controller) delete(ctx context.Context, have *workv1.ManifestWork) error {
	if !have.DeletionTimestamp.IsZero() {
		return nil
	}
	w := &workv1.ManifestWork{}
	w.Namespace, w.Name = have.Namespace, have.Name
	err := c.client.Delete(ctx, w, client.Preconditions{UID: &have.UID})
	return patch.Explain(client.IgnoreNotFound(err), "delete the work %s", w.Name)
}

// setFinalizers adds and removes finalizers of an add-on. What was put into the status
// meanwhile stays there, and is not written yet.
func (c *Controller) setFinalizers(ctx context.Context, p *pass, change func(have []string) []string) error {
	status := p.addOn.Status.DeepCopy()
	_, err := patch.Object(ctx, c.client, p.addOn, func() bool {
		want := change(slices.Clone(p.addOn.Finalizers))
		changed := !slices.Equal(want, p.addOn.Finalizers)
		p.addOn.Finalizers = want
		return changed
	})
	p.addOn.Status = *status
	return patch.Explain(err, "change the finalizers of the add-on %s of the cluster %s", p.addOn.Name, p.addOn.Namespace)
}

const (
	// eventFailed says that an add-on could not be deployed, or its hooks not run.
	eventFailed = "AddOnDeployFailed"
	// eventSkipped says that an add-on goes without what was to run before.
	eventSkipped = "PreDeleteSkipped"
)

// report is what a pass says of an add-on.
type report struct {
	set   []metav1.Condition
	unset []string
	// nothing are the places where there is nothing to deploy.
	nothing map[string]bool
}

// appliedIn is the condition of the works of a place.
func appliedIn(place works.Place) string {
	if place.Host != "" {
		return addon.ConditionHostingManifestApplied
	}
	return addon.ConditionManifestApplied
}

// failedIn says that there are no works in a place as they should be.
func (r *report) failedIn(place works.Place, message string) {
	r.set = append(r.set, metav1.Condition{Type: appliedIn(place), Status: metav1.ConditionFalse, Reason: addon.ReasonManifestWorkFailed, Message: message})
}

// failed says so of all places.
func (r *report) failed(p *pass, message string) {
	for _, place := range p.places() {
		r.failedIn(place, message)
	}
}

// empty notes whether there is nothing to deploy in a place.
func (r *report) empty(place works.Place, is bool) {
	if r.nothing == nil {
		r.nothing = map[string]bool{}
	}
	r.nothing[appliedIn(place)] = is
}

// works says how the works are, as their agents report.
func (r *report) works(p *pass) {
	for _, place := range p.places() {
		all := p.own
		if place.Host != "" {
			all = p.away
		}
		r.applied(p, place, works.Deployed(place, all) == 0, func() (metav1.Condition, bool) { return works.Applied(place, in(place, all)) })
	}
	switch {
	case !p.hosted:
		r.unset = append(r.unset, addon.ConditionHostingManifestApplied, addon.ConditionHostingClusterValidity)
	case p.host != nil:
		r.set = append(r.set, metav1.Condition{Type: addon.ConditionHostingClusterValidity, Status: metav1.ConditionTrue,
			Reason: addon.ReasonHostingClusterValid, Message: fmt.Sprintf("hosting cluster %s is a managed cluster of the hub", p.asked)})
	default:
		r.set = append(r.set, metav1.Condition{Type: addon.ConditionHostingClusterValidity, Status: metav1.ConditionFalse,
			Reason: addon.ReasonHostingClusterNotOne, Message: fmt.Sprintf("hosting cluster %s is not a managed cluster of the hub", p.asked)})
	}
}

// applied says how the works of a place are. As long as the agent has not reported on
// new ones, what was said of earlier ones stays, but for failures.
func (r *report) applied(p *pass, place works.Place, none bool, condition func() (metav1.Condition, bool)) {
	which := appliedIn(place)
	if none && !r.nothing[which] {
		return // they are yet to come
	}
	found, known := condition()
	if known {
		r.set = append(r.set, found)
	} else if have := p.conditionOf(which); have != nil && have.Status == metav1.ConditionFalse {
		r.unset = append(r.unset, which)
	}
}

// publish puts what a pass says into the status. What is new and bad becomes an event,
// too.
func (c *Controller) publish(p *pass, r *report) {
	a := p.addOn
	now := metav1.NewTime(c.clock.Now())
	for _, condition := range r.set {
		condition.Message = shortened(condition.Message)
		condition.LastTransitionTime = now
		have := p.conditionOf(condition.Type)
		if condition.Reason == addon.ReasonManifestWorkFailed && (have == nil || have.Message != condition.Message) {
			c.events.Eventf(a, nil, corev1.EventTypeWarning, eventFailed, "Deploy", "%s", condition.Message)
		}
		meta.SetStatusCondition(&a.Status.Conditions, condition)
	}
	for _, which := range r.unset {
		meta.RemoveStatusCondition(&a.Status.Conditions, which)
	}
	a.Status.HealthCheck.Mode = v1alpha1.HealthCheckModeCustomized
	all := slices.Concat(p.own, in(p.hosting(), p.away))
	available, known := health.Available(health.Input{AddOn: a, Cluster: p.cluster, Works: all, Objects: works.Objects(all)})
	if known {
		available.LastTransitionTime = now
		meta.SetStatusCondition(&a.Status.Conditions, available)
	}
}

// shortened is a message as long as conditions may have it.
func shortened(message string) string { return text.Cut(message, limits.ConditionMessage) }

// availability is what a cluster's condition says; nothing before there is one.
func availability(mc *clusterv1.ManagedCluster) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable); c != nil {
		return c.Status
	}
	return ""
}
