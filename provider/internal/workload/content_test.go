package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// configMap is one object as text and as HCL.
func configMap(name, data string) (text string, value attr.Value) {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"a":%q}}`, name, data),
		object(map[string]attr.Value{
			"apiVersion": types.StringValue("v1"), "kind": types.StringValue("ConfigMap"),
			"metadata": object(map[string]attr.Value{"name": types.StringValue(name)}), "data": object(map[string]attr.Value{"a": types.StringValue(data)}),
		})
}

// contentWith has a config map for each name in each input.
func contentWith(manifests, objects, writeOnly []string, data string) Content {
	c := None()
	c.FieldValidation = types.StringValue(fieldsIgnored)
	if manifests != nil {
		list := []string{}
		for _, name := range manifests {
			text, _ := configMap(name, data)
			list = append(list, text)
		}
		c.Manifests = attribute.StringListValue(list)
	}
	if objects != nil {
		list := []attr.Value{}
		for _, name := range objects {
			_, value := configMap(name, data)
			list = append(list, value)
		}
		c.Objects = types.DynamicValue(tuple(list...))
	}
	if writeOnly != nil {
		list := []string{}
		for _, name := range writeOnly {
			text, _ := configMap(name, data)
			list = append(list, text)
		}
		c.WriteOnly = attribute.StringListValue(list)
	}
	return c
}

func TestInputsAreCheckedTogether(t *testing.T) {
	half := strings.Repeat("x", work.DefaultManifestLimit/2)
	third := strings.Repeat("x", work.DefaultManifestLimit/3)
	one := []string{"a"}
	unknownObjects := contentWith(nil, nil, nil, "")
	unknownObjects.Objects = types.DynamicUnknown()
	unknownList := contentWith(nil, nil, nil, "")
	unknownList.Manifests = types.ListUnknown(types.StringType)
	unknownElement := contentWith(nil, nil, nil, "")
	unknownElement.WriteOnly = types.ListValueMust(types.StringType, []attr.Value{types.StringUnknown()})
	for name, test := range map[string]struct {
		content Content
		want    string
	}{
		"nothing":                     {contentWith(nil, nil, nil, ""), ""}, // An import may have it.
		"manifests":                   {contentWith(one, nil, nil, ""), ""},
		"objects":                     {contentWith(nil, one, nil, ""), ""},
		"write-only":                  {contentWith(nil, nil, one, ""), ""},
		"an empty list beside":        {contentWith([]string{}, one, nil, ""), ""},
		"different ones":              {contentWith([]string{"a"}, []string{"b"}, []string{"c"}, ""), ""},
		"twice in manifests":          {contentWith([]string{"a", "a"}, nil, nil, ""), "ConfigMap a (v1) appears twice"},
		"in manifests and objects":    {contentWith(one, one, nil, ""), "ConfigMap a (v1) appears twice"},
		"in objects and write-only":   {contentWith(nil, one, one, ""), "ConfigMap a (v1) appears twice"},
		"in manifests and write-only": {contentWith(one, nil, one, ""), "ConfigMap a (v1) appears twice"},
		"too large together":          {contentWith([]string{"a"}, []string{"b"}, []string{"c"}, third), "The manifests take 512232 bytes, more than the 512000"},
		"small enough":                {contentWith([]string{"a"}, nil, nil, half), ""},
		"unknown objects":             {unknownObjects, ""},
		"unknown manifests":           {unknownList, ""},
		"unknown element":             {unknownElement, ""},
	} {
		t.Run(name, func(t *testing.T) {
			diags := test.content.Check(OfWorks())
			if test.want == "" {
				if diags.HasError() {
					t.Errorf("got %v", diags)
				}
				return
			}
			if len(diags) != 1 || !strings.Contains(diags[0].Detail(), test.want) {
				t.Errorf("got %v, want %s", diags, test.want)
			}
		})
	}
}

func TestErrorsOfWriteOnlyManifestsQuoteNothing(t *testing.T) {
	const secret = "hunter2"
	for _, text := range []string{secret + ": [" + secret, "a: *" + secret, "a: !!int " + secret, secret + ": 1\n" + secret + ": 2", secret, "- " + secret} {
		content := None()
		content.WriteOnly = attribute.StringListValue([]string{text})
		diags := content.Check(OfWorks())
		if !diags.HasError() {
			t.Errorf("%q passes", text)
		}
		for _, d := range diags {
			if strings.Contains(d.Detail(), secret) {
				t.Errorf("%q: the message has it: %s", text, d.Detail())
			}
		}
		if _, err := content.of("manifests_wo"); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// A state keeps its wording where the configuration means the same, and only
// there.
func TestPlannedWording(t *testing.T) {
	a, ab := []string{"a"}, []string{"a", "b"}
	for name, test := range map[string]struct {
		config, state          Content
		keepTexts, keepObjects bool
	}{
		"same manifests":           {contentWith(a, nil, nil, ""), contentWith(a, nil, nil, ""), true, true},
		"other manifests":          {contentWith(ab, nil, nil, ""), contentWith(a, nil, nil, ""), false, true},
		"same objects":             {contentWith(nil, a, nil, ""), contentWith(nil, a, nil, ""), true, true},
		"other objects":            {contentWith(nil, ab, nil, ""), contentWith(nil, a, nil, ""), true, false},
		"moved":                    {contentWith(nil, a, nil, ""), contentWith(a, nil, nil, ""), false, false},
		"imported, in manifests":   {contentWith(ab, nil, nil, ""), contentWith(ab, ab, nil, ""), true, true},
		"imported, in objects":     {contentWith(nil, ab, nil, ""), contentWith(ab, ab, nil, ""), true, true},
		"imported, in both":        {contentWith(a, []string{"b"}, nil, ""), contentWith(ab, ab, nil, ""), true, true},
		"imported, in disorder":    {contentWith([]string{"b"}, a, nil, ""), contentWith(ab, ab, nil, ""), true, true},
		"imported, in neither":     {contentWith(nil, nil, nil, ""), contentWith(ab, ab, nil, ""), true, true},
		"imported with secrets":    {contentWith(a, []string{"b"}, nil, ""), contentWith(ab, []string{}, nil, ""), true, true},
		"another order":            {contentWith([]string{"b", "a"}, nil, nil, ""), contentWith(ab, nil, nil, ""), true, true},
		"imported, less":           {contentWith(nil, a, nil, ""), contentWith(ab, ab, nil, ""), false, false},
		"given up, left in state":  {contentWith(nil, a, nil, ""), contentWith([]string{"b"}, a, nil, ""), false, true},
		"objects that are unknown": {Content{Manifests: contentWith(a, nil, nil, "").Manifests, Objects: types.DynamicUnknown()}, contentWith(a, a, nil, ""), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			planned := test.config.Keeping(test.state)
			if got := planned.Manifests.Equal(test.state.Manifests); got != test.keepTexts {
				t.Errorf("manifests: kept %v, want %v: %s", got, test.keepTexts, planned.Manifests)
			}
			if got := planned.Objects.Equal(test.state.Objects); got != test.keepObjects {
				t.Errorf("objects: kept %v, want %v: %s", got, test.keepObjects, planned.Objects)
			}
		})
	}
}

// workOf is a work with config maps of these names on the hub.
func workOf(data string, names ...string) Live {
	object := Live{}
	for _, name := range names {
		text, _ := configMap(name, data)
		object.Manifests = append(object.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(text)}})
	}
	return object
}

// sameInput reports whether an input of two contents means the same.
func sameInput(input string, a, b Content) bool {
	x, errX := a.of(input)
	y, errY := b.of(input)
	return errX == nil && errY == nil && same(x, y)
}

// What the hub has shows in the input that has it in the configuration.
func TestObservedContent(t *testing.T) {
	a, b, ab := []string{"a"}, []string{"b"}, []string{"a", "b"}
	for name, test := range map[string]struct {
		state Content
		live  Live
		want  Content
	}{
		"unchanged manifests":       {contentWith(ab, nil, nil, ""), workOf("", "a", "b"), contentWith(ab, nil, nil, "")},
		"changed manifests":         {contentWith(ab, nil, nil, ""), workOf("x", "a", "b"), contentWith(ab, nil, nil, "x")},
		"changed objects":           {contentWith(nil, ab, nil, ""), workOf("x", "a", "b"), contentWith(nil, ab, nil, "x")},
		"less in objects":           {contentWith(nil, ab, nil, ""), workOf("", "a"), contentWith(nil, a, nil, "")},
		"more in objects":           {contentWith(nil, a, nil, ""), workOf("", "a", "b"), contentWith(nil, ab, nil, "")},
		"nothing left in objects":   {contentWith(nil, a, nil, ""), workOf(""), contentWith(nil, []string{}, nil, "")},
		"nothing left in manifests": {contentWith(a, nil, nil, ""), workOf(""), contentWith([]string{}, nil, nil, "")},
		"changed in both":           {contentWith(a, b, nil, ""), workOf("x", "a", "b"), contentWith(a, b, nil, "x")},
		"more in both":              {contentWith(a, b, nil, ""), workOf("", "a", "b", "c"), contentWith([]string{"a", "c"}, b, nil, "")},
		"unchanged import":          {contentWith(ab, ab, nil, ""), workOf("", "a", "b"), contentWith(ab, ab, nil, "")},
		"changed import":            {contentWith(ab, ab, nil, ""), workOf("x", "a", "b"), contentWith(ab, ab, nil, "x")},
		"more in an import":         {contentWith(a, a, nil, ""), workOf("", "a", "b"), contentWith(ab, ab, nil, "")},
		"more beside write-only":    {contentWith(nil, nil, nil, ""), workOf("", "a"), contentWith(a, nil, nil, "")},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.state
			if err := got.Observe(test.live); err != nil {
				t.Fatal(err)
			}
			if neither := got.Manifests.IsNull() && test.want.Manifests.IsNull(); !neither && !sameInput("manifests", got, test.want) {
				t.Errorf("manifests: got %s, want %s", got.Manifests, test.want.Manifests)
			}
			if neither := isNull(got.Objects) && isNull(test.want.Objects); !neither && !sameInput("objects", got, test.want) {
				t.Errorf("objects: got %s, want %s", got.Objects, test.want.Objects)
			}
			want, err := test.want.Planned(None())
			if err != nil || !got.Fields.Equal(want) {
				t.Errorf("fields: got %s, %v, want %s", got.Fields, err, want)
			}
		})
	}
}

// What is wrong with an object of Kubernetes' own is found with its place. Of what a
// later release may know, field_validation decides.
func TestObjectsAreCheckedByTheirKinds(t *testing.T) {
	deployment := func(spec string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{` + spec +
			`"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"nginx"}]}}}}`
	}
	for name, test := range map[string]struct {
		text, validation string
		want             string
		isError          bool
	}{
		"a field that is unknown":       {deployment(`"replica":3,`), "", "manifests[0], Deployment shop/web (apps/v1):\n  spec.replica is unknown, so that clusters drop it; did you mean replicas?\nIf your clusters", true},
		"that is warned of":             {deployment(`"replica":3,`), "Warn", "spec.replica is unknown", false},
		"that is ignored":               {deployment(`"replica":3,`), "Ignore", "", false},
		"a value of another type":       {deployment(`"replicas":"3",`), "Warn", "No cluster would accept manifests[0], Deployment shop/web (apps/v1):\n  spec.replicas has to be a whole number, and is a text.", true},
		"that is ignored as well":       {deployment(`"replicas":"3",`), "Ignore", "", false},
		"of a kind that is nobody's":    {`{"apiVersion":"v1","kind":"ConfigMapp","metadata":{"name":"x"}}`, "", "did you mean ConfigMap?", true},
		"all is well":                   {deployment(""), "", "", false},
		"a custom resource":             {`{"apiVersion":"example.com/v1","kind":"Shop","metadata":{"name":"x"},"spec":{"replica":3}}`, "", "", false},
		"a secret's value of the wrong": {`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":"shop"},"data":{"a":"hunter2!"}}`, "", "data.a has to be base64", true},
	} {
		content := None()
		content.Manifests = attribute.StringListValue([]string{test.text})
		if test.validation != "" {
			content.FieldValidation = types.StringValue(test.validation)
		}
		diags := content.Check(OfWorks())
		switch {
		case test.want == "" && len(diags) == 0:
		case len(diags) != 1 || !strings.Contains(diags[0].Detail(), test.want) || diags.HasError() != test.isError || strings.Contains(diags[0].Detail(), "hunter2"):
			t.Errorf("%s: got %v, want %s", name, diags, test.want)
		}
	}
}
