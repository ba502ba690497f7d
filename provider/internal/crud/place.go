package crud

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

// schemaOf is what attributeOf reads of a schema.
type schemaOf interface {
	TypeAtPath(ctx context.Context, at path.Path) (attr.Type, diag.Diagnostics)
}

// fieldPath is a field of an object in the server's words.
var fieldPath = regexp.MustCompile(`\b(?:metadata|spec|status)\.([A-Za-z]+)`)

// attributeOf finds the attribute that a refusal is about; nil when it does not tell.
// Attributes have the names of their fields, save for those in places.
func attributeOf(ctx context.Context, schema schemaOf, places map[string]string, refusal string) *path.Path {
	for _, text := range slices.Sorted(maps.Keys(places)) {
		if strings.Contains(refusal, text) {
			at := path.Root(places[text])
			return &at
		}
	}
	for _, match := range fieldPath.FindAllStringSubmatch(refusal, -1) {
		at := path.Root(snakeCase(match[1]))
		if _, diags := schema.TypeAtPath(ctx, at); !diags.HasError() {
			return &at
		}
	}
	return nil
}

// snakeCase writes numberOfClusters as number_of_clusters.
func snakeCase(name string) string {
	var out strings.Builder
	for i, letter := range name {
		if unicode.IsUpper(letter) && i > 0 {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(letter))
	}
	return out.String()
}
