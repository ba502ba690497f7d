// Package wellformed refuses configurations that no attribute of the provider can
// take, before the framework sees them: numbers that are not whole, and null in a
// list, set or map. The framework takes the first for a defect of the provider, and
// an attribute would take the second for an empty text.
package wellformed

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Check lists what is wrong with a configuration of the type that its schema has. It
// looks into no dynamic attribute, whose values mean what they mean elsewhere.
func Check(kind tftypes.Type, config tftypes.Value) []*tfprotov6.Diagnostic {
	var c checks
	c.visit(kind, config, place{at: tftypes.NewAttributePath()})
	return c
}

// place is where a value is, for Terraform and for people. Nothing in a set has a
// path: it is named by the set.
type place struct {
	at    *tftypes.AttributePath
	name  string
	inSet bool
}

func (p place) attribute(name string) place {
	if p.name != "" {
		p.name += "."
	}
	p.name += name
	if !p.inSet {
		p.at = p.at.WithAttributeName(name)
	}
	return p
}

func (p place) item(index int) place {
	p.name += "[" + strconv.Itoa(index) + "]"
	if !p.inSet {
		p.at = p.at.WithElementKeyInt(index)
	}
	return p
}

func (p place) key(key string) place {
	p.name += "[" + strconv.Quote(key) + "]"
	if !p.inSet {
		p.at = p.at.WithElementKeyString(key)
	}
	return p
}

type checks []*tfprotov6.Diagnostic

func (c *checks) add(p place, summary, detail string) {
	*c = append(*c, &tfprotov6.Diagnostic{Severity: tfprotov6.DiagnosticSeverityError, Summary: summary, Detail: detail, Attribute: p.at})
}

func (c *checks) visit(kind tftypes.Type, value tftypes.Value, p place) {
	if value.IsNull() || !value.IsKnown() {
		return
	}
	switch k := kind.(type) {
	case tftypes.Object:
		var attributes map[string]tftypes.Value
		if value.As(&attributes) == nil {
			for _, name := range slices.Sorted(maps.Keys(attributes)) {
				c.visit(k.AttributeTypes[name], attributes[name], p.attribute(name))
			}
		}
	case tftypes.Map:
		var entries map[string]tftypes.Value
		if value.As(&entries) == nil {
			for _, key := range slices.Sorted(maps.Keys(entries)) {
				c.element(k.ElementType, entries[key], p.key(key), "map", "{ for key, value in VALUES : key => value if value != null }")
			}
		}
	case tftypes.List:
		var items []tftypes.Value
		if value.As(&items) == nil {
			for i, item := range items {
				c.element(k.ElementType, item, p.item(i), "list", "[for value in VALUES : value if value != null]")
			}
		}
	case tftypes.Set:
		var items []tftypes.Value
		if value.As(&items) == nil {
			p.inSet = true
			for _, item := range items {
				c.element(k.ElementType, item, p, "set", "[for value in VALUES : value if value != null]")
			}
		}
	default:
		if kind != nil && kind.Is(tftypes.Number) {
			c.number(value, p)
		}
	}
}

// element is a value in a collection.
func (c *checks) element(kind tftypes.Type, value tftypes.Value, p place, collection, remedy string) {
	if value.IsNull() {
		which := p.name
		if collection == "set" {
			which = "A value of " + p.name
		}
		c.add(p, "Null in a "+collection, fmt.Sprintf("%s is null, and this %s takes no null. Leave the value out, for example with %s.", which, collection, remedy))
		return
	}
	c.visit(kind, value, p)
}

// number is one that has to be whole: the provider knows no others.
func (c *checks) number(value tftypes.Value, p place) {
	var number big.Float
	if value.As(&number) != nil {
		return
	}
	text := number.Text('g', 20)
	if !number.IsInt() {
		c.add(p, "Not a whole number", fmt.Sprintf("%s is %s, but it takes a whole number. Write it without a fraction, such as %s.", p.name, text, number.Text('f', 0)))
		return
	}
	if _, accuracy := number.Int64(); accuracy != big.Exact {
		c.add(p, "Number out of range", fmt.Sprintf("%s is %s, but it takes a whole number of 64 bits. Write a smaller one.", p.name, text))
	}
}
