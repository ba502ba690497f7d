package expression

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/cel/library"
)

// The names under which lists and maps that are written out are charged.
const (
	listLiteral = "@list"
	mapLiteral  = "@map"
)

// guarded has the price of each call of a program looked at before it is made, but
// for those of functions that are known to be quick. An evaluation notices what a
// call has cost only when it is over, so that no single call may take long.
func guarded(env *cel.Env, limit int) cel.ProgramOption {
	limit = min(limit, maxCall)
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if c, ok := i.(interpreter.InterpretableConstructor); ok {
			return literalOf(c), nil
		}
		call, ok := i.(interpreter.InterpretableCall)
		if ok && call.Function() == operators.NotStrictlyFalse {
			return &condition{call, append([]interpreter.InterpretableV2{call}, call.Args()...)}, nil
		}
		if !ok || len(call.Args()) == 0 || constant.Has(call.Function()) || unguarded.Has(call.Function()) {
			return i, nil
		}
		if args := call.Args(); call.Function() == operators.Equals || call.Function() == operators.NotEquals {
			return &guardedEquality{call, args[0], args[1], call.Function() == operators.NotEquals, limit}, nil
		}
		g := &guardedCall{
			id: call.ID(), function: call.Function(),
			price: priceOf(call.Function()), always: isPriced(call.Function()), limit: limit,
		}
		for _, a := range call.Args() {
			g.args = append(g.args, plain{a})
		}
		var err error
		g.run, err = implementation(env, call.Function(), call.OverloadID())
		return g, err
	})
}

// plain hides that an argument is a constant. CEL would compile a constant
// regular expression and call that instead, past the guard.
type plain struct{ interpreter.InterpretableV2 }

// condition is that of a loop. CEL keeps what each round has evaluated for its cost
// tracker until the loop ends, and looks for values in all of that: a loop over a
// long list would take the square of its length. So the condition takes the one of
// the round before for one of its arguments, which removes that and all that came
// after it.
type condition struct {
	interpreter.InterpretableCall
	args []interpreter.InterpretableV2
}

// Args implements interpreter.InterpretableCall.
func (c *condition) Args() []interpreter.InterpretableV2 { return c.args }

// literal is a list or map that is written out, as a call: so it is charged by what
// is in it. A few bytes could make a list of lists of the same lists otherwise.
type literal struct {
	interpreter.InterpretableV2
	function string
	values   []interpreter.InterpretableV2
}

// literalOf makes a literal; one of constants is a constant itself.
func literalOf(c interpreter.InterpretableConstructor) interpreter.InterpretableV2 {
	variable := func(v interpreter.InterpretableV2) bool { _, ok := v.(interpreter.InterpretableConst); return !ok }
	if values := c.InitVals(); c.Type() == types.ListType && len(values) > 0 && !slices.ContainsFunc(values, variable) {
		return interpreter.NewConstValue(c.ID(), c.Eval(interpreter.EmptyActivation()))
	}
	switch c.Type() {
	case types.ListType:
		return &literal{c, listLiteral, c.InitVals()}
	case types.MapType:
		return &literal{c, mapLiteral, c.InitVals()}
	}
	return c
}

func (l *literal) Function() string                    { return l.function }
func (l *literal) OverloadID() string                  { return l.function }
func (l *literal) Args() []interpreter.InterpretableV2 { return l.values }

// guardedCall is a call that is only made if its price is not too high.
type guardedCall struct {
	id       int64
	function string
	args     []interpreter.InterpretableV2
	price    price
	always   bool // its price is reckoned for small values, too
	limit    int  // of its price
	run      func(args []ref.Val) ref.Val
}

func (g *guardedCall) ID() int64                           { return g.id }
func (g *guardedCall) Function() string                    { return g.function }
func (g *guardedCall) Args() []interpreter.InterpretableV2 { return g.args }

// OverloadID implements interpreter.InterpretableCall. It names none, as libraries
// have costs of their own for theirs, which would count and not those of estimator.
func (g *guardedCall) OverloadID() string { return "" }

// Eval implements interpreter.Interpretable.
func (g *guardedCall) Eval(vars interpreter.Activation) ref.Val {
	return g.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (g *guardedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := make([]ref.Val, len(g.args))
	large := false
	for i, a := range g.args {
		args[i] = a.Exec(frame)
		if types.IsUnknownOrError(args[i]) {
			return args[i]
		}
		large = large || !small(args[i])
	}
	if _, growing := args[0].(traits.MutableLister); growing {
		large = false // what a loop adds to its list
	}
	if large || g.always {
		if err := affordable(g.function, g.price, args, g.limit); err != nil {
			return types.LabelErrNode(g.id, types.WrapErr(err))
		}
	}
	return types.LabelErrNode(g.id, g.run(args))
}

// guardedEquality is == or !=, which are frequent: it compares small values at once.
type guardedEquality struct {
	interpreter.InterpretableCall
	left, right interpreter.InterpretableV2
	not         bool
	limit       int // of its price
}

// Eval implements interpreter.Interpretable.
func (g *guardedEquality) Eval(vars interpreter.Activation) ref.Val {
	return g.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (g *guardedEquality) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	a, b := g.left.Exec(frame), g.right.Exec(frame)
	switch {
	case types.IsUnknownOrError(a):
		return a
	case types.IsUnknownOrError(b):
		return b
	case small(a) || small(b):
	default:
		if err := affordable(g.Function(), sum, []ref.Val{a, b}, g.limit); err != nil {
			return types.LabelErrNode(g.ID(), types.WrapErr(err))
		}
	}
	return types.Bool((types.Equal(a, b) == types.True) != g.not)
}

// affordable is why a call is not made, if its price is above the limit.
func affordable(function string, price price, args []ref.Val, limit int) error {
	units, err := price(args, limit)
	if err == nil && units > limit {
		return tooMuch("a call of %s with what it is given costs more than %d units: give it less", spoken(function), limit)
	}
	return err
}

// small reports whether a value is a plain one of a few bytes.
func small(v ref.Val) bool {
	switch x := v.(type) {
	case types.Int, types.Bool, types.Double, types.Uint, types.Null:
		return true
	case types.String:
		return len(x) <= smallText
	}
	return false
}

// spoken is a function's name as it is written in expressions.
func spoken(function string) string {
	switch function {
	case "@in":
		return "in"
	case "@sortByAssociatedKeys":
		return "sortBy"
	case "_==_", "_!=_", "_+_":
		return function[1 : len(function)-1]
	}
	return function
}

// implementation is what a function does.
func implementation(env *cel.Env, function, overload string) (func([]ref.Val) ref.Val, error) {
	if matchers.Has(function) {
		return matcher(function), nil
	}
	bindings, err := env.Functions()[function].Bindings()
	if err != nil {
		return nil, fmt.Errorf("find the function %s: %w", function, err)
	}
	var found *functions.Overload
	for _, b := range bindings {
		if b.Operator == overload || found == nil && b.Operator == function {
			found = b
		}
	}
	call := func(args []ref.Val) ref.Val { return callOf(found, function, overload, args) }
	if function == "_+_" {
		return func(args []ref.Val) ref.Val {
			if list := concatenated(args); list != nil {
				return list
			}
			return call(args)
		}, nil
	}
	return call, nil
}

// callOf calls an overload as CEL's own planner does.
func callOf(found *functions.Overload, function, overload string, args []ref.Val) ref.Val {
	if found != nil && (found.OperandTrait == 0 || args[0].Type().HasTrait(found.OperandTrait)) {
		switch {
		case len(args) == 1 && found.Unary != nil:
			return found.Unary(args[0])
		case len(args) == 2 && found.Binary != nil:
			return found.Binary(args[0], args[1])
		case found.Function != nil:
			return found.Function(args...)
		}
	}
	if args[0].Type().HasTrait(traits.ReceiverType) {
		return args[0].(traits.Receiver).Receive(function, overload, args[1:])
	}
	return types.NewErr("no such overload: %s", function)
}

// concatenated is a list of two lists, nil for other values and for a list that a
// loop makes. CEL's own is a view of both, and views of views take ever longer for
// each look at an element.
func concatenated(args []ref.Val) ref.Val {
	a, okA := args[0].(traits.Lister)
	b, okB := args[1].(traits.Lister)
	_, growing := args[0].(traits.MutableLister)
	if !okA || !okB || growing {
		return nil
	}
	out := make([]ref.Val, 0, sizeOf(args[0])+sizeOf(args[1]))
	for _, list := range []traits.Lister{a, b} {
		for i := range types.Int(sizeOf(list.(ref.Val))) {
			out = append(out, list.Get(i))
		}
	}
	return types.NewRefValList(types.DefaultTypeAdapter, out)
}

// estimator computes what calls cost: as Kubernetes does, and by their price and
// what they return. Kubernetes and CEL count the elements of a list but not what is
// in them, so that comparing two lists of lists of lists would cost as little as it
// is long in writing; and they count a function that they don't know as one,
// whatever it reads.
type estimator struct {
	library.CostEstimator
	// limit is what an evaluation may cost.
	limit int
}

// negligible is what a call costs at the most without being counted by size.
const negligible = 20

// handsOn are functions whose result is made of what they are given, which has been
// counted when it was made.
var handsOn = sets.New("_+_", "cel.@mapInsert", "dyn", listLiteral, mapLiteral)

// CallCost implements interpreter.ActualCostEstimator.
func (e *estimator) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if constant.Has(function) {
		return nil
	}
	known := e.known(function, overload, args, result)
	cost, err := priceOf(function)(args, e.limit)
	if refusal, refused := result.(*types.Err); err != nil || refused && errors.Is(refusal, ErrCall) {
		// The call was not made, but what it was given has been looked at.
		cost, _ = sum(args, maxCall)
	}
	if !handsOn.Has(function) {
		cost += weigh(result, e.limit-cost)
	}
	if cost <= negligible {
		return known
	}
	sum := uint64(cost)
	if known != nil {
		sum = max(sum, *known)
	}
	return &sum
}

// known is what Kubernetes and CEL say that a call costs, nil for what CEL says by
// itself.
func (e *estimator) known(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	cost := uint64(common.ListCreateBaseCost)
	switch function {
	case listLiteral:
		return &cost
	case mapLiteral:
		cost = common.MapCreateBaseCost
		return &cost
	}
	return e.CostEstimator.CallCost(function, overload, args, result)
}

// weigh counts the values in a value, texts by their length, up to the first
// count beyond limit. A value that is in it twice counts twice.
func weigh(v ref.Val, limit int) int {
	switch x := v.(type) {
	case types.String:
		return 1 + int(float64(len(x))*common.StringTraversalCostFactor)
	case types.Bytes:
		return 1 + int(float64(len(x))*common.StringTraversalCostFactor)
	case *types.Optional:
		if x.HasValue() {
			return 1 + weigh(x.GetValue(), limit-1)
		}
	case traits.Lister:
		n := 1
		size, _ := x.Size().(types.Int)
		for i := types.Int(0); i < size && n <= limit; i++ {
			n += weigh(x.Get(i), limit-n)
		}
		return n
	case traits.Mapper:
		n := 1
		for it := x.Iterator(); n <= limit && it.HasNext() == types.True; {
			key := it.Next()
			n += weigh(key, limit-n)
			n += weigh(x.Get(key), limit-n)
		}
		return n
	}
	return 1
}

// EstimateCallCost implements checker.CostEstimator, with the least that reading
// a text costs for the functions that Kubernetes does not have.
func (e *estimator) EstimateCallCost(
	function, overload string, target *checker.AstNode, args []checker.AstNode,
) *checker.CallEstimate {
	if function == "parseJSON" && target != nil {
		size := checker.SizeEstimate{Max: math.MaxUint64}
		if s := (*target).ComputedSize(); s != nil {
			size = *s
		}
		return &checker.CallEstimate{CostEstimate: size.MultiplyByCostFactor(common.StringTraversalCostFactor)}
	}
	return e.CostEstimator.EstimateCallCost(function, overload, target, args)
}
