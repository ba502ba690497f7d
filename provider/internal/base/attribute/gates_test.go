package attribute

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// Gates are refused in a plan as the hub would refuse them, and approvals are no part of a
// configuration.
func TestGatesAreCheckedInAPlan(t *testing.T) {
	for name, x := range map[string]struct{ key, value, want string }{
		"gates":       {muster.RolloutGatesAnnotation, `[{"group":"production"}]`, ""},
		"a typo":      {muster.RolloutGatesAnnotation, `[{"groups":"production"}]`, `unknown field "groups"`},
		"a pause":     {muster.RolloutPausedAnnotation, "on", "write true or false"},
		"an approval": {muster.RolloutApprovalsAnnotation, "[]", "use the action muster_approve_rollout"},
		"a request":   {muster.ApproveRolloutAnnotation, "production", "use the action muster_approve_rollout"},
		"another":     {"example.com/a", "[", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var resp validator.MapResponse
			annotations := map[string]attr.Value{x.key: types.StringValue(x.value)}
			ValidAnnotations().ValidateMap(t.Context(), validator.MapRequest{Path: path.Root("annotations"),
				ConfigValue: types.MapValueMust(types.StringType, annotations)}, &resp)
			said := ""
			for _, d := range resp.Diagnostics {
				said += d.Detail()
			}
			if (said == "") != (x.want == "") || !strings.Contains(said, x.want) {
				t.Errorf("it says %q, want %q", said, x.want)
			}
			if ImportableAnnotation(muster.RolloutApprovalsAnnotation) {
				t.Error("an import takes approvals over")
			}
		})
	}
}

// Gates are written as the hub reads them, and read back.
func TestGatesAreAnAnnotation(t *testing.T) {
	table := Table[*workv1alpha1.ManifestWorkReplicaSet]{GatesField[*workv1alpha1.ManifestWorkReplicaSet]()}
	for name, annotation := range map[string]string{
		"one to approve": `[{"group":"production"}]`,
		"windows": `[{"group":"0","window":{"days":["Sat","Sun"],"from":"22:00","to":"04:00",` +
			`"timeZone":"Europe/Berlin"}},` +
			`{"group":"*","window":{"from":"09:00","to":"17:00"}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			live, written := &workv1alpha1.ManifestWorkReplicaSet{}, &workv1alpha1.ManifestWorkReplicaSet{}
			live.Annotations = map[string]string{muster.RolloutGatesAnnotation: annotation, "other": "stays"}
			values := table.Read(live)
			table.Write(values, written)
			if got := written.Annotations[muster.RolloutGatesAnnotation]; got != annotation {
				t.Errorf("got %s, want %s", got, annotation)
			}
		})
	}
	for _, annotation := range []string{"", "[]", "no gates"} {
		live := &workv1alpha1.ManifestWorkReplicaSet{}
		live.Annotations = map[string]string{muster.RolloutGatesAnnotation: annotation}
		if value := table.Read(live)["gates"]; !value.IsNull() {
			t.Errorf("%q reads %v, want none", annotation, value)
		}
	}
}

// What the hub would refuse is refused in the plan, in the words of the attribute.
func TestGatesAreChecked(t *testing.T) {
	gate := func(group string, window *rollout.Window) rollout.Gate {
		return rollout.Gate{Group: group,
			Window: window}
	}
	for name, x := range map[string]struct {
		gates []rollout.Gate
		want  string
	}{
		"good": {[]rollout.Gate{gate("a", nil), gate("b", &rollout.Window{From: "22:00", To: "04:00"})}, ""},
		"twice": {[]rollout.Gate{gate("a", nil), gate("a", nil)}, `Gate 1, group "a": another gate is ` +
			`before the same group`},
		"no group": {[]rollout.Gate{gate("", nil)}, "group is missing"},
		"a time": {[]rollout.Gate{gate("a", &rollout.Window{From: "22", To: "04:00"})},
			`window.from is "22": write a time as in 22:00`},
		"a time zone": {[]rollout.Gate{gate("a", &rollout.Window{From: "22:00", To: "04:00",
			TimeZone: "Berlin"})}, `window.time_zone is "Berlin"`},
		"a day": {[]rollout.Gate{gate("a", &rollout.Window{Days: []string{"Samstag"}, From: "22:00",
			To: "04:00"})}, `window.days has "Samstag"`},
		"far too many": {make([]rollout.Gate, 21), "Gates has 21 gates: give 20 at most"},
	} {
		t.Run(name, func(t *testing.T) {
			table := gatesTable()
			var diags diag.Diagnostics
			checkGates(path.Root("gates"), types.ListValueMust(table.objectType(), objectValues(table, x.gates)),
				&diags)
			said := ""
			for _, d := range diags {
				said += d.Detail()
			}
			if (said == "") != (x.want == "") || !strings.Contains(said, x.want) {
				t.Errorf("it says %q, want %q", said, x.want)
			}
		})
	}
}
