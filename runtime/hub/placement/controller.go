// Package placement keeps the decisions of placements: which clusters each has
// chosen. What to choose is decided by the scheduling library; this package
// gathers the snapshot for it and writes down the result.
package placement

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/clusterset/membership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/placement/scheduling"
)

// Controller reconciles Placements.
type Controller struct {
	client client.Client
	events events.EventRecorder
	clock  clock.PassiveClock
}

// NewController makes the controller.
func NewController(c client.Client, recorder events.EventRecorder, clk clock.PassiveClock) *Controller {
	return &Controller{client: c, events: recorder, clock: clk}
}

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("placement").
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		// Changes of the status pass, too: a status that was found right in an
		// outdated copy is looked at once more when the copy is up to date.
		For(&clusterv1beta1.Placement{}).
		Watches(&clusterv1beta1.PlacementDecision{}, handler.EnqueueRequestsFromMapFunc(ofDecision)).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(relevant)).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.ofSet), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1beta2.ManagedClusterSetBinding{}, handler.EnqueueRequestsFromMapFunc(c.ofBinding), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1alpha1.AddOnPlacementScore{}, handler.EnqueueRequestsFromMapFunc(c.ofScore)).
		Complete(c)
}

// relevant lets those changes of a cluster pass that a decision can depend on,
// and not the others, above all what agents report every minute.
var relevant = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*clusterv1.ManagedCluster), e.ObjectNew.(*clusterv1.ManagedCluster)
		return !maps.Equal(was.Labels, is.Labels) ||
			was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
			!apiequality.Semantic.DeepEqual(was.Spec.Taints, is.Spec.Taints) ||
			!reflect.DeepEqual(was.Status.ClusterClaims, is.Status.ClusterClaims) ||
			!apiequality.Semantic.DeepEqual(was.Status.Allocatable, is.Status.Allocatable) ||
			!apiequality.Semantic.DeepEqual(was.Status.Capacity, is.Status.Capacity)
	},
}

func ofDecision(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[cluster.PlacementLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	sets := &clusterv1beta2.ManagedClusterSetList{}
	if err := c.client.List(ctx, sets); err != nil {
		log.FromContext(ctx).Error(err, "list the cluster sets")
		return nil
	}
	var out []reconcile.Request
	for i := range sets.Items {
		if s, err := membership.Selector(&sets.Items[i]); err == nil && s.Matches(labels.Set(o.GetLabels())) {
			out = append(out, c.ofSet(ctx, &sets.Items[i])...)
		}
	}
	return out
}

func (c *Controller) ofSet(ctx context.Context, o client.Object) []reconcile.Request {
	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	if err := c.client.List(ctx, bindings); err != nil {
		log.FromContext(ctx).Error(err, "list the bindings of cluster sets")
		return nil
	}
	var out []reconcile.Request
	for i := range bindings.Items {
		if bindings.Items[i].Name == o.GetName() {
			out = append(out, c.ofBinding(ctx, &bindings.Items[i])...)
		}
	}
	return out
}

// ofBinding finds the placements that choose from the set of a binding.
func (c *Controller) ofBinding(ctx context.Context, o client.Object) []reconcile.Request {
	placements := &clusterv1beta1.PlacementList{}
	if err := c.client.List(ctx, placements, client.InNamespace(o.GetNamespace())); err != nil {
		log.FromContext(ctx).Error(err, "list the placements")
		return nil
	}
	var out []reconcile.Request
	for i := range placements.Items {
		p := &placements.Items[i]
		if sets := p.Spec.ClusterSets; len(sets) == 0 || slices.Contains(sets, o.GetName()) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)})
		}
	}
	return out
}

// ofScore finds the placements that rank by a score of that name. Scores come
// rarely, so which clusters they concern is left to the scheduling.
func (c *Controller) ofScore(ctx context.Context, o client.Object) []reconcile.Request {
	placements := &clusterv1beta1.PlacementList{}
	if err := c.client.List(ctx, placements); err != nil {
		log.FromContext(ctx).Error(err, "list the placements")
		return nil
	}
	var out []reconcile.Request
	for i := range placements.Items {
		p := &placements.Items[i]
		if slices.ContainsFunc(p.Spec.PrioritizerPolicy.Configurations, func(x clusterv1beta1.PrioritizerConfig) bool {
			return x.ScoreCoordinate != nil && x.ScoreCoordinate.AddOn != nil && x.ScoreCoordinate.AddOn.ResourceName == o.GetName()
		}) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)})
		}
	}
	return out
}

// Reconcile schedules a placement and writes down what has changed.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	p := &clusterv1beta1.Placement{}
	if err := c.client.Get(ctx, r.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !p.DeletionTimestamp.IsZero() || p.Annotations[cluster.SchedulingDisabledAnnotation] == "true" {
		return reconcile.Result{}, nil
	}
	present, in, err := c.snapshot(ctx, p)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("gather what the placement %s depends on: %w", r.NamespacedName, err)
	}
	result := scheduling.Schedule(in)
	if err := c.writeDecisions(ctx, p, present, scheduling.Decisions(p.Name, result.Groups)); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.writeStatus(ctx, p, result); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: result.RequeueAfter}, nil
}

// snapshot gathers what a placement's decision depends on, and its present
// decisions.
func (c *Controller) snapshot(ctx context.Context, p *clusterv1beta1.Placement) ([]clusterv1beta1.PlacementDecision, scheduling.Input, error) {
	in := scheduling.Input{Placement: p, Now: c.clock.Now(), Selected: map[string]bool{}, Elsewhere: map[string]int{}}

	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	if err := c.client.List(ctx, bindings, client.InNamespace(p.Namespace)); err != nil {
		return nil, in, err
	}
	sets := &clusterv1beta2.ManagedClusterSetList{}
	if err := c.client.List(ctx, sets); err != nil {
		return nil, in, err
	}
	byName := map[string]*clusterv1beta2.ManagedClusterSet{}
	for i := range sets.Items {
		byName[sets.Items[i].Name] = &sets.Items[i]
	}
	var bound []string
	for _, b := range bindings.Items {
		bound = append(bound, b.Name)
	}
	in.Sets.Bound, in.Sets.Eligible = membership.Eligible(bound, func(s string) bool { return byName[s] != nil }, p.Spec.ClusterSets)
	var eligible []*clusterv1beta2.ManagedClusterSet
	for _, name := range in.Sets.Eligible {
		eligible = append(eligible, byName[name])
	}

	clusters := &clusterv1.ManagedClusterList{}
	if err := c.client.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, in, err
	}
	all := make([]*clusterv1.ManagedCluster, 0, len(clusters.Items))
	for i := range clusters.Items {
		all = append(all, &clusters.Items[i])
	}
	in.Clusters = membership.Clusters(eligible, all)

	decisions := &clusterv1beta1.PlacementDecisionList{}
	if err := c.client.List(ctx, decisions, client.UnsafeDisableDeepCopy); err != nil {
		return nil, in, err
	}
	var present []clusterv1beta1.PlacementDecision
	for i := range decisions.Items {
		d := &decisions.Items[i]
		if belongs(d, p) {
			present = append(present, *d.DeepCopy())
			for _, x := range d.Status.Decisions {
				in.Selected[x.ClusterName] = true
			}
			continue
		}
		for _, x := range d.Status.Decisions {
			in.Elsewhere[x.ClusterName]++
		}
	}
	in.Score = func(clusterName, resourceName string) *clusterv1alpha1.AddOnPlacementScore {
		score := &clusterv1alpha1.AddOnPlacementScore{}
		if err := c.client.Get(ctx, types.NamespacedName{Namespace: clusterName, Name: resourceName}, score); err != nil {
			return nil
		}
		return score
	}
	return present, in, nil
}

// writeDecisions creates, updates and deletes PlacementDecisions until they are
// those that are wanted.
func (c *Controller) writeDecisions(ctx context.Context, p *clusterv1beta1.Placement, present []clusterv1beta1.PlacementDecision, want []scheduling.Decision) error {
	byName := map[string]*clusterv1beta1.PlacementDecision{}
	for i := range present {
		byName[present[i].Name] = &present[i]
	}
	for _, w := range want {
		if err := c.writeDecision(ctx, p, byName[w.Name], w); err != nil {
			return fmt.Errorf("write the decision %s/%s: %w", p.Namespace, w.Name, err)
		}
		delete(byName, w.Name)
	}
	for _, d := range byName {
		if !disposable(d, p) {
			continue
		}
		if err := c.client.Delete(ctx, d); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the decision %s/%s: %w", d.Namespace, d.Name, err)
		}
		c.eventf(p, d, "DecisionDelete", "DecisionDeleted", "deleted")
	}
	return nil
}

func (c *Controller) writeDecision(ctx context.Context, p *clusterv1beta1.Placement, have *clusterv1beta1.PlacementDecision, want scheduling.Decision) error {
	if have == nil {
		have = &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: want.Name}}
		own(have, p, want.Labels)
		if err := c.client.Create(ctx, have); err != nil {
			return err
		}
		c.eventf(p, have, "DecisionCreate", "DecisionCreated", "created")
	}
	before := have.DeepCopy()
	own(have, p, want.Labels)
	if !apiequality.Semantic.DeepEqual(before.ObjectMeta, have.ObjectMeta) {
		if err := c.client.Patch(ctx, have, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
	}
	decisions := make([]clusterv1beta1.ClusterDecision, 0, len(want.Clusters))
	for _, name := range want.Clusters {
		decisions = append(decisions, clusterv1beta1.ClusterDecision{ClusterName: name})
	}
	if have.Status.Decisions != nil && slices.Equal(decisions, have.Status.Decisions) {
		return nil
	}
	before = have.DeepCopy()
	have.Status.Decisions = decisions
	if err := c.client.Status().Patch(ctx, have, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	c.eventf(p, have, "DecisionUpdate", "DecisionUpdated", "updated")
	return nil
}

func (c *Controller) eventf(p *clusterv1beta1.Placement, d *clusterv1beta1.PlacementDecision, reason, action, verb string) {
	c.events.Eventf(p, d, corev1.EventTypeNormal, reason, action, "Decision %s is %s with placement %s in namespace %s", d.Name, verb, p.Name, p.Namespace)
}

func (c *Controller) writeStatus(ctx context.Context, p *clusterv1beta1.Placement, result scheduling.Result) error {
	before := p.DeepCopy()
	p.Status.NumberOfSelectedClusters = int32(result.Selected)
	p.Status.DecisionGroups = decisionGroups(p.Name, result.Groups)
	for _, condition := range result.Conditions {
		meta.SetStatusCondition(&p.Status.Conditions, condition)
	}
	if apiequality.Semantic.DeepEqual(before.Status, p.Status) {
		return nil
	}
	// Nobody else writes this status, so there is nothing to overwrite.
	if err := c.client.Status().Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("report on the placement %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

func decisionGroups(placement string, groups []scheduling.Group) []clusterv1beta1.DecisionGroupStatus {
	var out []clusterv1beta1.DecisionGroupStatus
	decisions := scheduling.Decisions(placement, groups)
	for index, g := range groups {
		status := clusterv1beta1.DecisionGroupStatus{DecisionGroupIndex: int32(index), DecisionGroupName: g.Name, ClustersCount: int32(len(g.Clusters))}
		for range max(1, (len(g.Clusters)+scheduling.SliceSize-1)/scheduling.SliceSize) {
			status.Decisions = append(status.Decisions, decisions[0].Name)
			decisions = decisions[1:]
		}
		out = append(out, status)
	}
	return out
}
