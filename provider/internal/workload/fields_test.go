package workload

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

func parseObjects(t *testing.T, texts ...string) []Object {
	t.Helper()
	objects, err := parseTexts(texts)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestFieldsAreNamedByTheirPaths(t *testing.T) {
	long := strings.Repeat("é", 201)
	for name, test := range map[string]struct {
		text string
		key  string
		want map[string]string
	}{
		"every type": {
			"apiVersion: example.com/v1\nkind: X\nmetadata: {name: x, namespace: shop}\nspec: {text: a, on_: true, big: 9007199254740993, one: 1.0, half: 0.5, exp: 1e3, nothing: null}\n",
			"example.com/v1/X shop/x",
			map[string]string{"spec.text": "a", "spec.on_": "true", "spec.big": "9007199254740993", "spec.one": "1", "spec.half": "0.5", "spec.exp": "1000"},
		},
		"lists": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{image: nginx}, {image: envoy}]}}, none: [], list: [null, [1]]}\n",
			"apps/v1/Deployment web",
			map[string]string{
				"spec.template.spec.containers[0].image": "nginx", "spec.template.spec.containers[1].image": "envoy",
				"spec.none": "[]", "spec.list[0]": "null", "spec.list[1][0]": "1",
			},
		},
		"keys that are no words": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, labels: {app.kubernetes.io/name: web}}\ndata: {'a b': '1', '': '2', 'c\"d': '3', e.f: null}\n",
			"v1/ConfigMap x",
			map[string]string{`metadata.labels["app.kubernetes.io/name"]`: "web", `data["a b"]`: "1", `data[""]`: "2", `data["c\"d"]`: "3"},
		},
		"only a name": {"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", "v1/Namespace shop", map[string]string{}},
		"empty map":   {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {}\n", "v1/ConfigMap x", map[string]string{"data": "{}"}},
		"long text": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: " + long + ", b: " + long[2:] + "}\n",
			"v1/ConfigMap x",
			map[string]string{"data.a": strings.Repeat("é", 100) + "… (201 characters, sha256 3821f1b3)", "data.b": strings.Repeat("é", 200)},
		},
		"Secret": {
			"apiVersion: v1\nkind: Secret\ntype: Opaque\nmetadata: {name: x, labels: {a: b}, annotations: {note: hi, kubectl.kubernetes.io/last-applied-configuration: '{\"data\":1}'}}\ndata: {password: aHVudGVyMg==, odd: [1, {deep: 2}]}\nstringData: {token: hunter2}\n",
			"v1/Secret x",
			map[string]string{
				"type": "Opaque", "metadata.labels.a": "b", "metadata.annotations.note": "hi",
				`metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]`: "(sensitive, version 1)",
				"data.password": "(sensitive, version 1)", "data.odd[0]": "(sensitive, version 1)", "data.odd[1].deep": "(sensitive, version 1)",
				"stringData.token": "(sensitive, version 1)",
			},
		},
		"names that tell of secrets": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {env: [{name: DB_PASSWORD, value: hunter2}, {name: DB_PASSWORD_FILE, value: /run/x}, {name: USER, value: me}, {name: T, valueFrom: {secretKeyRef: {name: s, key: k}}}], secretName: s, api-token: abc, automountServiceAccountToken: true, secrets: [{name: s}]}\n",
			"apps/v1/Deployment web",
			map[string]string{
				"spec.env[0].name": "DB_PASSWORD", "spec.env[0].value": "(sensitive, version 1)", "spec.env[1].name": "DB_PASSWORD_FILE", "spec.env[1].value": "/run/x",
				"spec.env[2].name": "USER", "spec.env[2].value": "me", "spec.env[3].name": "T", "spec.env[3].valueFrom.secretKeyRef.name": "s", "spec.env[3].valueFrom.secretKeyRef.key": "k",
				"spec.secretName": "s", "spec.api-token": "(sensitive, version 1)", "spec.automountServiceAccountToken": "true", "spec.secrets[0].name": "s",
			},
		},
		"Secret in a template": {
			"apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: x}\nobjects: [{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {password: aHVudGVyMg==}}]\n",
			"template.openshift.io/v1/Template x",
			map[string]string{"objects[0].apiVersion": "v1", "objects[0].kind": "Secret", "objects[0].metadata.name": "s", "objects[0].data.password": "(sensitive, version 1)"},
		},
		"Secret of somebody else": {
			"apiVersion: example.com/v1\nkind: Secret\nmetadata: {name: x}\ndata: {path: vault/x}\n", "example.com/v1/Secret x", map[string]string{"data.path": "vault/x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fields := ListFields(parseObjects(t, test.text), nil, nil, Sensitive{})
			if got := fields[test.key]; len(fields) != 1 || got == nil || !maps.Equal(got, test.want) {
				t.Errorf("got %q, want %q", fields, test.want)
			}
		})
	}
}

func TestASecretsVersionFollowsItsValue(t *testing.T) {
	secret := func(value string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {a: " + value + ", b: same}\n"
	}
	version := func(fields Fields, path string) string { return fields["v1/Secret x"][path] }
	one := parseObjects(t, secret("one"))
	two := parseObjects(t, secret("two"))
	first := ListFields(one, nil, nil, Sensitive{})
	second := ListFields(two, one, first, Sensitive{})
	third := ListFields(one, two, second, Sensitive{})
	for name, test := range map[string]struct {
		fields     Fields
		path, want string
	}{
		"new":            {first, "data.a", "(sensitive, version 1)"},
		"changed":        {second, "data.a", "(sensitive, version 2)"},
		"another value":  {second, "data.b", "(sensitive, version 1)"},
		"changed back":   {third, "data.a", "(sensitive, version 3)"},
		"unchanged":      {ListFields(one, one, third, Sensitive{}), "data.a", "(sensitive, version 3)"},
		"without fields": {ListFields(one, one, nil, Sensitive{}), "data.a", "(sensitive, version 1)"},
		"new value":      {ListFields(one, parseObjects(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n"), nil, Sensitive{}), "data.a", "(sensitive, version 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := version(test.fields, test.path); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestEqualObjectsHaveEqualFields(t *testing.T) {
	a := parseObjects(t, "apiVersion: v1\nkind: X\nmetadata: {name: x}\nspec: {a: 1.0, b: 1e-1, c: -0.0, d: 100000000000000000000.0, e: null}\n")
	b := parseObjects(t, `{"kind":"X","apiVersion":"v1","metadata":{"name":"x"},"spec":{"a":1,"b":0.1,"c":0,"d":1e20}}`)
	if !EqualObjects(a, b) {
		t.Fatal("the objects are not equal")
	}
	x, y := ListFields(a, nil, nil, Sensitive{})["v1/X x"], ListFields(b, nil, nil, Sensitive{})["v1/X x"]
	if !maps.Equal(x, y) {
		t.Errorf("got %v and %v", x, y)
	}
}

func TestWriteOnlyObjectsAreListedByTheirKeys(t *testing.T) {
	fields := ListFields(parseObjects(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"), nil, nil, Sensitive{})
	fields.AddWriteOnly("v1/Secret shop/b", "7")
	fields.AddWriteOnly("v1/Secret shop/a", "")
	if got := strings.Join(slices.Sorted(maps.Keys(fields.WriteOnly())), ", "); got != "v1/Secret shop/a, v1/Secret shop/b" {
		t.Errorf("got %s", got)
	}
	if got := fields["v1/Secret shop/b"]["(write-only)"]; got != "(sensitive, version 7)" {
		t.Errorf("got %q", got)
	}
	if got := fields["v1/Secret shop/a"]["(write-only)"]; got != "(sensitive)" {
		t.Errorf("got %q", got)
	}
}

// Paths that are named hide all that is below them, and only that.
func TestSensitiveFields(t *testing.T) {
	const text = `{apiVersion: v1, kind: ConfigMap, metadata: {name: x, labels: {pin: "1"}},
 data: {pin: "1", "app.pin": "2", pins: "3"}, deep: [{args: [a, b], plain: c}, {args: [d]}]}`
	for paths, want := range map[string]string{
		"":                       "",
		"data.pin":               "data.pin",
		"data":                   `data.pin data.pins data["app.pin"]`,
		`data["app.pin"]`:        `data["app.pin"]`,
		"data.*":                 "data.pin data.pins",
		"data[*]":                `data["app.pin"]`,
		"deep[0]":                "deep[0].args[0] deep[0].args[1] deep[0].plain",
		"deep[*].args":           "deep[0].args[0] deep[0].args[1] deep[1].args[0]",
		"*.labels.pin data.pins": "data.pins metadata.labels.pin",
		"pin":                    "",
		"data.pi":                "",
	} {
		sensitive, err := ParseSensitive(strings.Fields(paths))
		if err != nil {
			t.Fatal(err)
		}
		objects := parseObjects(t, text)
		var got []string
		for path, value := range ListFields(objects, nil, nil, sensitive)["v1/ConfigMap x"] {
			if value == "(sensitive, version 1)" {
				got = append(got, path)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", paths, got, want)
		}
		idle := len(strings.Fields(paths)) > 0 && want == ""
		if got := sensitive.Idle(objects); (len(got) > 0) != idle {
			t.Errorf("%s: idle are %v", paths, got)
		}
	}
	for _, path := range []string{"", ".data", "data.", "data..x"} {
		if _, err := ParseSensitive([]string{path}); err == nil {
			t.Errorf("%q is a path", path)
		}
	}
}

// parseTexts are the objects of the attribute manifests.
func parseTexts(texts []string) ([]Object, error) {
	return Content{Manifests: attribute.StringListValue(texts)}.of("manifests")
}
