package workload

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

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
	if _, ok := fields[name].(string); !ok {
		return false
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
