// Package replicaset keeps, for every ManifestWorkReplicaSet, a ManifestWork of
// its template in each cluster that its placements select, and rolls changes of
// the template out by the placements' strategies.
//
// A pass reads a snapshot (the set, its placements with their decisions, its
// works), plans from it alone what to write, writes, and reports. Nothing is
// remembered between passes, so a hub that is started again goes on where it
// was. The works name the set and the placement that they are for in two labels;
// a cluster that two placements select has a work for either.
//
// Where upstream's rollouts stall because nothing yields the condition
// Progressing for a work, these go on: see statusOf.
package replicaset

import (
	"context"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

const (
	// longestWait is the longest time until a set is looked at again while time
	// alone decides about one of its clusters.
	longestWait = 30 * time.Minute
	// catchUp is when to look again if no event has come that shows that the
	// cache has caught up.
	catchUp = time.Second
)

// Controller reconciles ManifestWorkReplicaSets.
type Controller struct {
	client client.Client
	// live reads from the server.
	live  client.Reader
	clock clock.PassiveClock
	// needsProgressing has works count as done only by their condition
	// Progressing.
	needsProgressing bool
	works            works
	awaited          awaited
}

// NewController makes the controller. live reads around the cache.
// needsProgressing is whether features.RolloutNeedsProgressing is on.
func NewController(c client.Client, live client.Reader, clk clock.PassiveClock, needsProgressing bool) *Controller {
	return &Controller{client: c, live: live, clock: clk, needsProgressing: needsProgressing, works: liveWorks(live)}
}

// Reconcile brings the works of one set in line with its template and its
// placements.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	if err := c.client.Get(ctx, r.NamespacedName, set); err != nil {
		if apierrors.IsNotFound(err) {
			c.awaited.remember(r.NamespacedName, nil)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !set.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, c.finalize(ctx, set)
	}
	before := set.DeepCopy()
	if controllerutil.AddFinalizer(set, work.ReplicaSetFinalizer) {
		// Before the first work, so that none outlives the set.
		if err := c.client.Patch(ctx, set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return reconcile.Result{}, ignoreOutdated(err)
		}
	}
	if problem, ok := invalidName(set); ok {
		return reconcile.Result{}, c.reportInvalidName(ctx, set, problem)
	}
	s, err := c.snapshot(ctx, set)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("gather what the ManifestWorkReplicaSet %s depends on: %w", r.NamespacedName, err)
	}
	c.awaited.remember(r.NamespacedName, s.refused())
	p := decide(s, c.clock.Now(), c.needsProgressing)
	if len(p.writes) > 0 {
		behind, err := c.behind(ctx, s)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("see whether the works of the ManifestWorkReplicaSet %s are known: %w", r.NamespacedName, err)
		}
		if behind {
			return reconcile.Result{RequeueAfter: catchUp}, nil
		}
	}
	failed := c.carryOut(ctx, set, &p)
	if err := c.report(ctx, set, p, failed); err != nil {
		return reconcile.Result{}, err
	}
	if failed != nil {
		return reconcile.Result{}, failed
	}
	return reconcile.Result{RequeueAfter: min(p.recheck, longestWait)}, nil
}

// ignoreOutdated leaves out the errors that say that the set is not any more
// what it was in the cache. The event that tells of that brings us back.
func ignoreOutdated(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// report writes what has become of the set into its status.
func (c *Controller) report(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, p plan, failed error) error {
	return c.patchStatus(ctx, set, func(status *workv1alpha1.ManifestWorkReplicaSetStatus) []metav1.Condition {
		status.Summary = p.summary()
		status.PlacementsSummary = p.placementSummaries()
		return p.conditions(set.Namespace, failed)
	})
}

// reportInvalidName tells of a set whose works can't be labelled.
func (c *Controller) reportInvalidName(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, problem string) error {
	return c.patchStatus(ctx, set, func(*workv1alpha1.ManifestWorkReplicaSetStatus) []metav1.Condition {
		return []metav1.Condition{{
			Type: work.ConditionManifestworkApplied, Status: metav1.ConditionFalse, Reason: work.ReasonInvalidManifestWorkName,
			Message: fmt.Sprintf("the works need the label %s=%s, which is not valid: %s; give the set a shorter name", work.ReplicaSetLabel, labelValue(set), problem),
		}}
	})
}

// patchStatus changes a set's status, and writes it if that made a difference.
func (c *Controller) patchStatus(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, change func(*workv1alpha1.ManifestWorkReplicaSetStatus) []metav1.Condition) error {
	before := set.DeepCopy()
	for _, condition := range change(&set.Status) {
		condition.ObservedGeneration = set.Generation
		condition.LastTransitionTime = metav1.NewTime(c.clock.Now())
		meta.SetStatusCondition(&set.Status.Conditions, condition)
	}
	if apiequality.Semantic.DeepEqual(before.Status, set.Status) {
		return nil
	}
	if err := c.client.Status().Patch(ctx, set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); ignoreOutdated(err) != nil {
		return fmt.Errorf("report on the ManifestWorkReplicaSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	return nil
}
