package attribute

import (
	"context"
	"iter"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// listValidator checks lists that are set and known.
type listValidator struct {
	Described
	check func(at path.Path, list types.List, diags *diag.Diagnostics)
}

// ValidateList implements validator.List.
func (v listValidator) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	if !req.ConfigValue.IsNull() && !req.ConfigValue.IsUnknown() {
		v.check(req.Path, req.ConfigValue, &resp.Diagnostics)
	}
}

// ValidList is a validator of lists. check gets those that are set and known.
func ValidList(
	description string, check func(at path.Path, list types.List, diags *diag.Diagnostics),
) validator.List {
	return listValidator{Described(description), check}
}

// ValuesOf are the attributes of a configuration, a plan or a state; none after an error.
func ValuesOf(
	ctx context.Context, from interface {
		Get(ctx context.Context, target any) diag.Diagnostics
	}, diags *diag.Diagnostics,
) Values {
	var whole types.Object
	diags.Append(from.Get(ctx, &whole)...)
	return whole.Attributes()
}

// EachObject has the attributes of the objects in a list, by their index, without those
// that are null or unknown.
func EachObject(list Elements) iter.Seq2[int, Values] {
	return func(yield func(int, Values) bool) {
		for i, element := range list.Elements() {
			object, ok := element.(types.Object)
			if ok && !object.IsNull() && !object.IsUnknown() && !yield(i, object.Attributes()) {
				return
			}
		}
	}
}

// Seen are the elements of a list by what they name.
type Seen map[string]path.Path

// Again adds an element, and refuses it where a former one has the same key. tail ends
// the sentence that begins with the two.
func (s Seen) Again(key string, at path.Path, summary, tail string, diags *diag.Diagnostics) bool {
	first, again := s[key]
	if again {
		diags.AddAttributeError(at, summary, Place(first)+" and "+Place(at)+" "+tail)
	} else {
		s[key] = at
	}
	return again
}
