package provider

import (
	"math/big"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

func text(value any) tftypes.Value { return tftypes.NewValue(tftypes.String, value) }

func number(value any) tftypes.Value { return tftypes.NewValue(tftypes.Number, value) }

func TestWellFormed(t *testing.T) {
	texts := tftypes.List{ElementType: tftypes.String}
	numbers := tftypes.Map{ElementType: tftypes.Number}
	taint := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"seconds": tftypes.Number}}
	taints := tftypes.Set{ElementType: taint}
	for name, test := range map[string]struct {
		kind  tftypes.Type
		value tftypes.Value
		want  []string // a path and a part of the text for each
	}{
		"nothing":           {texts, tftypes.NewValue(texts, nil), nil},
		"unknown":           {texts, tftypes.NewValue(texts, tftypes.UnknownValue), nil},
		"unknown inside":    {texts, tftypes.NewValue(texts, []tftypes.Value{text(tftypes.UnknownValue)}), nil},
		"empty":             {texts, tftypes.NewValue(texts, []tftypes.Value{}), nil},
		"texts":             {texts, tftypes.NewValue(texts, []tftypes.Value{text("a"), text("")}), nil},
		"a null":            {texts, tftypes.NewValue(texts, []tftypes.Value{text("a"), text(nil)}), []string{`AttributeName("x").ElementKeyInt(1): x[1] is null`}},
		"numbers":           {numbers, tftypes.NewValue(numbers, map[string]tftypes.Value{"a": number(1), "b": number(-1)}), nil},
		"a fraction":        {numbers, tftypes.NewValue(numbers, map[string]tftypes.Value{"a": number(1.5)}), []string{`AttributeName("x").ElementKeyString("a"): x["a"] is 1.5, but it takes a whole number`}},
		"the largest":       {tftypes.Number, number(int64(9223372036854775807)), nil},
		"one more":          {tftypes.Number, number(new(big.Float).SetInt(new(big.Int).Lsh(big.NewInt(1), 63))), []string{`AttributeName("x"): x is 9223372036854775808, but it takes a whole number of 64 bits`}},
		"both":              {numbers, tftypes.NewValue(numbers, map[string]tftypes.Value{"a": number(nil), "b": number(0.1)}), []string{`x["a"] is null`, `x["b"] is 0.1`}},
		"inside of a set":   {taints, tftypes.NewValue(taints, []tftypes.Value{tftypes.NewValue(taint, map[string]tftypes.Value{"seconds": number(0.5)})}), []string{`AttributeName("x"): x.seconds is 0.5`}},
		"null in a set":     {taints, tftypes.NewValue(taints, []tftypes.Value{tftypes.NewValue(taint, nil)}), []string{`AttributeName("x"): A value of x is null`}},
		"a dynamic list":    {tftypes.DynamicPseudoType, tftypes.NewValue(texts, []tftypes.Value{text(nil)}), nil},
		"a dynamic number":  {tftypes.DynamicPseudoType, number(1.5), nil},
		"an unset fraction": {tftypes.Number, number(nil), nil},
	} {
		t.Run(name, func(t *testing.T) {
			kind := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"x": test.kind}}
			problems := checkWellFormed(kind, tftypes.NewValue(kind, map[string]tftypes.Value{"x": test.value}))
			if len(problems) != len(test.want) {
				t.Fatalf("got %d problems, want %d", len(problems), len(test.want))
			}
			for i, p := range problems {
				if got := p.Attribute.String() + ": " + p.Detail; !strings.Contains(got, test.want[i]) {
					t.Errorf("got %q, want %q", got, test.want[i])
				}
			}
		})
	}
}
