package applier

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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

func TestMergedMapRemovesByATrailingDash(t *testing.T) {
	live := map[string]string{"keep": "1", "drop": "1", "change": "1"}
	got := mergedMap(live, map[string]string{"drop-": "", "change": "2", "add": "1"})
	if want := map[string]string{"keep": "1", "change": "2", "add": "1"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestServerSideApplyHasWrittenWhenTheVersionIsAnother(t *testing.T) {
	if hasWritten("7", "7", true) || !hasWritten("8", "7", true) {
		t.Error("it is not the version that decides")
	}
	if !hasWritten("7", "", false) {
		t.Error("without the version before, it has written")
	}
}
