package scheduling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// The names of the filters, in the order in which they run.
const (
	predicateFilter = "Predicate"
	taintFilter     = "TaintToleration"
)

// candidate is a cluster that passed the filters.
type candidate struct {
	*View
	avoid bool
}

// filter returns the clusters that satisfy a predicate and whose taints are
// tolerated, and records the result of both steps.
func (c *Compiled) filter(ctx context.Context, in Input, result *Result) ([]candidate, *Problem, error) {
	all := views(in.Clusters)
	if len(all) > 0 && c.unreadable() != nil {
		return nil, c.unreadable(), nil
	}
	var matching []*View
	for _, v := range all {
		verdict, err := c.Judge(ctx, v, in.Score)
		if err != nil {
			return nil, nil, err
		}
		if verdict.Matches {
			matching = append(matching, v)
		}
		result.Costly.add(v.Name, verdict)
	}
	result.Filters = append(result.Filters, FilterResult{Name: predicateFilter, Clusters: names(matching)})
	if len(matching) > 0 && c.tolerationProblem != nil {
		return nil, c.tolerationProblem, nil
	}
	var left []candidate
	for _, v := range matching {
		t := c.Tolerates(v, in.Selected[v.Name], in.Now)
		// Only chosen clusters need a timer; a new one gets its own once it is
		// chosen.
		if in.Selected[v.Name] && !t.Until.IsZero() {
			result.RequeueAfter = earliest(result.RequeueAfter, within(t.Until, in.Now))
		}
		if t.OK {
			left = append(left, candidate{v, t.Avoid})
		}
	}
	result.Filters = append(result.Filters, FilterResult{
		Name: strings.Join([]string{predicateFilter, taintFilter}, ","), Clusters: names(left),
	})
	return left, nil, nil
}

// named is anything with the name of a cluster.
type named interface{ GetName() string }

func names[C named](clusters []C) []string {
	out := make([]string, 0, len(clusters))
	for _, c := range clusters {
		out = append(out, c.GetName())
	}
	return out
}

var _ named = (*clusterv1.ManagedCluster)(nil)

// predicate is one of a placement's predicates: labels, claims and all
// expressions must match.
type predicate struct {
	clusterSelector
	expressions []celExpression
}

// celExpression is an expression with its text, for explanations. It is
// compiled when it is first needed: see Compiled.Prepare.
type celExpression struct {
	text    string
	program *expression.Program
}

// compilePredicates reads the predicates up to the first invalid one. It does
// not compile their expressions.
func compilePredicates(all []clusterv1beta1.ClusterPredicate) ([]predicate, *Problem) {
	out := make([]predicate, 0, len(all))
	for _, p := range all {
		s := p.RequiredClusterSelector
		selector, err := compileSelector(s.LabelSelector, s.ClaimSelector)
		if err != nil {
			return nil, &Problem{Plugin: predicateFilter, Message: err.Error()}
		}
		compiled := predicate{clusterSelector: selector}
		for _, text := range s.CELSelector.CELExpressions {
			compiled.expressions = append(compiled.expressions, celExpression{text: text})
		}
		out = append(out, compiled)
	}
	return out, nil
}

// compileExpressions compiles the expressions of predicates up to the first
// invalid one.
func compileExpressions(predicates []predicate, expressions *Expressions) *Problem {
	var all []expression.Named
	for i, p := range predicates {
		for j, e := range p.expressions {
			all = append(all, expression.Named{Path: expressionPath(i, j), Text: e.text})
		}
	}
	if err := expression.CheckTexts(all); err != nil {
		return &Problem{Plugin: predicateFilter, Message: err.Error()}
	}
	for i := range predicates {
		for j := range predicates[i].expressions {
			e := &predicates[i].expressions[j]
			var err error
			if e.program, err = expressions.compile(e.text); err != nil {
				message := err.Error()
				if errors.Is(err, expression.ErrLimits) {
					message = fmt.Sprintf("%s: %q: %s", expressionPath(i, j), expression.Excerpt(e.text), message)
				}
				return &Problem{Plugin: predicateFilter, Message: message}
			}
		}
	}
	return nil
}

// expressionPath is the field of a placement that holds an expression.
func expressionPath(predicate, expression int) string {
	return fmt.Sprintf("spec.predicates[%d].requiredClusterSelector.celSelector.celExpressions[%d]", predicate, expression)
}

// compileSelector reads a selector by labels and claims.
func compileSelector(label metav1.LabelSelector, claim clusterv1beta1.ClusterClaimSelector) (clusterSelector, error) {
	l, err := metav1.LabelSelectorAsSelector(&label)
	if err != nil {
		return clusterSelector{}, err
	}
	c, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: claim.MatchExpressions})
	return clusterSelector{l, c}, err
}

// evaluation is the evaluation of a placement's expressions on one cluster.
type evaluation struct {
	view      *View
	scores    ScoreGetter
	budget    *expression.Budget
	variables map[string]any
}

func newEvaluation(v *View, scores ScoreGetter) *evaluation {
	return &evaluation{view: v, scores: scores, budget: expression.BudgetOf(ClusterBudget)}
}

// firstFalse evaluates a predicate's expressions in order, up to the first that
// does not hold: one that is false, one that fails on this cluster, or the one
// that exceeds the total cost.
func (x *evaluation) firstFalse(ctx context.Context, p *predicate) (text string, holds bool, err error) {
	if len(p.expressions) == 0 {
		return "", true, nil
	}
	if x.variables == nil {
		value, err := newClusterValue(x.view, x.scores)
		if err != nil {
			return p.expressions[0].text, false, fmt.Errorf("read the cluster %s: %w", x.view.Name, err)
		}
		x.variables = map[string]any{clusterVariable: value}
	}
	for _, e := range p.expressions {
		if ok, err := e.program.True(ctx, x.variables, x.budget); err != nil || !ok {
			return e.text, false, err
		}
	}
	return "", true, nil
}

// longest is the greatest number of seconds in a duration, about 292 years. A
// longer toleration never expires.
const longest = int64(math.MaxInt64 / time.Second)

// checkTolerations returns the first toleration that contradicts itself.
func checkTolerations(tolerations []clusterv1beta1.Toleration) *Problem {
	for _, t := range tolerations {
		if t.Key == "" && t.Operator != clusterv1beta1.TolerationOpExists {
			return &Problem{Plugin: taintFilter, Message: "If the key is empty, operator must be Exists."}
		}
		if t.Operator == clusterv1beta1.TolerationOpExists && t.Value != "" {
			return &Problem{Plugin: taintFilter, Message: "If the operator is Exists, the value should be empty."}
		}
	}
	return nil
}

// tolerates reports whether a taint admits its cluster, whether it asks to
// prefer others, and until when that is valid; zero means forever.
func (c *Compiled) tolerates(taint *clusterv1.Taint, selected bool, now time.Time) (ok, avoid bool, until time.Time) {
	switch taint.Effect {
	case clusterv1.TaintEffectPreferNoSelect:
		if !c.options.PreferNoSelect {
			return true, false, time.Time{}
		}
		tolerated, until := c.excused(taint, now)
		return true, !tolerated, until
	case clusterv1.TaintEffectNoSelectIfNew:
		if selected {
			return true, false, time.Time{}
		}
	}
	ok, until = c.excused(taint, now)
	return ok, false, until
}

// excused reports whether a toleration applies to a taint and has not expired.
// The first such toleration decides until when.
func (c *Compiled) excused(taint *clusterv1.Taint, now time.Time) (ok bool, until time.Time) {
	for i := range c.placement.Spec.Tolerations {
		t := &c.placement.Spec.Tolerations[i]
		if !concerns(t, taint) {
			continue
		}
		end, ends := expiry(t, taint)
		if !ends {
			return true, time.Time{}
		}
		if end.After(now) {
			return true, end
		}
	}
	return false, time.Time{}
}

// expiry is when a toleration of a taint expires, if it does.
func expiry(t *clusterv1beta1.Toleration, taint *clusterv1.Taint) (end time.Time, ends bool) {
	if t.TolerationSeconds == nil || *t.TolerationSeconds > longest {
		return time.Time{}, false
	}
	var added time.Time
	if taint.TimeAdded != nil {
		added = taint.TimeAdded.Time
	}
	return added.Add(time.Duration(*t.TolerationSeconds) * time.Second), true
}

// concerns reports whether a toleration is about a taint.
func concerns(t *clusterv1beta1.Toleration, taint *clusterv1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", clusterv1beta1.TolerationOpEqual:
		return t.Value == taint.Value
	case clusterv1beta1.TolerationOpExists:
		return true
	}
	return false
}

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
