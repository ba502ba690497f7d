package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const (
	// lightInspection is how long the rules of a work may keep the agent busy in
	// one pass before the work has to wait for its turn among the slow ones.
	lightInspection = 100 * time.Millisecond
	// lightCost is what the rules about one object may cost without a turn, and
	// lightPaths what the paths may.
	lightCost  = expression.CallLimit
	lightPaths = fieldpath.ObjectBudget / 10
	// longInspection is for how long, once it has its turn.
	longInspection = time.Second
	// inspectionPause is how long the rest of a work's objects wait then, so that
	// slow works take a small part of the agent's time.
	inspectionPause = 10 * time.Second
	// pathsTimeout ends the evaluation of the paths of one object, whatever they have
	// cost until then: a net below the costs, as expressions have one.
	pathsTimeout = expression.Timeout
	// slowInspections is how many slow works are inspected at once. The other
	// workers are there for those that are not.
	slowInspections = 1
)

// errPathsTimeout is the cause of the end of paths that took longer.
var errPathsTimeout = fmt.Errorf("the paths took longer than %s", pathsTimeout)

// Inspector evaluates what works bring: their feedback and condition rules, and the
// paths to the fields that they ignore. It is safe for concurrent use.
type Inspector struct {
	rules  *rules
	maxRaw int
	clock  clock.PassiveClock
	turns  *semaphore.Weighted // of slow works
}

// NewInspector makes an inspector. maxRaw is the longest JSON, in bytes, that
// feedback may hold; with 0 it holds none.
func NewInspector(clock clock.PassiveClock, maxRaw int) (*Inspector, error) {
	r, err := sharedRules()
	return &Inspector{rules: r, maxRaw: maxRaw, clock: clock, turns: semaphore.NewWeighted(slowInspections)}, err
}

// Begin begins the inspection of a work in a pass. One that was slow the last time takes its turn
// from the beginning. The inspection has to be ended.
func (i *Inspector) Begin(slow bool) *Inspection {
	x := &Inspection{Inspector: i}
	if slow {
		x.took = lightInspection
	}
	return x
}

// Findings are what the rules of a manifest yield for its object.
type Findings struct {
	Feedback   Feedback
	Conditions []metav1.Condition
}

// Inspection evaluates the rules and paths of one work on its objects, in one pass
// over the work. What the author of a work wants costs that work: the objects that
// are left when the time is up wait, and are reported as they were.
type Inspection struct {
	*Inspector

	mu   sync.Mutex // one object at a time: one processor
	took time.Duration
	slow bool // has its turn
}

// End gives back the turn, and reports whether the work is a slow one.
func (i *Inspection) End() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	slow := i.took >= lightInspection
	if i.slow {
		i.slow = false
		i.turns.Release(1)
	}
	i.took = longInspection
	return slow
}

// Open reports whether there is time left for another object.
func (i *Inspection) Open() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hasTime()
}

// hasTime is called with i.mu held.
func (i *Inspection) hasTime() bool {
	switch {
	case i.took < lightInspection:
		return true
	case i.took >= longInspection:
		return false
	case i.slow:
		return true
	}
	i.slow = i.turns.TryAcquire(1)
	return i.slow
}

// do calls f unless the time is up, and reports whether it has done what it is
// for. turn says whether the work has its turn; f returns whether it needs that.
func (i *Inspection) do(f func(turn bool) (needsTurn bool)) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.hasTime() {
		turn, start := i.slow, i.clock.Now()
		needs := f(turn)
		i.took += i.clock.Since(start)
		if !needs || turn {
			return true
		}
		i.took = max(i.took, lightInspection)
	}
	return false
}

// ObjectInspection evaluates what a work brings for one of its manifests. The paths to
// ignored fields and those of feedback share a budget.
type ObjectInspection struct {
	*Inspection
	manifest *manifest.Manifest
	paths    int // what the paths have cost until now
}

// Object begins the look at one manifest.
func (i *Inspection) Object(m *manifest.Manifest) *ObjectInspection {
	return &ObjectInspection{Inspection: i, manifest: m}
}

// WithoutIgnored takes the ignored fields from the manifest's object. When there is
// no time left for that, wait is how long the manifest waits.
func (o *ObjectInspection) WithoutIgnored(ctx context.Context) (rest *manifest.Rest, wait time.Duration, err error) {
	var paths *fieldpath.Budget
	done := o.do(func(turn bool) bool {
		ctx, end := context.WithTimeoutCause(ctx, pathsTimeout, errPathsTimeout)
		defer end()
		paths = o.budget(turn)
		rest, err = manifest.WithoutIgnored(ctx, o.manifest.Required, o.manifest.Ignored, paths)
		return paths.Spent() > lightPaths
	})
	if !done {
		return nil, inspectionPause, nil
	}
	o.paths = paths.Spent()
	return rest, 0, err
}

// budget is what the paths may still cost.
func (o *ObjectInspection) budget(turn bool) *fieldpath.Budget {
	if turn {
		return fieldpath.BudgetOf(fieldpath.ObjectBudget - o.paths)
	}
	return fieldpath.BudgetOf(lightPaths - o.paths)
}

// Inspect is what the rules of the manifest yield for its object as it is in the
// cluster. When there is no time left for them, wait is how long the object waits.
func (o *ObjectInspection) Inspect(
	ctx context.Context, live *unstructured.Unstructured,
) (out Findings, wait time.Duration) {
	m := o.manifest
	if len(m.FeedbackRules) == 0 && len(m.ConditionRules) == 0 {
		return Findings{}, 0
	}
	done := o.do(func(turn bool) bool {
		budget := expression.NewBudget()
		if !turn {
			budget = expression.BudgetOf(lightCost)
		}
		paths := o.budget(turn)
		out.Feedback = readFeedback(ctx, m.FeedbackRules, live, o.maxRaw, paths)
		out.Conditions = o.rules.evaluate(ctx, m.ConditionRules, live, budget)
		return budget.Spent() > lightCost || o.paths+paths.Spent() > lightPaths
	})
	if !done {
		return Findings{}, inspectionPause
	}
	return out, 0
}

// rules evaluates the condition rules of manifests.
type rules struct {
	conditions, messages *expression.Env
}

// sharedRules are those of all inspectors of the process: the environments of their
// expressions are the larger part of what an inspector takes.
var sharedRules = sync.OnceValues(newRules)

func newRules() (*rules, error) {
	conditions, err := expression.ForConditions()
	if err != nil {
		return nil, err
	}
	messages, err := expression.ForMessages()
	return &rules{conditions, messages}, err
}

// evaluate returns the conditions that the rules yield for an object, without
// times and generations. A rule for a kind about which nothing is known yields
// none.
func (r *rules) evaluate(
	ctx context.Context, list []workv1.ConditionRule, object *unstructured.Unstructured, budget *expression.Budget,
) []metav1.Condition {
	var out []metav1.Condition
	for i, rule := range list {
		if i == workcheck.MaxRules {
			break // the hub refuses more
		}
		switch rule.Type {
		case workv1.ConditionRuleTypeCEL:
			out = append(out, r.byExpression(ctx, rule, object, budget))
		case workv1.ConditionRuleTypeWellKnownConditions:
			if holds, message, ok := wellKnownCondition(rule.Condition, object); ok {
				out = append(out, metav1.Condition{
					Type: rule.Condition, Status: truth(holds), Reason: work.ReasonRuleEvaluated,
					Message: r.message(ctx, rule, object, holds, message, budget),
				})
			}
		default:
			out = append(out, metav1.Condition{
				Type: rule.Condition, Status: metav1.ConditionUnknown, Reason: work.ReasonRuleInvalid,
				Message: fmt.Sprintf("the rule's type is %q: use CEL or WellKnownConditions", rule.Type),
			})
		}
	}
	return out
}

func (r *rules) byExpression(
	ctx context.Context, rule workv1.ConditionRule, object *unstructured.Unstructured, budget *expression.Budget,
) metav1.Condition {
	c := metav1.Condition{Type: rule.Condition, Status: metav1.ConditionTrue, Reason: work.ReasonRuleEvaluated}
	for i, expr := range rule.CELExpressions {
		if i == workcheck.MaxExpressions {
			c.Status, c.Reason = metav1.ConditionUnknown, work.ReasonRuleInvalid
			c.Message = fmt.Sprintf("the rule has more than %d expressions: join them with &&", i)
			return c
		}
		holds, err := r.conditions.True(ctx, expr, map[string]any{"object": object.Object}, budget)
		switch {
		case errors.Is(err, context.Canceled):
			c.Status, c.Reason, c.Message = metav1.ConditionUnknown, work.ReasonRuleInternalError, err.Error()
			return c
		case err != nil:
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, work.ReasonRuleExpressionError, problem(expr, err)
			return c
		}
		if !holds {
			c.Status = metav1.ConditionFalse
			break
		}
	}
	builtIn := "Manifest is " + rule.Condition
	if c.Status == metav1.ConditionFalse {
		builtIn = "Manifest is not " + rule.Condition
	}
	c.Message = r.message(ctx, rule, object, c.Status == metav1.ConditionTrue, builtIn, budget)
	return c
}

// message is what the rule says about its result: by its expression, or as it
// stands in the rule, or by default.
func (r *rules) message(
	ctx context.Context, rule workv1.ConditionRule, object *unstructured.Unstructured, result bool, byDefault string,
	budget *expression.Budget,
) string {
	if rule.MessageExpression != "" {
		of := map[string]any{"object": object.Object, "result": result}
		message, err := r.messages.Text(ctx, rule.MessageExpression, of, budget)
		switch {
		case err == nil:
			return text.Cut(message, limits.ConditionMessage)
		case rule.Message == "":
			return problem(rule.MessageExpression, err)
		}
	}
	if rule.Message != "" {
		return rule.Message
	}
	return byDefault
}

// problem is what is wrong with an expression, which is named where it costs too
// much: a rule may have several.
func problem(expr string, err error) string {
	if expression.TooCostly(err) {
		return fmt.Sprintf("%q: %s", expression.Excerpt(expr), err)
	}
	return err.Error()
}

func truth(b bool) metav1.ConditionStatus {
	if b {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// wellKnownCondition reports whether a condition holds of an object of a kind
// that is known for it, and in which words. ok is false for others.
func wellKnownCondition(condition string, object *unstructured.Unstructured) (holds bool, message string, ok bool) {
	if condition != work.ConditionComplete {
		return false, "", false
	}
	switch object.GroupVersionKind() {
	case schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}:
		if isTrue(object, "Complete") || isTrue(object, "Failed") {
			return true, "Job is finished", true
		}
		return false, "Job is not finished", true
	case schema.GroupVersionKind{Version: "v1", Kind: "Pod"}:
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		return phase == "Succeeded" || phase == "Failed", "Pod is in phase " + phase, true
	}
	return false, "", false
}

// isTrue reports whether a condition of an object is true.
func isTrue(object *unstructured.Unstructured, kind string) bool {
	have, _ := condition(object, kind)
	return have != nil && have["status"] == "True"
}

func condition(object *unstructured.Unstructured, kind string) (map[string]any, bool) {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == kind {
			return c, true
		}
	}
	return nil, false
}

// Feedback is what is reported to a work of an object's status.
type Feedback struct {
	Values []workv1.FeedbackValue
	Err    error
}

// wellKnown are the paths that stand for the status of a kind.
var wellKnown = map[schema.GroupVersionKind][]workv1.JSONPath{
	{Group: "apps", Version: "v1", Kind: "Deployment"}: {
		{Name: "ReadyReplicas", Path: ".status.readyReplicas"},
		{Name: "Replicas", Path: ".status.replicas"},
		{Name: "AvailableReplicas", Path: ".status.availableReplicas"},
	},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"}: {
		{Name: "NumberReady", Path: ".status.numberReady"},
		{Name: "DesiredNumberScheduled", Path: ".status.desiredNumberScheduled"},
		{Name: "NumberAvailable", Path: ".status.numberAvailable"},
	},
	{Group: "batch", Version: "v1", Kind: "Job"}: {
		{Name: "JobComplete", Path: `.status.conditions[?(@.type=="Complete")].status`},
		{Name: "JobSucceeded", Path: ".status.succeeded"},
	},
	{Version: "v1", Kind: "Pod"}: {
		{Name: "PodReady", Path: `.status.conditions[?(@.type=="Ready")].status`},
		{Name: "PodPhase", Path: ".status.phase"},
	},
}

// readFeedback evaluates the rules on an object. What can be read is returned
// beside the error about what cannot. Values that are no plain text, integer or
// truth value are reported as JSON of at most maxRaw bytes; with 0 they are not
// reported. What the paths cost is taken from the budget.
func readFeedback(
	ctx context.Context, rules []workv1.FeedbackRule, object *unstructured.Unstructured, maxRaw int,
	budget *fieldpath.Budget,
) Feedback {
	ctx, end := context.WithTimeoutCause(ctx, pathsTimeout, errPathsTimeout)
	defer end()
	var out Feedback
	var problems []error
	read := 0
	for _, r := range rules {
		paths := r.JSONPaths
		if r.Type == workv1.FeedbackTypeWellKnownStatus {
			gvk := object.GroupVersionKind()
			known, ok := wellKnown[gvk]
			if !ok {
				problems = append(problems,
					fmt.Errorf("cannot find the wellknown statuses for resource with gvk %s", gvk))
				continue
			}
			paths = known
		}
		for _, p := range paths {
			if read++; read > workcheck.MaxPaths {
				problems = append(problems,
					fmt.Errorf("there are more than %d paths, and the others are not read", workcheck.MaxPaths))
				break
			}
			value, err := evaluate(ctx, p, object, maxRaw, budget)
			switch {
			case err != nil:
				problems = append(problems, err)
				if errors.Is(err, fieldpath.ErrLimit) || ctx.Err() != nil {
					problems = append(problems, errors.New("the paths after it are not read"))
					out.Err = errors.Join(problems...)
					return out
				}
			case value != nil:
				out.Values = append(out.Values, workv1.FeedbackValue{Name: p.Name, Value: *value})
			}
		}
	}
	out.Err = errors.Join(problems...)
	return out
}

// evaluate reads one value; nil when the object has none there.
func evaluate(
	ctx context.Context, p workv1.JSONPath, object *unstructured.Unstructured, maxRaw int, budget *fieldpath.Budget,
) (*workv1.FieldValue, error) {
	if p.Version != "" && p.Version != object.GroupVersionKind().Version {
		return nil, fmt.Errorf("the path %q is for version %s, and the object is of version %s",
			p.Name, p.Version, object.GroupVersionKind().Version)
	}
	path, err := fieldpath.ParseJSONPath(p.Path)
	if err != nil {
		return nil, fmt.Errorf("the path %q (%s) cannot be read: %w", p.Name, p.Path, err)
	}
	results, err := path.Find(ctx, object.Object, budget)
	if err != nil {
		return nil, fmt.Errorf("the path %q (%s): %w", p.Name, p.Path, err)
	}
	found := slices.DeleteFunc(results, func(v any) bool { return v == nil })
	switch {
	case len(found) == 0:
		return nil, nil
	case len(found) > 1 && maxRaw > 0:
		return rawValue(p.Name, found, maxRaw)
	}
	return fieldValue(p.Name, found[0], maxRaw)
}

func fieldValue(name string, v any, maxRaw int) (*workv1.FieldValue, error) {
	switch x := v.(type) {
	case int64:
		return &workv1.FieldValue{Type: workv1.ValueTypeInteger, Integer: &x}, nil
	case string:
		return &workv1.FieldValue{Type: workv1.ValueTypeString, String: &x}, nil
	case bool:
		return &workv1.FieldValue{Type: workv1.ValueTypeBoolean, Boolean: &x}, nil
	}
	if maxRaw == 0 {
		return nil, fmt.Errorf("the type %T of the value for %s is not found", v, name)
	}
	return rawValue(name, v, maxRaw)
}

func rawValue(name string, v any, limit int) (*workv1.FieldValue, error) {
	tooLong := fmt.Errorf("the value for %s takes more bytes as JSON than the %d that --max-json-raw-length allows",
		name, limit)
	if leastJSON(v, limit) > limit {
		return nil, tooLong
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("the value for %s cannot be written as JSON: %w", name, err)
	}
	if len(data) > limit {
		return nil, tooLong
	}
	return &workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: ptr.To(string(data))}, nil
}

// leastJSON is how many bytes a value takes as JSON at the least, up to the first
// count beyond limit: what would be too long is not written.
func leastJSON(v any, limit int) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += 1 + len(v)
	case []any:
		for i := 0; i < len(v) && n <= limit; i++ {
			n += 1 + leastJSON(v[i], limit-n)
		}
	case map[string]any:
		for k, x := range v {
			if n > limit {
				break
			}
			n += 4 + len(k) + leastJSON(x, limit-n)
		}
	}
	return n
}
