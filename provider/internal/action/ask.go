package action

import (
	"context"
	"strconv"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// requestManager is the field manager of requests to agents.
const requestManager = hub.FieldManager + "-request"

// patience is how long an agent that is there takes for an answer at most, before
// it is said that it may not know the request.
const patience = 30 * time.Second

// ask puts a request to the agent on an object, unless there is one already, which
// the agent answers as well. asked reports whether it was put there now.
func (r *run) ask(ctx context.Context, object kube.Object, annotation string) (asked bool, err error) {
	if object.GetAnnotations()[annotation] != "" {
		return false, nil
	}
	now := r.Clock.Now()
	value := now.UTC().Format(time.RFC3339) + "-" + strconv.FormatInt(int64(now.Nanosecond()), 36)
	return true, r.client.MergePatch(ctx, object, requestManager, map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "annotations": map[string]any{annotation: value},
	}})
}

// answer waits until judge says that the agent has answered the request. Without an
// answer the request is taken back. The rest is as in run.wait.
func (r *run) answer(
	ctx context.Context, object kube.Object, annotation string, look func(context.Context),
	judge func(exists bool) (bool, error), late func() error, leaves string,
) error {
	wait := func(ctx context.Context) error {
		err := r.client.Wait(ctx, object, object.GetNamespace(), object.GetName(), judge)
		if err != nil {
			r.withdraw(ctx, object, annotation)
		}
		return err
	}
	return r.wait(ctx, look, wait, late, leaves)
}

// withdraw takes an unanswered request back, so that no agent that learns of it
// later acts on it by surprise. object is as it was seen last.
func (r *run) withdraw(ctx context.Context, object kube.Object, annotation string) {
	if object.GetAnnotations()[annotation] == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
	defer cancel()
	// Whatever comes in between may be the answer.
	_ = r.client.MergePatch(ctx, object, requestManager, map[string]any{"metadata": map[string]any{
		"resourceVersion": object.GetResourceVersion(), "annotations": map[string]any{annotation: nil},
	}})
}

// reportSilence says when nothing is heard of the agent.
func (r *run) reportSilence(context.Context) {
	if r.Clock.Now().Sub(r.begun) >= patience {
		r.say("The agent of %s has not answered. Agents of Open Cluster Management, and muster's of earlier "+
			"versions, do not know the request.", r.cluster)
	}
}
