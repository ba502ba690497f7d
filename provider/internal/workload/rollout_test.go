package workload

import (
	"reflect"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

func tfString(s string) types.String { return types.StringValue(s) }

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
		model *RolloutModel
		want  clusterv1alpha1.RolloutStrategy
	}{
		"nothing when left out": {nil, clusterv1alpha1.RolloutStrategy{}},
		"only the deadline for All": {
			&RolloutModel{Type: tfString("All"), ProgressDeadline: tfString("5m")},
			clusterv1alpha1.RolloutStrategy{Type: "All", All: &clusterv1alpha1.RolloutAll{RolloutConfig: clusterv1alpha1.RolloutConfig{ProgressDeadline: "5m"}}},
		},
		"numbers as numbers and percentages as text": {
			&RolloutModel{Type: tfString("Progressive"), MaxFailures: tfString("25%"), MaxConcurrency: tfString("3"), MinSuccessTime: tfString("30s")},
			clusterv1alpha1.RolloutStrategy{Type: "Progressive", Progressive: &clusterv1alpha1.RolloutProgressive{
				RolloutConfig:  clusterv1alpha1.RolloutConfig{MinSuccessTime: "30s", MaxFailures: intstr.FromString("25%")},
				MaxConcurrency: intstr.FromInt32(3),
			}},
		},
		"mandatory groups by name and by number": {
			&RolloutModel{Type: tfString("ProgressivePerGroup"), MandatoryGroups: []MandatoryGroup{{Name: tfString("canary")}, {Index: types.Int64Value(2)}}},
			clusterv1alpha1.RolloutStrategy{Type: "ProgressivePerGroup", ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{
				MandatoryDecisionGroups: clusterv1alpha1.MandatoryDecisionGroups{MandatoryDecisionGroups: []clusterv1alpha1.MandatoryDecisionGroup{{GroupName: "canary"}, {GroupIndex: 2}}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.model.Strategy(); !attribute.Same(got, test.want) {
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
		"bare and with defaults":            {(&RolloutModel{Type: tfString("Progressive")}).Strategy(), progressive(nil), true},
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
			if got := SameRollout(test.a, test.b); got != test.want {
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
		p.MandatoryDecisionGroups.MandatoryDecisionGroups = []clusterv1alpha1.MandatoryDecisionGroup{{GroupName: "canary"}, {}}
	})
	for name, test := range map[string]struct {
		strategy clusterv1alpha1.RolloutStrategy
		want     *RolloutModel
	}{
		"the default":   {clusterv1alpha1.RolloutStrategy{}, nil},
		"only defaults": {progressive(nil), &RolloutModel{Type: tfString("Progressive")}},
		"everything": {full, &RolloutModel{
			Type: tfString("Progressive"), ProgressDeadline: tfString("90m"), MinSuccessTime: tfString("300s"), MaxFailures: tfString("10%"), MaxConcurrency: tfString("2"),
			MandatoryGroups: []MandatoryGroup{{Name: tfString("canary")}, {Index: types.Int64Value(0)}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := RolloutModelOf(test.strategy)
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if !SameRollout(got.Strategy(), test.strategy) {
				t.Errorf("sending it back would change %+v to %+v", test.strategy, got.Strategy())
			}
		})
	}
}
