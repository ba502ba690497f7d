package provider

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
)

// celValidator compiles an expression while planning: what is wrong with it
// would otherwise only show in the conditions of works.
type celValidator struct {
	described
	env func() (*expression.Env, error)
	// sees says which variables there are.
	sees string
}

func conditionExpression() celValidator {
	return celValidator{described("an expression in CEL over object"), sync.OnceValues(expression.ForConditions), "the variable object, such as object.status.readyReplicas == object.spec.replicas"}
}

func messageExpression() celValidator {
	return celValidator{described("an expression in CEL over object and result"), sync.OnceValues(expression.ForMessages), "the variables object and result, such as result ? \"done\" : \"busy\""}
}

func (v celValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	env, err := v.env()
	if err == nil {
		err = env.Check(req.ConfigValue.ValueString())
	}
	if err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid expression",
			fmt.Sprintf("%s can't be evaluated on any object: %s\n\nIt has to be an expression in CEL over %s.", req.Path, err, v.sees))
	}
}
