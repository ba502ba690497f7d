package inprocess

import (
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
)

// nesting is how the objects of a field lie in it.
type nesting int

const (
	plain nesting = iota // no objects with fields of their own
	single
	list
	set
	mapping
)

// field is an attribute or a block. Both take part in plans in the same way.
type field struct {
	name                string
	kind                cty.Type
	block               bool
	required, optional  bool
	computed, sensitive bool
	writeOnly           bool
	nesting             nesting
	fields              map[string]*field
}

// schema is that of a resource, a data source or a provider.
type schema struct {
	version int64
	kind    cty.Type
	fields  map[string]*field
	spec    hcldec.Spec
}

func newSchema(s *tfprotov6.Schema) *schema {
	fields := fieldsOfBlock(s.Block)
	return &schema{version: s.Version, kind: ctyType(s.ValueType()), fields: fields, spec: specOf(fields)}
}

func fieldsOfBlock(block *tfprotov6.SchemaBlock) map[string]*field {
	fields := fieldsOf(block.Attributes)
	for _, b := range block.BlockTypes {
		f := &field{name: b.TypeName, kind: ctyType(b.ValueType()), block: true, optional: true}
		f.fields = fieldsOfBlock(b.Block)
		switch b.Nesting {
		case tfprotov6.SchemaNestedBlockNestingModeList:
			f.nesting = list
		case tfprotov6.SchemaNestedBlockNestingModeSet:
			f.nesting = set
		case tfprotov6.SchemaNestedBlockNestingModeMap:
			f.nesting = mapping
		default:
			f.nesting = single
		}
		fields[f.name] = f
	}
	return fields
}

func fieldsOf(attributes []*tfprotov6.SchemaAttribute) map[string]*field {
	fields := map[string]*field{}
	for _, a := range attributes {
		f := &field{
			name: a.Name, kind: ctyType(a.ValueType()), required: a.Required, optional: a.Optional,
			computed: a.Computed, sensitive: a.Sensitive, writeOnly: a.WriteOnly,
		}
		if a.NestedType != nil {
			f.fields = fieldsOf(a.NestedType.Attributes)
			switch a.NestedType.Nesting {
			case tfprotov6.SchemaObjectNestingModeList:
				f.nesting = list
			case tfprotov6.SchemaObjectNestingModeSet:
				f.nesting = set
			case tfprotov6.SchemaObjectNestingModeMap:
				f.nesting = mapping
			default:
				f.nesting = single
			}
		}
		fields[f.name] = f
	}
	return fields
}

// specOf is how a body with these fields is decoded.
func specOf(fields map[string]*field) hcldec.Spec {
	spec := hcldec.ObjectSpec{}
	for name, f := range fields {
		switch {
		case !f.block:
			spec[name] = &hcldec.AttrSpec{Name: name, Type: f.configType(), Required: f.required}
		case f.nesting == list:
			spec[name] = &hcldec.BlockListSpec{TypeName: name, Nested: specOf(f.fields)}
		case f.nesting == set:
			spec[name] = &hcldec.BlockSetSpec{TypeName: name, Nested: specOf(f.fields)}
		case f.nesting == mapping:
			spec[name] = &hcldec.BlockMapSpec{TypeName: name, LabelNames: []string{"key"}, Nested: specOf(f.fields)}
		default:
			spec[name] = &hcldec.BlockSpec{TypeName: name, Nested: specOf(f.fields)}
		}
	}
	return spec
}

// configType is the type of an attribute in a configuration, where nested attributes
// may be left out.
func (f *field) configType() cty.Type {
	if f.nesting == plain {
		return f.kind
	}
	attributes, optional := map[string]cty.Type{}, []string{}
	for name, nested := range f.fields {
		attributes[name] = nested.configType()
		if !nested.required {
			optional = append(optional, name)
		}
	}
	object := cty.ObjectWithOptionalAttrs(attributes, optional)
	switch f.nesting {
	case list:
		return cty.List(object)
	case set:
		return cty.Set(object)
	case mapping:
		return cty.Map(object)
	}
	return object
}

// at finds the field that a path leads to; nil for what lies inside of a plain one.
func (s *schema) at(path cty.Path) *field {
	fields, found := s.fields, (*field)(nil)
	for _, step := range path {
		name, ok := step.(cty.GetAttrStep)
		if !ok {
			if found == nil || found.nesting == plain {
				return nil
			}
			continue
		}
		if found = fields[name.Name]; found == nil {
			return nil
		}
		fields = found.fields
	}
	return found
}

// markSensitive marks what the schema says is sensitive.
func (s *schema) markSensitive(value cty.Value) cty.Value {
	changed, err := cty.Transform(value, func(path cty.Path, v cty.Value) (cty.Value, error) {
		if len(path) == 0 {
			return v, nil
		}
		if _, named := path[len(path)-1].(cty.GetAttrStep); !named || v.IsNull() {
			return v, nil
		}
		if f := s.at(path); f != nil && f.sensitive {
			return v.Mark(sensitive), nil
		}
		return v, nil
	})
	if err != nil {
		return value
	}
	return changed
}

// ctyType is a type of the protocol as HCL knows it.
func ctyType(t tftypes.Type) cty.Type {
	switch t := t.(type) {
	case tftypes.Object:
		attributes := map[string]cty.Type{}
		for name, a := range t.AttributeTypes {
			attributes[name] = ctyType(a)
		}
		return cty.Object(attributes)
	case tftypes.Map:
		return cty.Map(ctyType(t.ElementType))
	case tftypes.List:
		return cty.List(ctyType(t.ElementType))
	case tftypes.Set:
		return cty.Set(ctyType(t.ElementType))
	case tftypes.Tuple:
		var elements []cty.Type
		for _, e := range t.ElementTypes {
			elements = append(elements, ctyType(e))
		}
		return cty.Tuple(elements)
	}
	switch {
	case t.Is(tftypes.String):
		return cty.String
	case t.Is(tftypes.Bool):
		return cty.Bool
	case t.Is(tftypes.Number):
		return cty.Number
	}
	return cty.DynamicPseudoType
}

// ctyPath is a path of the protocol as HCL knows it. It ends before an element of a
// set, which is named by its value.
func ctyPath(in *tftypes.AttributePath) cty.Path {
	var path cty.Path
	for _, step := range in.Steps() {
		switch step := step.(type) {
		case tftypes.AttributeName:
			path = path.GetAttr(string(step))
		case tftypes.ElementKeyString:
			path = path.IndexString(string(step))
		case tftypes.ElementKeyInt:
			path = path.IndexInt(int(step))
		default:
			return path
		}
	}
	return path
}
