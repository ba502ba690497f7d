package manifest

import (
	"strings"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

type option struct {
	strategy workv1.UpdateStrategy
	feedback []workv1.FeedbackRule
	rules    []workv1.ConditionRule
}

// optionFor merges the options whose identifiers match a manifest: of each
// field the first that sets it counts.
func optionFor(options []workv1.ManifestConfigOption, m workv1.ManifestResourceMeta) option {
	var out option
	for _, o := range options {
		id := o.ResourceIdentifier
		if id.Group != m.Group || id.Resource != m.Resource || !matches(id.Name, m.Name) || !matches(id.Namespace, m.Namespace) {
			continue
		}
		if out.strategy.Type == "" && o.UpdateStrategy != nil {
			out.strategy = *o.UpdateStrategy
		}
		if len(out.feedback) == 0 {
			out.feedback = o.FeedbackRules
		}
		if len(out.rules) == 0 {
			out.rules = o.ConditionRules
		}
	}
	if out.strategy.Type == "" {
		out.strategy.Type = workv1.UpdateStrategyTypeUpdate
	}
	return out
}

// matches compares with a pattern in which * stands for any text.
func matches(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// isOwned reports whether an object is to go with its work.
func isOwned(o *workv1.DeleteOption, m workv1.ManifestResourceMeta) bool {
	if o == nil {
		return true
	}
	switch o.PropagationPolicy {
	case workv1.DeletePropagationPolicyTypeOrphan:
		return false
	case workv1.DeletePropagationPolicyTypeSelectivelyOrphan:
		if o.SelectivelyOrphan == nil {
			return true
		}
		for _, r := range o.SelectivelyOrphan.OrphaningRules {
			if r.Group == m.Group && r.Resource == m.Resource && r.Namespace == m.Namespace && r.Name == m.Name {
				return false
			}
		}
	}
	return true
}
