package replicaset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
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

func markOf(object replicaSet) *replicaSetMark {
	return &replicaSetMark{
		UID: string(object.UID), ResourceVersion: object.ResourceVersion, Status: hashOf(object.Status),
		Metadata: hashOf([]any{
			object.Labels, object.Annotations, object.Finalizers, object.DeletionTimestamp, object.Generation,
		}),
		Reported: object.Status.Summary.Total > 0,
	}
}

func hashOf(value any) string {
	text, _ := json.Marshal(value) // No value of the API fails.
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// supersededBy reports whether the object's status was written after the mark.
// The hub writes it with the resource version that it has read, so that what
// comes after our write knows of our write. A new resource version alone may be
// somebody's new label; one that left all the rest as it was is a report that
// says the same as the one before.
func (w *replicaSetMark) supersededBy(object replicaSet) bool {
	now := markOf(object)
	return !w.Reported || now.UID != w.UID || now.Status != w.Status ||
		(now.ResourceVersion != w.ResourceVersion && now.Metadata == w.Metadata)
}

// sameWorks reports whether a change from one plan or state to the other leaves the
// works as they are, so that the hub has nothing new to report: strategies and
// the deletion policy make no difference to a rollout that is over.
func sameWorks(a, b attribute.Values) bool {
	spec := func(values attribute.Values) (workv1.ManifestWorkSpec, []string) {
		var object workv1alpha1.ManifestWorkReplicaSet
		specTable().Write(values, &object)
		var names []string
		for _, ref := range object.Spec.PlacementRefs {
			names = append(names, ref.Name)
		}
		return object.Spec.ManifestWorkTemplate, attribute.Sorted(names)
	}
	x, of := spec(a)
	y, as := spec(b)
	return workload.ContentOf(a).Same(workload.ContentOf(b)) && attribute.Same(x, y) && slices.Equal(of, as)
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

// noteWrite notes what the hub has reported up to a write that changes the works, for
// this wait and later ones.
func noteWrite(ctx context.Context, c *change) *replicaSetMark {
	if c.Prior != nil && sameWorks(c.Prior, c.Plan) {
		return noted(ctx, c.Private, c.Diagnostics)
	}
	written := markOf(c.Object)
	if c.Prior != nil {
		text, _ := json.Marshal(written) // It has only texts.
		c.Diagnostics.Append(c.NewPrivate.SetKey(ctx, replicaSetMarkKey, text)...)
	}
	return written
}
