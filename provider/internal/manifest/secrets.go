package manifest

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

// What of an object is not to be shown.

// MayBeSecret reports whether the object has values that are not to be shown: it
// is a Secret, or the name of a field or a variable says so.
func (o Object) MayBeSecret() bool { return len(leaves(o).secrets) > 0 }

// Secrets are the values that are not to be shown, in full.
func (o Object) Secrets() []string { return slices.Collect(maps.Values(leaves(o).secrets)) }

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
	f := found{plain: map[string]string{}, secrets: map[string]string{}}
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
	for _, word := range []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "credential"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
