package scheduling

import (
	"encoding/json"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
)

// clusterVariable is the name of the evaluated cluster in expressions.
const clusterVariable = "managedCluster"

const (
	// ClusterBudget is the greatest cost of a placement's expressions on one
	// cluster, each and all together, in CEL's units: a few hundredths of a
	// second. A cluster on which they cost more does not match. Ordinary
	// expressions cost less than a hundred.
	ClusterBudget = 100_000

	// maxJSON is the longest text that parseJSON reads, in bytes.
	maxJSON = 256 << 10
)

// Expressions compiles the CEL expressions of placements. Making one is cheap:
// its environment is built for the first expression. Callers that compile
// several placements share one. It is safe for concurrent use.
type Expressions struct {
	env func() (*expression.Env, error)
}

// NewExpressions makes the compiler of expressions.
func NewExpressions() *Expressions {
	return &Expressions{env: sync.OnceValues(func() (*expression.Env, error) {
		return expression.NewEnv(ClusterBudget, []string{clusterVariable}, scoresFunction(), parseJSONFunction())
	})}
}

func (e *Expressions) compile(text string) (*expression.Program, error) {
	env, err := e.env()
	if err != nil {
		return nil, err
	}
	return env.Compile(text)
}

// clusterValue is the value of managedCluster: the object's JSON, with access
// to the scores of the cluster.
type clusterValue struct {
	traits.Mapper
	name   string
	scores ScoreGetter
}

// newClusterValue makes the value for one evaluation.
func newClusterValue(v *View, scores ScoreGetter) (*clusterValue, error) {
	object, err := v.asObject()
	if err != nil {
		return nil, err
	}
	return &clusterValue{
		Mapper: types.DefaultTypeAdapter.NativeToValue(object).(traits.Mapper),
		name:   v.Name, scores: scores,
	}, nil
}

// scoresFunction is managedCluster.scores(name): the scores in the cluster's
// AddOnPlacementScore of that name, as a list of name and value. A missing one
// is an evaluation error, so its cluster does not match.
func scoresFunction() cel.EnvOption {
	return cel.Function("scores", cel.MemberOverload("muster_managed_cluster_scores",
		[]*cel.Type{cel.DynType, cel.StringType}, cel.ListType(cel.MapType(cel.StringType, cel.DynType)),
		cel.BinaryBinding(func(receiver, argument ref.Val) ref.Val {
			c, ok := receiver.(*clusterValue)
			name, isString := argument.(types.String)
			if !ok || !isString {
				return types.NewErr("scores is a function of %s, and takes the name of an AddOnPlacementScore", clusterVariable)
			}
			if c.scores == nil {
				return types.NewErr("there are no AddOnPlacementScores here")
			}
			published := c.scores(c.name, string(name))
			if published == nil {
				return types.NewErr("the AddOnPlacementScore %s/%s is not there", c.name, name)
			}
			items := make([]map[string]any, 0, len(published.Status.Scores))
			for _, item := range published.Status.Scores {
				items = append(items, map[string]any{"name": item.Name, "value": int64(item.Value)})
			}
			return types.DefaultTypeAdapter.NativeToValue(items)
		})))
}

// parseJSONFunction is text.parseJSON(): the value of a JSON text.
func parseJSONFunction() cel.EnvOption {
	return cel.Function("parseJSON", cel.MemberOverload("muster_string_parse_json",
		[]*cel.Type{cel.StringType}, cel.DynType,
		cel.UnaryBinding(func(text ref.Val) ref.Val {
			s, ok := text.(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(text)
			}
			if len(s) > maxJSON {
				return types.NewErr("parse JSON: the text has %d bytes, and %d are allowed", len(s), maxJSON)
			}
			var value any
			if err := json.Unmarshal([]byte(s), &value); err != nil {
				return types.NewErr("parse JSON: %v", err)
			}
			return types.DefaultTypeAdapter.NativeToValue(value)
		})))
}
