package replicaset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// replicaSetMark is what a write left: by it one can tell whether the hub has
// reported since. It is kept in the private state, for the wait of a later apply.
type replicaSetMark struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	// Status and Metadata are hashes.
	Status   string `json:"status"`
	Metadata string `json:"metadata"`
	// Reported says that works had been reported by then. Without any, no
	// condition can be out of date.
	Reported bool `json:"reported"`
}

// replicaSetMarkKey is its place in the private state.
const replicaSetMarkKey = "written"

func markOf(object *workv1alpha1.ManifestWorkReplicaSet) (*replicaSetMark, error) {
	status, err := hashOf(object.Status)
	if err != nil {
		return nil, err
	}
	metadata, err := hashOf([]any{object.Labels, object.Annotations, object.Finalizers, object.DeletionTimestamp, object.Generation})
	if err != nil {
		return nil, err
	}
	return &replicaSetMark{
		UID: string(object.UID), ResourceVersion: object.ResourceVersion, Status: status, Metadata: metadata,
		Reported: object.Status.Summary.Total > 0,
	}, nil
}

func hashOf(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("noting the state of the replica set: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// supersededBy reports whether the object's status was written after the mark.
// The hub writes it with the resource version that it has read, so that what
// comes after our write knows of our write. A new resource version alone may be
// somebody's new label; one that left all the rest as it was is a report that
// says the same as the one before.
func (w *replicaSetMark) supersededBy(object *workv1alpha1.ManifestWorkReplicaSet) bool {
	now, err := markOf(object)
	if err != nil {
		return false
	}
	return !w.Reported || now.UID != w.UID || now.Status != w.Status ||
		(now.ResourceVersion != w.ResourceVersion && now.Metadata == w.Metadata)
}

// sameWorks reports whether a change from one model to the other leaves the
// works as they are, so that the hub has nothing new to report: strategies and
// the deletion policy make no difference to a rollout that is over.
func sameWorks(a, b *replicaSetModel) bool {
	names := func(models []placementRefModel) []string {
		var list []string
		for _, m := range models {
			list = append(list, m.Name.ValueString())
		}
		return attribute.Sorted(list)
	}
	x, y := a.object(), b.object()
	return a.Same(b.Content) && attribute.Same(x.Spec.ManifestWorkTemplate, y.Spec.ManifestWorkTemplate) &&
		slices.Equal(names(a.Placements), names(b.Placements))
}

// noted is the mark of the last write that changed the works, or nil.
func noted(ctx context.Context, private crud.PrivateReader, diags *diag.Diagnostics) *replicaSetMark {
	text, problems := private.GetKey(ctx, replicaSetMarkKey)
	diags.Append(problems...)
	if len(text) == 0 {
		return nil
	}
	mark := &replicaSetMark{}
	if json.Unmarshal(text, mark) != nil {
		return nil // another version of the provider wrote it: as good as nothing
	}
	return mark
}

// note keeps the mark for later waits.
func note(ctx context.Context, private crud.PrivateWriter, mark *replicaSetMark) diag.Diagnostics {
	text, err := json.Marshal(mark)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Cannot record the state of the replica set", err.Error())}
	}
	return private.SetKey(ctx, replicaSetMarkKey, text)
}
