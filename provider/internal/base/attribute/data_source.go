package attribute

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resourceschema "github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

// The attributes of resources serve in data sources, too: the framework asks of both the
// same. What differs is who sets them.

// InputAttributes are a resource's attributes as those of a data source that
// takes the same. The reader applies defaults.
func InputAttributes(attributes map[string]resourceschema.Attribute) map[string]schema.Attribute {
	return inData(inputs(attributes))
}

// ObservedAttributes are a resource's attributes as a data source has them: only
// to be read.
func ObservedAttributes(attributes map[string]resourceschema.Attribute) map[string]schema.Attribute {
	return inData(observed(attributes))
}

func inData(attributes map[string]resourceschema.Attribute) map[string]schema.Attribute {
	data := map[string]schema.Attribute{}
	for name, a := range attributes {
		data[name] = a
	}
	return data
}

// inputs are attributes without what a resource plans.
func inputs(attributes map[string]resourceschema.Attribute) map[string]resourceschema.Attribute {
	taken := map[string]resourceschema.Attribute{}
	for name, of := range attributes {
		switch a := of.(type) {
		case resourceschema.StringAttribute:
			a.Computed, a.Default = false, nil
			of = a
		case resourceschema.Int64Attribute:
			a.Computed, a.Default = false, nil
			of = a
		case resourceschema.SingleNestedAttribute:
			a.Attributes = inputs(a.Attributes)
			of = a
		case resourceschema.ListNestedAttribute:
			a.NestedObject.Attributes = inputs(a.NestedObject.Attributes)
			of = a
		}
		taken[name] = of
	}
	return taken
}

// observed are attributes that nobody sets.
func observed(attributes map[string]resourceschema.Attribute) map[string]resourceschema.Attribute {
	read := map[string]resourceschema.Attribute{}
	for name, of := range attributes {
		switch a := of.(type) {
		case resourceschema.SingleNestedAttribute:
			a.Attributes = observed(a.Attributes)
			read[name] = observedNested{a}
		case resourceschema.ListNestedAttribute:
			a.NestedObject = resourceschema.NestedAttributeObject{Attributes: observed(a.NestedObject.Attributes)}
			read[name] = observedNested{a}
		case resourceschema.SetNestedAttribute:
			a.NestedObject = resourceschema.NestedAttributeObject{Attributes: observed(a.NestedObject.Attributes)}
			read[name] = observedNested{a}
		default:
			read[name] = observedAttribute{of}
		}
	}
	return read
}

// observedAttribute is an attribute that nobody sets: it has no validators and no default.
type observedAttribute struct{ resourceschema.Attribute }

func (observedAttribute) IsRequired() bool  { return false }
func (observedAttribute) IsOptional() bool  { return false }
func (observedAttribute) IsComputed() bool  { return true }
func (observedAttribute) IsWriteOnly() bool { return false }

// observedNested is observedAttribute for one with attributes of its own.
type observedNested struct{ resourceschema.NestedAttribute }

func (observedNested) IsRequired() bool  { return false }
func (observedNested) IsOptional() bool  { return false }
func (observedNested) IsComputed() bool  { return true }
func (observedNested) IsWriteOnly() bool { return false }
