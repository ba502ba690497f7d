package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// addOnAgents play the work agents of all clusters: whatever work there is, they
// report it as applied and available, with the feedback of a Deployment that runs.
type addOnAgents struct {
	config *rest.Config
	writes atomic.Int64
}

func newAddOnAgents(config *rest.Config) *addOnAgents { return &addOnAgents{config: config} }

// sent is how many writes they have sent.
func (a *addOnAgents) sent() float64 { return float64(a.writes.Load()) }

// play begins to watch the works of add-ons.
func (a *addOnAgents) play(ctx context.Context, c client.WithWatch) {
	seen := make(chan *workv1.ManifestWork, 100_000)
	go func() {
		err := follow(ctx, c, &workv1.ManifestWorkList{}, func(kind watch.EventType, w *workv1.ManifestWork) bool {
			if kind != watch.Deleted && w.DeletionTimestamp.IsZero() && !reported(w) {
				seen <- w
			}
			return false
		}, client.HasLabels{cluster.AddOnNameLabel})
		if err != nil && ctx.Err() == nil {
			fmt.Println("the agents have stopped:", err)
		}
	}()
	for range atOnce {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case w := <-seen:
					if err := a.report(ctx, w); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
						fmt.Printf("the agent of %s could not report on %s: %v\n", w.Namespace, w.Name, err)
					}
				}
			}
		}()
	}
}

// reported reports whether the agent has reported on the work as it is.
func reported(w *workv1.ManifestWork) bool {
	for _, c := range w.Status.Conditions {
		if c.Type == work.ConditionAvailable {
			return c.ObservedGeneration == w.Generation
		}
	}
	return false
}

func (a *addOnAgents) report(ctx context.Context, w *workv1.ManifestWork) error {
	condition := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Bench", ObservedGeneration: w.Generation, LastTransitionTime: metav1.Now()}
	}
	status := workv1.ManifestWorkStatus{Conditions: []metav1.Condition{condition(work.ConditionApplied), condition(work.ConditionAvailable)}}
	for i, m := range w.Spec.Workload.Manifests {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(m.Raw, &o.Object); err != nil {
			return err
		}
		x := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{
			Ordinal: int32(i), Version: "v1", Kind: o.GetKind(), Name: o.GetName(), Namespace: o.GetNamespace(), Resource: "configmaps",
		}, Conditions: status.Conditions}
		if o.GetKind() == "Deployment" {
			x.ResourceMeta.Group, x.ResourceMeta.Resource = "apps", "deployments"
			for _, name := range []string{"ReadyReplicas", "Replicas", "AvailableReplicas"} {
				x.StatusFeedbacks.Values = append(x.StatusFeedbacks.Values, workv1.FeedbackValue{Name: name, Value: workv1.FieldValue{Type: workv1.ValueTypeInteger, Integer: ptr.To[int64](1)}})
			}
		}
		status.ResourceStatus.Manifests = append(status.ResourceStatus.Manifests, x)
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	agent, err := agentClient(a.config, w.Namespace)
	if err != nil {
		return err
	}
	a.writes.Add(1)
	return agent.Status().Patch(ctx, w, client.RawPatch(types.MergePatchType, patch))
}

// follow watches objects until done returns true. A watch that the server ends, as
// its reader was too slow, is opened again, and begins with what there is then.
func follow[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, done func(watch.EventType, T) bool, options ...client.ListOption) error {
	for {
		events, err := c.Watch(ctx, list, options...)
		if err != nil {
			return err
		}
		for event := range events.ResultChan() {
			if o, ok := event.Object.(T); ok && done(event.Type, o) {
				events.Stop()
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// patience is how long nothing may happen to the add-ons.
const patience = time.Minute

// until waits until so many add-ons in clusters satisfy a condition.
func (b *addOnBench) until(ctx context.Context, n int, is func(*addonv1alpha1.ManagedClusterAddOn) bool) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	satisfied := map[string]bool{}
	var last *addonv1alpha1.ManagedClusterAddOn
	idle := time.AfterFunc(patience, func() { stop(errors.New("nothing has happened for a minute")) })
	defer idle.Stop()
	err := follow(ctx, b.watch, &addonv1alpha1.ManagedClusterAddOnList{}, func(_ watch.EventType, a *addonv1alpha1.ManagedClusterAddOn) bool {
		idle.Reset(patience)
		if is(a) {
			satisfied[a.Namespace+"/"+a.Name] = true
		} else {
			last = a
		}
		return len(satisfied) >= n
	})
	if err != nil {
		return fmt.Errorf("%w (%w): %d of %d are done, and one is not: %+v", err, context.Cause(ctx), len(satisfied), n, last)
	}
	return nil
}

// untilGone waits until no cluster has an add-on.
func (b *addOnBench) untilGone(ctx context.Context) error {
	for begin := time.Now(); time.Since(begin) < 10*patience; time.Sleep(time.Second) {
		left := &addonv1alpha1.ManagedClusterAddOnList{}
		b.ownReads++
		if err := b.admin.List(ctx, left, client.Limit(1)); err != nil || len(left.Items) == 0 {
			return err
		}
	}
	return errors.New("there are add-ons left in clusters")
}
