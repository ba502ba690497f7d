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
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
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
	err = errors.Join(
		c.report(ctx, a, p.status),
		apply.Parallel(len(p.changes), func(i int) error { return c.configure(ctx, p.changes[i]) }),
	)
	return reconcile.Result{RequeueAfter: min(p.recheck, longestWait)}, err
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
	if err != nil {
		return fmt.Errorf("report on the ClusterManagementAddOn %s: %w", a.Name, err)
	}
	return nil
}

// configure writes the configuration of one ManagedClusterAddOn.
func (c *Controller) configure(ctx context.Context, x change) error {
	if !x.differs() {
		return nil
	}
	a := x.addOn.DeepCopy()
	_, err := patch.Status(ctx, c.client, a, func() bool {
		a.Status.ConfigReferences = x.references
		if x.kinds != nil {
			a.Status.SupportedConfigs = x.kinds
		}
		now := metav1.NewTime(c.clock.Now())
		condition := x.condition()
		condition.LastTransitionTime = now
		meta.SetStatusCondition(&a.Status.Conditions, condition)
		if progressing := meta.FindStatusCondition(a.Status.Conditions, addon.ConditionProgressing); x.restart && progressing != nil {
			progressing.LastTransitionTime = now
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("configure the add-on %s of the cluster %s: %w", a.Name, a.Namespace, err)
	}
	return nil
}
