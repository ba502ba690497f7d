package template

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

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
