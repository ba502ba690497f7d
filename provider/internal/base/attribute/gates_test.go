package attribute

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
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
