package replicaset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// When a replica set is what a wait waits for.

type replicaSetWaitModel struct {
	RolledOut  types.Bool     `tfsdk:"rolled_out"`
	Conditions []types.String `tfsdk:"conditions"`
}

func replicaSetWaitAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Waits, after creating or changing the replica set, until the hub reports everything that is set here. " +
			"A wait that fails makes an update fail. After a creation it only warns and leaves `ready` false, because an error would make Terraform destroy and re-create the replica set and all of its works; " +
			"the next apply waits again. To make the run fail there, too, without losing the works, use `muster_manifest_work_replica_set_wait`, or `lifecycle { postcondition { condition = self.ready ... } }`.",
		Optional:   true,
		Validators: []validator.Object{replicaSetWaitValidator{"rolled_out = true, or conditions, or both"}},
		Attributes: replicaSetWaitAttributes(),
	}
}

// replicaSetWaitAttributes are what there is to wait for.
func replicaSetWaitAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"rolled_out": schema.BoolAttribute{
			MarkdownDescription: "Whether to wait until the manifests have succeeded in every cluster that the placements select, as `rolled_out` of the replica set reports. It also waits for placements that select no cluster.",
			Optional:            true,
		},
		"conditions": schema.SetAttribute{
			MarkdownDescription: "Conditions of the replica set to wait for, each as its type, which then has to be true, or as `type=status`, such as `ManifestworkApplied` or `PlacementVerified=True`.",
			Optional:            true,
			ElementType:         types.StringType,
			Validators:          []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.ValidWaitCondition())},
		},
	}
}

// met reports whether the replica set is as the wait wants it. written is the
// last write, about which older conditions say nothing; nil if there is none.
func (m *replicaSetWaitModel) met(object *workv1alpha1.ManifestWorkReplicaSet, written *replicaSetMark) bool {
	if m.RolledOut.ValueBool() && !rolledOut(object, written) {
		return false
	}
	return !slices.ContainsFunc(m.wanted(), func(c attribute.WaitCondition) bool { return !conditionIs(object, c, written) })
}

// wanted are the conditions by name, in the order of their types.
func (m *replicaSetWaitModel) wanted() []attribute.WaitCondition {
	return attribute.WaitConditions(m.Conditions)
}

// what is what the wait is for, in words.
func (m *replicaSetWaitModel) what() string {
	var names []string
	if m.RolledOut.ValueBool() {
		names = append(names, isRolledOut().String())
	}
	for _, c := range m.wanted() {
		names = append(names, c.String())
	}
	return strings.Join(slices.Compact(attribute.Sorted(names)), ", ")
}

func isRolledOut() attribute.WaitCondition {
	return attribute.WaitCondition{Type: work.ConditionPlacementRolledOut, Status: metav1.ConditionTrue}
}

// rolledOut reports whether the present template has succeeded in every cluster.
// With no clusters the hub calls the rollout complete, as there is nothing left
// to do; but a placement that has not been decided yet looks the same, so that
// the placements have to be in order as well.
func rolledOut(object *workv1alpha1.ManifestWorkReplicaSet, written *replicaSetMark) bool {
	return conditionIs(object, isRolledOut(), written) &&
		!meta.IsStatusConditionFalse(object.Status.Conditions, work.ConditionPlacementVerified)
}

// conditionIs reports whether a condition has a status and tells of the present
// generation. muster's hub notes the generation in the condition. Upstream's
// does not: there, a condition tells of the present unless it stood before the
// last write and nothing was reported since.
func conditionIs(object *workv1alpha1.ManifestWorkReplicaSet, wanted attribute.WaitCondition, written *replicaSetMark) bool {
	c := meta.FindStatusCondition(object.Status.Conditions, wanted.Type)
	switch {
	case c == nil || c.Status != wanted.Status:
		return false
	case c.ObservedGeneration != 0:
		return c.ObservedGeneration >= object.Generation
	default:
		return written == nil || written.supersededBy(object)
	}
}

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

func waitForReplicaSet(ctx context.Context, client *kube.Client, object *workv1alpha1.ManifestWorkReplicaSet, wait *replicaSetWaitModel, written *replicaSetMark) error {
	return client.Wait(ctx, object, object.Namespace, object.Name, func(exists bool) (bool, error) {
		if !exists {
			return false, fmt.Errorf("it was deleted meanwhile")
		}
		return wait.met(object, written), nil
	})
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
func noted(ctx context.Context, private interface {
	GetKey(context.Context, string) ([]byte, diag.Diagnostics)
}, diags *diag.Diagnostics,
) *replicaSetMark {
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
func note(ctx context.Context, private interface {
	SetKey(context.Context, string, []byte) diag.Diagnostics
}, mark *replicaSetMark,
) diag.Diagnostics {
	text, err := json.Marshal(mark)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Cannot record the state of the replica set", err.Error())}
	}
	return private.SetKey(ctx, replicaSetMarkKey, text)
}
