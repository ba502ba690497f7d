package expression

import (
	"math"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/cel/library"
)

// estimator computes what calls cost: as Kubernetes does, and by the size of what
// they are given and return. Kubernetes and CEL count the elements of a list but
// not what is in them, so that comparing two lists of lists of lists would cost
// as little as it is long in writing; and they count a function that they don't
// know as one, whatever it reads.
type estimator struct {
	library.CostEstimator
	// limit is what an evaluation may cost.
	limit int
}

// negligible is what a call costs at the most without being counted by size.
const negligible = 20

// constant are functions that take the same time whatever they are given, or
// that hand on what they are given.
var constant = sets.New(
	"size", "_[_]", "_[?_]", "_?._", "@not_strictly_false", "dyn", "type",
	"hasValue", "value", "or", "orValue", "first", "last", "hasConditions",
)

// CallCost implements interpreter.ActualCostEstimator.
func (e *estimator) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	known := e.CostEstimator.CallCost(function, overload, args, result)
	if constant.Has(function) {
		return known
	}
	cost := 0
	for _, v := range counted(function, args) {
		cost += weigh(v, e.limit-cost)
	}
	if function != "_+_" && function != "cel.@mapInsert" {
		// These add to what there is, whose making has been counted.
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

// counted are the arguments of a call whose size makes it slow.
func counted(function string, args []ref.Val) []ref.Val {
	switch {
	case len(args) < 2:
	case function == "_+_" || function == "cel.@mapInsert" || function == "scores":
		if _, list := args[0].(traits.Lister); list || function != "_+_" {
			return args[1:]
		}
	case function == "@in":
		if _, ok := args[1].(traits.Mapper); ok {
			return nil // one look-up
		}
	}
	return args
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
func (e *estimator) EstimateCallCost(function, overload string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	if function == "parseJSON" && target != nil {
		size := checker.SizeEstimate{Max: math.MaxUint64}
		if s := (*target).ComputedSize(); s != nil {
			size = *s
		}
		return &checker.CallEstimate{CostEstimate: size.MultiplyByCostFactor(common.StringTraversalCostFactor)}
	}
	return e.CostEstimator.EstimateCallCost(function, overload, target, args)
}
