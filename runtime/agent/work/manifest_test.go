package work

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestManifestsAreAppliedInTheOrderOfTheirKinds(t *testing.T) {
	var manifests []*manifest
	for _, kind := range []string{"Widget", "Deployment", "", "Service", "ConfigMap", "Namespace", "ServiceAccount", "RoleBinding", "Secret", "ValidatingWebhookConfiguration", "CustomResourceDefinition"} {
		manifests = append(manifests, &manifest{meta: workv1.ManifestResourceMeta{Kind: kind}})
	}
	want := []int{5, 10, 7, 6, 4, 8, 3, 1, 9, 0, 2}
	if got := inOrder(manifests); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPatternsMatchWholeNames(t *testing.T) {
	for _, x := range []struct {
		pattern, name string
		want          bool
	}{
		{"web", "web", true}, {"web", "web-1", false}, {"*", "", true}, {"web-*", "web-1", true}, {"web-*", "my-web-1", false},
		{"*-web", "my-web", true}, {"a*b*c", "a1b2c", true}, {"a.b*", "axb", false},
	} {
		if got := matches(x.pattern, x.name); got != x.want {
			t.Errorf("matches(%q, %q) = %v", x.pattern, x.name, got)
		}
	}
}

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
		if got := isOwned(x.option, m); got != x.want {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}

func TestBodyHolds(t *testing.T) {
	object := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "Widget", "metadata": map[string]any{"name": "a"}, "spec": spec}}
	}
	live := object(map[string]any{"size": int64(3), "mode": "auto", "parts": []any{map[string]any{"name": "a", "default": true}}})
	for name, x := range map[string]struct {
		required map[string]any
		exact    bool
		want     bool
	}{
		"the same":                       {live.Object["spec"].(map[string]any), true, true},
		"fewer fields":                   {map[string]any{"size": int64(3)}, false, true},
		"fewer fields, exact":            {map[string]any{"size": int64(3)}, true, false},
		"another value":                  {map[string]any{"size": int64(4)}, false, false},
		"a field more":                   {map[string]any{"color": "red"}, false, false},
		"items with defaults":            {map[string]any{"parts": []any{map[string]any{"name": "a"}}}, false, true},
		"an item fewer":                  {map[string]any{"parts": []any{}}, false, false},
		"an empty map where there is no": {map[string]any{"labels": map[string]any{}}, false, true},
	} {
		if got := bodyHolds(live, object(x.required), x.exact); got != x.want {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}

func TestMergedMapRemovesByATrailingDash(t *testing.T) {
	got := mergedMap(map[string]string{"keep": "1", "drop": "1", "change": "1"}, map[string]string{"drop-": "", "change": "2", "add": "1"})
	if want := map[string]string{"keep": "1", "change": "2", "add": "1"}; !equalMaps(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFeedback(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job",
		"status": map[string]any{"succeeded": int64(1), "ratio": 0.5, "ready": true, "conditions": []any{map[string]any{"type": "Complete", "status": "True"}}},
	}}
	paths := func(p ...workv1.JSONPath) []workv1.FeedbackRule {
		return []workv1.FeedbackRule{{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: p}}
	}
	for name, x := range map[string]struct {
		rules  []workv1.FeedbackRule
		values int
		failed bool
	}{
		"well known":        {[]workv1.FeedbackRule{{Type: workv1.FeedbackTypeWellKnownStatus}}, 2, false},
		"paths":             {paths(workv1.JSONPath{Name: "a", Path: ".status.succeeded"}, workv1.JSONPath{Name: "b", Path: ".status.ready"}), 2, false},
		"a missing one":     {paths(workv1.JSONPath{Name: "a", Path: ".status.failed"}), 0, false},
		"a broken one":      {paths(workv1.JSONPath{Name: "a", Path: ".status[("}, workv1.JSONPath{Name: "b", Path: ".status.ready"}), 1, true},
		"another version":   {paths(workv1.JSONPath{Name: "a", Version: "v2", Path: ".status.ready"}), 0, true},
		"a number with a .": {paths(workv1.JSONPath{Name: "a", Path: ".status.ratio"}), 0, true},
		"a list":            {paths(workv1.JSONPath{Name: "a", Path: ".status.conditions"}), 0, true},
	} {
		got := readFeedback(x.rules, object)
		if len(got.values) != x.values || (got.err != nil) != x.failed {
			t.Errorf("%s: got %d values and error %v, want %d and an error %v", name, len(got.values), got.err, x.values, x.failed)
		}
	}
}

func TestIgnoredFieldsAreLeftOutOnceTheObjectExists(t *testing.T) {
	required := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1), "paused": true}}}
	ignored := []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPointers: []string{"/spec/replicas"}, JSONPaths: []string{".spec.paused"}}}
	for _, exists := range []bool{false, true} {
		got, err := withoutIgnored(required, ignored, exists)
		if err != nil {
			t.Fatal(err)
		}
		spec := got.Object["spec"].(map[string]any)
		if want := map[bool]int{false: 2, true: 0}[exists]; len(spec) != want {
			t.Errorf("exists %v: spec %v, want %d fields", exists, spec, want)
		}
	}
	for _, bad := range []workv1.IgnoreField{{JSONPointers: []string{"spec"}}, {JSONPaths: []string{".spec.a[0]"}}, {JQPathExpressions: []string{".spec"}}} {
		if _, err := withoutIgnored(required, []workv1.IgnoreField{bad}, true); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}
