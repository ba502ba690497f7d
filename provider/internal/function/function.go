// Package function has the provider's functions: pure computations on values of a
// configuration, without a hub. Each is a thin cover over the package that does the
// same for a resource.
package function

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
)

// declared is a function with one argument of Go's type A.
type declared[A any] struct {
	name       string
	definition function.Definition
	// run makes the result. Its error is that of the argument.
	run func(ctx context.Context, argument A) (any, error)
}

// Metadata implements function.Function.
func (f declared[A]) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = f.name
}

// Definition implements function.Function.
func (f declared[A]) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = f.definition
}

// Run implements function.Function.
func (f declared[A]) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var argument A
	if resp.Error = req.Arguments.Get(ctx, &argument); resp.Error != nil {
		return
	}
	result, err := f.run(ctx, argument)
	if err != nil {
		resp.Error = refuse(err)
		return
	}
	resp.Error = resp.Result.Set(ctx, result)
}

// hcl are objects as a result, unless there is an error.
func hcl(objects []any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	value, err := workload.HCLValue(objects)
	return types.DynamicValue(value), err
}

// refuse is the error of the first argument. Terraform says before it which one
// that is, and ends the sentence.
func refuse(err error) *function.FuncError {
	return function.NewArgumentFuncError(0, strings.TrimSuffix(err.Error(), "."))
}

// read takes the attributes of an object. Attributes that are left out are null.
// Terraform asks for every attribute of an argument that has the type of an object, so that
// such arguments are of any type. Errors name the attribute.
func read(ctx context.Context, argument types.Dynamic, attributes map[string]attr.Type) (attribute.Values, error) {
	kind, found := types.ObjectType{AttrTypes: attributes}, findings{all: true}
	if found.compare(ctx, "", kind, argument); len(found.errors) > 0 {
		return nil, errors.New(found.errors[0])
	}
	value, err := workload.JSONValue(argument)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	converted, err := tfprotov6.DynamicValue{JSON: text}.Unmarshal(kind.TerraformType(ctx))
	if err != nil {
		return nil, err
	}
	object, err := kind.ValueFromTerraform(ctx, converted)
	values, _ := object.(types.Object)
	return values.Attributes(), err
}
