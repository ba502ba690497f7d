package manifest

import workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"

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
		if !o.ResourceIdentifier.Matches(m.Group, m.Resource, m.Namespace, m.Name) {
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
