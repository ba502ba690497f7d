package template

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/health"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// manifestConfigs are the options of the works: for each workload the feedback that its
// health and its progress are derived from, and what the template says. What it says of
// one of those goes with the feedback, as the agent takes each field from the first
// option that has it.
func (t *Template) manifestConfigs(
	objects []*unstructured.Unstructured, forced string, v values, left *budget,
) ([]workv1.ManifestConfigOption, error) {
	var out []workv1.ManifestConfigOption
	for _, o := range objects {
		if resource, rules := health.RolloutRules(o.GroupVersionKind().GroupKind()); resource != "" {
			out = append(out, workv1.ManifestConfigOption{
				ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()},
				FeedbackRules:      rules,
			})
		}
	}
	workloads := len(out)
	const rules = "the template's manifestConfigs"
	for i := range t.source.Spec.AgentSpec.ManifestConfigs {
		own := *t.source.Spec.AgentSpec.ManifestConfigs[i].DeepCopy()
		id := &own.ResourceIdentifier
		id.Name, id.Namespace = inText(id.Name, v), inText(id.Namespace, v)
		if forced != "" && id.Namespace != "" && !strings.Contains(id.Namespace, "*") {
			id.Namespace = forced // as all objects that have one
		}
		// Each is compared with those before it, and its patterns with each workload.
		if err := left.step(2*len(out)+workloads*(8+(len(id.Name)+len(id.Namespace))/8), rules); err != nil {
			return nil, err
		}
		paths := pathsIn(own.FeedbackRules)
		at := slices.IndexFunc(out, func(o workv1.ManifestConfigOption) bool { return o.ResourceIdentifier == *id })
		if at >= 0 {
			if err := left.step(paths*pathsIn(out[at].FeedbackRules), rules); err != nil {
				return nil, err
			}
			merge(&out[at], own)
			continue
		}
		for w := range out[:workloads] {
			if o := out[w].ResourceIdentifier; id.Matches(o.Group, o.Resource, o.Namespace, o.Name) {
				err := left.step(paths*pathsIn(out[w].FeedbackRules), rules)
				if err == nil {
					err = left.grow(paths*overhead, rules)
				}
				if err != nil {
					return nil, err
				}
				out[w].FeedbackRules = mergeFeedback(out[w].FeedbackRules, own.FeedbackRules)
			}
		}
		out = append(out, own)
	}
	return out, nil
}

// pathsIn is how many paths feedback rules have, and one for each rule.
func pathsIn(rules []workv1.FeedbackRule) int {
	n := len(rules)
	for _, r := range rules {
		n += len(r.JSONPaths)
	}
	return n
}

// inText is a text with values for its placeholders, and as it is where one is not
// closed.
func inText(s string, v values) string {
	if !strings.Contains(s, opening) {
		return s
	}
	t, err := parseText(s)
	if err != nil {
		return s
	}
	return t.in(v)
}

// countIn counts the placeholders in texts that need not be closed.
func countIn(counts map[string]int, texts ...string) {
	for _, s := range texts {
		if !strings.Contains(s, opening) {
			continue
		}
		if t, err := parseText(s); err == nil {
			countPlaceholders(t, counts)
		}
	}
}

// merge adds to an option what another one says of the same objects.
func merge(into *workv1.ManifestConfigOption, from workv1.ManifestConfigOption) {
	into.FeedbackRules = mergeFeedback(into.FeedbackRules, from.FeedbackRules)
	if from.FeedbackScrapeType != "" {
		into.FeedbackScrapeType = from.FeedbackScrapeType
	}
	if from.UpdateStrategy != nil {
		into.UpdateStrategy = from.UpdateStrategy
	}
	if len(from.ConditionRules) > 0 {
		into.ConditionRules = from.ConditionRules
	}
}

// mergeFeedback adds the rules that are not there: well-known fields once, and paths by
// their names. Of several with one name the first counts.
func mergeFeedback(into, from []workv1.FeedbackRule) []workv1.FeedbackRule {
	for _, rule := range from {
		if rule.Type != workv1.FeedbackTypeJSONPaths {
			if !slices.ContainsFunc(into, func(r workv1.FeedbackRule) bool { return r.Type == rule.Type }) {
				into = append(into, rule)
			}
			continue
		}
		var paths []workv1.JSONPath
		for _, p := range rule.JSONPaths {
			named := func(r workv1.FeedbackRule) bool {
				return slices.ContainsFunc(r.JSONPaths, func(other workv1.JSONPath) bool { return other.Name == p.Name })
			}
			if !slices.ContainsFunc(into, named) {
				paths = append(paths, p)
			}
		}
		if len(paths) > 0 {
			into = append(into, workv1.FeedbackRule{Type: rule.Type, JSONPaths: paths})
		}
	}
	return into
}
