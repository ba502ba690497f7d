package inprocess

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"
)

// propose is the state that a plan starts from: the configuration, with the prior
// values of what only the provider sets. prior may be null.
func (s *schema) propose(prior, config cty.Value) cty.Value {
	return proposeObject(s.fields, prior, config)
}

func proposeObject(fields map[string]*field, prior, config cty.Value) cty.Value {
	values := map[string]cty.Value{}
	for name, f := range fields {
		before := cty.NullVal(f.kind)
		if prior != cty.NilVal && prior.IsKnown() && !prior.IsNull() {
			before = prior.GetAttr(name)
		}
		values[name] = f.propose(before, config.GetAttr(name))
	}
	return cty.ObjectVal(values)
}

func (f *field) propose(prior, config cty.Value) cty.Value {
	switch {
	case f.writeOnly:
		return cty.NullVal(f.kind)
	case config.IsNull() && f.computed && !f.hasConfigured(prior):
		return prior
	case f.nesting == plain, config.IsNull(), !config.IsKnown():
		return config
	}
	if f.nesting == single {
		return proposeObject(f.fields, prior, config)
	}
	if config.LengthInt() == 0 {
		return config
	}
	elements, keyed := []cty.Value{}, map[string]cty.Value{}
	used := map[int]bool{}
	index := 0
	for it := config.ElementIterator(); it.Next(); index++ {
		key, element := it.Element()
		before := f.priorElement(prior, key, element, index, used)
		proposed := element
		if element.IsKnown() && !element.IsNull() {
			proposed = proposeObject(f.fields, before, element)
		}
		elements = append(elements, proposed)
		if f.nesting == mapping {
			keyed[key.AsString()] = proposed
		}
	}
	switch f.nesting {
	case set:
		return cty.SetVal(elements)
	case mapping:
		return cty.MapVal(keyed)
	}
	return cty.ListVal(elements)
}

// priorElement is what an element of a collection was before: that with the same
// index or key, and in a set the one that can have come from it.
func (f *field) priorElement(prior, key, element cty.Value, index int, used map[int]bool) cty.Value {
	if !prior.IsKnown() || prior.IsNull() {
		return cty.NilVal
	}
	switch f.nesting {
	case list:
		if index < prior.LengthInt() {
			return prior.Index(cty.NumberIntVal(int64(index)))
		}
	case mapping:
		if prior.HasIndex(key).True() {
			return prior.Index(key)
		}
	case set:
		for i, candidate := range prior.AsValueSlice() {
			if !used[i] && canComeFrom(f.fields, candidate, element) {
				used[i] = true
				return candidate
			}
		}
	}
	return cty.NilVal
}

// canComeFrom reports whether the only difference is what the provider has set.
func canComeFrom(fields map[string]*field, prior, config cty.Value) bool {
	if prior.IsNull() || config.IsNull() || !config.IsKnown() {
		return false
	}
	for name, f := range fields {
		before, now := prior.GetAttr(name), config.GetAttr(name)
		if !before.RawEquals(now) && (!f.computed || !now.IsNull()) && !f.writeOnly {
			return false
		}
	}
	return true
}

// hasConfigured reports whether a value has something that only a configuration can
// have set, so that it goes with the configuration.
func (f *field) hasConfigured(value cty.Value) bool {
	if f.nesting == plain || value.IsNull() || !value.IsKnown() {
		return false
	}
	if f.nesting == single {
		for name, nested := range f.fields {
			v := value.GetAttr(name)
			if !nested.computed && !v.IsNull() || nested.hasConfigured(v) {
				return true
			}
		}
		return false
	}
	element := &field{nesting: single, fields: f.fields}
	for _, v := range value.AsValueSlice() {
		if element.hasConfigured(v) {
			return true
		}
	}
	return false
}

// checkPlanned says where a plan is neither what the configuration says nor what the
// provider may choose.
func (s *schema) checkPlanned(prior, config, planned cty.Value) []string {
	if planned.IsNull() {
		return []string{"planned for absence but config wants existence"}
	}
	return checkPlannedObject(s.fields, prior, coarse(config), coarse(planned), "")
}

// coarse is a value without what is known of its unknown parts: only Terraform knows
// that something will not be null.
func coarse(value cty.Value) cty.Value {
	out, err := cty.Transform(value, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if !v.IsKnown() {
			return cty.UnknownVal(v.Type()), nil
		}
		return v, nil
	})
	if err != nil {
		return value
	}
	return out
}

func checkPlannedObject(fields map[string]*field, prior, config, planned cty.Value, at string) []string {
	var wrong []string
	for name, f := range fields {
		before := cty.NullVal(f.kind)
		if prior != cty.NilVal && prior.IsKnown() && !prior.IsNull() {
			before = prior.GetAttr(name)
		}
		wrong = append(wrong, f.checkPlanned(before, config.GetAttr(name), planned.GetAttr(name), at+"."+name)...)
	}
	return wrong
}

func (f *field) checkPlanned(prior, config, planned cty.Value, at string) []string {
	switch {
	case f.writeOnly:
		if !planned.IsNull() {
			return []string{at + ": a write-only attribute is planned"}
		}
		return nil
	case planned.RawEquals(config), config.IsNull() && f.computed && f.nesting == plain:
		return nil
	case planned.RawEquals(prior) && !prior.IsNull() && !config.IsNull():
		return nil // The provider takes both for the same.
	case config.IsNull() && f.computed:
		return nil
	case f.nesting == plain || config.IsNull() || planned.IsNull() || !config.IsKnown() || !planned.IsKnown():
		return []string{fmt.Sprintf("%s: planned value %s doesn't match config value %s",
			at, f.show(planned), f.show(config))}
	case f.nesting == single:
		return checkPlannedObject(f.fields, prior, config, planned, at)
	case planned.LengthInt() != config.LengthInt():
		return []string{fmt.Sprintf("%s: %d elements are planned, and %d configured",
			at, planned.LengthInt(), config.LengthInt())}
	case f.nesting == set:
		return nil
	}
	var wrong []string
	index := 0
	for it := config.ElementIterator(); it.Next(); index++ {
		key, element := it.Element()
		if !planned.HasIndex(key).True() {
			wrong = append(wrong, fmt.Sprintf("%s: the element %s is not planned", at, show(key)))
			continue
		}
		before := f.priorElement(prior, key, element, index, nil)
		nested := &field{nesting: single, fields: f.fields}
		if before == cty.NilVal {
			before = cty.NullVal(element.Type())
		}
		wrong = append(wrong, nested.checkPlanned(before, element, planned.Index(key), at+"["+show(key)+"]")...)
	}
	return wrong
}

func (f *field) show(value cty.Value) string {
	if f.sensitive {
		return "(sensitive value)"
	}
	return show(value)
}

// compatible says where a result is not what was planned. What was not known yet may
// be anything.
func compatible(planned, actual cty.Value, at string) []string {
	wrong := func(format string, args ...any) []string { return []string{at + ": " + fmt.Sprintf(format, args...)} }
	switch {
	case !planned.IsKnown():
		return nil
	case !actual.IsKnown():
		return wrong("was known, but now unknown")
	case planned.IsNull() && actual.IsNull():
		return nil
	case planned.IsNull():
		return wrong("was null, but now %s", show(actual))
	case actual.IsNull():
		return wrong("was %s, but now null", show(planned))
	}
	kind := planned.Type()
	switch {
	case kind.IsPrimitiveType():
		if !actual.Type().Equals(kind) || !planned.RawEquals(actual) {
			return wrong("was %s, but now %s", show(planned), show(actual))
		}
		return nil
	case kind.IsSetType():
		return compatibleSets(planned, actual, at)
	case !actual.CanIterateElements() || planned.LengthInt() != actual.LengthInt():
		return wrong("was %s, but now %s", show(planned), show(actual))
	}
	var found []string
	if kind.IsObjectType() {
		for name, v := range planned.AsValueMap() {
			if !actual.Type().HasAttribute(name) {
				found = append(found, at+"."+name+": is gone")
				continue
			}
			found = append(found, compatible(v, actual.GetAttr(name), at+"."+name)...)
		}
		return found
	}
	for it := planned.ElementIterator(); it.Next(); {
		key, v := it.Element()
		if !actual.HasIndex(key).True() {
			found = append(found, fmt.Sprintf("%s: the element %s has vanished", at, show(key)))
			continue
		}
		found = append(found, compatible(v, actual.Index(key), at+"["+show(key)+"]")...)
	}
	return found
}

func compatibleSets(planned, actual cty.Value, at string) []string {
	if planned.IsWhollyKnown() && planned.LengthInt() != actual.LengthInt() {
		return []string{fmt.Sprintf("%s: length changed from %d to %d", at, planned.LengthInt(), actual.LengthInt())}
	}
	for _, element := range planned.AsValueSlice() {
		found := false
		for _, candidate := range actual.AsValueSlice() {
			found = found || len(compatible(element, candidate, at)) == 0
		}
		if !found {
			return []string{fmt.Sprintf("%s: planned set element %s does not correlate with any element in actual",
				at, show(element))}
		}
	}
	return nil
}
