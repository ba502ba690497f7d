package export

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
)

// expression writes a value as it is, nulls included: in the objects of a work they
// mean something.
func expression(value tftypes.Value) (hclwrite.Tokens, error) {
	kind := value.Type()
	switch {
	case value.IsNull():
		return hclwrite.TokensForValue(cty.NullVal(cty.DynamicPseudoType)), nil
	case kind.Is(tftypes.String):
		var in string
		err := value.As(&in)
		return hclwrite.TokensForValue(cty.StringVal(in)), err
	case kind.Is(tftypes.Bool):
		var truth bool
		err := value.As(&truth)
		return hclwrite.TokensForValue(cty.BoolVal(truth)), err
	case kind.Is(tftypes.Number):
		number := new(big.Float)
		err := value.As(&number)
		return hclwrite.TokensForValue(cty.NumberVal(number)), err
	}
	switch kind.(type) {
	case tftypes.List, tftypes.Set, tftypes.Tuple:
		return elements(value)
	case tftypes.Map, tftypes.Object:
		return entries(value)
	}
	return nil, fmt.Errorf("values of the type %s can't be written", kind)
}

// lines writes a text of several lines as they look. ok is false for one that only
// quotes can hold.
func lines(value tftypes.Value) (written hclwrite.Tokens, ok bool) {
	var in string
	if value.IsNull() || !value.Type().Is(tftypes.String) || value.As(&in) != nil {
		return nil, false
	}
	body, ended := strings.CutSuffix(in, "\n")
	if !ended || !strings.Contains(body, "\n") || strings.ContainsFunc(in, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0xFFFD }) {
		return nil, false
	}
	marker := "EOT"
	for slices.ContainsFunc(strings.Split(in, "\n"), func(line string) bool { return strings.TrimSpace(line) == marker }) {
		marker += "T"
	}
	escaped := strings.NewReplacer("${", "$${", "%{", "%%{").Replace(in)
	return hclwrite.Tokens{
		{Type: hclsyntax.TokenOHeredoc, Bytes: []byte("<<" + marker + "\n")},
		{Type: hclsyntax.TokenStringLit, Bytes: []byte(escaped)},
		{Type: hclsyntax.TokenCHeredoc, Bytes: []byte(marker)},
	}, true
}

func elements(value tftypes.Value) (hclwrite.Tokens, error) {
	var values []tftypes.Value
	if err := value.As(&values); err != nil {
		return nil, err
	}
	written := make([]hclwrite.Tokens, 0, len(values))
	for _, one := range values {
		tokens, err := expression(one)
		if err != nil {
			return nil, err
		}
		written = append(written, tokens)
	}
	return hclwrite.TokensForTuple(written), nil
}

func entries(value tftypes.Value) (hclwrite.Tokens, error) {
	values := map[string]tftypes.Value{}
	if err := value.As(&values); err != nil {
		return nil, err
	}
	var written []hclwrite.ObjectAttrTokens
	for _, key := range slices.Sorted(maps.Keys(values)) {
		tokens, err := entry(values[key])
		if err != nil {
			return nil, err
		}
		written = append(written, hclwrite.ObjectAttrTokens{Name: keyTokens(key), Value: tokens})
	}
	return hclwrite.TokensForObject(written), nil
}

// entry is the value of an attribute or of a key, where a text may have lines of its
// own.
func entry(value tftypes.Value) (hclwrite.Tokens, error) {
	if tokens, ok := lines(value); ok {
		return tokens, nil
	}
	return expression(value)
}

// keyTokens writes a key of an object without quotes where that is possible.
func keyTokens(key string) hclwrite.Tokens {
	if hclsyntax.ValidIdentifier(key) && key != "null" && key != "true" && key != "false" && key != "for" {
		return hclwrite.TokensForIdentifier(key)
	}
	return hclwrite.TokensForValue(cty.StringVal(key))
}
