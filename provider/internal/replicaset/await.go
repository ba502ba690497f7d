package replicaset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// awaited is a replica set that is waited for, with its works.
type awaited struct {
	client *kube.Client

	mu     sync.Mutex
	object replicaSet
	// template is the digest of the template of this generation; empty before the
	// replica set was seen.
	template   string
	generation int64
	works      []*workv1.ManifestWork
}

// follow looks at each change of the replica set and of its works.
func (a *awaited) follow(ctx context.Context, look func() (bool, error)) error {
	namespace, name := a.object.Namespace, a.object.Name
	return kube.First(ctx,
		func(ctx context.Context) error {
			seen := &workv1alpha1.ManifestWorkReplicaSet{}
			return a.client.Wait(ctx, seen, namespace, name, func(exists bool) (bool, error) {
				if !exists {
					return false, errors.New("it was deleted meanwhile")
				}
				a.mu.Lock()
				defer a.mu.Unlock()
				*a.object = *seen.DeepCopy()
				if a.template == "" || a.generation != seen.Generation {
					a.template, a.generation = workdigest.Of(seen.Spec.ManifestWorkTemplate), seen.Generation
				}
				return look()
			})
		},
		func(ctx context.Context) error {
			options, ok := worksOf(namespace, name)
			if !ok {
				<-ctx.Done()
				return ctx.Err()
			}
			return FollowWorks(ctx, a.client, options, func(works []*workv1.ManifestWork) (bool, error) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.works = works
				if a.template == "" {
					return false, nil
				}
				return look()
			})
		},
	)
}

// FollowWorks shows works, by cluster and name and without their objects, whenever one
// of them changes, until look says that the wait is met. Where works may not be read, it
// shows none, and ends with ctx.
func FollowWorks(
	ctx context.Context, client *kube.Client, options kube.ListOptions, look func([]*workv1.ManifestWork) (bool, error),
) error {
	all, one := &workv1.ManifestWorkList{}, &workv1.ManifestWork{}
	if client.WaitObjects(ctx, all, one, options, func(objects map[string]kube.Object) (bool, error) {
		var works []*workv1.ManifestWork
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if w, ok := objects[key].(*workv1.ManifestWork); ok {
				makeLean(w)
				works = append(works, w)
			}
		}
		return look(works)
	}) == nil {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// troubles are why the works will not be done. Works that have yet to get the present
// template say nothing about it. The caller holds the lock.
func (a *awaited) troubles() []kube.Trouble {
	if a.template == "" {
		return nil
	}
	var present []*workv1.ManifestWork
	for _, w := range a.works {
		if w.DeletionTimestamp == nil && workdigest.Of(w.Spec) == a.template {
			present = append(present, w)
		}
	}
	return troublesOf(a.object, present, time.Now())
}

// troublesOf are why works that have the present template will not be done: what their
// agents can't apply, and rollouts that have stopped.
func troublesOf(set replicaSet, works []*workv1.ManifestWork, now time.Time) []kube.Trouble {
	var troubles []kube.Trouble
	byPlacement := map[string][]rollout.ClusterStatus{}
	for _, w := range works {
		troubles = append(troubles, workload.TroublesIn(w)...)
		placement := w.Labels[work.PlacementNameLabel]
		byPlacement[placement] = append(byPlacement[placement], rollout.OfWork(w, false))
	}
	for _, ref := range set.Spec.PlacementRefs {
		if t, ok := stopped(set, ref, byPlacement[ref.Name], now); ok {
			troubles = append(troubles, t)
		}
	}
	return troubles
}

// stoppedIn begins the text of a rollout that has stopped.
const stoppedIn = "the rollout has stopped in placement"

// stopped tells that a rollout goes no further in a placement, and how soon that is
// certain: a cluster that fails may recover, and one that makes progress has until its
// deadline. A cluster that has not taken the change in yet is waited for, unless too
// many have failed already.
func stopped(
	set replicaSet, ref workv1alpha1.LocalPlacementReference, clusters []rollout.ClusterStatus, now time.Time,
) (kube.Trouble, bool) {
	deadline, limited, err := rollout.Deadline(ref.RolloutStrategy)
	if err != nil {
		return kube.Trouble{}, false
	}
	failed, underWay := 0, false
	var certain, due time.Duration
	for _, c := range clusters {
		timed := limited && !c.Since.IsZero()
		left := workload.DefinitePatience + max(0, c.Since.Add(deadline).Sub(now))
		switch {
		case c.Status == rollout.Succeeded:
		case c.Status == rollout.ToApply, c.Status == rollout.Progressing && !timed:
			underWay = true
		case c.Status == rollout.Progressing && left > workload.DefinitePatience:
			due = max(due, left)
		case timed:
			failed, certain = failed+1, max(certain, min(left, workload.LastingPatience))
		default:
			failed, certain = failed+1, workload.LastingPatience
		}
	}
	total, known := selected(set, ref.Name)
	switch {
	case known && failed > rollout.Tolerated(ref.RolloutStrategy, total):
	case underWay, failed == 0 && due == 0:
		return kube.Trouble{}, false
	default:
		certain = max(certain, due)
	}
	return kube.Trouble{Text: fmt.Sprintf("%s %s: %v", stoppedIn, ref.Name, clusters), After: certain}, true
}

// applied is how the hub counts the clusters of a placement.
var applied = regexp.MustCompile(`\((\d+) / (\d+) clusters applied\)`)

// selected is how many clusters a placement has selected, as far as the hub says.
func selected(set replicaSet, placement string) (n int, known bool) {
	for _, p := range set.Status.PlacementsSummary {
		if counts := applied.FindStringSubmatch(p.AvailableDecisionGroups); p.Name == placement && counts != nil {
			n, err := strconv.Atoi(counts[2])
			return n, err == nil
		}
	}
	return 0, false
}
