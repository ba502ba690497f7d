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

// rollout has the settings of a strategy that its type uses.
type rollout struct {
	Type clusterv1alpha1.RolloutType
	clusterv1alpha1.RolloutConfig
	MaxConcurrency intstr.IntOrString
	Groups         []clusterv1alpha1.MandatoryDecisionGroup
}

// RolloutField is the attribute rollout_strategy. description says what it is when left
// out, and when a cluster is done; unlimited, what a max_concurrency that is left out
// means. It is null for what hubs take where no strategy is given.
func RolloutField[P any](
	description, unlimited string, at func(P) *clusterv1alpha1.RolloutStrategy,
) attribute.Field[P] {
	table := rolloutTable(unlimited)
	s := schema.SingleNestedAttribute{
		MarkdownDescription: "How a change spreads over the placement's clusters. " + description,
		Optional:            true,
		Attributes:          table.Attributes(),
		Validators:          []validator.Object{attribute.ValidObject("settings that its type uses", checkRollout)},
	}
	return attribute.Code("rollout_strategy", s,
		func(value types.Object, to P) {
			var r rollout
			table.Write(value.Attributes(), &r)
			*at(to) = r.strategy()
		},
		func(from P) types.Object {
			if sameRollout(*at(from), clusterv1alpha1.RolloutStrategy{}) {
				return types.ObjectNull(table.Types())
			}
			return table.Object(rolloutOf(*at(from)))
		}).
		Means(func(own, live P) bool { return sameRollout(*at(own), *at(live)) })
}

func rolloutTable(unlimited string) attribute.Table[*rollout] {
	type group = *clusterv1alpha1.MandatoryDecisionGroup
	return attribute.Table[*rollout]{
		attribute.Text("type",
			attribute.Required("`All`: all clusters at once; failures don't stop it. `Progressive`: at most "+
				"`max_concurrency` clusters at a time, in alphabetical order. "+
				"`ProgressivePerGroup`: one decision group of the placement after the other.",
				attribute.OneOf(clusterv1alpha1.RolloutTypeAll, clusterv1alpha1.RolloutTypeProgressive,
					clusterv1alpha1.RolloutTypeProgressivePerGroup)...),
			func(r *rollout) *clusterv1alpha1.RolloutType { return &r.Type }),
		attribute.Text("progress_deadline",
			attribute.Optional("How long a cluster may be progressing or failed before the "+
				"rollout gives up on it, such as `10m`; it then counts as a failure and no longer as in progress. "+
				"`0s` gives up at once, `None` never. Defaults to `None`.", validDeadline()),
			func(r *rollout) *string { return &r.ProgressDeadline }),
		attribute.Text("min_success_time",
			attribute.Optional("How long a cluster has to stay successful before the next may "+
				"start in its place, such as `5m`. Not for `All`. Defaults to `0s`.", validSuccessTime()),
			func(r *rollout) *string { return &r.MinSuccessTime }),
		threshold("max_failures",
			attribute.Optional("How many clusters may fail before no further cluster is started: a "+
				"number such as `\"3\"`, or a percentage such as `\"25%\"`, rounded up, of the placement's clusters "+
				"(of each group's, for `ProgressivePerGroup`). Not for `All`. Defaults to `\"0\"`: the first "+
				"failure stops the rollout. "+
				"**Note:** a number greater than the number of clusters counts as `0`, not as no limit. With "+
				"five clusters `\"10\"` tolerates no failure; use `\"100%\"` to tolerate all.", validThreshold(0, "")),
			func(r *rollout) *intstr.IntOrString { return &r.MaxFailures }),
		threshold("max_concurrency",
			attribute.Optional("How many clusters may be in progress at the same time: a number "+
				"such as `\"3\"`, or a percentage such as `\"25%\"`, rounded up, of the clusters outside of the "+
				"mandatory groups. Clusters that have failed, or are still within `min_success_time`, keep their "+
				"place. Only for `Progressive`. "+unlimited,
				validThreshold(1, "would not stop the rollout: the hub takes it for no limit at all")),
			func(r *rollout) *intstr.IntOrString { return &r.MaxConcurrency }),
		attribute.Objects("mandatory_decision_groups",
			schema.ListNestedAttribute{
				MarkdownDescription: "Decision groups of the placement that go first, one after the other, as " +
					"canaries. They tolerate no failure: until all of their clusters have succeeded, no other " +
					"cluster is touched, and one that is given up blocks the rest for good. Not for `All`.",
				Optional: true,
			},
			func(r *rollout) *[]clusterv1alpha1.MandatoryDecisionGroup { return &r.Groups },
			attribute.Text("group_name",
				attribute.Optional("Name of the group, as the placement's `decision_strategy` gives it."),
				func(g group) *string { return &g.GroupName }),
			attribute.Code("group_index",
				attribute.OptionalNumber("Number of the group, counted from 0. Give either this or `group_name`."),
				func(index types.Int64, g group) {
					g.GroupIndex = int32(index.ValueInt64()) //nolint:gosec // validated
				},
				func(g group) types.Int64 {
					if g.GroupName != "" {
						return types.Int64Null()
					}
					return types.Int64Value(int64(g.GroupIndex))
				})),
	}
}

// threshold is a number of clusters or a percentage of them. A number that somebody wrote
// as text, which hubs take for an error, reads as text in quotes, so that it differs.
func threshold(
	name string, s schema.StringAttribute, at func(*rollout) *intstr.IntOrString,
) attribute.Field[*rollout] {
	return attribute.Code(name, s,
		func(text types.String, r *rollout) { *at(r) = intstr.Parse(text.ValueString()) },
		func(r *rollout) types.String {
			switch _, err := strconv.Atoi(at(r).StrVal); {
			case *at(r) == intstr.IntOrString{}:
				return types.StringNull()
			case err == nil:
				return types.StringValue(strconv.Quote(at(r).StrVal))
			}
			return types.StringValue(at(r).String())
		})
}

// strategy is the API's type.
func (r *rollout) strategy() clusterv1alpha1.RolloutStrategy {
	groups := clusterv1alpha1.MandatoryDecisionGroups{MandatoryDecisionGroups: r.Groups}
	strategy := clusterv1alpha1.RolloutStrategy{Type: r.Type}
	switch r.Type {
	case clusterv1alpha1.RolloutTypeProgressive:
		strategy.Progressive = &clusterv1alpha1.RolloutProgressive{
			RolloutConfig: r.RolloutConfig, MandatoryDecisionGroups: groups, MaxConcurrency: r.MaxConcurrency,
		}
	case clusterv1alpha1.RolloutTypeProgressivePerGroup:
		strategy.ProgressivePerGroup = &clusterv1alpha1.RolloutProgressivePerGroup{
			RolloutConfig: r.RolloutConfig, MandatoryDecisionGroups: groups,
		}
	default:
		strategy.All = &clusterv1alpha1.RolloutAll{RolloutConfig: r.RolloutConfig}
	}
	return strategy
}

// rolloutOf has the settings that a strategy's type uses, without those that equal their
// defaults.
func rolloutOf(strategy clusterv1alpha1.RolloutStrategy) *rollout {
	r := &rollout{Type: strategy.Type}
	switch p, g := strategy.Progressive, strategy.ProgressivePerGroup; {
	case r.Type == clusterv1alpha1.RolloutTypeProgressive && p != nil:
		r.RolloutConfig, r.MaxConcurrency = p.RolloutConfig, p.MaxConcurrency
		r.Groups = p.MandatoryDecisionGroups.MandatoryDecisionGroups
	case r.Type == clusterv1alpha1.RolloutTypeProgressivePerGroup && g != nil:
		r.RolloutConfig, r.Groups = g.RolloutConfig, g.MandatoryDecisionGroups.MandatoryDecisionGroups
	case r.Type != clusterv1alpha1.RolloutTypeProgressive && r.Type != clusterv1alpha1.RolloutTypeProgressivePerGroup:
		r.Type = clusterv1alpha1.RolloutTypeAll
		if strategy.All != nil {
			r.ProgressDeadline = strategy.All.ProgressDeadline
		}
	}
	if r.ProgressDeadline == clusterv1alpha1.ProgressDeadlineNone {
		r.ProgressDeadline = ""
	}
	if durationText(r.MinSuccessTime) == durationText("0s") {
		r.MinSuccessTime = ""
	}
	return r
}

// sameRollout reports whether two strategies have the same effect, whatever the notation.
func sameRollout(a, b clusterv1alpha1.RolloutStrategy) bool {
	x, y := rolloutOf(a), rolloutOf(b)
	for _, r := range []*rollout{x, y} {
		r.ProgressDeadline, r.MinSuccessTime = durationText(r.ProgressDeadline), durationText(r.MinSuccessTime)
	}
	return attribute.Same(x, y)
}

// durationText writes 300s as 5m0s, and leaves what is no duration alone.
func durationText(text string) string {
	if d, err := time.ParseDuration(text); err == nil {
		return d.String()
	}
	return text
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

// checkRollout reports settings that the strategy's type would ignore.
func checkRollout(at path.Path, strategy attribute.Values, diags *diag.Diagnostics) {
	var needless []string
	var why string
	switch clusterv1alpha1.RolloutType(strategy.Text("type")) {
	case clusterv1alpha1.RolloutTypeAll:
		needless = []string{"max_concurrency", "max_failures", "min_success_time", "mandatory_decision_groups"}
		why = "starts all clusters at once, so that nothing is left to hold back"
	case clusterv1alpha1.RolloutTypeProgressivePerGroup:
		needless = []string{"max_concurrency"}
		why = "hands a change to all clusters of a decision group at once; the placement's decision_strategy sets " +
			"the size of the groups"
	}
	for _, name := range needless {
		if strategy.IsSet(name) {
			diags.AddAttributeError(at.AtName(name), "Needless setting",
				fmt.Sprintf("%s = %s has no effect with type = %q, which %s. Remove it, or use the type Progressive.",
					at.AtName(name), attribute.ValueText(strategy[name]), strategy.Text("type"), why))
		}
	}
	groups, _ := strategy["mandatory_decision_groups"].(types.List)
	for i, group := range attribute.EachObject(groups) {
		checkMandatoryGroup(group, at.AtName("mandatory_decision_groups").AtListIndex(i), diags)
	}
}

func checkMandatoryGroup(group attribute.Values, at path.Path, diags *diag.Diagnostics) {
	name, index, number := group["group_name"], group["group_index"], group.Number("group_index")
	switch {
	case name.IsUnknown() || index.IsUnknown():
	case name.IsNull() == index.IsNull():
		diags.AddAttributeError(at, "Ambiguous decision group",
			fmt.Sprintf("%s has group_name = %s and group_index = %s: a group is meant either by its name or by its "+
				"number. Give exactly one of them.", at, attribute.ValueText(name), attribute.ValueText(index)))
	case !name.IsNull() && group.Text("group_name") == "":
		diags.AddAttributeError(at.AtName("group_name"), "Invalid group name",
			fmt.Sprintf(`%s.group_name = "" names no group, and the hub would take it for the group with the number `+
				"0. Give the name, or group_index = 0.", at))
	case number < 0 || number > math.MaxInt32:
		diags.AddAttributeError(at.AtName("group_index"), "Invalid group number",
			fmt.Sprintf("%s.group_index = %d is no number of a decision group: they count from 0. Give a number from "+
				"0 to %d.", at, number, math.MaxInt32))
	}
}
