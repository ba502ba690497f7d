package manifestwork

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// When a work is what a wait waits for.

type waitModel struct {
	Conditions []types.String `tfsdk:"conditions"`
}

func waitAttribute() crud.WaitAttribute {
	return crud.WaitAttribute{
		Kind: "work", Failing: "muster_manifest_work_wait",
		Until: "the agent has reported these conditions",
		Lost:  "the work",
		Notes: "When the agent can't apply the manifests, the wait ends before its timeout: after 3 seconds if no " +
			"retry can change that, such as with a field that the API server refuses, and after 30 seconds of the " +
			"same errors if somebody may put it right. A missing namespace, or a webhook that does not answer, is " +
			"waited out.",
		Options: waitOptions(),
	}
}

// waitOf is the attribute wait; nil without one.
func waitOf(values attribute.Values) *waitModel { return attribute.As[*waitModel](values["wait"]) }

// waitOptions are what there is to wait for.
func waitOptions() crud.WaitOptions {
	return crud.WaitOptions{
		crud.WaitConditions("The conditions to wait for: a type that has to be true, such as `Applied` (the agent " +
			"wrote all objects), `Available` (they all exist) or `Complete` and others that `condition_rules` " +
			"derive; or a type with another status, such as `Progressing=False` or `Degraded=False`."),
	}
}

// wait waits for a work. places say where its objects are in the configuration.
func (m *waitModel) wait(
	client *kube.Client, object manifestWork, timeout time.Duration, places workload.Places,
) *crud.Wait {
	return &crud.Wait{
		Client: client, Object: object, Timeout: timeout, Gone: "it does not exist",
		What: what(object), Resource: "manifestwork",
		Missing:    func() []string { return m.missing(object) },
		Troubles:   func() []kube.Trouble { return workload.Troubles(object) },
		GivenUp:    func(err *kube.GaveUpError) []string { return describeGivenUp(object, err) },
		Conditions: func() []metav1.Condition { return object.Status.Conditions },
		Details: func(ctx context.Context) []string {
			now := time.Now()
			away := describeCluster(ctx, client, object.Namespace, now)
			return append(m.describeObjects(object, now, places), away...)
		},
	}
}

// missing lists the conditions that a work does not have, each with the reason.
func (m *waitModel) missing(object manifestWork) []string {
	var missing []string
	for _, c := range attribute.WaitConditions(m.Conditions) {
		why := c.Unmet(object.Status.Conditions, object.Generation, "the agent")
		have := meta.FindStatusCondition(object.Status.Conditions, c.Type)
		switch {
		case why == "":
			continue
		case workload.IsFinished(object):
			why = "the work is Complete, and such works are not applied again"
		case have == nil && (c.Type == work.ConditionApplied || c.Type == work.ConditionAvailable):
			why = "the agent has not reported it"
		case have == nil:
			why += "; a condition other than Applied and Available may take a rule in manifest_configs"
		}
		missing = append(missing, c.String()+": "+why)
	}
	return missing
}

// describeGivenUp says why the wait for a work ended before its timeout.
func describeGivenUp(object manifestWork, err *kube.GaveUpError) []string {
	if err.Text == workload.FinishedAdvice {
		return []string{workload.FinishedAdvice}
	}
	lines := []string{fmt.Sprintf("The agent can't apply it, and has reported the same errors for %s, so the wait "+
		"ended before its timeout. Correct the manifests, or what stands in their way in the cluster.", err.After)}
	for _, r := range workload.RefusedObjects(object) {
		lines = append(lines, workload.Remedies(r.Message)...)
	}
	return slices.Compact(lines)
}

// describeObjects lists the objects of a work that are at fault, and what the agent
// reported of the objects.
func (m *waitModel) describeObjects(object manifestWork, now time.Time, places workload.Places) []string {
	var lines, reported []string
	if faults := describeFaults(object, attribute.WaitConditions(m.Conditions), now, places); len(faults) > 0 {
		lines = append([]string{"Objects at fault:"}, faults...)
	}
	for _, m := range object.Status.ResourceStatus.Manifests {
		for _, value := range m.StatusFeedbacks.Values {
			name := workload.Places(nil).Name(m.ResourceMeta)
			reported = append(reported, fmt.Sprintf("  %s: %s = %s", name, value.Name, feedbackText(value.Value)))
		}
	}
	if len(reported) > 0 {
		lines = append(append(lines, "Reported values:"), reported...)
	}
	return lines
}

// describeFaults lists the conditions of single objects that are not as they
// should be.
func describeFaults(
	object manifestWork, wanted []attribute.WaitCondition, now time.Time, places workload.Places,
) []string {
	should := map[string]metav1.ConditionStatus{
		work.ConditionApplied:   metav1.ConditionTrue,
		work.ConditionAvailable: metav1.ConditionTrue,
		work.ConditionDegraded:  metav1.ConditionFalse,
	}
	for _, c := range wanted {
		should[c.Type] = c.Status
	}
	var lines []string
	for _, m := range object.Status.ResourceStatus.Manifests {
		for _, c := range m.Conditions {
			status, matters := should[c.Type]
			failed := c.Type == work.ConditionStatusFeedbackSynced && c.Reason == work.ReasonFeedbackFailed
			if (matters && c.Status != status) || failed {
				text := strings.TrimSpace(hub.DescribeConditions([]metav1.Condition{c}, now))
				lines = append(lines, "  "+places.Name(m.ResourceMeta)+": "+text)
			}
		}
	}
	return lines
}
