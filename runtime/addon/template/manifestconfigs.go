package template

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/health"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
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

// resourceRule sets the resources of containers.
type resourceRule struct {
	// parts fit the plural name of the kind, the object's name and the container's.
	parts     [3]part
	resources map[string]any
	// size is that of the resources in bytes, and states is how many a comparison goes
	// through for each character of a name.
	size, states int
}

// part fits texts.
type part struct {
	exact      string
	expression *regexp.Regexp
	states     int
	any        bool
}

func (p part) fits(s string) bool {
	switch {
	case p.any:
		return s != ""
	case p.expression != nil:
		return p.expression.MatchString(s)
	}
	return p.exact == s
}

// resourceRulesOf reads which containers get which resources. As upstream, a part that
// is * fits anything, and another one is a regular expression for the whole of a text.
func resourceRulesOf(requirements []v1alpha1.ContainerResourceRequirements) ([]resourceRule, error) {
	var out []resourceRule
	states := 0
	for i := range requirements {
		r := &requirements[i]
		at := fmt.Sprintf("spec.resourceRequirements[%d]", i)
		var rule resourceRule
		parts := strings.Split(r.ContainerID, ":")
		if len(parts) != len(rule.parts) {
			return nil, fmt.Errorf("%s.containerID is %s, and has to be kind:name:container, such as deployments:agent:*", at, quoted(r.ContainerID))
		}
		for j, text := range parts {
			p, err := partOf(text)
			if err != nil {
				return nil, fmt.Errorf("%s.containerID is %s: its part %s is no regular expression: %w: for any text write *",
					at, quoted(r.ContainerID), quoted(text), err)
			}
			rule.parts[j] = p
			rule.states += p.states
		}
		if states += rule.states; states > maxStates {
			return nil, fmt.Errorf("%s.containerID is %s: the regular expressions have together more than %d states "+
				"with their repetitions written out: write shorter ones, or fewer", at, quoted(r.ContainerID), maxStates)
		}
		resources, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&r.Resources)
		if err != nil {
			return nil, fmt.Errorf("%s.resources: %w", at, err)
		}
		rule.resources, rule.size = resources, sizeOf(resources)
		out = append(out, rule)
	}
	return out, nil
}

func partOf(text string) (part, error) {
	switch {
	case text == "*":
		return part{any: true}, nil
	case !strings.ContainsAny(text, `\.+*?()|[]{}^$`):
		return part{exact: text}, nil
	}
	if len(text) > maxStates {
		return part{states: maxStates + 1}, nil // refused with the rule
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return part{}, err // of the text as it is written
	}
	states := statesOf(parsed)
	if states > maxStates {
		return part{states: states}, nil // as well
	}
	expression, err := regexp.Compile("^(?:" + text + ")$")
	return part{expression: expression, states: states}, err
}

// setResources sets the resources of a container to those of the last rule that fits.
func (c *changes) setResources(container map[string]any, at, kind, object string) error {
	if len(c.resources) == 0 {
		return nil
	}
	name, ok := container["name"].(string)
	if !ok || name == "" {
		return fmt.Errorf("%s.name is missing: resourceRequirements need one to tell containers from each other", at)
	}
	const what = "the resourceRequirements"
	for i := len(c.resources) - 1; i >= 0; i-- {
		r := &c.resources[i]
		if err := c.left.step(1+r.states*(len(object)+len(name))/2, what); err != nil {
			return err
		}
		if r.parts[0].fits(kind) && r.parts[1].fits(object) && r.parts[2].fits(name) {
			if err := c.left.grow(r.size, what); err != nil {
				return err
			}
			container["resources"] = runtime.DeepCopyJSON(r.resources)
			return nil
		}
	}
	return nil
}
