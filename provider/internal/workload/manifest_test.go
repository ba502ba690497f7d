package workload

import (
	"strings"
	"testing"
)

func TestEqualComparesByMeaning(t *testing.T) {
	const base = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1","b":"<&>"}}`
	for name, test := range map[string]struct {
		text string
		want bool
	}{
		"YAML":                   {"kind: ConfigMap\napiVersion: v1\n# why\nmetadata: {name: x}\ndata: {b: \"<&>\", a: \"1\"}\n", true},
		"with an empty document": {"---\n" + base + "\n---\n", true},
		"with a null timestamp":  {"kind: ConfigMap\napiVersion: v1\nmetadata: {name: x, creationTimestamp: null}\ndata: {b: \"<&>\", a: \"1\"}\n", true},
		"a null field":           {strings.Replace(base, `"a":"1"`, `"a":"1","c":null`, 1), true},
		"another value":          {strings.Replace(base, `"1"`, `"2"`, 1), false},
		"a number for a text":    {strings.Replace(base, `"1"`, `1`, 1), false},
		"another object":         {base + "\n---\n" + base, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := ParseYAML(base)
			if err != nil {
				t.Fatal(err)
			}
			b, err := ParseYAML(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := EqualObjects(a, b); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestNumbersKeepTheirPrecision(t *testing.T) {
	objects, err := ParseYAML("apiVersion: v1\nkind: X\nmetadata: {name: x}\nspec: {big: 9007199254740993, one: 1.0}\n")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(objects[0].JSON), "9007199254740993") {
		t.Errorf("got %s", objects[0].JSON)
	}
	text, err := objects[0].YAML()
	if err != nil || !strings.Contains(text, "9007199254740993") {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestErrorsSayWhichDocument(t *testing.T) {
	_, err := parseTexts([]string{"apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n", "apiVersion: v1\nkind: Namespace\nmetadata: {name: z}\n---\nkind: Pod\n"})
	if err == nil || !strings.Contains(err.Error(), "manifests[1]: document 2: it has no apiVersion") {
		t.Errorf("got %v", err)
	}
}

func TestANameThatYAMLReadsOtherwiseIsExplained(t *testing.T) {
	_, err := ParseYAML("apiVersion: v1\nkind: Namespace\nmetadata: {name: yes}\n")
	if err == nil || !strings.Contains(err.Error(), "put it in quotes") {
		t.Errorf("got %v", err)
	}
}

func TestDuplicateIgnoresTheVersion(t *testing.T) {
	objects, err := ParseYAML("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n---\napiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: x}\n")
	if err != nil {
		t.Fatal(err)
	}
	if i := DuplicateOf(objects); i != 1 {
		t.Error("two versions of one object pass for two objects")
	}
	objects[1].Namespace = "other"
	if i := DuplicateOf(objects); i != -1 {
		t.Error("objects of two namespaces pass for one")
	}
}

func TestAKeyThatAppearsTwiceIsAnError(t *testing.T) {
	if _, err := ParseYAML("apiVersion: v1\nkind: ConfigMap\nkind: Secret\nmetadata: {name: x}\n"); err == nil {
		t.Error("the second kind has won silently")
	}
}

func TestEqualKnowsNumbersAndNulls(t *testing.T) {
	for name, test := range map[string]struct {
		a, b string
		want bool
	}{
		"1 and 1.0":           {"1", "1.0", true},
		"1e2 and 100":         {"1e2", "100", true},
		"large numbers":       {"9007199254740993", "9007199254740992", false},
		"beyond 64 bits":      {"1e20", "100000000000000000000", true},
		"1 and a text":        {"1", `"1"`, false},
		"true and a text":     {"true", `"true"`, false},
		"null and absent":     {`{"x":null}`, `{}`, true},
		"deep null":           {`[{"x":{"y":null}}]`, `[{"x":{}}]`, true},
		"a null in a list":    {`[null]`, `[]`, false},
		"lists in an order":   {`[1,2]`, `[2,1]`, false},
		"maps in any order":   {`{"x":1,"y":2}`, `{"y":2,"x":1}`, true},
		"null and empty list": {"null", "[]", false},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(value string) []Object {
				objects, err := ParseYAML(`{"apiVersion":"v1","kind":"X","metadata":{"name":"x"},"spec":{"v":` + value + `}}`)
				if err != nil {
					t.Fatal(err)
				}
				return objects
			}
			if got := EqualObjects(of(test.a), of(test.b)); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// An error says which text and which document it is about, and what that seems to
// be; of a Secret it quotes nothing.
func TestErrorsNameTheirPlace(t *testing.T) {
	const fine = "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n"
	for name, test := range map[string]struct {
		texts []string
		want  string
	}{
		"second text":     {[]string{fine, "kind: ConfigMap\nmetadata:\n  name: cm\n"}, "manifests[1]: it has no apiVersion; add one, such as v1, to ConfigMap cm"},
		"third document":  {[]string{"---\n" + fine + "---\n" + fine + "---\napiVersion: v1\nkind: ConfigMap\n"}, "manifests[0]: document 3: ConfigMap has no metadata.name"},
		"first of two":    {[]string{"kind: ConfigMap\n---\n" + fine}, "manifests[0]: document 1: it has no apiVersion"},
		"the only one":    {[]string{"---\nkind: ConfigMap\n"}, "manifests[0]: it has no apiVersion"},
		"broken":          {[]string{fine, "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  labels:\n    a: b\n  name: web\nspec: {a: [}\n"}, "manifests[1]: Deployment web: it is neither YAML nor JSON: yaml: line 6"},
		"a broken Secret": {[]string{"apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\nstringData:\n  password: !!int hunter2\n"}, "manifests[0]: Secret login: it is neither YAML nor JSON (the parser's message is withheld"},
	} {
		_, err := parseTexts(test.texts)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}
