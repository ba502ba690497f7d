package expression

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// ForConditions makes the environment of the expressions of works' condition
// rules, which see the live object as object.
func ForConditions() (*Env, error) { return NewEnv(CallLimit, []string{"object"}, hasConditions()) }

// ForMessages makes that of the rules' messages, which see the outcome as result
// besides.
func ForMessages() (*Env, error) {
	return NewEnv(CallLimit, []string{"object", "result"}, hasConditions())
}

// hasConditions is the CEL function that reports whether a status has conditions,
// for objects whose controller may not have seen them yet.
func hasConditions() cel.EnvOption {
	return cel.Function("hasConditions", cel.Overload("has_conditions_dyn", []*cel.Type{cel.DynType}, cel.BoolType,
		cel.UnaryBinding(func(status ref.Val) ref.Val {
			m, ok := status.(traits.Mapper)
			if !ok {
				return types.False
			}
			conditions, found := m.Find(types.String("conditions"))
			if !found {
				return types.False
			}
			list, ok := conditions.(traits.Lister)
			return types.Bool(ok && list.Size() != types.IntZero)
		})))
}
