package manifest

import (
	"testing"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestOptionsAreMergedFieldByField(t *testing.T) {
	id := func(name string) workv1.ResourceIdentifier {
		return workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "*", Name: name}
	}
	rules := []workv1.FeedbackRule{{Type: workv1.FeedbackTypeWellKnownStatus}}
	options := []workv1.ManifestConfigOption{
		{ResourceIdentifier: id("other"), UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly}},
		{ResourceIdentifier: id("web*"), FeedbackRules: rules},
		{ResourceIdentifier: id("web"), UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly}},
		{ResourceIdentifier: id("*"), UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply}},
	}
	got := optionFor(options, workv1.ManifestResourceMeta{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"})
	if got.strategy.Type != workv1.UpdateStrategyTypeCreateOnly || len(got.feedback) != 1 {
		t.Errorf("got %+v, want CreateOnly with a feedback rule", got)
	}
	got = optionFor(options, workv1.ManifestResourceMeta{Resource: "configmaps", Namespace: "shop", Name: "web"})
	if got.strategy.Type != workv1.UpdateStrategyTypeUpdate || got.feedback != nil {
		t.Errorf("without a matching option: got %+v, want Update", got)
	}
}

func TestOwnership(t *testing.T) {
	m := workv1.ManifestResourceMeta{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}
	rule := func(name string) *workv1.SelectivelyOrphan {
		return &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{{Group: "apps", Resource: "deployments", Namespace: "shop", Name: name}}}
	}
	for name, x := range map[string]struct {
		option *workv1.DeleteOption
		want   bool
	}{
		"by default":             {nil, true},
		"foreground":             {&workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground}, true},
		"orphan":                 {&workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}, false},
		"selective, this one":    {&workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan, SelectivelyOrphan: rule("web")}, false},
		"selective, another":     {&workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan, SelectivelyOrphan: rule("db")}, true},
		"selective, no wildcard": {&workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan, SelectivelyOrphan: rule("*")}, true},
		"selective, no rules":    {&workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan}, true},
	} {
		if got := ownershipOf(x.option).owned(m); got != x.want {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}
