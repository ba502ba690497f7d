package attribute

import (
	"context"
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// WholeBetween admits whole numbers. The framework's own type of whole numbers calls
// a broken one a defect of the provider.
func WholeBetween(least, most int64) validator.Number {
	return wholeNumber{Described(fmt.Sprintf("a whole number between %d and %d", least, most)), least, most}
}

type wholeNumber struct {
	Described
	least, most int64
}

// ValidateNumber implements validator.Number.
func (v wholeNumber) ValidateNumber(_ context.Context, req validator.NumberRequest, resp *validator.NumberResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	number := req.ConfigValue.ValueBigFloat()
	if whole, exact := number.Int64(); !number.IsInt() || exact != big.Exact || whole < v.least || whole > v.most {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid number",
			fmt.Sprintf("%s is %s, but it takes %s.", req.Path, number.Text('g', -1), string(v.Described)))
	}
}

// WholeValue is a whole number in Terraform.
func WholeValue(number int64) types.Number { return types.NumberValue(new(big.Float).SetInt64(number)) }

// Whole is a whole number in Go. ok is false for other values.
func Whole(value attr.Value) (number int64, ok bool) {
	of, ok := value.(types.Number)
	if !ok || of.IsNull() || of.IsUnknown() {
		return 0, false
	}
	number, exact := of.ValueBigFloat().Int64()
	return number, exact == big.Exact
}
