package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
)

// pathValidator reads a path while planning: the hub refuses a work with one that
// can't be read, or that costs too much, and an upstream hub's agent reports it.
type pathValidator struct {
	described
	check func(string) error
}

func jsonPath() pathValidator {
	return pathValidator{described("a JSONPath with at most one .."), workcheck.JSONPath}
}

func jqPath() pathValidator {
	return pathValidator{described("a jq expression that is a path"), workcheck.JQ}
}

func (v pathValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := v.check(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid path", fmt.Sprintf("%s: %s.", req.Path, err))
	}
}
