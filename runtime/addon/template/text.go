package template

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Marks of a placeholder. Nothing may stand between them and its name: {{ NAME }} is
// another name than {{NAME}}.
const (
	opening = "{{"
	closing = "}}"
)

// text is a text of a manifest, cut at its placeholders: what stands before the first
// one, and for each its name and what stands behind it.
type text struct {
	before string
	rest   []placeholder
}

type placeholder struct{ name, behind string }

// parseText cuts a text at its placeholders.
func parseText(s string) (text, error) {
	var t text
	before, tail, found := strings.Cut(s, opening)
	t.before = before
	for found {
		name, after, closed := strings.Cut(tail, closing)
		if !closed {
			return text{}, fmt.Errorf("%s opens a placeholder that nothing closes: close it with %s, as in {{CLUSTER_NAME}}; for the characters %s"+
				" themselves put them into a variable of an AddOnDeploymentConfig", quoted(s), closing, opening)
		}
		var behind string
		behind, tail, found = strings.Cut(after, opening)
		t.rest = append(t.rest, placeholder{name, behind})
	}
	return t, nil
}

// in is the text with values for its placeholders. One without a value is left out.
func (t text) in(v values) string {
	if len(t.rest) == 0 {
		return t.before
	}
	var b strings.Builder
	b.WriteString(t.before)
	for _, p := range t.rest {
		b.WriteString(v[p.name])
		b.WriteString(p.behind)
	}
	return b.String()
}

// values are what stands for placeholders, by name.
type values map[string]string

// asText is the value of a variable as it counts inside a text. As upstream, a value
// that can stand between the quotes of a JSON text is read like one: \n is the end of a
// line. Any other, such as one with a quote or the end of a line in it, is taken as it
// is, where upstream makes invalid JSON or lets it end the text.
func asText(value string) string {
	if !strings.Contains(value, `\`) {
		return value
	}
	var read string
	if json.Unmarshal([]byte(`"`+value+`"`), &read) != nil {
		return value
	}
	return read
}

// quoted is a text for a message: quoted, and cut short where it is long.
func quoted(s string) string {
	const most = 100
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
