package manifest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What the API server prints of an object is not told, and what is wrong is.
func TestFailuresShowNoContent(t *testing.T) {
	type variable struct{ Name, Value string }
	type template struct{ Env []variable }
	dump := template{[]variable{{"DB_PASSWORD", "hunter2"}}}
	path := field.NewPath
	for name, x := range map[string]struct {
		kind string
		errs field.ErrorList
		want string
	}{
		"an immutable template":    {"Job", field.ErrorList{field.Invalid(path("spec", "template"), dump, "field is immutable")}, `Job.batch "x" is invalid: spec.template: Invalid value: field is immutable`},
		"by a pointer":             {"Job", field.ErrorList{field.Invalid(path("spec", "template"), &dump, "field is immutable")}, `Job.batch "x" is invalid: spec.template: Invalid value: field is immutable`},
		"a list":                   {"Job", field.ErrorList{field.Invalid(path("spec", "list"), []string{"hunter2: x"}, "must: be short")}, `Job.batch "x" is invalid: spec.list: Invalid value: must: be short`},
		"a map":                    {"Job", field.ErrorList{field.Invalid(path("spec", "map"), map[string]any{"a": "hunter2"}, "no")}, `Job.batch "x" is invalid: spec.map: Invalid value: no`},
		"a number":                 {"Job", field.ErrorList{field.Invalid(path("spec", "parallelism"), -1, "must be greater than or equal to 0")}, `Job.batch "x" is invalid: spec.parallelism: Invalid value: -1: must be greater than or equal to 0`},
		"a short text":             {"Job", field.ErrorList{field.Invalid(path("spec", "name"), "a_b", "a name: no _")}, `Job.batch "x" is invalid: spec.name: Invalid value: "a_b": a name: no _`},
		"a long text":              {"Job", field.ErrorList{field.Invalid(path("spec", "script"), "hunter2: "+strings.Repeat("x", 100), "too odd")}, `Job.batch "x" is invalid: spec.script: Invalid value: too odd`},
		"a password":               {"Job", field.ErrorList{field.Invalid(path("spec", "adminPassword"), "hunter2", "too short")}, `Job.batch "x" is invalid: spec.adminPassword: Invalid value: too short`},
		"a variable":               {"Job", field.ErrorList{field.Invalid(path("spec").Child("env").Index(0).Child("value"), "hunter2", "no")}, `Job.batch "x" is invalid: spec.env[0].value: Invalid value: no`},
		"a duplicate":              {"Job", field.ErrorList{field.Duplicate(path("spec", "token"), "hunter2")}, `Job.batch "x" is invalid: spec.token: Duplicate value`},
		"of a secret":              {"Secret", field.ErrorList{field.Invalid(path("stringData").Key("a"), "hunter2", "bad")}, `Secret "x" is invalid: stringData[a]: Invalid value: bad`},
		"a secret's name":          {"Secret", field.ErrorList{field.Invalid(path("metadata", "name"), "x_y", "bad")}, `Secret "x" is invalid: metadata.name: Invalid value: "x_y": bad`},
		"an unsupported value":     {"Job", field.ErrorList{field.NotSupported(path("spec", "policy"), "Some", []string{"A", "B"})}, `Job.batch "x" is invalid: spec.policy: Unsupported value: "Some": supported values: "A", "B"`},
		"what is required":         {"Job", field.ErrorList{field.Required(path("spec", "selector"), "name: it")}, `Job.batch "x" is invalid: spec.selector: Required value: name: it`},
		"what is forbidden":        {"Secret", field.ErrorList{field.Forbidden(path("data"), "field is immutable when `immutable` is set")}, "Secret \"x\" is invalid: data: Forbidden: field is immutable when `immutable` is set"},
		"several":                  {"Job", field.ErrorList{field.Invalid(path("a"), dump, "one"), field.Invalid(path("b"), 1, "two")}, `Job.batch "x" is invalid: [a: Invalid value: one, b: Invalid value: 1: two]`},
		"an annotation":            {"Job", field.ErrorList{field.Invalid(path("metadata", "annotations").Key("a"), "hunter2", "bad")}, `Job.batch "x" is invalid: metadata.annotations[a]: Invalid value: bad`},
		"a type of Go's":           {"Job", field.ErrorList{field.Invalid(path("spec", "fn"), struct{ F func() }{}, "odd")}, `Job.batch "x" is invalid: spec.fn: Invalid value`},
		"a type of Go's, for ever": {"Job", field.ErrorList{field.Invalid(path("spec", "fn"), struct{ F func() }{}, "field is immutable")}, `Job.batch "x" is invalid: spec.fn: Invalid value: field is immutable`},
	} {
		t.Run(name, func(t *testing.T) {
			gk := schema.GroupKind{Kind: x.kind}
			if x.kind == "Job" {
				gk.Group = "batch"
			}
			m := workv1.ManifestResourceMeta{Group: gk.Group, Kind: gk.Kind, Name: "x"}
			err := apierrors.NewInvalid(gk, "x", x.errs)
			got := Redacted(m, err)
			if got.Error() != x.want {
				t.Errorf("got  %s\nwant %s\nfrom %s", got, x.want, err)
			}
			if !apierrors.IsInvalid(got) {
				t.Error("it is another error now")
			}
			if strings.Contains(got.Error(), "hunter2") {
				t.Error("the password is told")
			}
		})
	}
}

func TestOtherFailuresStay(t *testing.T) {
	m := workv1.ManifestResourceMeta{Kind: "Secret", Name: "x"}
	if Redacted(m, nil) != nil {
		t.Error("there is a failure where there was none")
	}
	for text, want := range map[string]string{
		"connection refused": "connection refused",
		`failed to create typed patch object (default/x; /v1, Kind=Secret): .data.pw: expected string, got &value.valueUnstructured{Value:"hunter2}"}`: `failed to create typed patch object (default/x; /v1, Kind=Secret): .data.pw: expected string, got a value of another type`,
	} {
		if got := Redacted(m, fmt.Errorf("apply: %w", errors.New(text))); got.Error() != "apply: "+want {
			t.Errorf("got %s", got)
		}
	}
	denied := Denied("no")
	if got := Redacted(m, denied); !IsDenied(got) {
		t.Errorf("got %v", got)
	}
}
