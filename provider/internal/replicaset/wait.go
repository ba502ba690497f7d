package replicaset

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// When a replica set is what a wait waits for.

type waitModel struct {
	RolledOut  types.Bool     `tfsdk:"rolled_out"`
	Conditions []types.String `tfsdk:"conditions"`
}

func waitAttribute() crud.WaitAttribute {
	return crud.WaitAttribute{
		Kind: "replica set", Failing: "muster_manifest_work_replica_set_wait",
		Lost:    "the replica set and all of its works",
		Notes:   earlyEnd,
		Options: waitOptions(),
	}
}

// earlyEnd says when a wait ends before its timeout.
const earlyEnd = "A wait for the rollout ends before its timeout when its outcome is certain: 3 seconds after a " +
	"cluster has refused an object for good, such as for a field that its API server does not take; 30 seconds " +
	"after one has refused an object for a reason that somebody may put right; when the rollout has stopped, " +
	"because more clusters have failed than `max_failures` allows, and none has recovered within 30 seconds; and 3 " +
	"seconds after `progress_deadline` has passed in clusters that hold it up. A missing namespace, a webhook that " +
	"does not answer, and a cluster that is away are waited for."

// waitOf is the attribute wait; nil without one.
func waitOf(values attribute.Values) *waitModel { return attribute.As[*waitModel](values["wait"]) }

// waitOptions are what there is to wait for.
func waitOptions() crud.WaitOptions {
	return crud.WaitOptions{
		crud.WaitFlag("rolled_out", "Whether to wait until the manifests have succeeded in every cluster that the "+
			"placements select, as `rolled_out` of the replica set reports. It also waits for placements that select "+
			"no cluster."),
		crud.WaitConditions("Conditions of the replica set to wait for, each as its type, which then has to be true, " +
			"or as `type=status`, such as `ManifestworkApplied` or `PlacementVerified=True`."),
	}
}

// wait waits for a replica set. written is the last write, about which older conditions
// say nothing; nil if there is none.
func (m *waitModel) wait(
	client *kube.Client, object replicaSet, written *replicaSetMark, timeout time.Duration,
) *crud.Wait {
	w := &crud.Wait{
		Client: client, Object: object, Timeout: timeout,
		What: what(object), Resource: "manifestworkreplicaset",
		Missing:    func() []string { return m.missing(object, written) },
		GivenUp:    whyGivenUp,
		Conditions: func() []metav1.Condition { return object.Status.Conditions },
		Details:    func(ctx context.Context) []string { return describeRollout(ctx, client, object) },
		Next:       []string{listWorks(object)},
	}
	if m.needsWorks() {
		a := &awaited{client: client, object: object}
		w.Follow, w.Troubles = a.follow, a.troubles
	}
	return w
}

// needsWorks reports whether the wait is met only when all works are done.
func (m *waitModel) needsWorks() bool {
	return slices.ContainsFunc(m.wanted(), func(c attribute.WaitCondition) bool {
		return c.Status == metav1.ConditionTrue &&
			(c.Type == work.ConditionPlacementRolledOut || c.Type == work.ConditionManifestworkApplied)
	})
}

// wanted are the conditions to wait for.
func (m *waitModel) wanted() []attribute.WaitCondition {
	return attribute.WaitConditionsAnd(m.Conditions, m.RolledOut, work.ConditionPlacementRolledOut)
}

// missing lists what is not as the wait wants it. muster's hub notes the generation in
// conditions. Upstream's does not: there, a condition is about the present unless it stood
// before the last write and nothing was reported since.
//
// With no clusters the hub calls the rollout complete, as there is nothing left to do;
// but a placement that has not been decided yet looks the same, so that the placements
// have to be in order as well.
func (m *waitModel) missing(object replicaSet, written *replicaSetMark) []string {
	have := object.Status.Conditions
	var missing []string
	for _, c := range m.wanted() {
		why := c.Unmet(have, object.Generation, "the hub")
		if why == "" && written != nil && meta.FindStatusCondition(have, c.Type).ObservedGeneration == 0 &&
			!written.supersededBy(object) {
			why = "it was reported before the last change"
		}
		if why != "" {
			missing = append(missing, c.String()+": "+why)
		}
	}
	if m.RolledOut.ValueBool() && meta.IsStatusConditionFalse(have, work.ConditionPlacementVerified) {
		missing = append(missing, "rolled_out: "+work.ConditionPlacementVerified+" is False")
	}
	return missing
}

// rolledOut reports whether the present template has succeeded in every cluster.
func rolledOut(object replicaSet, written *replicaSetMark) bool {
	return len((&waitModel{RolledOut: types.BoolValue(true)}).missing(object, written)) == 0
}
