package expression

import (
	"errors"
	"math"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/cel/library"
)

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
