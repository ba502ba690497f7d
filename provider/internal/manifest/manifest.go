// Package manifest reads the Kubernetes objects of a manifest work from YAML or
// JSON text, says what is wrong with them, and compares them by meaning.
package manifest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Object is one manifest.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	// JSON is the manifest in canonical form: sorted keys, no insignificant
	// white space.
	JSON []byte
}

// String is the object in words, such as Deployment apps/v1 shop/web.
func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %s (%s)", o.Kind, name, o.APIVersion)
}

// identity tells objects apart: two with the same would fight over one object.
type identity struct{ group, kind, namespace, name string }

func (o Object) identity() identity {
	group, _, found := strings.Cut(o.APIVersion, "/")
	if !found {
		group = ""
	}
	return identity{group, o.Kind, o.Namespace, o.Name}
}

// Parse reads one text, which may hold several YAML documents. Empty documents
// are passed over. Errors say what is wrong and what would be right.
func Parse(text string) ([]Object, error) {
	var objects []Object
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for n := 1; ; n++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		object, empty, err := parseDocument(document)
		if err != nil {
			if n > 1 {
				return nil, fmt.Errorf("document %d: %w", n, err)
			}
			return nil, err
		}
		if !empty {
			objects = append(objects, object)
		}
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("it holds no object; write a Kubernetes object as YAML or JSON")
	}
	return objects, nil
}

func parseDocument(document []byte) (object Object, empty bool, err error) {
	raw, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return Object{}, false, fmt.Errorf("it is neither YAML nor JSON: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return Object{}, false, fmt.Errorf("it is neither YAML nor JSON: %w", err)
	}
	if value == nil {
		return Object{}, true, nil
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return Object{}, false, fmt.Errorf("it is a %s and not an object with apiVersion, kind and metadata", kindOf(value))
	}
	if fields["kind"] == "List" && fields["apiVersion"] == "v1" {
		return Object{}, false, fmt.Errorf("it is a List; write its items as manifests of their own")
	}
	object.APIVersion, _ = fields["apiVersion"].(string)
	object.Kind, _ = fields["kind"].(string)
	metadata, _ := fields["metadata"].(map[string]any)
	object.Name, _ = metadata["name"].(string)
	object.Namespace, _ = metadata["namespace"].(string)
	switch {
	case object.APIVersion == "":
		return Object{}, false, fmt.Errorf("it has no apiVersion; add one, such as apiVersion: v1")
	case object.Kind == "":
		return Object{}, false, fmt.Errorf("it has no kind; add one, such as kind: ConfigMap")
	case object.Name == "" && metadata["generateName"] != nil:
		return Object{}, false, fmt.Errorf("%s has metadata.generateName and no metadata.name; an object that is to be kept as described needs a fixed name", object.Kind)
	case object.Name == "" && metadata["name"] != nil:
		return Object{}, false, fmt.Errorf("%s has the metadata.name %v, which YAML does not read as text; put it in quotes", object.Kind, metadata["name"])
	case object.Name == "":
		return Object{}, false, fmt.Errorf("%s has no metadata.name; add one", object.Kind)
	}
	object.JSON, err = canonical(fields)
	return object, false, err
}

// ParseAll reads several texts in order. Errors name the text by its index.
func ParseAll(texts []string) ([]Object, error) {
	var objects []Object
	for i, text := range texts {
		parsed, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("manifests[%d]: %w", i, err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

// Duplicate finds an object that appears twice.
func Duplicate(objects []Object) (Object, bool) {
	seen := map[identity]bool{}
	for _, object := range objects {
		if seen[object.identity()] {
			return object, true
		}
		seen[object.identity()] = true
	}
	return Object{}, false
}

// Size is what the objects count against the limit of a work, in bytes.
func Size(objects []Object) int {
	size := 0
	for _, object := range objects {
		size += len(object.JSON)
	}
	return size
}

// FromJSON reads an object as the API returns it.
func FromJSON(raw []byte) (Object, error) {
	object, empty, err := parseDocument(raw)
	if err == nil && empty {
		err = fmt.Errorf("it is empty")
	}
	return object, err
}

// YAML writes the object for people.
func (o Object) YAML() (string, error) {
	text, err := yaml.JSONToYAML(o.JSON)
	if err != nil {
		return "", fmt.Errorf("writing %s as YAML: %w", o, err)
	}
	return string(text), nil
}

// Equal reports whether two lists of objects mean the same: same objects in the
// same order, whatever the notation.
func Equal(a, b []Object) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i].JSON, b[i].JSON) && !equalJSON(a[i].JSON, b[i].JSON) {
			return false
		}
	}
	return true
}

// equalJSON compares numbers by value, so that 1 is 1.0.
func equalJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// canonical drops what the API server drops too, so that what was sent and what
// is read back compare equal.
func canonical(fields map[string]any) ([]byte, error) {
	if metadata, ok := fields["metadata"].(map[string]any); ok && metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(fields); err != nil {
		return nil, fmt.Errorf("writing it as JSON: %w", err)
	}
	return bytes.TrimSpace(buffer.Bytes()), nil
}

func kindOf(value any) string {
	switch value.(type) {
	case []any:
		return "list"
	case string:
		return "text"
	case bool:
		return "truth value"
	default:
		return "number"
	}
}
