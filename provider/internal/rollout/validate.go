package rollout

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

// What can be told about a strategy before the hub is asked.

// deadlineValidator admits what the API admits as a progress deadline and the
// hub can read. The API's own pattern lets more through, such as 5| and 5mm.
type deadlineValidator struct{ attribute.Described }

func (v deadlineValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	text := req.ConfigValue.ValueString()
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() || text == clusterv1alpha1.ProgressDeadlineNone {
		return
	}
	const title = "Invalid progress deadline"
	_, err := time.ParseDuration(text)
	switch {
	case strings.EqualFold(text, clusterv1alpha1.ProgressDeadlineNone):
		resp.Diagnostics.AddAttributeError(req.Path, title, fmt.Sprintf("%s = %q is not %s: write None with a capital letter.", req.Path, text, string(v.Described)))
	case err != nil:
		resp.Diagnostics.AddAttributeError(req.Path, title, fmt.Sprintf("%s = %q is not %s: every number needs a unit.", req.Path, text, string(v.Described)))
	case !regexp.MustCompile(`^[0-9]+[hms]`).MatchString(text):
		resp.Diagnostics.AddAttributeError(req.Path, title,
			fmt.Sprintf("%s = %q is not admitted by the hub, where a deadline begins with a whole number of hours, minutes or seconds. Write 90m in place of 1.5h.", req.Path, text))
	}
}

// successTimeValidator admits what the hub can read as a success time. The API
// itself admits any text, with which a rollout would not begin.
type successTimeValidator struct{ attribute.Described }

func (v successTimeValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	const title = "Invalid success time"
	text := req.ConfigValue.ValueString()
	switch d, err := time.ParseDuration(text); {
	case err != nil:
		resp.Diagnostics.AddAttributeError(req.Path, title, fmt.Sprintf("%s = %q is not %s: every number needs a unit. For no such time leave it out.", req.Path, text, string(v.Described)))
	case d < 0:
		resp.Diagnostics.AddAttributeError(req.Path, title, fmt.Sprintf("%s = %q lies before the success. Give %s, or leave it out.", req.Path, text, string(v.Described)))
	}
}

// thresholdValidator admits numbers of clusters and percentages of them.
type thresholdValidator struct {
	minimum int64
	// zero tells why 0 is refused, where it is.
	zero string
}

func (v thresholdValidator) Description(context.Context) string {
	return fmt.Sprintf("a whole number from %d, such as \"3\", or a percentage from %[1]d%% to 100%%, such as \"25%%\"", v.minimum)
}

func (v thresholdValidator) MarkdownDescription(ctx context.Context) string {
	return v.Description(ctx)
}

func (v thresholdValidator) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	const title = "Invalid number of clusters"
	text := req.ConfigValue.ValueString()
	number, percent := strings.CutSuffix(text, "%")
	value, err := strconv.ParseInt(number, 10, 32)
	switch {
	case err != nil, value < 0, strconv.FormatInt(value, 10) != number, percent && value > 100:
		resp.Diagnostics.AddAttributeError(req.Path, title, fmt.Sprintf("%s = %q is no number of clusters. Give %s.", req.Path, text, v.Description(ctx)))
	case value < v.minimum:
		resp.Diagnostics.AddAttributeError(req.Path, title, fmt.Sprintf("%s = %q %s. Leave it out if that is meant, or give %s.", req.Path, text, v.zero, v.Description(ctx)))
	}
}

// Check reports settings that the strategy's type would ignore.
func Check(strategy types.Object, at path.Path, diags *diag.Diagnostics) {
	kind, _ := strategy.Attributes()["type"].(types.String)
	var needless []string
	var why string
	switch clusterv1alpha1.RolloutType(kind.ValueString()) {
	case clusterv1alpha1.RolloutTypeAll:
		needless = []string{"max_concurrency", "max_failures", "min_success_time", "mandatory_decision_groups"}
		why = "starts all clusters at once, so that nothing is left to hold back"
	case clusterv1alpha1.RolloutTypeProgressivePerGroup:
		needless = []string{"max_concurrency"}
		why = "hands a change to all clusters of a decision group at once; the placement's decision_strategy sets the size of the groups"
	}
	for _, name := range needless {
		if value := strategy.Attributes()[name]; value != nil && !value.IsNull() {
			diags.AddAttributeError(at.AtName(name), "Needless setting",
				fmt.Sprintf("%s = %s has no effect with type = %q, which %s. Remove it, or use the type Progressive.", at.AtName(name), attribute.ValueText(value), kind.ValueString(), why))
		}
	}
	groups, _ := strategy.Attributes()["mandatory_decision_groups"].(types.List)
	for i, element := range groups.Elements() {
		if group, ok := element.(types.Object); ok && !group.IsNull() && !group.IsUnknown() {
			checkMandatoryGroup(group, at.AtName("mandatory_decision_groups").AtListIndex(i), diags)
		}
	}
}

func checkMandatoryGroup(group types.Object, at path.Path, diags *diag.Diagnostics) {
	name, _ := group.Attributes()["group_name"].(types.String)
	index, _ := group.Attributes()["group_index"].(types.Int64)
	switch {
	case name.IsUnknown() || index.IsUnknown():
	case name.IsNull() == index.IsNull():
		diags.AddAttributeError(at, "Ambiguous decision group",
			fmt.Sprintf("%s has group_name = %s and group_index = %s: a group is meant either by its name or by its number. Give exactly one of them.", at, attribute.ValueText(name), attribute.ValueText(index)))
	case !name.IsNull() && name.ValueString() == "":
		diags.AddAttributeError(at.AtName("group_name"), "Invalid group name",
			fmt.Sprintf(`%s.group_name = "" names no group, and the hub would take it for the group with the number 0. Give the name, or group_index = 0.`, at))
	case !index.IsNull() && (index.ValueInt64() < 0 || index.ValueInt64() > 1<<31-1):
		diags.AddAttributeError(at.AtName("group_index"), "Invalid group number",
			fmt.Sprintf("%s.group_index = %d is no number of a decision group: they count from 0. Give a number from 0 to %d.", at, index.ValueInt64(), 1<<31-1))
	}
}
