package provider

import (
	"context"
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

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
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
			"the next apply waits again. To stop there, add a `postcondition` on `self.ready`. " +
			"When the agent can't apply the manifests, and for 30 seconds reports the same errors, the wait ends before its timeout.",
		Optional: true,
		Attributes: map[string]schema.Attribute{
			"conditions": schema.SetAttribute{
				MarkdownDescription: "Conditions of the work that have to hold, all of them: a type that has to be true, such as `Applied` (the agent wrote all objects), " +
					"`Available` (they all exist) or `Complete` and others that `condition_rules` derive; or a type with another status, such as `Progressing=False` or `Degraded=False`.",
				Required:    true,
				ElementType: types.StringType,
				Validators:  []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(waitConditionValidator{})},
			},
		},
	}
}

// waitCondition is a condition to wait for.
type waitCondition struct {
	Type   string
	Status metav1.ConditionStatus
}

// String is the condition as the configuration may have it.
func (c waitCondition) String() string {
	if c.Status == metav1.ConditionTrue {
		return c.Type
	}
	return c.Type + "=" + string(c.Status)
}

// met reports whether the work's present generation is so. Conditions without a
// generation count as up to date.
func (c waitCondition) met(object *workv1.ManifestWork) bool {
	found := meta.FindStatusCondition(object.Status.Conditions, c.Type)
	return found != nil && found.Status == c.Status && (found.ObservedGeneration == 0 || found.ObservedGeneration >= object.Generation)
}

// parseWaitCondition reads Type or Type=Status.
func parseWaitCondition(text string) (waitCondition, error) {
	name, status, found := strings.Cut(text, "=")
	c := waitCondition{Type: name, Status: metav1.ConditionStatus(status)}
	if !found {
		c.Status = metav1.ConditionTrue
	}
	if c.Type == "" || strings.ContainsAny(c.Type, " \t\n") {
		return c, fmt.Errorf("%q names no condition; write a type such as Available, or a type and a status such as Progressing=False", text)
	}
	if !slices.Contains([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}, c.Status) {
		return c, fmt.Errorf("%q is not a status in %q; a condition is True, False or Unknown", status, text)
	}
	return c, nil
}

// waitConditionValidator admits what parseWaitCondition reads.
type waitConditionValidator struct{}

func (waitConditionValidator) Description(context.Context) string {
	return "a type of a condition, or a type and a status such as Progressing=False"
}

func (v waitConditionValidator) MarkdownDescription(ctx context.Context) string {
	return v.Description(ctx)
}

func (waitConditionValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsUnknown() {
		return
	}
	if _, err := parseWaitCondition(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid condition", capitalize(err.Error())+".")
	}
}

// conditions are those to wait for, in the order of their names.
func (m *waitModel) conditions() []waitCondition {
	var conditions []waitCondition
	for _, text := range sorted(texts(m.Conditions)) {
		if c, err := parseWaitCondition(text); err == nil { // The validator has seen to it.
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// workIs reports whether all these conditions are met.
func workIs(object *workv1.ManifestWork, wanted []waitCondition) bool {
	return !slices.ContainsFunc(wanted, func(c waitCondition) bool { return !c.met(object) })
}

// describeWork tells why a work is not ready, and whether its cluster is there at
// all. err is why the wait ended: its timeout, or a failure of the agent.
func describeWork(ctx context.Context, client *kube.Client, object *workv1.ManifestWork, wanted []waitCondition, timeout time.Duration, err error) string {
	now := time.Now()
	var lines []string
	if isFailure(err) {
		timeout = failurePatience
		lines = append(lines, fmt.Sprintf("The agent can't apply it, and has reported the same errors for %s, so the wait ended before its timeout. Correct the manifests, or what stands in their way in the cluster.", failurePatience))
	}
	return joinLines(slices.Concat(lines,
		describeWait(object, wanted, timeout, now),
		describeCluster(ctx, client, object.Namespace, now),
		[]string{"", "Next:", fmt.Sprintf("  kubectl describe manifestwork -n %s %s", object.Namespace, object.Name)},
	))
}

// describeWait tells what a work lacks: which conditions are not met, all that it
// has, those of the objects that are at fault, and what the agent reported of
// the objects.
func describeWait(object *workv1.ManifestWork, wanted []waitCondition, timeout time.Duration, now time.Time) []string {
	lines := []string{fmt.Sprintf("Within %s these conditions were not met for generation %d:", timeout, object.Generation)}
	for _, c := range wanted {
		if !c.met(object) {
			lines = append(lines, "  "+c.String()+": "+missing(object, c))
		}
	}
	lines = append(lines, "All conditions of the work:", describeConditions(object.Status.Conditions, now))
	if faults := describeFaults(object, wanted, now); len(faults) > 0 {
		lines = append(append(lines, "Objects at fault:"), faults...)
	}
	var reported []string
	for _, m := range object.Status.ResourceStatus.Manifests {
		for _, value := range m.StatusFeedbacks.Values {
			reported = append(reported, fmt.Sprintf("  %s: %s = %s", describeMeta(m.ResourceMeta), value.Name, feedbackText(value.Value)))
		}
	}
	if len(reported) > 0 {
		lines = append(append(lines, "Reported values:"), reported...)
	}
	return lines
}

// missing says why a condition is not met.
func missing(object *workv1.ManifestWork, c waitCondition) string {
	found := meta.FindStatusCondition(object.Status.Conditions, c.Type)
	switch {
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
func describeFaults(object *workv1.ManifestWork, wanted []waitCondition, now time.Time) []string {
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
				lines = append(lines, "  "+describeMeta(m.ResourceMeta)+": "+strings.TrimSpace(describeConditions([]metav1.Condition{c}, now)))
			}
		}
	}
	return lines
}

func describeMeta(m workv1.ManifestResourceMeta) string {
	return m.Kind + " " + qualified(m.Namespace, m.Name)
}

func qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
