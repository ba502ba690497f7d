// Package replicaset keeps, for every ManifestWorkReplicaSet, a ManifestWork of
// its template in each cluster that its placements select, and rolls changes of
// the template out by the placements' strategies.
//
// A pass reads a snapshot (the set, its placements with their decisions, its
// works), plans from it alone what to write, writes, and reports. What is remembered
// between passes (known.go, contents.go) only saves reads and computing, so a restarted hub
// goes on where it was. The works name the set and the placement that they are for in two
// labels; a cluster that two placements select has a work for either.
//
// Where upstream's rollouts stall because nothing yields the condition
// Progressing for a work, these go on: see rollout.OfWork.
package replicaset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

const (
	// workers is how many sets are reconciled at a time.
	workers = 5
	// longestWait is the longest time until a set is looked at again while time
	// alone decides about one of its clusters.
	longestWait = 30 * time.Minute
	// catchUp is when to look again if no event has come that shows that the
	// cache has caught up.
	catchUp = time.Second
	// gather is how long a change of a work waits for those of others of its set: the
	// agents of a hundred clusters report within a second, each a few times, and a pass
	// looks at all works of the set and writes its status.
	gather = 100 * time.Millisecond
)

// Controller reconciles ManifestWorkReplicaSets.
type Controller struct {
	client client.Client
	// live reads from the server.
	live   client.Reader
	events events.EventRecorder
	clock  clock.PassiveClock
	// needsProgressing has works count as done only by their condition
	// Progressing.
	needsProgressing bool
	rule             selection.Rule
	works            works
	awaited          selection.Awaited
	// overrides is whether sets may have a WorkOverride, and limit how large a work may be,
	// in bytes.
	overrides bool
	limit     int
	rendered  rendered
	known     known
}

// Options say how rollouts proceed.
type Options struct {
	// NeedsProgressing is whether features.RolloutNeedsProgressing is on.
	NeedsProgressing bool
	// Rule is which clusters the decisions of placements may name.
	Rule selection.Rule
	// Overrides is whether the hub serves WorkOverrides.
	Overrides bool
	// ManifestLimit is the greatest total size of a work's manifests, in bytes.
	ManifestLimit int
}

// NewController makes the controller. live reads past the cache.
func NewController(c client.Client, live client.Reader, recorder events.EventRecorder, clk clock.PassiveClock, o Options) *Controller {
	return &Controller{
		client: c, live: live, events: recorder, clock: clk, needsProgressing: o.NeedsProgressing, rule: o.Rule,
		works: liveWorks(live), overrides: o.Overrides, limit: o.ManifestLimit,
	}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	if err := m.GetFieldIndexer().IndexField(context.Background(), &workv1alpha1.ManifestWorkReplicaSet{}, byPlacement, placementsOf); err != nil {
		return err
	}
	if err := m.GetFieldIndexer().IndexField(context.Background(), &clusterv1beta1.Placement{}, external, scheduledElsewhere); err != nil {
		return err
	}
	if err := m.GetFieldIndexer().IndexField(context.Background(), &workv1.ManifestWork{}, bySet, labelled); err != nil {
		return err
	}
	c.works = works{Reader: m.GetClient(), of: func(label string) client.ListOption {
		return client.MatchingFields{bySet: label}
	}}
	b := builder.ControllerManagedBy(m).
		Named("manifestworkreplicaset").
		// Its own reports, too: one that was made from an older state of the set is
		// checked again.
		For(&workv1alpha1.ManifestWorkReplicaSet{}).
		Watches(&clusterv1beta1.Placement{}, handler.EnqueueRequestsFromMapFunc(c.ofPlacement),
			builder.WithPredicates(watch.Changed(selection.PlacementChanged))).
		Watches(&clusterv1beta1.PlacementDecision{}, handler.EnqueueRequestsFromMapFunc(c.ofDecision)).
		// Which clusters a placement may choose. Our own scheduler writes the
		// decisions again then; of other schedulers that is not known.
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster),
			builder.WithPredicates(watch.Changed(selection.StandingChanged))).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.ofChoice),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1beta2.ManagedClusterSetBinding{}, handler.EnqueueRequestsFromMapFunc(c.ofChoice),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&workv1.ManifestWork{}, workEvents(), builder.WithPredicates(watch.Changed(workChanged))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	if c.overrides {
		err := m.GetFieldIndexer().IndexField(
			context.Background(), &workv1alpha1.ManifestWorkReplicaSet{}, byOverride, overridesOf)
		if err != nil {
			return err
		}
		b = b.Watches(&v1alpha1.WorkOverride{}, handler.EnqueueRequestsFromMapFunc(c.ofOverride),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			Watches(&clusterv1.ManagedCluster{}, watch.After(gather, handler.EnqueueRequestsFromMapFunc(c.ofContent)),
				builder.WithPredicates(watch.Changed(override.Changed)))
	}
	return b.Complete(patch.RetryConflicts(c))
}

// Reconcile brings the works of one set in line with its template and its
// placements.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	if err := c.client.Get(ctx, r.NamespacedName, set); err != nil {
		if apierrors.IsNotFound(err) {
			c.awaited.Remember(r.NamespacedName, nil)
			c.rendered.forget(r.NamespacedName)
			c.known.forget(r.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !set.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, c.finalize(ctx, set)
	}
	if !controllerutil.ContainsFinalizer(set, work.ReplicaSetFinalizer) {
		// Before the first work, so that none outlives the set.
		written, err := patch.Object(ctx, c.client, set, func() bool { return controllerutil.AddFinalizer(set, work.ReplicaSetFinalizer) })
		if err != nil || !written {
			return reconcile.Result{}, ignoreOutdated(err)
		}
		c.known.begin(set) // nobody has made works of it before
	}
	if problem, ok := invalidName(set); ok {
		return reconcile.Result{}, c.reportInvalidName(ctx, set, problem)
	}
	s, err := c.snapshot(ctx, set)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("gather what the ManifestWorkReplicaSet %s depends on: %w", r.NamespacedName, err)
	}
	c.awaited.Remember(r.NamespacedName, append(s.refused(), s.contents.without()...))
	p := decide(s, c.clock.Now(), c.needsProgressing)
	if len(p.writes) > 0 || c.known.of(set).awaits() {
		behind, err := c.behind(ctx, set, s.works)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("see whether the works of the ManifestWorkReplicaSet %s are known: %w", r.NamespacedName, err)
		}
		if behind && len(p.writes) > 0 {
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

// ignoreOutdated ignores a conflict: the set is watched without predicates, so
// the change that it conflicts with is an event that leads to another pass.
func ignoreOutdated(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// report writes the state of the set into its status.
func (c *Controller) report(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, p plan, failed error) error {
	refused := p.refusals(set.Namespace)
	before := meta.FindStatusCondition(set.Status.Conditions, work.ConditionPlacementVerified)
	if refused != "" && (before == nil || before.Message != refused) {
		c.events.Eventf(set, nil, corev1.EventTypeWarning, cluster.EventClustersNotSelected, "Select", "%s", text.Cut(refused, limits.EventNote))
	}
	c.announce(set, p.overridden)
	if p.gates != nil {
		said := ""
		if before := meta.FindStatusCondition(set.Status.Conditions, muster.ConditionGatesOpen); before != nil {
			said = before.Message
		}
		if approved := rollout.NewlyApproved(p.gates.Message, said); approved != "" {
			c.events.Eventf(set, nil, corev1.EventTypeNormal, muster.EventRolloutApproved, "RollOut", "%s",
				text.Cut(approved, limits.EventNote))
		}
	}
	return c.patchStatus(ctx, set, func(status *workv1alpha1.ManifestWorkReplicaSetStatus) []metav1.Condition {
		if p.gates == nil {
			meta.RemoveStatusCondition(&status.Conditions, muster.ConditionGatesOpen)
		}
		if p.overridden == nil {
			meta.RemoveStatusCondition(&status.Conditions, muster.ConditionOverridden)
		}
		status.Summary = p.summary()
		status.PlacementsSummary = p.placementSummaries()
		return p.conditions(set.Namespace, failed)
	})
}

// announce has an event say what a set's override lacks, when that is new.
func (c *Controller) announce(set *workv1alpha1.ManifestWorkReplicaSet, now *metav1.Condition) {
	if now == nil || now.Status == metav1.ConditionTrue {
		return
	}
	before := meta.FindStatusCondition(set.Status.Conditions, now.Type)
	if before != nil && before.Message == now.Message {
		return
	}
	c.events.Eventf(set, nil, corev1.EventTypeWarning, now.Reason, "Override", "%s",
		text.Cut(now.Message, limits.EventNote))
}

// reportInvalidName reports a set whose works can't be labelled.
func (c *Controller) reportInvalidName(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, problem string) error {
	return c.patchStatus(ctx, set, func(*workv1alpha1.ManifestWorkReplicaSetStatus) []metav1.Condition {
		return []metav1.Condition{{
			Type: work.ConditionManifestworkApplied, Status: metav1.ConditionFalse, Reason: work.ReasonInvalidManifestWorkName,
			Message: fmt.Sprintf("the works need the label %s=%s, which is not valid: %s; give the set a shorter name", work.ReplicaSetLabel, labelValue(set), problem),
		}}
	})
}

// patchStatus changes a set's status, and writes it if that made a difference.
func (c *Controller) patchStatus(
	ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, change func(*workv1alpha1.ManifestWorkReplicaSetStatus) []metav1.Condition,
) error {
	_, err := patch.Status(ctx, c.client, set, func() bool {
		before := set.Status.DeepCopy()
		for _, condition := range change(&set.Status) {
			condition.ObservedGeneration = set.Generation
			condition.LastTransitionTime = metav1.NewTime(c.clock.Now())
			meta.SetStatusCondition(&set.Status.Conditions, condition)
		}
		return !apiequality.Semantic.DeepEqual(*before, set.Status)
	})
	return patch.Explain(ignoreOutdated(err), "report on the ManifestWorkReplicaSet %s", client.ObjectKeyFromObject(set))
}

// finalize deletes the works of a set that is being deleted, and then removes its
// finalizer: at once, or with the policy Foreground when they are gone.
func (c *Controller) finalize(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) error {
	if !controllerutil.ContainsFinalizer(set, work.ReplicaSetFinalizer) {
		return nil
	}
	if _, ok := invalidName(set); !ok { // with such a name it can have none
		left, err := c.deleteWorks(ctx, set)
		if err != nil {
			return err
		}
		if left && set.Spec.CascadeDeletionPolicy == workv1alpha1.CascadeDeletionPolicyForeground {
			return nil // the deletion of each work leads here again
		}
	}
	_, err := patch.Object(ctx, c.client, set, func() bool { return controllerutil.RemoveFinalizer(set, work.ReplicaSetFinalizer) })
	return patch.Explain(ignoreOutdated(err), "remove the finalizer from the ManifestWorkReplicaSet %s", client.ObjectKeyFromObject(set))
}

// deleteWorks deletes the works of a set, and reports whether any are left.
func (c *Controller) deleteWorks(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) (left bool, err error) {
	works, err := c.cached(ctx, set)
	if err != nil {
		return false, err
	}
	living := func(w *workv1.ManifestWork) bool { return w.DeletionTimestamp.IsZero() }
	foreground := set.Spec.CascadeDeletionPolicy == workv1alpha1.CascadeDeletionPolicyForeground
	if len(works) > 0 && !slices.ContainsFunc(works, living) && foreground {
		return true, nil // all of them are being deleted
	}
	// The cache may not have the newest yet, and nothing would delete that once the set is
	// gone.
	behind, err := c.behind(ctx, set, works)
	if err != nil {
		return false, err
	}
	if !behind {
		gone := slices.DeleteFunc(slices.Clone(works), func(w *workv1.ManifestWork) bool { return !living(w) })
		return len(works) > 0, c.deleteAll(ctx, keysOf(gone))
	}
	there, err := c.onServer(ctx, set)
	if err != nil {
		return false, err
	}
	var keys []key
	for i := range there {
		if there[i].DeletionTimestamp.IsZero() {
			keys = append(keys, key{client.ObjectKeyFromObject(&there[i]), there[i].UID})
		}
	}
	return len(there) > 0, c.deleteAll(ctx, keys)
}

const (
	// byPlacement is the index of sets by the placements that they name.
	byPlacement = "spec.placementRefs.name"
	// external is the index of placements that another scheduler decides for; all
	// of them have the value "true".
	external = "metadata.annotations.schedulingdisabled"
	// bySet is the index of works by the label that names their set.
	bySet = "metadata.labels.set"
)

func labelled(o client.Object) []string {
	if set := o.GetLabels()[work.ReplicaSetLabel]; set != "" {
		return []string{set}
	}
	return nil
}

func scheduledElsewhere(o client.Object) []string {
	if selection.ScheduledElsewhere(o) {
		return []string{"true"}
	}
	return nil
}

func placementsOf(o client.Object) (names []string) {
	for _, ref := range o.(*workv1alpha1.ManifestWorkReplicaSet).Spec.PlacementRefs {
		names = append(names, ref.Name)
	}
	return names
}

// ofCluster are the sets that wait for a cluster, and those that another
// scheduler decides for.
func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return append(watch.Requests(c.awaited.Of(o.GetName())), c.externallyScheduled(ctx, "")...)
}

// ofChoice are the sets that a change of what may be chosen concerns: of all
// namespaces for a cluster set, of its own for a binding.
func (c *Controller) ofChoice(ctx context.Context, o client.Object) []reconcile.Request {
	return append(watch.Requests(c.awaited.In(o.GetNamespace())), c.externallyScheduled(ctx, o.GetNamespace())...)
}

// externallyScheduled are the sets with a placement that another scheduler
// decides for, in a namespace or, if that is empty, anywhere.
func (c *Controller) externallyScheduled(ctx context.Context, namespace string) (out []reconcile.Request) {
	placements := watch.Matching[client.Object](ctx, c.client, &clusterv1beta1.PlacementList{}, nil,
		client.InNamespace(namespace), client.MatchingFields{external: "true"})
	for _, p := range placements {
		out = append(out, c.naming(ctx, p.NamespacedName)...)
	}
	return out
}

// workChanged selects changes of what the cache holds of a work.
func workChanged(was, is *workv1.ManifestWork) bool {
	return was.UID != is.UID || was.Generation != is.Generation || !maps.Equal(was.Labels, is.Labels) ||
		!apiequality.Semantic.DeepEqual(was.Status, is.Status)
}

// ofWork is the set of a work.
func ofWork(_ context.Context, o client.Object) []reconcile.Request {
	if set, ok := setOf(o.GetLabels()[work.ReplicaSetLabel]); ok {
		return []reconcile.Request{{NamespacedName: set}}
	}
	return nil
}

// workEvents enqueue the set of a work once other works of the set had time to change, too.
func workEvents() handler.EventHandler {
	return watch.After(gather, handler.EnqueueRequestsFromMapFunc(ofWork))
}

// ofDecision are the sets of a decision's placement.
func (c *Controller) ofDecision(ctx context.Context, o client.Object) []reconcile.Request {
	return c.naming(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[cluster.PlacementLabel]})
}

func (c *Controller) ofPlacement(ctx context.Context, o client.Object) []reconcile.Request {
	return c.naming(ctx, client.ObjectKeyFromObject(o))
}

// naming are the sets that name a placement.
func (c *Controller) naming(ctx context.Context, placement types.NamespacedName) []reconcile.Request {
	return watch.Matching[client.Object](ctx, c.client, &workv1alpha1.ManifestWorkReplicaSetList{}, nil,
		client.InNamespace(placement.Namespace), client.MatchingFields{byPlacement: placement.Name})
}
