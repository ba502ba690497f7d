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
func ask(ctx context.Context, client *kube.Client, object kube.Object, annotation string, now time.Time) (asked bool, err error) {
	if object.GetAnnotations()[annotation] != "" {
		return false, nil
	}
	value := now.UTC().Format(time.RFC3339) + "-" + strconv.FormatInt(int64(now.Nanosecond()), 36)
	patch := map[string]any{"metadata": map[string]any{"uid": object.GetUID(), "annotations": map[string]any{annotation: value}}}
	return true, client.MergePatch(ctx, object, requestManager, patch)
}

// withdraw takes an unanswered request back, so that no agent that learns of it
// later acts on it by surprise. object is as it was seen last.
func withdraw(ctx context.Context, client *kube.Client, object kube.Object, annotation string) {
	if object.GetAnnotations()[annotation] == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
	defer cancel()
	patch := map[string]any{"metadata": map[string]any{"resourceVersion": object.GetResourceVersion(), "annotations": map[string]any{annotation: nil}}}
	// Whatever comes in between may be the answer.
	_ = client.MergePatch(ctx, object, requestManager, patch)
}
