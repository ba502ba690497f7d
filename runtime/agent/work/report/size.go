package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	// minRoom is how little room for manifests is worth another attempt.
	minRoom = 16 << 10
	// entrySize and conditionSize are about what an entry of a status and one of
	// its conditions take beside their texts.
	entrySize, conditionSize = 300, 200
)

// TooLarge reports whether a hub refused an object for its size. The store's own
// limits come back as errors of no particular kind.
func TooLarge(err error) bool {
	if err == nil || apierrors.IsRequestEntityTooLargeError(err) {
		return err != nil
	}
	refusals := []string{"request is too large", "message larger than max", "ResourceExhausted", "entity too large"}
	return slices.ContainsFunc(refusals, func(words string) bool { return strings.Contains(err.Error(), words) })
}

// RoomFor is the room for the manifests in the status of a work, in bytes: what
// the store takes of an object less what the rest of the work takes.
func RoomFor(mw *workv1.ManifestWork) int {
	taken := sizeOf(mw.ObjectMeta) + sizeOf(mw.Spec.ManifestConfigs) + sizeOf(mw.Spec.DeleteOption)
	for _, m := range mw.Spec.Workload.Manifests {
		taken += len(m.Raw) + 1
	}
	return work.MaxStoredSize - taken
}

// SmallerRoom is the room to try after the hub has refused a status as too large.
func SmallerRoom(refused workv1.ManifestWorkStatus) int {
	if bytes := sizeOf(refused.ResourceStatus) / 2; bytes >= minRoom {
		return bytes
	}
	return 0
}

func sizeOf(v any) int {
	data, err := json.Marshal(v)
	if err != nil { // of types of the API, which always can be
		return 0
	}
	return len(data)
}

// mayNotFit estimates whether a status could be too large for a room.
func mayNotFit(list []workv1.ManifestCondition, room int) bool {
	size := 0
	for _, e := range list {
		m := e.ResourceMeta
		size += entrySize + len(m.Group) + len(m.Version) + len(m.Kind) + len(m.Resource)
		size += len(m.Namespace) + len(m.Name)
		for _, c := range e.Conditions {
			size += conditionSize + len(c.Message)
		}
		for _, v := range e.StatusFeedbacks.Values {
			size += conditionSize
			for _, value := range []*string{v.Value.String, v.Value.JSONRaw} {
				if value != nil {
					size += len(*value)
				}
			}
		}
	}
	return 2*size > room
}

// Fit makes a status fit into a room: without the values of feedback, and then
// without the entries of some manifests, those first with which all is well. Its
// conditions say so.
func Fit(status workv1.ManifestWorkStatus, room int, generation int64) workv1.ManifestWorkStatus {
	status = *status.DeepCopy()
	cutMessages(status.Conditions)
	for i := range status.ResourceStatus.Manifests {
		cutMessages(status.ResourceStatus.Manifests[i].Conditions)
	}
	size, room := 0, max(room, 0)
	if mayNotFit(status.ResourceStatus.Manifests, room) {
		size = sizeOf(status.ResourceStatus)
	}
	if size <= room {
		if size > 0 || len(status.ResourceStatus.Manifests) > 0 {
			meta.RemoveStatusCondition(&status.Conditions, work.ConditionStatusTruncated)
		}
		return status
	}
	total := len(status.ResourceStatus.Manifests)
	status.ResourceStatus.Manifests = fitting(status.ResourceStatus.Manifests, room)
	message := fmt.Sprintf("The status of all %d manifests takes %d KiB, and %d fit on the hub beside the manifests: "+
		"the values of feedback are left out", total, size>>10, room>>10)
	if left := total - len(status.ResourceStatus.Manifests); left > 0 {
		message += fmt.Sprintf(", and so is all about %d manifests, of those with which nothing is wrong first", left)
	}
	set(&status.Conditions, metav1.Condition{
		Type: work.ConditionStatusTruncated, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason:  work.ReasonStatusTooLarge,
		Message: message + ". Split the work into smaller ones, or report less of each object",
	})
	return status
}

// fitting are the entries that fit into a room, without feedback and in their
// order.
func fitting(list []workv1.ManifestCondition, room int) []workv1.ManifestCondition {
	order := make([]int, len(list))
	for i := range list {
		list[i].StatusFeedbacks.Values = nil
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return importance(list[b]) - importance(list[a]) })
	keep := make([]bool, len(list))
	for _, i := range order {
		if room -= sizeOf(list[i]) + 1; room < 0 {
			break
		}
		keep[i] = true
	}
	var out []workv1.ManifestCondition
	for i, e := range list {
		if keep[i] {
			out = append(out, e)
		}
	}
	return out
}

// importance is how much it matters that a manifest is reported: what is complete
// must not be done a second time, and what has failed has to be seen.
func importance(e workv1.ManifestCondition) int {
	switch {
	case meta.IsStatusConditionTrue(e.Conditions, work.ConditionComplete):
		return 2
	case !meta.IsStatusConditionTrue(e.Conditions, work.ConditionApplied),
		!meta.IsStatusConditionTrue(e.Conditions, work.ConditionAvailable):
		return 1
	}
	return 0
}

// cutMessages cuts messages that no API server takes.
func cutMessages(conditions []metav1.Condition) {
	for i := range conditions {
		conditions[i].Message = text.Cut(conditions[i].Message, limits.ConditionMessage)
	}
}
