package attribute

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func TestAPlaceIsNamedAsPeopleWriteIt(t *testing.T) {
	taint := types.ObjectValueMust(map[string]attr.Type{"key": types.StringType}, map[string]attr.Value{"key": types.StringValue("gpu")})
	nameless := types.ObjectValueMust(map[string]attr.Type{"on": types.BoolType}, map[string]attr.Value{"on": types.BoolValue(true)})
	for want, at := range map[string]path.Path{
		`taints["gpu"].effect`:             path.Root("taints").AtSetValue(taint).AtName("effect"),
		`predicates[1].cel_expressions[0]`: path.Root("predicates").AtListIndex(1).AtName("cel_expressions").AtListIndex(0),
		`labels["a.b/c"]`:                  path.Root("labels").AtMapKey("a.b/c"),
		`names["x"]`:                       path.Root("names").AtSetValue(types.StringValue("x")),
		`switches[an element].on`:          path.Root("switches").AtSetValue(nameless).AtName("on"),
	} {
		if got := Place(at); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
