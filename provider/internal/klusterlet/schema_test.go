package klusterlet

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

func TestModelsFitTheirSchemas(t *testing.T) {
	fits(t, New(), &klusterletModel{})
}

// fits fails the test if the schema of a resource has an attribute, nested ones
// included, that its model lacks, or the other way round. model is a pointer.
func fits(t *testing.T, r resource.Resource, model any) {
	t.Helper()
	var resp resource.SchemaResponse
	r.Schema(t.Context(), resource.SchemaRequest{}, &resp)
	state := tfsdk.State{Schema: resp.Schema, Raw: filled(resp.Schema.Type().TerraformType(t.Context()))}
	if diags := state.Get(t.Context(), model); diags.HasError() {
		t.Error(diags)
	}
}

// filled is a value with one element in every collection and null at its leaves.
func filled(of tftypes.Type) tftypes.Value {
	switch of := of.(type) {
	case tftypes.Object:
		attributes := map[string]tftypes.Value{}
		for name, attribute := range of.AttributeTypes {
			attributes[name] = filled(attribute)
		}
		return tftypes.NewValue(of, attributes)
	case tftypes.List:
		return tftypes.NewValue(of, []tftypes.Value{filled(of.ElementType)})
	case tftypes.Set:
		return tftypes.NewValue(of, []tftypes.Value{filled(of.ElementType)})
	case tftypes.Map:
		return tftypes.NewValue(of, map[string]tftypes.Value{"key": filled(of.ElementType)})
	default:
		return tftypes.NewValue(of, nil)
	}
}
