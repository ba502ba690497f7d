package workload

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

func tfString(s string) types.String { return types.StringValue(s) }

type strategy = *clusterv1alpha1.RolloutStrategy

// rolloutAttribute is the attribute of a strategy alone.
func rolloutAttribute() attribute.Table[strategy] {
	at := func(s strategy) *clusterv1alpha1.RolloutStrategy { return s }
	return attribute.Table[strategy]{RolloutField("", "", at)}
}

// settings are the attribute as a configuration has it; null for nil.
func settings(set attribute.Values) attr.Value {
	of, _ := rolloutAttribute().Types()["rollout_strategy"].(types.ObjectType)
	if set == nil {
		return types.ObjectNull(of.AttrTypes)
	}
	values := attribute.Values{}
	for name, kind := range of.AttrTypes {
		if values[name] = set[name]; set[name] == nil {
			values[name] = attribute.Null(kind)
		}
	}
	return types.ObjectValueMust(of.AttrTypes, values)
}

// sent is the strategy that the hub gets.
func sent(value attr.Value) clusterv1alpha1.RolloutStrategy {
	var s clusterv1alpha1.RolloutStrategy
	rolloutAttribute().Write(attribute.Values{"rollout_strategy": value}, &s)
	return s
}

// mandatory are decision groups by their names, or by their numbers where they have none.
func mandatory(names ...string) types.List {
	kinds := map[string]attr.Type{"group_name": types.StringType, "group_index": types.Int64Type}
	var groups []attr.Value
	for i, name := range names {
		group := map[string]attr.Value{"group_name": tfString(name), "group_index": types.Int64Null()}
		if name == "" {
			group = map[string]attr.Value{"group_name": types.StringNull(), "group_index": types.Int64Value(int64(i))}
		}
		groups = append(groups, types.ObjectValueMust(kinds, group))
	}
	return types.ListValueMust(types.ObjectType{AttrTypes: kinds}, groups)
}

// progressive is a strategy as the hub has it, with its defaults filled in.
func progressive(change func(*clusterv1alpha1.RolloutProgressive)) clusterv1alpha1.RolloutStrategy {
	p := &clusterv1alpha1.RolloutProgressive{RolloutConfig: clusterv1alpha1.RolloutConfig{MinSuccessTime: "0", ProgressDeadline: "None", MaxFailures: intstr.FromInt32(0)}}
	if change != nil {
		change(p)
	}
	return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeProgressive, Progressive: p}
}

func TestRolloutStrategySends(t *testing.T) {
	for name, test := range map[string]struct {
		set  attribute.Values
		want clusterv1alpha1.RolloutStrategy
	}{
		"nothing when left out": {nil, clusterv1alpha1.RolloutStrategy{}},
		"only the deadline for All": {
			attribute.Values{"type": tfString("All"), "progress_deadline": tfString("5m")},
			clusterv1alpha1.RolloutStrategy{Type: "All", All: &clusterv1alpha1.RolloutAll{RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: "5m"}}},
		},
		"numbers as numbers and percentages as text": {
			attribute.Values{"type": tfString("Progressive"), "max_failures": tfString("25%"), "max_concurrency": tfString("3"), "min_success_time": tfString("30s")},
			clusterv1alpha1.RolloutStrategy{Type: "Progressive", Progressive: &clusterv1alpha1.RolloutProgressive{
				RolloutConfig:  clusterv1alpha1.RolloutConfig{MinSuccessTime: "30s", MaxFailures: intstr.FromString("25%")},
				MaxConcurrency: intstr.FromInt32(3),
			}},
		},
		"mandatory groups by name and by number": {
			attribute.Values{"type": tfString("ProgressivePerGroup"), "mandatory_decision_groups": mandatory("canary", "")},
			clusterv1alpha1.RolloutStrategy{Type: "ProgressivePerGroup", ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{
				MandatoryDecisionGroups: clusterv1alpha1.MandatoryDecisionGroups{MandatoryDecisionGroups: []clusterv1alpha1.MandatoryDecisionGroup{{GroupName: "canary"}, {GroupIndex: 1}}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sent(settings(test.set)); !attribute.Same(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestRolloutStrategiesThatMeanTheSame(t *testing.T) {
	deadline := func(text string) func(*clusterv1alpha1.RolloutProgressive) {
		return func(p *clusterv1alpha1.RolloutProgressive) { p.ProgressDeadline = text }
	}
	concurrency := func(value intstr.IntOrString) func(*clusterv1alpha1.RolloutProgressive) {
		return func(p *clusterv1alpha1.RolloutProgressive) { p.MaxConcurrency = value }
	}
	for name, test := range map[string]struct {
		a, b clusterv1alpha1.RolloutStrategy
		want bool
	}{
		"none and the default": {
			clusterv1alpha1.RolloutStrategy{},
			clusterv1alpha1.RolloutStrategy{Type: "All", All: &clusterv1alpha1.RolloutAll{RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: "None", MinSuccessTime: "0"}}}, true,
		},
		"bare and with defaults":            {sent(settings(attribute.Values{"type": tfString("Progressive")})), progressive(nil), true},
		"durations in two notations":        {progressive(deadline("300s")), progressive(deadline("5m")), true},
		"other durations":                   {progressive(deadline("301s")), progressive(deadline("5m")), false},
		"a deadline of no time and none":    {progressive(deadline("0s")), progressive(deadline("None")), false},
		"a number and the number as text":   {progressive(concurrency(intstr.FromInt32(3))), progressive(concurrency(intstr.FromString("3"))), false},
		"a number and a percentage":         {progressive(concurrency(intstr.FromInt32(3))), progressive(concurrency(intstr.FromString("3%"))), false},
		"other types":                       {progressive(nil), clusterv1alpha1.RolloutStrategy{Type: "ProgressivePerGroup"}, false},
		"settings of a type that is not":    {clusterv1alpha1.RolloutStrategy{Type: "All", Progressive: &clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.FromInt32(1)}}, clusterv1alpha1.RolloutStrategy{}, true},
		"settings that All ignores":         {clusterv1alpha1.RolloutStrategy{Type: "All", All: &clusterv1alpha1.RolloutAll{RolloutConfig: clusterv1alpha1.RolloutConfig{MaxFailures: intstr.FromInt32(4)}}}, clusterv1alpha1.RolloutStrategy{}, true},
		"failures":                          {progressive(func(p *clusterv1alpha1.RolloutProgressive) { p.MaxFailures = intstr.FromInt32(1) }), progressive(nil), false},
		"success times":                     {progressive(func(p *clusterv1alpha1.RolloutProgressive) { p.MinSuccessTime = "1s" }), progressive(nil), false},
		"mandatory groups in another order": {withGroups("a", "b"), withGroups("b", "a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sameRollout(test.a, test.b); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func withGroups(names ...string) clusterv1alpha1.RolloutStrategy {
	return progressive(func(p *clusterv1alpha1.RolloutProgressive) {
		for _, name := range names {
			p.MandatoryDecisionGroups.MandatoryDecisionGroups = append(p.MandatoryDecisionGroups.MandatoryDecisionGroups, clusterv1alpha1.MandatoryDecisionGroup{GroupName: name})
		}
	})
}

// What an import reads has to be what a configuration can say, in the same words
// where these aren't defaults.
func TestImportedRolloutStrategy(t *testing.T) {
	full := progressive(func(p *clusterv1alpha1.RolloutProgressive) {
		p.ProgressDeadline, p.MinSuccessTime = "90m", "300s"
		p.MaxFailures, p.MaxConcurrency = intstr.FromString("10%"), intstr.FromInt32(2)
		p.MandatoryDecisionGroups.MandatoryDecisionGroups = []clusterv1alpha1.MandatoryDecisionGroup{{GroupName: "canary"}, {GroupIndex: 1}}
	})
	for name, test := range map[string]struct {
		strategy clusterv1alpha1.RolloutStrategy
		want     attribute.Values
	}{
		"the default":   {clusterv1alpha1.RolloutStrategy{}, nil},
		"only defaults": {progressive(nil), attribute.Values{"type": tfString("Progressive")}},
		"everything": {full, attribute.Values{
			"type": tfString("Progressive"), "progress_deadline": tfString("90m"), "min_success_time": tfString("300s"), "max_failures": tfString("10%"),
			"max_concurrency": tfString("2"), "mandatory_decision_groups": mandatory("canary", ""),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := rolloutAttribute().Read(&test.strategy)["rollout_strategy"]
			if want := settings(test.want); !got.Equal(want) {
				t.Errorf("got %s, want %s", got, want)
			}
			if again := sent(got); !sameRollout(again, test.strategy) {
				t.Errorf("sending it back would change %+v to %+v", test.strategy, again)
			}
		})
	}
}
