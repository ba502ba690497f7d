package workload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/creationtimestamp"
)

// Object is one manifest.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	// JSON is the manifest in canonical form: sorted keys, no insignificant
	// white space.
	JSON []byte
	// Document is the number of the YAML document, from 1, in a text of several; else
	// 0.
	Document int
}

// String is the object in words, such as Deployment apps/v1 shop/web.
func (o Object) String() string {
	return fmt.Sprintf("%s %s (%s)", o.Kind, Qualified(o.Namespace, o.Name), o.APIVersion)
}

// Key names the object where it stands among others: its apiVersion and kind,
// then its namespace and name, such as apps/v1/Deployment shop/web. Without a
// namespace there is only the name.
func (o Object) Key() string {
	return o.APIVersion + "/" + o.Kind + " " + Qualified(o.Namespace, o.Name)
}

// Group is the object's API group; empty for the core group.
func (o Object) Group() string { return groupOf(o.APIVersion) }

func groupOf(apiVersion string) string {
	if group, _, found := strings.Cut(apiVersion, "/"); found {
		return group
	}
	return ""
}

// NewObject makes an object of a value in JSON's terms: maps with text keys, lists,
// texts, truth values, and numbers as json.Number. The value is the object's from
// then on. Errors say what is wrong and what would be right.
func NewObject(value any) (Object, error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return Object{}, fmt.Errorf("it is %s and not an object with apiVersion, kind and metadata", jsonTypeOf(value))
	}
	if fields["kind"] == "List" && fields["apiVersion"] == "v1" {
		return Object{}, fmt.Errorf("it is a List; write its items as manifests of their own")
	}
	var object Object
	object.APIVersion, _ = fields["apiVersion"].(string)
	object.Kind, _ = fields["kind"].(string)
	metadata, _ := fields["metadata"].(map[string]any)
	object.Name, _ = metadata["name"].(string)
	object.Namespace, _ = metadata["namespace"].(string)
	switch {
	case object.APIVersion == "" && object.Kind == "":
		return Object{}, fmt.Errorf("it has no apiVersion and no kind; add them, such as v1 and ConfigMap")
	case object.APIVersion == "":
		return Object{}, fmt.Errorf("it has no apiVersion; add one, such as v1, to %s %s", object.Kind, object.Name)
	case object.Kind == "":
		return Object{}, fmt.Errorf("it has no kind; add one, such as ConfigMap, to %q", object.Name)
	case object.Name == "" && metadata["generateName"] != nil:
		return Object{}, fmt.Errorf("%s has metadata.generateName and no metadata.name; an object that is to be kept "+
			"as described needs a fixed name", object.Kind)
	case object.Name == "" && metadata["name"] != nil:
		return Object{}, fmt.Errorf("%s has the metadata.name %v, which is not text; put it in quotes",
			object.Kind, metadata["name"])
	case object.Name == "":
		return Object{}, fmt.Errorf("%s has no metadata.name; add one", object.Kind)
	}
	var err error
	object.JSON, err = canonical(fields)
	return object, err
}

// DuplicateOf finds an object that appears a second time, and is -1 without one.
func DuplicateOf(objects []Object) int {
	seen := map[[4]string]bool{}
	return slices.IndexFunc(objects, func(o Object) bool {
		id := [4]string{o.Group(), o.Kind, o.Namespace, o.Name}
		twice := seen[id]
		seen[id] = true
		return twice
	})
}

// ObjectFromJSON reads an object as the API returns it.
func ObjectFromJSON(raw []byte) (Object, error) {
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
		return "", fmt.Errorf("write %s as YAML: %w", o, err)
	}
	return string(text), nil
}

// EqualObjects reports whether two lists of objects mean the same: same objects in the
// same order, whatever the notation.
func EqualObjects(a, b []Object) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i].JSON, b[i].JSON) && !equalJSON(a[i], b[i]) {
			return false
		}
	}
	return true
}

// equalJSON compares numbers by value, so that 1 is 1.0, and takes a field that
// is null for one that is not there.
func equalJSON(a, b Object) bool {
	x, errX := a.Value()
	y, errY := b.Value()
	return errX == nil && errY == nil && reflect.DeepEqual(meaning(x), meaning(y))
}

// meaning leaves one form, in place, of what can be written in several: it drops
// fields that are null and writes equal numbers equally. A null in a list stays,
// for it moves the other elements.
func meaning(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if value[key] = meaning(field); field == nil {
				delete(value, key)
			}
		}
	case []any:
		for i, element := range value {
			value[i] = meaning(element)
		}
	case json.Number:
		return json.Number(numberText(value))
	}
	return value
}

// canonical drops what the API server drops too, so that what was sent and what
// is read back compare equal.
func canonical(fields map[string]any) ([]byte, error) {
	creationtimestamp.RemoveNull(fields)
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(fields); err != nil {
		return nil, fmt.Errorf("write it as JSON: %w", err)
	}
	return bytes.TrimSpace(buffer.Bytes()), nil
}

// Value is the object in JSON's terms, as New takes it.
func (o Object) Value() (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(o.JSON))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("read %s: %w", o, err)
	}
	return fields, nil
}

// From text to objects.

// SyntaxError is that of a text which is neither YAML nor JSON. Its message may
// quote the text.
type SyntaxError struct {
	cause error
	// about is what the text seems to be, such as "Deployment web: ", or "".
	about string
}

func (e *SyntaxError) Error() string {
	return e.about + "it is neither YAML nor JSON: " + e.cause.Error()
}

// Discreet is the message without anything that the text has but for its kind and
// name, and the line.
func (e *SyntaxError) Discreet() string {
	line := ""
	if found := atLine.FindString(e.cause.Error()); found != "" {
		line = " at " + found
	}
	return e.about + "it is neither YAML nor JSON" + line +
		" (the parser's message is withheld, because it might quote a secret; try the same in manifests with " +
		"harmless values)"
}

var (
	atLine    = regexp.MustCompile(`line \d+`)
	kindLine  = regexp.MustCompile(`(?m)^kind: *["']?([A-Za-z]+)["']?\s*$`)
	nameLine  = regexp.MustCompile(`(?m)^metadata:\s*\n(?:[ \t]+.*\n)*?[ \t]+name: *["']?([a-z0-9.-]+)["']?\s*$`)
	ofASecret = regexp.MustCompile(`(?m)^\s*kind: *["']?Secret`)
)

// syntaxError is that of a document. One of a Secret is not quoted.
func syntaxError(document []byte, cause error) error {
	e := &SyntaxError{cause: cause}
	if kind := kindLine.FindSubmatch(document); kind != nil {
		e.about = string(kind[1]) + ": "
		if name := nameLine.FindSubmatch(document); name != nil {
			e.about = string(kind[1]) + " " + string(name[1]) + ": "
		}
	}
	if ofASecret.Match(document) {
		return errors.New(e.Discreet())
	}
	return e
}

// Unwrap returns what the parser said.
func (e *SyntaxError) Unwrap() error { return e.cause }

// ParseYAML reads one text, which may hold several YAML documents. Empty documents
// are passed over. Errors say which document is wrong, what is wrong with it, and
// what would be right.
func ParseYAML(text string) ([]Object, error) {
	var objects []Object
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	several := documentEnd.MatchString(text)
	for n := 1; ; n++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var object Object
		var empty bool
		if err == nil {
			object, empty, err = parseDocument(document)
		}
		switch {
		case err != nil && several:
			return nil, fmt.Errorf("document %d: %w", n, err)
		case err != nil:
			return nil, err
		case empty:
			continue
		case several:
			object.Document = n
		}
		objects = append(objects, object)
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("it holds no object; write a Kubernetes object as YAML or JSON")
	}
	return objects, nil
}

// documentEnd is a line that separates two documents: not one before the first.
var documentEnd = regexp.MustCompile(`(?s)\S.*?\n---`)

func parseDocument(document []byte) (object Object, empty bool, err error) {
	raw, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return Object{}, false, syntaxError(document, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return Object{}, false, syntaxError(document, err)
	}
	if value == nil {
		return Object{}, true, nil
	}
	object, err = NewObject(value)
	return object, false, err
}
