package crds_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
)

// contract.tsv lists every field of the wire, with its type, default, enum and
// bounds. Interoperation with upstream hubs, agents and clients rests on each
// of its rows.
func TestDefinitionsKeepTheWireContract(t *testing.T) {
	data, err := os.ReadFile("testdata/contract.tsv")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, crd := range definitions(t) {
		for _, r := range rows(t, crd) {
			have[r.key] = r.value
		}
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")[1:]
	if len(lines) != 1002 {
		t.Fatalf("the contract has %d rows, want 1002", len(lines))
	}
	for _, line := range lines {
		c := strings.Split(line, "\t")
		var key, value string
		switch c[3] {
		case "#": // the kind
			key, value = strings.Join(c[:4], "\t"), c[4]
		case "#column": // a column that kubectl prints
			key, value = strings.Join(c[:5], "\t"), strings.Join(c[5:8], "\t")
		default: // a field
			key = strings.Join(c[:4], "\t")
			value = strings.Join([]string{c[4], c[5], normalJSON(t, c[6]), c[7], normalJSON(t, c[8])}, "\t")
		}
		switch got, ok := have[key]; {
		case !ok:
			t.Errorf("missing: %s", key)
		case got != value:
			t.Errorf("different: %s\n\tcontract: %q\n\tproject:  %q", key, value, got)
		}
	}
}

func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	hub, err := crds.Hub()
	if err != nil {
		t.Fatal(err)
	}
	managed, err := crds.ManagedCluster()
	if err != nil {
		t.Fatal(err)
	}
	return append(hub, managed...)
}

type row struct{ key, value string }

func rows(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) []row {
	var out []row
	for _, v := range crd.Spec.Versions {
		base := crd.Spec.Group + "\t" + v.Name + "\t" + crd.Spec.Names.Kind + "\t"
		subresources := ""
		if v.Subresources != nil && v.Subresources.Status != nil {
			subresources = "status"
		}
		out = append(out, row{base + "#", fmt.Sprintf("scope=%s plural=%s short=%s served=%s storage=%s subresources=%s",
			crd.Spec.Scope, crd.Spec.Names.Plural, strings.Join(crd.Spec.Names.ShortNames, ","), python(v.Served), python(v.Storage), subresources)})
		for _, c := range v.AdditionalPrinterColumns {
			out = append(out, row{base + "#column\t" + c.Name, fmt.Sprintf("%s\t%s\tpriority=%d", c.Type, c.JSONPath, c.Priority)})
		}
		walk(t, *v.Schema.OpenAPIV3Schema, "", false, func(path, value string) { out = append(out, row{base + path, value}) })
	}
	return out
}

func python(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// walk visits every field of a schema: [] in a path is an item of a list, {} a
// value of a map.
func walk(t *testing.T, s apiextensionsv1.JSONSchemaProps, path string, required bool, visit func(path, value string)) {
	if path != "" {
		visit(path, describe(t, s, required))
	}
	for name, p := range s.Properties {
		below := name
		if path != "" {
			below = path + "." + name
		} else if name == "apiVersion" || name == "kind" || name == "metadata" {
			continue
		}
		walk(t, p, below, slices.Contains(s.Required, name), visit)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(t, *s.Items.Schema, path+"[]", false, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(t, *s.AdditionalProperties.Schema, path+"{}", false, visit)
	}
}

func describe(t *testing.T, s apiextensionsv1.JSONSchemaProps, required bool) string {
	kind := s.Type
	if kind == "" {
		kind = "any"
		if s.XIntOrString {
			kind = "int-or-string"
		}
	}
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
		kind += "+unknown"
	}
	if s.XEmbeddedResource {
		kind += "+resource"
	}
	if s.Format != "" {
		kind += ":" + s.Format
	}
	need, fallback := "", ""
	if required {
		need = "required"
	}
	if s.Default != nil {
		fallback = normalJSON(t, string(s.Default.Raw))
	}
	var enum []string
	for _, e := range s.Enum {
		var v any
		if err := json.Unmarshal(e.Raw, &v); err != nil {
			t.Fatal(err)
		}
		enum = append(enum, fmt.Sprint(v))
	}
	return strings.Join([]string{kind, need, fallback, strings.Join(enum, ","), bounds(t, s)}, "\t")
}

func bounds(t *testing.T, s apiextensionsv1.JSONSchemaProps) string {
	b := map[string]any{}
	set(b, "minimum", s.Minimum)
	set(b, "maximum", s.Maximum)
	set(b, "minLength", s.MinLength)
	set(b, "maxLength", s.MaxLength)
	set(b, "minItems", s.MinItems)
	set(b, "maxItems", s.MaxItems)
	set(b, "list-type", s.XListType)
	set(b, "map-type", s.XMapType)
	if s.Pattern != "" {
		b["pattern"] = s.Pattern
	}
	if len(s.XListMapKeys) > 0 {
		b["list-map-keys"] = s.XListMapKeys
	}
	if len(s.XValidations) > 0 {
		var messages []string
		for _, v := range s.XValidations {
			messages = append(messages, v.Message)
		}
		b["cel"] = messages
	}
	if len(b) == 0 {
		return ""
	}
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return normalJSON(t, string(data))
}

func set[T any](b map[string]any, key string, value *T) {
	if value != nil {
		b[key] = *value
	}
}

// normalJSON makes JSON texts comparable.
func normalJSON(t *testing.T, s string) string {
	t.Helper()
	if s == "" {
		return ""
	}
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
