package override

import (
	"context"
	"fmt"
	"sync"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// clusterBudget is what the expressions of values may cost for one cluster, in CEL's
// units: about a millisecond. Ordinary ones cost less than a hundred.
const clusterBudget = 10_000

// environment is where expressions of values are evaluated, and selectors where those of
// cluster selectors are. Both are expensive to make.
var (
	environment = sync.OnceValues(func() (*expression.Env, error) {
		return expression.NewEnv(clusterBudget, []string{managedCluster})
	})
	selectors = scheduling.NewExpressions()
)

const managedCluster = "managedCluster"

// source is where a value comes from. A value is a string, bool, int64, uint64 or float64.
type source interface {
	of(context.Context, *subject) (any, error)
}

type (
	nameSource  struct{}
	urlSource   struct{}
	labelSource struct {
		key      string
		fallback *string
	}
	claimSource struct {
		name     string
		fallback *string
	}
	expressionSource struct{ text string }
)

func (nameSource) of(_ context.Context, c *subject) (any, error) { return c.Name, nil }

func (urlSource) of(_ context.Context, c *subject) (any, error) {
	for _, at := range c.Spec.ManagedClusterClientConfigs {
		if at.URL != "" {
			return at.URL, nil
		}
	}
	return nil, fmt.Errorf("%w: its ManagedCluster has no address in spec.managedClusterClientConfigs", errMissing)
}

func (s labelSource) of(_ context.Context, c *subject) (any, error) {
	if v, ok := c.Labels[s.key]; ok {
		return v, nil
	}
	return defaulted(s.fallback, "its ManagedCluster has no label %s", s.key)
}

func (s claimSource) of(_ context.Context, c *subject) (any, error) {
	if v, ok := c.Claims()[s.name]; ok {
		return v, nil
	}
	return defaulted(s.fallback, "its agent reports no claim %s", s.name)
}

func defaulted(fallback *string, missing, key string) (any, error) {
	if fallback == nil {
		return nil, fmt.Errorf("%w: "+missing, errMissing, key)
	}
	return *fallback, nil
}

func (s expressionSource) of(ctx context.Context, c *subject) (any, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	variables, err := c.object()
	if err != nil {
		return nil, err
	}
	v, err := env.Scalar(ctx, s.text, variables, c.budget)
	if err != nil {
		return nil, fmt.Errorf("the expression %s fails: %w", expression.Excerpt(s.text), err)
	}
	return v, nil
}

// sourceOf reads where a value comes from.
func sourceOf(field string, v v1alpha1.OverrideValue) (source, error) {
	given := 0
	for _, source := range []*string{v.Label, v.Claim, v.Expression} {
		if source != nil && *source != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, fmt.Errorf("%s (%s): give one of label, claim and expression", field, v.Name)
	case v.Expression != nil && v.Default != nil:
		return nil, fmt.Errorf("%s.default (%s): an expression gives its own default, such as "+
			`managedCluster.metadata.labels[?"tier"].orValue("silver")`, field, v.Name)
	case v.Default != nil && len(*v.Default) > maxDefault:
		return nil, fmt.Errorf(
			"%s.default (%s) has %d bytes, and may have %d",
			field,
			v.Name,
			len(*v.Default),
			maxDefault,
		)
	case v.Label != nil:
		return labelSource{*v.Label, v.Default}, nil
	case v.Claim != nil:
		return claimSource{*v.Claim, v.Default}, nil
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	if _, err := env.Compile(*v.Expression); err != nil {
		return nil, fmt.Errorf("%s.expression (%s): %w", field, v.Name, err)
	}
	return expressionSource{*v.Expression}, nil
}

// checkExpressions checks how many expressions an override has, and how long they are.
func checkExpressions(spec v1alpha1.WorkOverrideSpec) error {
	var all []expression.Named
	for i, v := range spec.Values {
		if v.Expression != nil {
			all = append(all, expression.Named{Path: fmt.Sprintf("spec.values[%d].expression", i), Text: *v.Expression})
		}
	}
	for i, o := range spec.Overrides {
		for j, e := range o.ClusterSelector.CELSelector.CELExpressions {
			all = append(all, expression.Named{
				Path: fmt.Sprintf("spec.overrides[%d].clusterSelector.celSelector.celExpressions[%d]", i, j), Text: e,
			})
		}
	}
	return expression.CheckTexts(all)
}
