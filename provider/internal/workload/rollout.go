package workload

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

// RolloutModel is a rollout strategy; nil when none is given.
type RolloutModel struct {
	Type             types.String     `tfsdk:"type"`
	ProgressDeadline types.String     `tfsdk:"progress_deadline"`
	MinSuccessTime   types.String     `tfsdk:"min_success_time"`
	MaxFailures      types.String     `tfsdk:"max_failures"`
	MaxConcurrency   types.String     `tfsdk:"max_concurrency"`
	MandatoryGroups  []MandatoryGroup `tfsdk:"mandatory_decision_groups"`
}

// MandatoryGroup is a decision group that goes before all others.
type MandatoryGroup struct {
	Name  types.String `tfsdk:"group_name"`
	Index types.Int64  `tfsdk:"group_index"`
}

// RolloutAttribute is the attribute rollout_strategy. description says what it is when left
// out, and when a cluster is done; unlimited, what a max_concurrency that is left out
// means.
func RolloutAttribute(description, unlimited string) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "How a change spreads over the placement's clusters. " + description,
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"type": attribute.Required("`All`: all clusters at once; failures don't stop it. `Progressive`: at most "+
				"`max_concurrency` clusters at a time, in alphabetical order. "+
				"`ProgressivePerGroup`: one decision group of the placement after the other.",
				attribute.OneOf(clusterv1alpha1.RolloutTypeAll, clusterv1alpha1.RolloutTypeProgressive,
					clusterv1alpha1.RolloutTypeProgressivePerGroup)...),
			"progress_deadline": attribute.Optional("How long a cluster may be progressing or failed before the "+
				"rollout gives up on it, such as `10m`; it then counts as a failure and no longer as in progress. "+
				"`0s` gives up at once, `None` never. Defaults to `None`.", validDeadline()),
			"min_success_time": attribute.Optional("How long a cluster has to stay successful before the next may "+
				"start in its place, such as `5m`. Not for `All`. Defaults to `0s`.", validSuccessTime()),
			"max_failures": attribute.Optional("How many clusters may fail before no further cluster is started: a "+
				"number such as `\"3\"`, or a percentage such as `\"25%\"`, rounded up, of the placement's clusters "+
				"(of each group's, for `ProgressivePerGroup`). Not for `All`. Defaults to `\"0\"`: the first "+
				"failure stops the rollout. "+
				"**Note:** a number greater than the number of clusters counts as `0`, not as no limit. With "+
				"five clusters `\"10\"` tolerates no failure; use `\"100%\"` to tolerate all.", validThreshold(0, "")),
			"max_concurrency": attribute.Optional("How many clusters may be in progress at the same time: a number "+
				"such as `\"3\"`, or a percentage such as `\"25%\"`, rounded up, of the clusters outside of the "+
				"mandatory groups. Clusters that have failed, or are still within `min_success_time`, keep their "+
				"place. Only for `Progressive`. "+unlimited,
				validThreshold(1, "would not stop the rollout: the hub takes it for no limit at all")),
			"mandatory_decision_groups": schema.ListNestedAttribute{
				MarkdownDescription: "Decision groups of the placement that go first, one after the other, as " +
					"canaries. They tolerate no failure: until all of their clusters have succeeded, no other " +
					"cluster is touched, and one that is given up blocks the rest for good. Not for `All`.",
				Optional: true,
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"group_name": attribute.Optional(
						"Name of the group, as the placement's `decision_strategy` gives it."),
					"group_index": schema.Int64Attribute{
						MarkdownDescription: "Number of the group, counted from 0. Give either this or `group_name`.",
						Optional:            true,
					},
				}},
			},
		},
	}
}

// Strategy is the strategy in the API's type; the zero value for nil.
func (m *RolloutModel) Strategy() clusterv1alpha1.RolloutStrategy {
	if m == nil {
		return clusterv1alpha1.RolloutStrategy{}
	}
	config := clusterv1alpha1.RolloutConfig{
		ProgressDeadline: m.ProgressDeadline.ValueString(),
		MinSuccessTime:   m.MinSuccessTime.ValueString(),
		MaxFailures:      threshold(m.MaxFailures),
	}
	var groups clusterv1alpha1.MandatoryDecisionGroups
	for _, g := range m.MandatoryGroups {
		groups.MandatoryDecisionGroups = append(groups.MandatoryDecisionGroups, clusterv1alpha1.MandatoryDecisionGroup{
			GroupName: g.Name.ValueString(), GroupIndex: int32(g.Index.ValueInt64()), //nolint:gosec // validated
		})
	}
	strategy := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutType(m.Type.ValueString())}
	switch strategy.Type {
	case clusterv1alpha1.RolloutTypeProgressive:
		strategy.Progressive = &clusterv1alpha1.RolloutProgressive{
			RolloutConfig: config, MandatoryDecisionGroups: groups, MaxConcurrency: threshold(m.MaxConcurrency),
		}
	case clusterv1alpha1.RolloutTypeProgressivePerGroup:
		strategy.ProgressivePerGroup = &clusterv1alpha1.RolloutProgressivePerGroup{
			RolloutConfig: config, MandatoryDecisionGroups: groups,
		}
	default:
		strategy.All = &clusterv1alpha1.RolloutAll{RolloutConfig: config}
	}
	return strategy
}

// RolloutModelOf is nil for what hubs take where no strategy is given.
// Settings that equal their defaults, or have no effect, are left out.
func RolloutModelOf(strategy clusterv1alpha1.RolloutStrategy) *RolloutModel {
	if SameRollout(strategy, clusterv1alpha1.RolloutStrategy{}) {
		return nil
	}
	e := rolloutEffectOf(strategy)
	m := &RolloutModel{Type: types.StringValue(string(e.kind))}
	if e.deadline != clusterv1alpha1.ProgressDeadlineNone {
		m.ProgressDeadline = types.StringValue(e.written.ProgressDeadline)
	}
	if e.success != noTime {
		m.MinSuccessTime = types.StringValue(e.written.MinSuccessTime)
	}
	if e.failures != "0" {
		m.MaxFailures = types.StringValue(e.failures)
	}
	if e.concurrency != "0" {
		m.MaxConcurrency = types.StringValue(e.concurrency)
	}
	for _, g := range e.groups {
		group := MandatoryGroup{Name: attribute.OptionalString(g.GroupName)}
		if g.GroupName == "" {
			group.Index = types.Int64Value(int64(g.GroupIndex))
		}
		m.MandatoryGroups = append(m.MandatoryGroups, group)
	}
	return m
}

// rolloutEffect is what comes of a strategy: the settings that its type uses,
// defaults filled in and durations in one notation.
type rolloutEffect struct {
	kind                  clusterv1alpha1.RolloutType
	deadline, success     string
	failures, concurrency string
	groups                []clusterv1alpha1.MandatoryDecisionGroup

	// written holds the durations as their author wrote them.
	written clusterv1alpha1.RolloutConfig
}

const noTime = "0s"

func rolloutEffectOf(strategy clusterv1alpha1.RolloutStrategy) rolloutEffect {
	e := rolloutEffect{kind: strategy.Type, success: noTime, failures: "0", concurrency: "0"}
	switch strategy.Type {
	case clusterv1alpha1.RolloutTypeProgressive:
		if p := strategy.Progressive; p != nil {
			e.written, e.groups = p.RolloutConfig, p.MandatoryDecisionGroups.MandatoryDecisionGroups
			e.concurrency = thresholdText(p.MaxConcurrency)
		}
	case clusterv1alpha1.RolloutTypeProgressivePerGroup:
		if p := strategy.ProgressivePerGroup; p != nil {
			e.written, e.groups = p.RolloutConfig, p.MandatoryDecisionGroups.MandatoryDecisionGroups
		}
	default:
		e.kind = clusterv1alpha1.RolloutTypeAll
		if strategy.All != nil {
			e.written.ProgressDeadline = strategy.All.ProgressDeadline
		}
	}
	e.deadline = durationText(e.written.ProgressDeadline, clusterv1alpha1.ProgressDeadlineNone)
	e.success = durationText(e.written.MinSuccessTime, noTime)
	e.failures = thresholdText(e.written.MaxFailures)
	return e
}

// SameRollout reports whether two strategies have the same effect, whatever the notation.
func SameRollout(a, b clusterv1alpha1.RolloutStrategy) bool {
	x, y := rolloutEffectOf(a), rolloutEffectOf(b)
	return x.kind == y.kind && x.deadline == y.deadline && x.success == y.success &&
		x.failures == y.failures && x.concurrency == y.concurrency && attribute.Same(x.groups, y.groups)
}

// durationText writes 300s as 5m0s, and leaves what is no duration alone.
func durationText(text, standard string) string {
	if text == "" {
		return standard
	}
	if d, err := time.ParseDuration(text); err == nil {
		return d.String()
	}
	return text
}

func threshold(text types.String) intstr.IntOrString {
	if text.IsNull() {
		return intstr.IntOrString{}
	}
	return intstr.Parse(text.ValueString())
}

// thresholdText is what threshold reads. A number that somebody wrote as text,
// which hubs take for an error, appears in quotes, so that it differs.
func thresholdText(value intstr.IntOrString) string {
	if value.Type == intstr.String {
		if _, err := strconv.Atoi(value.StrVal); err == nil {
			return strconv.Quote(value.StrVal)
		}
	}
	return value.String()
}

// What can be told about a strategy before the hub is asked.

// validDeadline admits what the API admits as a progress deadline and the
// hub can read. The API's own pattern lets more through, such as 5| and 5mm.
func validDeadline() validator.String {
	const form, none = "a duration such as 30s, 10m or 1h30m, or None", clusterv1alpha1.ProgressDeadlineNone
	begins := regexp.MustCompile(`^[0-9]+[hms]`)
	return attribute.ValidText(form, func(at path.Path, text string) (summary, detail string) {
		summary = "Invalid progress deadline"
		_, err := time.ParseDuration(text)
		switch {
		case text == none:
			return "", ""
		case strings.EqualFold(text, none):
			return summary, fmt.Sprintf("%s = %q is not %s: write None with a capital letter.", at, text, form)
		case err != nil:
			return summary, fmt.Sprintf("%s = %q is not %s: every number needs a unit.", at, text, form)
		case !begins.MatchString(text):
			return summary, fmt.Sprintf("%s = %q is not admitted by the hub, where a deadline begins with a whole "+
				"number of hours, minutes or seconds. Write 90m in place of 1.5h.", at, text)
		}
		return "", ""
	})
}

// validSuccessTime admits what the hub can read as a success time. The API
// itself admits any text, with which a rollout would not begin.
func validSuccessTime() validator.String {
	const form = "a duration such as 30s or 5m"
	return attribute.ValidText(form, func(at path.Path, text string) (summary, detail string) {
		summary = "Invalid success time"
		switch d, err := time.ParseDuration(text); {
		case err != nil:
			return summary, fmt.Sprintf("%s = %q is not %s: every number needs a unit. For no such time leave it out.",
				at, text, form)
		case d < 0:
			return summary, fmt.Sprintf("%s = %q lies before the success. Give %s, or leave it out.", at, text, form)
		}
		return "", ""
	})
}

// validThreshold admits numbers of clusters and percentages of them. zero says why 0 is
// refused, where it is.
func validThreshold(minimum int64, zero string) validator.String {
	form := fmt.Sprintf(`a whole number from %d, such as "3", or a percentage from %[1]d%% to 100%%, such as "25%%"`,
		minimum)
	return attribute.ValidText(form, func(at path.Path, text string) (summary, detail string) {
		summary = "Invalid number of clusters"
		number, percent := strings.CutSuffix(text, "%")
		value, err := strconv.ParseInt(number, 10, 32)
		switch {
		case err != nil, value < 0, strconv.FormatInt(value, 10) != number, percent && value > 100:
			return summary, fmt.Sprintf("%s = %q is no number of clusters. Give %s.", at, text, form)
		case value < minimum:
			return summary, fmt.Sprintf("%s = %q %s. Leave it out if that is meant, or give %s.", at, text, zero, form)
		}
		return "", ""
	})
}

// CheckRollout reports settings that the strategy's type would ignore.
func CheckRollout(strategy types.Object, at path.Path, diags *diag.Diagnostics) {
	kind, _ := strategy.Attributes()["type"].(types.String)
	var needless []string
	var why string
	switch clusterv1alpha1.RolloutType(kind.ValueString()) {
	case clusterv1alpha1.RolloutTypeAll:
		needless = []string{"max_concurrency", "max_failures", "min_success_time", "mandatory_decision_groups"}
		why = "starts all clusters at once, so that nothing is left to hold back"
	case clusterv1alpha1.RolloutTypeProgressivePerGroup:
		needless = []string{"max_concurrency"}
		why = "hands a change to all clusters of a decision group at once; the placement's decision_strategy sets " +
			"the size of the groups"
	}
	for _, name := range needless {
		if value := strategy.Attributes()[name]; value != nil && !value.IsNull() {
			diags.AddAttributeError(at.AtName(name), "Needless setting",
				fmt.Sprintf("%s = %s has no effect with type = %q, which %s. Remove it, or use the type Progressive.",
					at.AtName(name), attribute.ValueText(value), kind.ValueString(), why))
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
			fmt.Sprintf("%s has group_name = %s and group_index = %s: a group is meant either by its name or by its "+
				"number. Give exactly one of them.", at, attribute.ValueText(name), attribute.ValueText(index)))
	case !name.IsNull() && name.ValueString() == "":
		diags.AddAttributeError(at.AtName("group_name"), "Invalid group name",
			fmt.Sprintf(`%s.group_name = "" names no group, and the hub would take it for the group with the number `+
				"0. Give the name, or group_index = 0.", at))
	case !index.IsNull() && (index.ValueInt64() < 0 || index.ValueInt64() > math.MaxInt32):
		diags.AddAttributeError(at.AtName("group_index"), "Invalid group number",
			fmt.Sprintf("%s.group_index = %d is no number of a decision group: they count from 0. Give a number from "+
				"0 to %d.", at, index.ValueInt64(), math.MaxInt32))
	}
}
