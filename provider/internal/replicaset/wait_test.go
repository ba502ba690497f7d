package replicaset

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// reported is a replica set of generation 3 with a condition PlacementRolledOut.
func reported(status metav1.ConditionStatus, generation int64) *workv1alpha1.ManifestWorkReplicaSet {
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	object.UID, object.Generation, object.ResourceVersion = "u", 3, "10"
	object.Status.Summary.Total = 2
	object.Status.Conditions = []metav1.Condition{{Type: "PlacementRolledOut", Status: status, ObservedGeneration: generation, Reason: "Complete"}}
	return object
}

func TestRolledOut(t *testing.T) {
	verified := func(object *workv1alpha1.ManifestWorkReplicaSet, status metav1.ConditionStatus) *workv1alpha1.ManifestWorkReplicaSet {
		object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{Type: "PlacementVerified", Status: status})
		return object
	}
	for name, test := range map[string]struct {
		object *workv1alpha1.ManifestWorkReplicaSet
		want   bool
	}{
		"not reported":                       {&workv1alpha1.ManifestWorkReplicaSet{}, false},
		"progressing":                        {reported(metav1.ConditionFalse, 3), false},
		"complete":                           {reported(metav1.ConditionTrue, 3), true},
		"complete before the present change": {reported(metav1.ConditionTrue, 2), false},
		"complete, by a hub without notes":   {reported(metav1.ConditionTrue, 0), true},
		"complete and verified":              {verified(reported(metav1.ConditionTrue, 3), metav1.ConditionTrue), true},
		"complete for want of clusters":      {verified(reported(metav1.ConditionTrue, 3), metav1.ConditionFalse), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rolledOut(test.object, nil); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// Where conditions have no observed generation, those that stood
// before a write don't count until the hub has reported again.
func TestReportsFromBeforeAWriteDoNotCount(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*workv1alpha1.ManifestWorkReplicaSet)
		after  func(*workv1alpha1.ManifestWorkReplicaSet)
		want   bool
	}{
		"nothing since":         {after: func(*workv1alpha1.ManifestWorkReplicaSet) {}, want: false},
		"another report":        {after: func(o *workv1alpha1.ManifestWorkReplicaSet) { o.ResourceVersion, o.Status.Summary.Applied = "11", 2 }, want: true},
		"the same report again": {after: func(o *workv1alpha1.ManifestWorkReplicaSet) { o.ResourceVersion = "11" }, want: true},
		"somebody's label": {after: func(o *workv1alpha1.ManifestWorkReplicaSet) {
			o.ResourceVersion, o.Labels = "11", map[string]string{"a": "b"}
		}, want: false},
		"somebody's change": {after: func(o *workv1alpha1.ManifestWorkReplicaSet) { o.ResourceVersion, o.Generation = "11", 4 }, want: false},
		"a label and a report": {
			after: func(o *workv1alpha1.ManifestWorkReplicaSet) {
				o.ResourceVersion, o.Labels = "12", map[string]string{"a": "b"}
				o.Status.Conditions[0].LastTransitionTime = metav1.Now()
			}, want: true,
		},
		"a namesake":          {after: func(o *workv1alpha1.ManifestWorkReplicaSet) { o.UID = "v" }, want: true},
		"no works ever since": {before: func(o *workv1alpha1.ManifestWorkReplicaSet) { o.Status.Summary.Total = 0 }, after: func(*workv1alpha1.ManifestWorkReplicaSet) {}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			object := reported(metav1.ConditionTrue, 0)
			if test.before != nil {
				test.before(object)
			}
			written := markOf(object)
			test.after(object)
			if got := rolledOut(object, written); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestWaitIsMet(t *testing.T) {
	object := reported(metav1.ConditionTrue, 3)
	object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{Type: "ManifestworkApplied", Status: metav1.ConditionFalse, ObservedGeneration: 3})
	for name, test := range map[string]struct {
		wait waitModel
		want bool
	}{
		"rolled out":              {waitModel{RolledOut: types.BoolValue(true)}, true},
		"a condition":             {waitModel{Conditions: []types.String{tfString("ManifestworkApplied")}}, false},
		"a condition's status":    {waitModel{Conditions: []types.String{tfString("ManifestworkApplied=False")}}, true},
		"both, and one is":        {waitModel{RolledOut: types.BoolValue(true), Conditions: []types.String{tfString("ManifestworkApplied=True")}}, false},
		"rolled out not asked":    {waitModel{RolledOut: types.BoolValue(false), Conditions: []types.String{tfString("PlacementRolledOut")}}, true},
		"a condition that is not": {waitModel{Conditions: []types.String{tfString("Elsewhere=Unknown")}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := len(test.wait.missing(object, nil)) == 0; got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// Only what changes the works makes the hub report again.
func TestSameWorks(t *testing.T) {
	all := clusterv1alpha1.RolloutStrategy{}
	a, b := to("a", all), to("b", all)
	texts := func(text string) attr.Value { return attribute.StringListValue([]string{text}) }
	executor := map[string]attr.Value{"namespace": tfString("a"), "service_account": tfString("b")}
	plan := func(change attribute.Values) attribute.Values {
		values := attribute.Values{
			"manifests":  texts("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"),
			"placements": placed(a, b),
		}
		maps.Copy(values, change)
		return values
	}
	for name, test := range map[string]struct {
		change attribute.Values
		want   bool
	}{
		"nothing":           {nil, true},
		"notation":          {attribute.Values{"manifests": texts(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop"}}`)}, true},
		"strategy":          {attribute.Values{"placements": placed(to("a", progressively("5m")), b)}, true},
		"deletion policy":   {attribute.Values{"cascade_deletion_policy": tfString("Foreground")}, true},
		"order":             {attribute.Values{"placements": placed(b, a)}, true},
		"another placement": {attribute.Values{"placements": placed(to("c", all), b)}, false},
		"a placement less":  {attribute.Values{"placements": placed(a)}, false},
		"manifests":         {attribute.Values{"manifests": texts("{apiVersion: v1, kind: Namespace, metadata: {name: x}}")}, false},
		"executor": {attribute.Values{"executor": types.ObjectValueMust(
			map[string]attr.Type{"namespace": types.StringType, "service_account": types.StringType}, executor,
		)}, false},
		"unreadable content": {attribute.Values{"manifests": texts("x")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sameWorks(plan(nil), plan(test.change)); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func fleetWork(cluster string, conditions ...metav1.Condition) workv1.ManifestWork {
	w := workv1.ManifestWork{}
	w.Namespace, w.Name, w.Generation = cluster, "web-x", 2
	w.Status.Conditions = conditions
	return w
}

func condition(kind string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, ObservedGeneration: 2, Reason: "Why", Message: "the reason"}
}

func TestWorkTrouble(t *testing.T) {
	applied, available := condition("Applied", metav1.ConditionTrue), condition("Available", metav1.ConditionTrue)
	stale := applied
	stale.ObservedGeneration = 1
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"fine":        {[]metav1.Condition{applied, available, condition("Progressing", metav1.ConditionFalse), condition("Degraded", metav1.ConditionFalse)}, ""},
		"silent":      {[]metav1.Condition{applied, available}, ""},
		"new":         {nil, "the agent has not reported on the present manifests yet (Applied, Available)"},
		"refused":     {[]metav1.Condition{condition("Applied", metav1.ConditionFalse), available}, "Applied is False (Why): the reason"},
		"stale":       {[]metav1.Condition{stale, available}, "the agent has not reported on the present manifests yet (Applied)"},
		"progressing": {[]metav1.Condition{applied, available, condition("Progressing", metav1.ConditionTrue)}, "Progressing is True (Why): the reason"},
		"degraded":    {[]metav1.Condition{applied, available, condition("Degraded", metav1.ConditionTrue)}, "Degraded is True (Why): the reason"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fleetWork("paris", test.conditions...)
			if got := WorkTrouble(&w); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestHeldUpWorksAreListed(t *testing.T) {
	applied, available := condition("Applied", metav1.ConditionTrue), condition("Available", metav1.ConditionTrue)
	var works []workv1.ManifestWork
	for i := range 12 {
		works = append(works, fleetWork(fmt.Sprintf("c%02d", i), applied, condition("Available", metav1.ConditionFalse)))
	}
	works = append(works, fleetWork("silent", applied, available), fleetWork("done", applied, available, condition("Progressing", metav1.ConditionFalse)))
	got := attribute.JoinLines(describeHeldUp(works, map[string]bool{"c01": true}))
	for _, want := range []string{"12 of 14 works are not done:", "  in 11 clusters (c00, c02, c03 and 8 more): Available is False (Why): the reason\n", "  in c01: Available is False (Why): the reason; the cluster is not available\n", "1 works are applied and available", "condition_rules"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	for _, not := range []string{"c10", "silent", "done/"} {
		if strings.Contains(got, not) {
			t.Errorf("%q is not wanted in:\n%s", not, got)
		}
	}
	if got := attribute.JoinLines(describeHeldUp(nil, nil)); !strings.Contains(got, "There are no works yet") {
		t.Errorf("got %q", got)
	}
}

func TestDescribeGate(t *testing.T) {
	object := reported(metav1.ConditionFalse, 3)
	if got := describeGate(object); got != nil {
		t.Errorf("it says %q", got)
	}
	object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{Type: muster.ConditionGatesOpen,
		Status: metav1.ConditionFalse, Message: "1 cluster waits"})
	if got := describeGate(object); len(got) != 1 || got[0] != "It is held back: 1 cluster waits." {
		t.Errorf("it says %q", got)
	}
}
