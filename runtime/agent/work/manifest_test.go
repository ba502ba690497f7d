package work

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
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

func TestBodies(t *testing.T) {
	widget := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "Widget", "metadata": map[string]any{"name": "a"}, "spec": spec}}
	}
	live := widget(map[string]any{"size": int64(3), "mode": "auto", "parts": []any{map[string]any{"name": "a", "default": true}}})
	secret := func(more map[string]any) *unstructured.Unstructured {
		o := map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"k": "djE="}}
		maps.Copy(o, more)
		return &unstructured.Unstructured{Object: o}
	}
	role := func(more map[string]any) *unstructured.Unstructured {
		o := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
		maps.Copy(o, more)
		return &unstructured.Unstructured{Object: o}
	}
	aggregated := map[string]any{"aggregationRule": map[string]any{"clusterRoleSelectors": []any{}}}
	for name, x := range map[string]struct {
		live, required *unstructured.Unstructured
		holds, equals  bool
	}{
		"the same":                       {live, live, true, true},
		"fewer fields":                   {live, widget(map[string]any{"size": int64(3)}), true, false},
		"another value":                  {live, widget(map[string]any{"size": int64(4)}), false, false},
		"a field more":                   {live, widget(map[string]any{"color": "red"}), false, false},
		"items with defaults":            {live, widget(map[string]any{"parts": []any{map[string]any{"name": "a"}}}), true, false},
		"an item fewer":                  {live, widget(map[string]any{"parts": []any{}}), false, false},
		"an empty map where there is no": {live, widget(map[string]any{"labels": map[string]any{}}), true, false},
		"the type of a secret":           {secret(map[string]any{"type": "Opaque"}), secret(nil), true, true},
		"immutable, of others":           {secret(map[string]any{"immutable": true}), secret(nil), true, false},
		"rules of a role":                {role(map[string]any{"rules": []any{"x"}}), role(nil), true, false},
		"rules of an aggregated role":    {role(map[string]any{"rules": []any{"x"}, "aggregationRule": aggregated["aggregationRule"]}), role(aggregated), true, true},
	} {
		if got := bodyHolds(x.live, x.required); got != x.holds {
			t.Errorf("%s: holds %v, want %v", name, got, x.holds)
		}
		if got := bodyEquals(x.live, x.required); got != x.equals {
			t.Errorf("%s: equals %v, want %v", name, got, x.equals)
		}
	}
}

func TestServicesCarryTheHashOfTheirSpec(t *testing.T) {
	service := func(spec string) *unstructured.Unstructured {
		return parse(t, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","annotations":{"theirs":"yes"}},"spec":`+spec+`}`)
	}
	hash := func(o *unstructured.Unstructured) string {
		markServiceSpec(o)
		return o.GetAnnotations()["operator.openshift.io/spec-hash"]
	}
	// The SHA-256 of {"ports":[{"port":80,"targetPort":0}],"selector":{"app":"a"}}.
	if got, want := hash(service(`{"selector":{"app":"a"},"ports":[{"port":80}]}`)), "9e10f96f6d2b8bfb851ec6acf83ee68b441b903033b58584e8599e6220fe3fcd"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := hash(service(`{"ports":"many"}`)); got != "" {
		t.Errorf("a spec that is none has the hash %s", got)
	}
	if got := hash(parse(t, `{"apiVersion":"v1","kind":"ConfigMap","spec":{}}`)); got != "" {
		t.Errorf("a config map has the hash %s", got)
	}
}

func TestMergedMapRemovesByATrailingDash(t *testing.T) {
	got := mergedMap(map[string]string{"keep": "1", "drop": "1", "change": "1"}, map[string]string{"drop-": "", "change": "2", "add": "1"})
	if want := map[string]string{"keep": "1", "change": "2", "add": "1"}; !equalMaps(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestIgnoredFieldsAreLeftOutOnceTheObjectExists(t *testing.T) {
	object := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"example.org/team": "a"}},
			"spec": map[string]any{"replicas": int64(1), "containers": []any{
				map[string]any{"name": "a", "image": "x"}, map[string]any{"name": "b", "image": "y"},
			}},
		}}
	}
	pointers := func(p ...string) workv1.IgnoreField { return workv1.IgnoreField{JSONPointers: p} }
	paths := func(p ...string) workv1.IgnoreField { return workv1.IgnoreField{JSONPaths: p} }
	jq := func(p ...string) workv1.IgnoreField { return workv1.IgnoreField{JQPathExpressions: p} }
	for name, x := range map[string]struct {
		ignored workv1.IgnoreField
		want    string // of spec and labels; empty for an error
	}{
		"pointer":                     {pointers("/spec/replicas"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}]} {"example.org/team":"a"}`},
		"pointer with a slash":        {pointers("/metadata/labels/example.org~1team"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}],"replicas":1} {}`},
		"pointer into a list":         {pointers("/spec/containers/1/image"), `{"containers":[{"image":"x","name":"a"},{"name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"pointer to an item":          {pointers("/spec/containers/0"), `{"containers":[{"image":"y","name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"pointer to nothing":          {pointers("/spec/paused", "/spec/containers/7/image", "/spec/replicas/x"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"path":                        {paths(".spec.replicas"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}]} {"example.org/team":"a"}`},
		"path in braces":              {paths("{$.spec.replicas}"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}]} {"example.org/team":"a"}`},
		"path through all items":      {paths(".spec.containers[*].image"), `{"containers":[{"name":"a"},{"name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"path through one item":       {paths(`.spec.containers[?(@.name=="b")].image`), `{"containers":[{"image":"x","name":"a"},{"name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"path with a dot in a name":   {paths(`.metadata.labels.example\.org/team`), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}],"replicas":1} {}`},
		"path with a quoted name":     {paths(`.metadata.labels['example.org/team']`), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}],"replicas":1} {}`},
		"path to nothing":             {paths(".spec.template.spec"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"pointer without a slash":     {pointers("spec"), ""},
		"path that ends in an item":   {paths(".spec.containers[0]"), ""},
		"path that cannot be read":    {paths(".spec.containers[(.image"), ""},
		"jq":                          {jq(".spec.replicas"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}]} {"example.org/team":"a"}`},
		"jq through items":            {jq(".spec.containers[].image", ".spec.replicas"), `{"containers":[{"name":"a"},{"name":"b"}]} {"example.org/team":"a"}`},
		"jq to an item":               {jq(`.spec.containers[] | select(.name == "a")`), `{"containers":[{"image":"y","name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"jq to nothing":               {jq(".spec.nothing.at.all"), `{"containers":[{"image":"x","name":"a"},{"image":"y","name":"b"}],"replicas":1} {"example.org/team":"a"}`},
		"jq that cannot be read":      {jq(".spec["), ""},
		"jq with an unknown function": {jq("nosuch(.spec)"), ""},
		"jq that is no path":          {jq("1 + 1"), ""},
		"jq that leaves no object":    {jq("."), ""},
		"jq that does not end":        {jq(`.spec | last(repeat(.))`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			x.ignored.Condition = workv1.IgnoreFieldsConditionOnSpokePresent
			got, err := withoutIgnored(object(), []workv1.IgnoreField{x.ignored}, true)
			if x.want == "" {
				if err == nil {
					t.Fatalf("no error, but %v", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			labels, _, _ := unstructured.NestedMap(got.Object, "metadata", "labels")
			text, err := json.Marshal(got.Object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			more, err := json.Marshal(labels)
			if err != nil {
				t.Fatal(err)
			}
			if string(text)+" "+string(more) != x.want {
				t.Errorf("got  %s %s\nwant %s", text, more, x.want)
			}
			// A new object gets everything, and the hash that it has from then on.
			whole, err := withoutIgnored(object(), []workv1.IgnoreField{x.ignored}, false)
			if err != nil {
				t.Fatal(err)
			}
			if whole.GetAnnotations()[work.SpecHashAnnotation] != got.GetAnnotations()[work.SpecHashAnnotation] {
				t.Error("the hash of a new object differs from that of an existing one")
			}
			if whole.GetLabels()["example.org/team"] != "a" {
				t.Errorf("a new object lacks fields: %v", whole)
			}
		})
	}
}

func TestFieldsIgnoredWhenTheyChangeAreApplied(t *testing.T) {
	required := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1)}}}
	ignored := []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokeChange, JSONPointers: []string{"/spec/replicas"}}}
	got, err := withoutIgnored(required, ignored, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Object["spec"].(map[string]any)) != 1 {
		t.Errorf("got %v, want all fields", got)
	}
}

// An object that upstream's agent applied is not written again.
func TestHashIsUpstreams(t *testing.T) {
	required := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": "test"}, "data": map[string]any{"foo1": "bar1"},
	}}
	got, err := withoutIgnored(required, []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokeChange, JSONPaths: []string{".data"}}}, true)
	if err != nil {
		t.Fatal(err)
	}
	if hash := got.GetAnnotations()[work.SpecHashAnnotation]; hash != "4c07ba481d04e9c38e5ed3bf24139537" {
		t.Errorf("got %s", hash)
	}
}

func TestManifestsOfTheSameRankAreABatch(t *testing.T) {
	var manifests []*manifest
	for _, kind := range []string{"Deployment", "ConfigMap", "Namespace", "Secret", "StatefulSet"} {
		manifests = append(manifests, &manifest{meta: workv1.ManifestResourceMeta{Kind: kind}})
	}
	got := batches(manifests)
	want := [][]int{{2}, {1, 3}, {0, 4}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}
