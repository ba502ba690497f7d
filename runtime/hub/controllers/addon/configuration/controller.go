// Package configuration says for each ManagedClusterAddOn which configurations
// count, and rolls changes of them out by the strategies of the placements that
// install the add-on.
//
// A pass reads a snapshot (the add-on, what its placements select, its
// ManagedClusterAddOns, and for an add-on from a template the configuration objects),
// decides from it alone, writes what differs, and reports how far each placement
// has come. Nothing that decides is remembered between passes.
//
// Who writes what is upstream's contract with managers of add-ons. The manager of an
// add-on hashes configurations: those that a ClusterManagementAddOn names in its
// status, and those of a ManagedClusterAddOn's spec in that one's. The hub names the
// configurations in both, and hands the former hashes on. It leaves the hashes that
// it finds as they are. Of an add-on that is made from an AddOnTemplate the hub is
// the manager, and hashes, too.
package configuration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// longestWait is the longest time until an add-on is looked at again while time
// alone decides about one of its clusters.
const longestWait = 30 * time.Minute

// Controller reconciles the configuration of add-ons.
type Controller struct {
	client client.Client
	// objects reads configuration objects as they are on the wire.
	objects    client.Reader
	events     events.EventRecorder
	clock      clock.PassiveClock
	selections *addons.Selections
	// clusters are how many clusters an add-on was in at its last pass, by name.
	clusters sync.Map
}

// NewController makes the controller. objects reads configuration objects, without
// Go types.
func NewController(
	c client.Client, objects client.Reader, recorder events.EventRecorder, clk clock.PassiveClock, rule selection.Rule,
) *Controller {
	return &Controller{client: c, objects: objects, events: recorder, clock: clk, selections: addons.NewSelections(c, rule)}
}

// Reconcile brings the configuration of one add-on forward.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	a, err := addons.Definition(ctx, c.client, r.Name)
	if a == nil || err != nil {
		c.selections.Forget(r.Name)
		c.clusters.Delete(r.Name)
		return reconcile.Result{}, err
	}
	s, err := c.snapshot(ctx, a)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("gather what the configuration of the add-on %s depends on: %w", a.Name, err)
	}
	c.clusters.Store(a.Name, len(s.addOns))
	p, err := decide(s, c.clock.Now())
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("configure the add-on %s: %w", a.Name, err)
	}
	for _, refused := range p.refused {
		c.events.Eventf(a, nil, corev1.EventTypeWarning, cluster.EventClustersNotSelected, "Select", "%s", text.Cut(refused, limits.EventNote))
	}
	if p.approved != "" {
		c.events.Eventf(a, nil, corev1.EventTypeNormal, muster.EventRolloutApproved, "RollOut", "%s",
			text.Cut(p.approved, limits.EventNote))
	}
	err = errors.Join(
		c.report(ctx, a, p.status),
		apply.Parallel(len(p.changes), func(i int) error { return c.configure(ctx, p.changes[i]) }),
	)
	return reconcile.Result{RequeueAfter: min(p.recheck, longestWait)}, err
}

// Begin puts the configuration of add-ons that are about to be created in clusters into
// their statuses.
func (c *Controller) Begin(
	ctx context.Context, a *v1alpha1.ClusterManagementAddOn, created []*v1alpha1.ManagedClusterAddOn,
) error {
	s, err := c.snapshot(ctx, a)
	if err != nil {
		return err
	}
	s.addOns = append(slices.Clone(s.addOns), created...)
	now := c.clock.Now()
	p, err := decide(s, now)
	for _, x := range p.changes {
		if x.addOn.UID == "" {
			x.put(&x.addOn.Status, now)
		}
	}
	return err
}

// snapshot reads all that a pass decides from.
func (c *Controller) snapshot(ctx context.Context, a *v1alpha1.ClusterManagementAddOn) (s snapshot, err error) {
	s.definition = a
	if configs.FromTemplate(a) {
		s.objects = newObjects(ctx, c.objects)
	}
	if configs.SelfManaged(a) {
		c.selections.Forget(a.Name)
		return s, nil
	}
	if a.Spec.InstallStrategy.Type == v1alpha1.InstallStrategyPlacements {
		if s.placed, err = c.selections.Of(ctx, a); err != nil {
			return s, err
		}
	} else {
		c.selections.Forget(a.Name)
	}
	s.addOns, err = addons.InClusters(ctx, c.client, a.Name)
	return s, err
}

// report writes the status of a ClusterManagementAddOn.
func (c *Controller) report(ctx context.Context, a *v1alpha1.ClusterManagementAddOn, status v1alpha1.ClusterManagementAddOnStatus) error {
	if apiequality.Semantic.DeepEqual(a.Status, status) {
		return nil
	}
	a = a.DeepCopy()
	_, err := patch.Status(ctx, c.client, a, func() bool {
		a.Status = status
		return true
	})
	return patch.Explain(err, "report on the ClusterManagementAddOn %s", a.Name)
}

// configure writes the configuration of one ManagedClusterAddOn.
func (c *Controller) configure(ctx context.Context, x change) error {
	if !x.differs() {
		return nil
	}
	a := x.addOn.DeepCopy()
	_, err := patch.Status(ctx, c.client, a, func() bool {
		x.put(&a.Status, c.clock.Now())
		return true
	})
	return patch.Explain(err, "configure the add-on %s of the cluster %s", a.Name, a.Namespace)
}

// ownConfigs is the index of ManagedClusterAddOns by the configuration objects that
// their specs name, as reference returns them.
const ownConfigs = "spec.configs"

// Register adds the controller to a manager. Its cache needs addons.Index.
func (c *Controller) Register(m manager.Manager) error {
	if err := m.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.ManagedClusterAddOn{}, ownConfigs, configsOf); err != nil {
		return err
	}
	b := builder.ControllerManagedBy(m).
		Named("addon-configuration").
		For(&v1alpha1.ClusterManagementAddOn{}, builder.WithPredicates(watch.Changed(definitionChanged))).
		Watches(&v1alpha1.ManagedClusterAddOn{}, c.paced(), builder.WithPredicates(watch.Changed(addOnChanged)))
	for _, kind := range configs.TemplateKinds() {
		b = b.Watches(newObject(addons.KindOf(kind.Resource)), handler.EnqueueRequestsFromMapFunc(c.naming(kind)),
			builder.WithPredicates(watch.Changed(addons.ConfigurationChanged)))
	}
	return c.selections.Watch(b).Complete(patch.RetryConflicts(c))
}

const (
	// many is how many clusters an add-on is in before its passes are spaced.
	many = 100
	// longestPace is the longest time between two of them.
	longestPace = 2 * time.Second
)

// pace is how long a pass waits for more news of an add-on that is in so many
// clusters: a pass looks at all of them, and each may have several news at a time.
func pace(clusters int) time.Duration {
	if clusters < many {
		return 0
	}
	return min(time.Duration(clusters)*time.Millisecond, longestPace)
}

// paced enqueues the add-on of a ManagedClusterAddOn, at its pace.
func (c *Controller) paced() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(o client.Object, q queue) {
		clusters, _ := c.clusters.Load(o.GetName())
		n, _ := clusters.(int)
		if wait := pace(n); wait > 0 {
			q.AddAfter(watch.Request(o.GetName()), wait)
			return
		}
		q.Add(watch.Request(o.GetName()))
	}
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, e event.CreateEvent, q queue) { add(e.Object, q) },
		UpdateFunc:  func(_ context.Context, e event.UpdateEvent, q queue) { add(e.ObjectNew, q) },
		DeleteFunc:  func(_ context.Context, e event.DeleteEvent, q queue) { add(e.Object, q) },
		GenericFunc: func(_ context.Context, e event.GenericEvent, q queue) { add(e.Object, q) },
	}
}

// definitionChanged selects changes of the spec, of who manages the add-on, of the gates
// of its rollout, and of the status, where its manager puts hashes.
func definitionChanged(was, is *v1alpha1.ClusterManagementAddOn) bool {
	gates := func(a *v1alpha1.ClusterManagementAddOn) [3]string {
		return [3]string{a.Annotations[muster.RolloutGatesAnnotation], a.Annotations[muster.RolloutApprovalsAnnotation],
			a.Annotations[muster.RolloutPausedAnnotation]}
	}
	return was.Generation != is.Generation || configs.SelfManaged(was) != configs.SelfManaged(is) ||
		gates(was) != gates(is) ||
		!apiequality.Semantic.DeepEqual(was.Status, is.Status)
}

// addOnChanged selects changes of what is wanted of an add-on in a cluster, and of
// how far it is.
func addOnChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	return was.Generation != is.Generation || was.UID != is.UID ||
		!apiequality.Semantic.DeepEqual(was.Status.ConfigReferences, is.Status.ConfigReferences) ||
		!apiequality.Semantic.DeepEqual(was.Status.SupportedConfigs, is.Status.SupportedConfigs) ||
		!apiequality.Semantic.DeepEqual(condition(was, addon.ConditionProgressing), condition(is, addon.ConditionProgressing)) ||
		!apiequality.Semantic.DeepEqual(condition(was, addon.ConditionConfigured), condition(is, addon.ConditionConfigured))
}

// condition is one of an add-on, without its message.
func condition(a *v1alpha1.ManagedClusterAddOn, which string) metav1.Condition {
	found := meta.FindStatusCondition(a.Status.Conditions, which)
	if found == nil {
		return metav1.Condition{}
	}
	out := *found
	out.Message = ""
	return out
}

// reference is the value of the index for a configuration object.
func reference(c v1alpha1.AddOnConfig) string {
	return c.Resource + "." + c.Group + "/" + c.Namespace + "/" + c.Name
}

func configsOf(o client.Object) (out []string) {
	for _, c := range o.(*v1alpha1.ManagedClusterAddOn).Spec.Configs {
		out = append(out, reference(c))
	}
	return out
}

// naming returns the add-ons from templates that name a configuration object: as a
// default, for a placement, or for a cluster.
func (c *Controller) naming(kind v1alpha1.ConfigGroupResource) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		object := v1alpha1.AddOnConfig{ConfigGroupResource: kind, ConfigReferent: v1alpha1.ConfigReferent{Namespace: o.GetNamespace(), Name: o.GetName()}}
		out := watch.Matching(ctx, c.client, &v1alpha1.ClusterManagementAddOnList{}, func(a *v1alpha1.ClusterManagementAddOn) bool {
			return configs.FromTemplate(a) && names(a.Spec, object)
		})
		own := watch.Matching[client.Object](ctx, c.client, &v1alpha1.ManagedClusterAddOnList{}, nil,
			client.MatchingFields{ownConfigs: reference(object)})
		for _, r := range own {
			out = append(out, watch.Request(r.Name))
		}
		return out
	}
}

// names reports whether an add-on names a configuration object for many clusters.
func names(spec v1alpha1.ClusterManagementAddOnSpec, object v1alpha1.AddOnConfig) bool {
	return slices.Contains(configs.Defaults(spec), object) || slices.ContainsFunc(spec.InstallStrategy.Placements, func(p v1alpha1.PlacementStrategy) bool {
		return slices.Contains(p.Configs, object)
	})
}
