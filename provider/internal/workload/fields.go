package workload

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Fields are the values of objects as text: by the object's key, then by the
// path within it. They are made to be read and compared by people, so what is
// secret is masked and what is long is cut. The object's apiVersion, kind, name
// and namespace are in its key and not repeated.
type Fields map[string]map[string]string

const (
	// writeOnlyPath is the only path of an object whose content is not to be
	// known. No real field has this path.
	writeOnlyPath = "(write-only)"

	// maxText is the greatest length of a text that is shown whole, in
	// characters; of longer ones the first shownText are.
	maxText   = 200
	shownText = 100

	// lastApplied is where kubectl keeps a copy of the whole object.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// ListFields lists the fields of objects. Masked values are numbered: before and
// its fields tell what the numbers were, and a value that differs from the one
// before gets the next number.
func ListFields(objects, before []Object, fields Fields, sensitive Sensitive) Fields {
	secrets := map[string]map[string]string{}
	for _, object := range before {
		secrets[object.Key()] = leaves(object, sensitive).secrets
	}
	all := Fields{}
	for _, object := range objects {
		key, found := object.Key(), leaves(object, sensitive)
		for path, value := range found.secrets {
			version := 1
			if was, existed := secrets[key][path]; existed {
				version = maskedVersion(fields[key][path])
				if was != value {
					version++
				}
			}
			found.plain[path] = masked(strconv.Itoa(version))
		}
		all[key] = found.plain
	}
	return all
}

// AddWriteOnly notes that the object with this key exists, and the version of its
// content, which may be empty.
func (f Fields) AddWriteOnly(key, version string) {
	f[key] = map[string]string{writeOnlyPath: masked(version)}
}

// WriteOnly are the objects whose content is not to be known, by their keys, with their
// versions as they are shown.
func (f Fields) WriteOnly() map[string]string {
	keys := map[string]string{}
	for key, paths := range f {
		if version, ok := paths[writeOnlyPath]; ok {
			keys[key] = version
		}
	}
	return keys
}

func masked(version string) string {
	if version == "" {
		return "(sensitive)"
	}
	return "(sensitive, version " + version + ")"
}

func maskedVersion(text string) int {
	text, _ = strings.CutPrefix(text, "(sensitive, version ")
	version, err := strconv.Atoi(strings.TrimSuffix(text, ")"))
	if err != nil {
		return 1
	}
	return version
}

// foundFields are the scalars of an object by path: those that may be shown, as they
// are shown, and those that may not, in full.
type foundFields struct {
	plain, secrets map[string]string
	sensitive      Sensitive
}

func leaves(object Object, sensitive Sensitive) foundFields {
	f := foundFields{plain: map[string]string{}, secrets: map[string]string{}, sensitive: sensitive}
	fields, err := object.Value()
	if err != nil {
		return f
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "name")
		delete(metadata, "namespace")
		if len(metadata) == 0 {
			delete(fields, "metadata")
		}
	}
	f.object("", fields, object.APIVersion == "v1" && object.Kind == "Secret")
	return f
}

// object walks through a Kubernetes object, or any map, which may hold a Secret
// further inside, as a template does.
func (f foundFields) object(path string, fields map[string]any, secret bool) {
	for name, value := range fields {
		at := JoinPath(path, name)
		switch {
		case !secret:
			f.value(at, value, soundsSecret(fields, name))
		case name == "data" || name == "stringData":
			f.value(at, value, true)
		case name == "metadata":
			f.secretMetadata(at, value)
		default:
			f.value(at, value, false)
		}
	}
}

// secretMetadata masks the copy of a Secret in its own annotations.
func (f foundFields) secretMetadata(path string, value any) {
	metadata, ok := value.(map[string]any)
	if !ok {
		f.value(path, value, false)
		return
	}
	for name, value := range metadata {
		at := JoinPath(path, name)
		annotations, ok := value.(map[string]any)
		if name != "annotations" || !ok {
			f.value(at, value, false)
			continue
		}
		for key, value := range annotations {
			f.value(JoinPath(at, key), value, key == lastApplied)
		}
	}
}

func (f foundFields) value(path string, value any, secret bool) {
	switch value := value.(type) {
	case nil: // As good as absent.
	case map[string]any:
		if len(value) == 0 {
			f.plain[path] = "{}"
			return
		}
		if secret {
			for name, value := range value {
				f.value(JoinPath(path, name), value, true)
			}
			return
		}
		f.object(path, value, value["apiVersion"] == "v1" && value["kind"] == "Secret")
	case []any:
		if len(value) == 0 {
			f.plain[path] = "[]"
		}
		for i, value := range value {
			at := fmt.Sprintf("%s[%d]", path, i)
			if value == nil { // Not as good as absent, for it moves the others.
				f.plain[at] = "null"
				continue
			}
			f.value(at, value, secret)
		}
	default:
		if text := scalar(value); secret || f.sensitive.has(path) {
			f.secrets[path] = text
		} else {
			f.plain[path] = shorten(text)
		}
	}
}

// JoinPath adds a key to a path. Keys that would not read as one word stand in
// brackets.
func JoinPath(path, key string) string {
	if key == "" || strings.ContainsAny(key, ".[]\"' \t\n") {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func scalar(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case bool:
		return strconv.FormatBool(value)
	case json.Number:
		return numberText(value)
	default:
		return fmt.Sprint(value)
	}
}

// numberText writes equal numbers equally: 1.0 and 1e0 as 1. Like a server it keeps
// whole numbers of 64 bits, and others as floating-point numbers of 64.
func numberText(n json.Number) string {
	if whole, err := n.Int64(); err == nil {
		return strconv.FormatInt(whole, 10)
	}
	float, err := n.Float64()
	if err != nil {
		return n.String()
	}
	if float == math.Trunc(float) && math.Abs(float) < 1<<53 {
		return strconv.FormatInt(int64(float), 10) // Without the sign of -0.0.
	}
	return strconv.FormatFloat(float, 'g', -1, 64)
}

// shorten cuts a long text, with a checksum, so that a change behind the cut
// still shows.
func shorten(text string) string {
	length := utf8.RuneCountInString(text)
	if length <= maxText {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%s… (%d characters, sha256 %x)", string([]rune(text)[:shownText]), length, sum[:4])
}
