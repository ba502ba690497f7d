package manifestwork

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

type waitModel struct {
	Conditions []types.String `tfsdk:"conditions"`
}

func waitAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Waits, after creating or changing the work, until the agent has reported these conditions. " +
			"A wait that fails makes an update fail. After a creation it only warns and leaves `ready` false, because an error would make Terraform destroy and re-create the work; " +
			"the next apply waits again. To make the run fail there, too, without losing the work, use `muster_manifest_work_wait`, or `lifecycle { postcondition { condition = self.ready ... } }`. " +
			"When the agent can't apply the manifests, the wait ends before its timeout: after 3 seconds if no retry can change that, such as with a field that the API server refuses, " +
			"and after 30 seconds of the same errors if somebody may put it right. A missing namespace, or a webhook that does not answer, is waited out.",
		Optional: true,
		Attributes: map[string]schema.Attribute{
			"conditions": waitConditionsAttribute(),
		},
	}
}

func waitConditionsAttribute() schema.SetAttribute {
	return schema.SetAttribute{
		MarkdownDescription: "The conditions to wait for: a type that has to be true, such as `Applied` (the agent wrote all objects), " +
			"`Available` (they all exist) or `Complete` and others that `condition_rules` derive; or a type with another status, such as `Progressing=False` or `Degraded=False`.",
		Required:    true,
		ElementType: types.StringType,
		Validators:  []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.ValidWaitCondition())},
	}
}

// conditionMet reports whether the work's present generation is so. Conditions without a
// generation count as up to date.
func conditionMet(object *workv1.ManifestWork, c attribute.WaitCondition) bool {
	found := meta.FindStatusCondition(object.Status.Conditions, c.Type)
	return found != nil && found.Status == c.Status && (found.ObservedGeneration == 0 || found.ObservedGeneration >= object.Generation)
}

// conditions are those to wait for, in the order of their names.
func (m *waitModel) conditions() []attribute.WaitCondition {
	return attribute.WaitConditions(m.Conditions)
}

// workIs reports whether all these conditions are met.
func workIs(object *workv1.ManifestWork, wanted []attribute.WaitCondition) bool {
	return !slices.ContainsFunc(wanted, func(c attribute.WaitCondition) bool { return !conditionMet(object, c) })
}

// describeWork tells why a work is not ready, and whether its cluster is there at
// all. err is why the wait ended: its timeout, or a failure of the agent. places
// say where the objects are in the configuration.
func describeWork(
	ctx context.Context, client *kube.Client, object *workv1.ManifestWork, wanted []attribute.WaitCondition, timeout time.Duration, err error, places workload.Places,
) string {
	now := time.Now()
	var lines []string
	var failed failedError
	switch {
	case errors.As(err, &failed) && failed.text == finished:
		timeout, lines = failed.after, []string{finished}
	case errors.As(err, &failed):
		timeout = failed.after
		lines = append(lines, fmt.Sprintf("The agent can't apply it, and has reported the same errors for %s, so the wait ended before its timeout. Correct the manifests, or what stands in their way in the cluster.", failed.after))
		for _, r := range failing(object) {
			lines = append(lines, remedies(r.message)...)
		}
	}
	return attribute.JoinLines(slices.Concat(slices.Compact(lines),
		describeWait(object, wanted, timeout, now, places),
		describeCluster(ctx, client, object.Namespace, now),
		[]string{"", "Next:", fmt.Sprintf("  kubectl describe manifestwork -n %s %s", object.Namespace, object.Name)},
	))
}

// remedies are what to do about a failure that the words of the API server do not
// tell.
func remedies(message string) []string {
	switch {
	case strings.Contains(message, "Apply failed with "):
		return []string{"To take the fields over from their other managers, set force = true in the object's update_strategy.server_side_apply; to leave them alone, leave them out of the manifest, or name them in ignore_fields."}
	case strings.Contains(message, "field is immutable"):
		return []string{"A field that may not change takes another object: give it another name, or let the work be replaced (terraform apply -replace), which deletes and creates all of its objects."}
	}
	return nil
}

// describeWait tells what a work lacks: which conditions are not met, all that it
// has, those of the objects that are at fault, and what the agent reported of
// the objects.
func describeWait(object *workv1.ManifestWork, wanted []attribute.WaitCondition, timeout time.Duration, now time.Time, places workload.Places) []string {
	lines := []string{fmt.Sprintf("Within %s these conditions were not met for generation %d:", timeout, object.Generation)}
	for _, c := range wanted {
		if !conditionMet(object, c) {
			lines = append(lines, "  "+c.String()+": "+missing(object, c))
		}
	}
	lines = append(lines, "All conditions of the work:", hub.DescribeConditions(object.Status.Conditions, now))
	if faults := describeFaults(object, wanted, now, places); len(faults) > 0 {
		lines = append(append(lines, "Objects at fault:"), faults...)
	}
	var reported []string
	for _, m := range object.Status.ResourceStatus.Manifests {
		for _, value := range m.StatusFeedbacks.Values {
			reported = append(reported, fmt.Sprintf("  %s: %s = %s", workload.Places(nil).Name(m.ResourceMeta), value.Name, feedbackText(value.Value)))
		}
	}
	if len(reported) > 0 {
		lines = append(append(lines, "Reported values:"), reported...)
	}
	return lines
}

// missing says why a condition is not met.
func missing(object *workv1.ManifestWork, c attribute.WaitCondition) string {
	found := meta.FindStatusCondition(object.Status.Conditions, c.Type)
	switch {
	case isFinished(object):
		return "the work is Complete, and such works are not applied again"
	case found == nil && (c.Type == work.ConditionApplied || c.Type == work.ConditionAvailable):
		return "the agent has not reported it"
	case found == nil:
		return "nobody has reported it; a condition other than Applied and Available may take a rule in manifest_configs"
	case found.Status != c.Status:
		return "it is " + string(found.Status)
	default:
		return fmt.Sprintf("it is reported for generation %d only, so the agent has not seen the last change", found.ObservedGeneration)
	}
}

// describeFaults lists the conditions of single objects that are not as they
// should be.
func describeFaults(object *workv1.ManifestWork, wanted []attribute.WaitCondition, now time.Time, places workload.Places) []string {
	should := map[string]metav1.ConditionStatus{
		work.ConditionApplied: metav1.ConditionTrue, work.ConditionAvailable: metav1.ConditionTrue, work.ConditionDegraded: metav1.ConditionFalse,
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
				lines = append(lines, "  "+places.Name(m.ResourceMeta)+": "+strings.TrimSpace(hub.DescribeConditions([]metav1.Condition{c}, now)))
			}
		}
	}
	return lines
}
