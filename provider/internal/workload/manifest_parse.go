package workload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

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

// ParseAllYAML reads several texts in order. Errors name the text as an element of
// the attribute manifests.
func ParseAllYAML(texts []string) ([]Object, error) { return ParseListYAML("manifests", texts) }

// ParseListYAML reads several texts in order. Errors name the text as an element of
// the attribute.
func ParseListYAML(attribute string, texts []string) ([]Object, error) {
	var objects []Object
	for i, text := range texts {
		parsed, err := ParseYAML(text)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", attribute, i, err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}
