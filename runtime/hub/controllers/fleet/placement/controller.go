// Package placement keeps the decisions of placements: which clusters each has
// chosen. The scheduling library decides what to choose. The controller passes
// what it watches to an incremental engine over the library, which also returns
// the placements that a change concerns, and writes the results.
package placement

import (
	"context"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling/incremental"
)

// Controller reconciles Placements.
type Controller struct {
	client client.Client
	events events.EventRecorder
	clock  clock.PassiveClock

	engine *incremental.Engine
	notes  notes
	// judge is set when the controller is registered; without a manager, each
	// reconciliation waits for its judgements itself.
	judge *judge
}

// NewController makes the controller. Its engine is empty until the watches of
// its manager, or a test, fill it.
func NewController(c client.Client, recorder events.EventRecorder, clk clock.PassiveClock, o scheduling.Options) *Controller {
	return &Controller{client: c, events: recorder, clock: clk, engine: incremental.New(o)}
}

// Engine is what decides.
func (c *Controller) Engine() *incremental.Engine { return c.engine }

// Register adds the controller to a manager. It starts to work when the engine
// has all objects: from a part of the fleet it would make decisions without the
// rest.
func (c *Controller) Register(m manager.Manager) error {
	b := builder.ControllerManagedBy(m).Named("placement").WithOptions(controller.Options{MaxConcurrentReconciles: 4})
	for _, f := range feeds(c.engine) {
		b.Watches(f.kind, f.handler())
	}
	// What the judge has judged goes into the controller's queue.
	var queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	c.judge = newJudge(c.engine, func(key types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: key}) })
	b.WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue = q
		return nil
	}))
	if err := b.Complete(patch.RetryConflicts(c)); err != nil {
		return err
	}
	return m.Add(manager.RunnableFunc(c.judge.run))
}

// schedule decides about a placement, or has it judged first.
func (c *Controller) schedule(key types.NamespacedName) (incremental.Scheduled, incremental.State) {
	if c.judge == nil {
		s, ok := c.engine.Schedule(key, c.clock.Now())
		if !ok {
			return s, incremental.Unknown
		}
		return s, incremental.Decided
	}
	s, state := c.engine.TrySchedule(key, c.clock.Now())
	if state == incremental.Unjudged {
		c.judge.add(key)
	}
	return s, state
}

// Reconcile schedules a placement and writes down what has changed.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	scheduled, state := c.schedule(r.NamespacedName)
	switch state {
	case incremental.Unknown:
		c.notes.forget(r.NamespacedName)
		return reconcile.Result{}, nil
	case incremental.Unjudged:
		return reconcile.Result{}, nil // comes again when it is judged
	}
	p := scheduled.Placement
	if !p.DeletionTimestamp.IsZero() || p.Annotations[cluster.SchedulingDisabledAnnotation] == "true" {
		return reconcile.Result{}, nil
	}
	if err := c.writeDecisions(ctx, scheduled); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.writeStatus(ctx, p, scheduled.Result); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: scheduled.Result.RequeueAfter}, nil
}

// writeDecisions creates, updates and deletes PlacementDecisions until they are
// those that are wanted.
func (c *Controller) writeDecisions(ctx context.Context, s incremental.Scheduled) error {
	p := s.Placement
	byName := make(map[string]*clusterv1beta1.PlacementDecision, len(s.Present))
	for _, d := range s.Present {
		byName[d.Name] = d
	}
	var written *clusterv1beta1.PlacementDecision
	for _, w := range inSafeOrder(scheduling.Decisions(p.Name, s.Result.Groups), byName) {
		d, err := c.writeDecision(ctx, p, byName[w.Name], w, s.Result.Warning)
		if err != nil {
			return fmt.Errorf("write the decision %s/%s: %w", p.Namespace, w.Name, err)
		}
		if written == nil {
			written = d
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
	if written != nil {
		c.scored(p, written)
		c.explained(s, written)
	}
	return nil
}

// writeDecision makes a decision what is wanted, and returns it if its clusters
// are others now. The one that is there belongs to the cache and is not changed.
func (c *Controller) writeDecision(
	ctx context.Context, p *clusterv1beta1.Placement, there *clusterv1beta1.PlacementDecision, want scheduling.Decision, warning *scheduling.Problem,
) (*clusterv1beta1.PlacementDecision, error) {
	if there != nil && owned(there, p, want.Labels) && holds(there, want.Clusters) {
		return nil, nil
	}
	have := there.DeepCopy()
	if have == nil {
		have = &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: want.Name}}
		own(have, p, want.Labels)
		if err := c.client.Create(ctx, have); err != nil {
			return nil, err
		}
		c.eventf(p, have, "DecisionCreate", "DecisionCreated", "created")
	} else if !owned(have, p, want.Labels) {
		written, err := patch.Object(ctx, c.client, have, func() bool {
			own(have, p, want.Labels)
			return true
		})
		if err != nil || !written {
			return nil, err
		}
	}
	written, err := patch.Status(ctx, c.client, have, func() bool { return hold(have, want.Clusters) })
	if err != nil || !written {
		return nil, err
	}
	c.updated(p, have, warning)
	return have, nil
}

// hold makes a decision about these clusters, and reports whether it was about
// others.
func hold(d *clusterv1beta1.PlacementDecision, clusters []string) bool {
	if holds(d, clusters) {
		return false
	}
	d.Status.Decisions = make([]clusterv1beta1.ClusterDecision, 0, len(clusters))
	for _, name := range clusters {
		d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: name})
	}
	return true
}

// holds reports whether a decision is about these clusters, and says nothing
// else about them. One without a list has not been written yet.
func holds(d *clusterv1beta1.PlacementDecision, clusters []string) bool {
	return d.Status.Decisions != nil && slices.EqualFunc(d.Status.Decisions, clusters, func(have clusterv1beta1.ClusterDecision, want string) bool {
		return have == clusterv1beta1.ClusterDecision{ClusterName: want}
	})
}

func (c *Controller) writeStatus(ctx context.Context, p *clusterv1beta1.Placement, result scheduling.Result) error {
	status := *p.Status.DeepCopy()
	status.NumberOfSelectedClusters = int32(result.Selected)
	status.DecisionGroups = decisionGroups(p.Name, result.Groups)
	for _, condition := range result.Conditions {
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	if apiequality.Semantic.DeepEqual(p.Status, status) {
		return nil
	}
	p = p.DeepCopy() // the cache's
	_, err := patch.Status(ctx, c.client, p, func() bool {
		p.Status = status
		return true
	}, patch.SoleWriter())
	return patch.Explain(err, "report on the placement %s/%s", p.Namespace, p.Name)
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

// feed is how one kind of object gets into the engine.
type feed struct {
	kind   client.Object
	upsert func(client.Object) []types.NamespacedName
	remove func(types.NamespacedName) []types.NamespacedName
}

// feeds are those of all kinds that placements depend on.
func feeds(e *incremental.Engine) []feed {
	return []feed{
		{
			&clusterv1.ManagedCluster{},
			func(o client.Object) []types.NamespacedName { return e.UpsertCluster(o.(*clusterv1.ManagedCluster)) },
			func(key types.NamespacedName) []types.NamespacedName { return e.DeleteCluster(key.Name) },
		},
		{
			&clusterv1beta2.ManagedClusterSet{},
			func(o client.Object) []types.NamespacedName {
				return e.UpsertSet(o.(*clusterv1beta2.ManagedClusterSet))
			},
			func(key types.NamespacedName) []types.NamespacedName { return e.DeleteSet(key.Name) },
		},
		{
			&clusterv1beta2.ManagedClusterSetBinding{},
			func(o client.Object) []types.NamespacedName { return e.UpsertBinding(client.ObjectKeyFromObject(o)) },
			e.DeleteBinding,
		},
		{
			&clusterv1alpha1.AddOnPlacementScore{},
			func(o client.Object) []types.NamespacedName {
				return e.UpsertScore(o.(*clusterv1alpha1.AddOnPlacementScore))
			},
			e.DeleteScore,
		},
		{
			&clusterv1beta1.Placement{},
			func(o client.Object) []types.NamespacedName {
				return e.UpsertPlacement(o.(*clusterv1beta1.Placement))
			},
			e.DeletePlacement,
		},
		{
			&clusterv1beta1.PlacementDecision{},
			func(o client.Object) []types.NamespacedName {
				return e.UpsertDecision(o.(*clusterv1beta1.PlacementDecision))
			},
			e.DeleteDecision,
		},
	}
}

// handler passes an event to the engine before it enqueues the placements that it
// concerns, so that they are scheduled with it. The objects are those of the
// cache, which nobody changes.
func (f feed) handler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue, concerned []types.NamespacedName) {
		for _, request := range watch.Requests(concerned) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, f.upsert(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { wake(q, f.upsert(e.ObjectNew)) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			wake(q, f.remove(client.ObjectKeyFromObject(e.Object)))
		},
	}
}
