package workload

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

// What fields masks is masked in messages, however a server writes it, and so is
// all that is write-only. Names are not.
func TestMessagesAreMasked(t *testing.T) {
	content := None()
	content.Manifests = attribute.StringListValue([]string{
		`{apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {a: "hunter2", b: "two\nlines"}, data: {c: "c2VjcmV0"}}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {image: nginx, env: [{name: DB_PASSWORD, value: "p4ss"}]}}`,
	})
	content.WriteOnly = attribute.StringListValue([]string{`{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {a: "open sesame", b: "shop"}}`})
	for message, want := range map[string]string{
		`Secret "login" is invalid: "hunter2"`:  `Secret "login" is invalid: "(sensitive)"`,
		"aHVudGVyMg== as data":                  "(sensitive) as data",
		`"two\nlines" and two` + "\nlines":      `"(sensitive)" and (sensitive)`,
		"c2VjcmV0 is secret":                    "(sensitive) is (sensitive)",
		"Deployment web: nginx with p4ss":       "Deployment web: nginx with (sensitive)",
		"ConfigMap shop/settings: open sesame!": "ConfigMap shop/settings: (sensitive)!",
	} {
		diags := diag.Diagnostics{
			diag.NewWarningDiagnostic("x", message), diag.NewErrorDiagnostic(message, "y"), diag.NewAttributeErrorDiagnostic(path.Root("objects"), "z", message),
		}
		content.Mask(&diags)
		if diags[0].Detail() != want || diags[1].Summary() != want || diags[2].Detail() != want {
			t.Errorf("got %v, want %s", diags, want)
		}
		if diags[0].Severity() != diag.SeverityWarning || diags[1].Severity() != diag.SeverityError || strings.Contains(want, "(sensitive)") != (want != message) {
			t.Errorf("got %v", diags)
		}
		if at, ok := diags[2].(diag.DiagnosticWithPath); !ok || !at.Path().Equal(path.Root("objects")) {
			t.Errorf("the path is lost: %v", diags[2])
		}
	}
}

// Of what Terraform shows with its own marks, a server's refusal quotes no value, and no
// refusal quotes a structure, which may hold anything. What is named as sensitive is
// hidden everywhere.
func TestMessagesQuoteNoValueOfObjects(t *testing.T) {
	content := contentWith([]string{"open"}, []string{"shown"}, nil, "topsecret99")
	content.SensitiveFields = attribute.StringSetValue([]string{"data.b"})
	content.Manifests = attribute.StringListValue([]string{`{apiVersion: v1, kind: ConfigMap, metadata: {name: open}, data: {a: plain, b: "named77"}}`})
	for message, want := range map[string]string{
		`spec.a: Invalid value: "topsecret99": must be a number`:                       `spec.a: Invalid value: (sensitive): must be a number`,
		`spec.a: Invalid value: topsecret99: no`:                                       `spec.a: Invalid value: (sensitive): no`,
		`spec.a: Invalid value: "plain": no, spec.b: Invalid value: "topsecret99": no`: `spec.a: Invalid value: "plain": no, spec.b: Invalid value: (sensitive): no`,
		`metadata.name: Invalid value: "Shown": a lowercase`:                           `metadata.name: Invalid value: "Shown": a lowercase`,
		`spec.template: Invalid value: {"a":{"b":"x} topsecret99"}}: is immutable`:     `spec.template: Invalid value: (left out): is immutable`,
		`spec.template: Invalid value: core.X{A:"topsecret99", B:[]y{z{}}}: immutable`: `spec.template: Invalid value: (left out): immutable`,
		`spec: Invalid value: "`: `spec: Invalid value: "`,
		`it has named77 in it`:   `it has (sensitive) in it`,
	} {
		diags := diag.Diagnostics{diag.NewWarningDiagnostic("x", message)}
		if content.Mask(&diags); diags[0].Detail() != want {
			t.Errorf("got %s, want %s", diags[0].Detail(), want)
		}
		live := workOf("topsecret99", "shown")
		live.Manifests = append(live.Manifests, workOf("plain", "open").Manifests...)
		if got := live.Masker(content).Text(message); !strings.Contains(want, "named77") && strings.Contains(got, "topsecret99") {
			t.Errorf("as the hub has it: got %s", got)
		}
	}
}

// Fields lists what Terraform does not show by itself.
func TestFieldsLeaveOutObjects(t *testing.T) {
	const secret = "topsecret99"
	mixed := contentWith([]string{"a"}, []string{"b"}, nil, secret)
	imported, err := Import(workOf(secret, "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	unknown := contentWith([]string{"a"}, nil, nil, secret)
	unknown.Objects = types.DynamicUnknown()
	for name, x := range map[string]struct {
		content Content
		want    string
	}{
		"of both":          {mixed, "v1/ConfigMap a"},
		"of objects":       {contentWith(nil, []string{"b"}, nil, secret), ""},
		"unknown objects":  {unknown, "v1/ConfigMap a"},
		"an import":        {imported, ""},
		"of a manifest":    {contentWith([]string{"a", "b"}, nil, nil, ""), "v1/ConfigMap a v1/ConfigMap b"},
		"import, as it is": {contentWith(nil, []string{"a", "b"}, nil, secret).Keeping(imported), ""},
	} {
		fields, err := x.content.Planned(None())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(FieldsFrom(fields))), " "); got != x.want {
			t.Errorf("%s: planned are %q, want %q", name, got, x.want)
		}
	}
	// A state that an earlier version has written has all; the next refresh corrects it.
	old := contentWith(nil, []string{"b"}, nil, secret)
	old.Fields = FieldsValue(Fields{"v1/ConfigMap b": {"data.a": secret}})
	if err := old.Observe(workOf(secret, "b")); err != nil || len(old.Fields.Elements()) > 0 {
		t.Errorf("got %v, %s", err, old.Fields)
	}
	// So does one of somebody else's change, even when that makes the object secret.
	drifted := contentWith(nil, []string{"b"}, nil, secret)
	live := workOf("", "b")
	live.Manifests[0].Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"a":"` + secret + `","password":"x"}}`)
	if err := drifted.Observe(live); err != nil || strings.Contains(drifted.Fields.String(), secret) {
		t.Errorf("got %v, %s", err, drifted.Fields)
	}
}
