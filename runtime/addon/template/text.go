package template

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
)

// Marks of a placeholder. Nothing may stand between them and its name: {{ NAME }} is
// another name than {{NAME}}.
const (
	opening = "{{"
	closing = "}}"
)

// markedText is a text of a manifest, cut at its placeholders: what stands before the first
// one, and for each its name and what stands behind it.
type markedText struct {
	before string
	rest   []placeholder
}

type placeholder struct{ name, behind string }

// parseText cuts a text at its placeholders.
func parseText(s string) (markedText, error) {
	var t markedText
	before, tail, found := strings.Cut(s, opening)
	t.before = before
	for found {
		name, after, closed := strings.Cut(tail, closing)
		if !closed {
			return markedText{}, fmt.Errorf("%s opens a placeholder that nothing closes: close it with %s, as in {{CLUSTER_NAME}}; for the characters %s"+
				" themselves put them into a variable of an AddOnDeploymentConfig", quoted(s), closing, opening)
		}
		var behind string
		behind, tail, found = strings.Cut(after, opening)
		t.rest = append(t.rest, placeholder{name, behind})
	}
	return t, nil
}

// in is the text with values for its placeholders. One without a value is left out.
func (t markedText) in(v values) string {
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

// size is how many bytes the text has with values for its placeholders.
func (t markedText) size(v values) int {
	n := len(t.before)
	for _, p := range t.rest {
		n += len(v[p.name]) + len(p.behind)
	}
	return n
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
	return fmt.Sprintf("%q", text.Cut(s, 100))
}

// excerpt is a text for a message, cut short where it is very long.
func excerpt(s string) string { return text.Cut(s, 1000) }
