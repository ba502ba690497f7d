package workload

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
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
		hidden := soundsSecret(fields, name)
		if secret {
			hidden = name == "data" || name == "stringData"
		}
		f.value(JoinPath(path, name), value, hidden)
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

// What of an object is not to be shown.

// MayBeSecret reports whether the object has values that are not to be shown: it
// is a Secret, or the name of a field or a variable says so.
func (o Object) MayBeSecret() bool { return len(leaves(o, Sensitive{}).secrets) > 0 }

// Secrets are the values that are not to be shown, in full.
func (o Object) Secrets(sensitive Sensitive) []string {
	return slices.Collect(maps.Values(leaves(o, sensitive).secrets))
}

// Values are all values but those that tell what the object is: those in its
// metadata, and those that are also its name or its namespace.
func (o Object) Values() []string {
	fields, err := o.Value()
	if err != nil {
		return nil
	}
	for _, name := range []string{"apiVersion", "kind", "metadata", "type"} {
		delete(fields, name)
	}
	f := foundFields{plain: map[string]string{}, secrets: map[string]string{}}
	f.value("", fields, true)
	var values []string
	for _, value := range f.secrets {
		if value != o.Name && value != o.Namespace && value != "true" && value != "false" {
			values = append(values, value)
		}
	}
	return values
}

// soundsSecret reports whether a field that is no Secret's holds a text that is
// not to be shown, going by its name or, in a list of environment variables, by
// the name of its variable: DB_PASSWORD, say, but not secretName, which only
// tells where a secret is.
func soundsSecret(fields map[string]any, name string) bool {
	if _, ok := fields[name].(string); !ok || name == lastApplied {
		return ok
	}
	if variable, ok := fields["name"].(string); ok && name == "value" {
		name = variable
	}
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
	for _, end := range []string{"name", "ref", "path", "file", "namespace", "class", "url", "type"} {
		if strings.HasSuffix(name, end) {
			return false
		}
	}
	return slices.ContainsFunc([]string{
		"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "credential",
	}, func(word string) bool { return strings.Contains(name, word) })
}

// Sensitive says which fields of objects are not to be shown, beside those whose names
// say so. The zero Sensitive names none.
type Sensitive struct{ paths []*regexp.Regexp }

// ParseSensitive reads paths as Fields has them, such as data.password or
// spec.containers[0].args. A path stands for all that is below it, too; * is any name,
// and [*] any element. The error says what a path lacks.
func ParseSensitive(paths []string) (Sensitive, error) {
	var s Sensitive
	for _, path := range paths {
		if path == "" || strings.HasPrefix(path, ".") || strings.HasSuffix(path, ".") || strings.Contains(path, "..") {
			return Sensitive{}, fmt.Errorf("%q is not a path of a field: write it like data.password or "+
				"spec.template.spec.containers[*].args", path)
		}
		pattern := strings.NewReplacer(`\[\*\]`, `\[[^\]]*\]`, `\*`, `[^.\[]+`).Replace(regexp.QuoteMeta(path))
		compiled, err := regexp.Compile(`^` + pattern + `($|[.\[])`)
		if err != nil {
			return Sensitive{}, fmt.Errorf("%q is not a path of a field: %w", path, err)
		}
		s.paths = append(s.paths, compiled)
	}
	return s, nil
}

// has reports whether the field at a path is not to be shown.
func (s Sensitive) has(path string) bool {
	return slices.ContainsFunc(s.paths, func(r *regexp.Regexp) bool { return r.MatchString(path) })
}

// Idle lists, by their places, the paths that none of these objects has a field at.
func (s Sensitive) Idle(objects []Object) []int {
	var fields []string
	for _, object := range objects {
		f := leaves(object, Sensitive{})
		for path := range f.plain {
			fields = append(fields, path)
		}
		for path := range f.secrets {
			fields = append(fields, path)
		}
	}
	var idle []int
	for i, r := range s.paths {
		if !slices.ContainsFunc(fields, r.MatchString) {
			idle = append(idle, i)
		}
	}
	return idle
}

// FieldsElement is the type of what fields has for one object.
func FieldsElement() attr.Type { return types.MapType{ElemType: types.StringType} }

// UnknownFields are fields that are not known yet.
func UnknownFields() types.Map { return types.MapUnknown(FieldsElement()) }

// FieldsValue are fields as a value of the framework.
func FieldsValue(fields Fields) types.Map {
	objects := map[string]attr.Value{}
	for key, paths := range fields {
		objects[key] = attribute.StringMapValue(paths)
	}
	return types.MapValueMust(FieldsElement(), objects)
}

// FieldsFrom reads what FieldsValue wrote.
func FieldsFrom(value types.Map) Fields {
	fields := Fields{}
	for key, element := range value.Elements() {
		if paths, ok := element.(types.Map); ok {
			fields[key] = attribute.StringMap(paths)
		}
	}
	return fields
}
