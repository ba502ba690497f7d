package manifestwork

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// failurePatience is how long the agent may fail to apply the same manifests with
// the same errors until a wait for their work ends.
const failurePatience = 30 * time.Second

// failedError is why a work is not going to be applied: what the agent reports.
type failedError string

func (e failedError) Error() string { return string(e) }

// isFailure tells whether a wait ended because the work can't be applied.
func isFailure(err error) bool {
	var failed failedError
	return errors.As(err, &failed)
}

// waitForWork waits until these conditions of a work are met. It ends early, with
// a failedError, when the agent has reported the same failure for patience.
func waitForWork(ctx context.Context, client *kube.Client, object *workv1.ManifestWork, wanted []attribute.WaitCondition, patience time.Duration) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var seen string
	var timer *time.Timer
	stop := func() {
		if timer != nil {
			timer.Stop()
		}
	}
	defer func() { stop() }()
	err := client.Wait(ctx, object, object.Namespace, object.Name, func(exists bool) (bool, error) {
		if !exists {
			return false, fmt.Errorf("it was deleted meanwhile")
		}
		if text := failure(object); text != seen {
			stop()
			seen, timer = text, nil
			if text != "" {
				timer = time.AfterFunc(patience, func() { fail(failedError(text)) })
			}
		}
		return workIs(object, wanted), nil
	})
	if cause := context.Cause(ctx); err != nil && isFailure(cause) {
		return cause
	}
	return err
}

// failure is what the agent says of the manifests that it can't apply, one in a
// line; empty when there are none, when it has yet to look at the present
// generation, or when what is missing may come by itself: a namespace or a
// definition that another work brings.
func failure(object *workv1.ManifestWork) string {
	applied := meta.FindStatusCondition(object.Status.Conditions, work.ConditionApplied)
	if applied == nil || applied.Status != metav1.ConditionFalse || applied.ObservedGeneration != 0 && applied.ObservedGeneration < object.Generation {
		return ""
	}
	var lines []string
	for _, m := range object.Status.ResourceStatus.Manifests {
		c := meta.FindStatusCondition(m.Conditions, work.ConditionApplied)
		if c == nil || c.Status != metav1.ConditionFalse {
			continue
		}
		if slices.ContainsFunc([]string{"not found", "no matches for kind", "could not find the requested resource"}, func(s string) bool { return strings.Contains(c.Message, s) }) {
			return ""
		}
		lines = append(lines, describeMeta(m.ResourceMeta)+": "+c.Message)
	}
	return strings.Join(lines, "\n")
}
