package attribute

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// A table says of each attribute once what it is called, what it may be, and where it
// lies in the API's object. From it come the schema, the object to write, the state
// after a read or an import, what contradicts the configuration, and which attribute a
// refusal is about.

// Values are the attributes of a resource, by name: its plan or its state, for
// resources that have a table in place of a model.
type Values map[string]attr.Value

// Text is a text; "" where it is not set.
func (v Values) Text(name string) string {
	text, _ := v[name].(types.String)
	return text.ValueString()
}

// Bool is a truth; false where it is not set.
func (v Values) Bool(name string) bool {
	truth, _ := v[name].(types.Bool)
	return truth.ValueBool()
}

// Texts are those of a list or a set; nil where it is not set.
func (v Values) Texts(name string) []string {
	list, ok := v[name].(Elements)
	if !ok {
		return nil
	}
	return StringList(list)
}

// Number is a whole number; 0 where it is not set.
func (v Values) Number(name string) int64 {
	number, _ := v[name].(types.Int64)
	return number.ValueInt64()
}

// Object are the attributes of an object; none where it is not set.
func (v Values) Object(name string) Values {
	object, _ := v[name].(types.Object)
	return object.Attributes()
}

// IsSet reports whether an attribute has a value, known or not.
func (v Values) IsSet(name string) bool { return v[name] != nil && !v[name].IsNull() }

// Field is an attribute and its place in an object of the API. P points to the object,
// or for the attributes of a nested one to that.
type Field[P any] struct {
	name   string
	schema schema.Attribute
	// write puts a value that is not null into an object without it; nil for what is
	// not written.
	write func(value attr.Value, to P)
	// read takes the value from an object; nil for what the hub does not know.
	read func(from P) attr.Value
	// at is the place in the object, as in spec.proxyConfig, where the name does not
	// tell it.
	at []string
	// standard is what leaving the attribute out means; null in most.
	standard attr.Value
	// others is set where the entries of others are none of the resource's.
	others bool
	// once is set for what never changes on the hub.
	once bool
	// observe takes the place of the comparison of own with live where all of them are set,
	// and may keep prior, in whole or in part; nil in most.
	observe func(prior attr.Value, own, live P) attr.Value
	// importable says which of the entries an import may take over; nil asks
	// ImportableAnnotation.
	importable func(key string) bool
	// imported says whether an import takes the value over, for a field that is left to
	// others where the configuration does not set it; nil for most fields.
	imported func(owned Owned, from P) bool
	// takes is what an import takes over, where that is not the value; nil for most
	// fields.
	takes func(owned Owned, from P) attr.Value
	// empty is an object in which nothing is set; nil for what is no object.
	empty func() attr.Value
	// worded is set where a plan keeps the state's wording that means the same.
	worded bool
}

// At says where the attribute lies in the object, such as spec.proxyConfig, where that
// is not spec and the attribute's name.
func (f Field[P]) At(place string) Field[P] {
	f.at = strings.Split(place, ".")
	return f
}

// Sets does more to the object that gets the attribute.
func (f Field[P]) Sets(more func(to P)) Field[P] {
	write := f.write
	f.write = func(value attr.Value, to P) {
		write(value, to)
		more(to)
	}
	return f
}

// Means says when two objects mean the same to the attribute, whatever their notation. A
// read keeps the user's wording then.
func (f Field[P]) Means(same func(own, live P) bool) Field[P] {
	value := f.value
	f.observe = func(prior attr.Value, own, live P) attr.Value {
		if same(own, live) {
			return prior
		}
		return value(live)
	}
	return f
}

// From says that the attribute is read from a view of the object.
func (f Field[P]) From(view func(from P) P) Field[P] {
	read := f.read
	f.read, f.observe = func(from P) attr.Value { return read(view(from)) }, nil
	return f
}

// KeepsWording says that a plan keeps the state's value where the new one means the same.
func (f Field[P]) KeepsWording() Field[P] {
	f.worded = true
	return f
}

// EmptyIsNone says that an object in which nothing is set means the same as none.
func (f Field[P]) EmptyIsNone() Field[P] { return f.Standard(f.empty()) }

// Default is the value that the provider plans, and writes, where the attribute is left
// out.
func (f Field[P]) Default(value attr.Value) Field[P] {
	switch s := f.schema.(type) {
	case schema.StringAttribute:
		text, _ := value.(types.String)
		s.Computed, s.Default = true, stringdefault.StaticString(text.ValueString())
		f.schema = s
	case schema.Int64Attribute:
		number, _ := value.(types.Int64)
		s.Computed, s.Default = true, int64default.StaticInt64(number.ValueInt64())
		f.schema = s
	}
	return f.Standard(value)
}

// Where says which objects have the attribute: a list is never null there, and of other
// objects the attribute is null.
func (f Field[P]) Where(has func(from P) bool) Field[P] {
	read, kind := f.read, f.kind()
	f.read = func(from P) attr.Value {
		if !has(from) {
			return Null(kind)
		}
		value := read(from)
		if list, ok := kind.(types.ListType); ok && value.IsNull() {
			return types.ListValueMust(list.ElemType, nil)
		}
		return value
	}
	return f
}

// AtAnnotation says that the attribute is an annotation of the object.
func (f Field[P]) AtAnnotation(key string) Field[P] {
	f.at = []string{"metadata", "annotations", key}
	return f
}

// Once says that the value never changes on the hub: a read does not look at it again.
func (f Field[P]) Once() Field[P] {
	f.once = true
	return f
}

// Standard is the value that the hub takes where the attribute is left out.
func (f Field[P]) Standard(value attr.Value) Field[P] {
	f.standard = value
	return f
}

// BesideOthers says that others may add entries, or set it where the configuration does
// not: a read looks only at what is in the configuration, and an import takes only what
// Terraform has written.
func (f Field[P]) BesideOthers() Field[P] {
	f.others = true
	return f
}

// Importing says which entries of a map an import may take over.
func (f Field[P]) Importing(importable func(key string) bool) Field[P] {
	f.importable = importable
	return f
}

// Reserved says of labels why a key can't be set, or "". No import takes such keys over.
func (f Field[P]) Reserved(reserved func(key string) string) Field[P] {
	f.schema = Labels(f.schema.GetMarkdownDescription(), reserved)
	return f.Importing(func(key string) bool { return reserved(key) == "" })
}

// LeftToOthers says that leaving the attribute out leaves the field to others: a read
// looks at it only where it is set. imported says whether an import takes it over, which
// it does if imported is nil.
func (f Field[P]) LeftToOthers(imported func(owned Owned, from P) bool) Field[P] {
	if imported == nil {
		imported = func(Owned, P) bool { return true }
	}
	f.imported = imported
	return f
}

// Taking says what an import takes over, where that is not the value that was read. Such
// an attribute never contradicts the configuration.
func (f Field[P]) Taking(takes func(owned Owned, from P) attr.Value) Field[P] {
	f.takes = takes
	return f
}

// planned reports whether the provider plans a value where the attribute is left out.
func (f Field[P]) planned() bool { return f.standard != nil && f.schema.IsComputed() }

func (f Field[P]) kind() attr.Type { return f.schema.GetType() }

func (f Field[P]) path() []string {
	if f.at != nil {
		return f.at
	}
	return []string{"spec", camelCase(f.name)}
}

// null is the attribute left out.
func (f Field[P]) null() attr.Value { return Null(f.kind()) }

// meant is what a value that was read means: the standard one for none.
func (f Field[P]) meant(value attr.Value) attr.Value {
	if f.standard != nil && value.IsNull() {
		return f.standard
	}
	return value
}

// value is the attribute of an object. One that the provider sets by default is never null.
func (f Field[P]) value(from P) attr.Value {
	if f.schema.IsComputed() {
		return f.meant(f.read(from))
	}
	return f.read(from)
}

// observed is the value after a read: prior where that means the same as what the hub
// has. own is the object that prior makes.
func (f Field[P]) observed(prior attr.Value, own, live P) attr.Value {
	if prior == nil {
		prior = f.null()
	}
	switch there := f.value(live); {
	case f.others:
		return ownEntries(prior, there)
	case f.planned() && prior.IsNull():
		return there
	case f.observe != nil && !prior.IsNull() && !there.IsNull():
		return f.observe(prior, own, live)
	case f.same(f.read(own), there):
		return prior
	default:
		return there
	}
}

// agrees reports whether the hub has what an object says.
func (f Field[P]) agrees(own, live P) bool {
	wanted := f.value(own)
	return f.same(f.observed(wanted, own, live), wanted)
}

func (f Field[P]) same(a, b attr.Value) bool { return f.meant(a).Equal(f.meant(b)) }

// absent reports whether a value says no more than leaving the attribute out does.
func (f Field[P]) absent(value attr.Value) bool { return f.same(value, f.null()) }

// Table has the attributes of one object of the API.
type Table[P any] []Field[P]

// Owned are the fields that the provider has written into an object.
type Owned interface {
	// None reports whether it has never written the object.
	None() bool
	// Has reports whether it has written the field at path, or something below it.
	Has(path ...string) bool
	// Keys are the entries of the map at path that it has written.
	Keys(path ...string) []string
}

// Attributes are the table's attributes in the schema of a resource.
func (t Table[P]) Attributes() map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{}
	for _, f := range t {
		attributes[f.name] = f.schema
	}
	return attributes
}

// Names are those of the attributes.
func (t Table[P]) Names() []string { return t.names(func(Field[P]) bool { return true }) }

// Unwritten are the names of the attributes that are not written to the hub.
func (t Table[P]) Unwritten() []string {
	return t.names(func(f Field[P]) bool { return f.write == nil })
}

// Reports are the names of the attributes that only the hub sets, and that change.
func (t Table[P]) Reports() []string {
	return t.names(func(f Field[P]) bool { return f.write == nil && f.read != nil && !f.once })
}

func (t Table[P]) names(which func(Field[P]) bool) []string {
	var names []string
	for _, f := range t {
		if which(f) {
			names = append(names, f.name)
		}
	}
	return names
}

// Places are the attributes by the place of their field, for those whose names don't
// tell it.
func (t Table[P]) Places() map[string]string {
	places := map[string]string{}
	for _, f := range t {
		place := strings.Join(f.at, ".")
		if len(f.at) > 1 && places[place] == "" {
			places[place] = f.name
		}
	}
	return places
}

// Write puts values into an object that has none of them. Those that are not known yet
// are left out.
func (t Table[P]) Write(values Values, to P) {
	for _, f := range t {
		value := values[f.name]
		if f.planned() && !values.IsSet(f.name) {
			value = f.standard
		}
		if f.write != nil && value != nil && !value.IsNull() && !value.IsUnknown() {
			f.write(value, to)
		}
	}
}

// Read are the values of an object, as a data source shows them.
func (t Table[P]) Read(from P) Values {
	values := Values{}
	for _, f := range t {
		if f.read == nil {
			values[f.name] = f.null()
			continue
		}
		values[f.name] = f.value(from)
	}
	return values
}

// Shown are those that a data source has: all that the hub knows, without some.
func (t Table[P]) Shown(without ...string) Table[P] {
	return slices.DeleteFunc(slices.Clone(t), func(f Field[P]) bool {
		return f.read == nil || slices.Contains(without, f.name)
	})
}

// Report takes over what only the hub says, where the plan has left it open.
func (t Table[P]) Report(values, planned Values, from P) {
	for _, f := range t {
		if f.write == nil && f.read != nil && planned[f.name] != nil && planned[f.name].IsUnknown() {
			values[f.name] = f.read(from)
		}
	}
}

// Observe brings values up to date with what the hub has. own is the object that they
// make. A value that means the same as the hub's keeps the user's wording.
func (t Table[P]) Observe(values Values, own, live P) {
	for _, f := range t {
		switch {
		case f.read == nil, f.write != nil && f.once:
		case f.write == nil:
			values[f.name] = f.read(live)
		case f.imported != nil && !values.IsSet(f.name):
		default:
			values[f.name] = f.observed(values[f.name], own, live)
		}
	}
}

// Kept are the values of a state that a plan keeps, because the planned ones mean the
// same in other words. fresh makes an empty object.
func (t Table[P]) Kept(planned, prior Values, fresh func() P) Values {
	kept := Values{}
	for _, f := range t {
		value, was := planned[f.name], prior[f.name]
		if !f.worded || value.IsNull() || was.IsNull() || !Known(value) {
			continue
		}
		own, other := fresh(), fresh()
		f.write(was, own)
		f.write(value, other)
		if f.observed(was, own, other).Equal(was) {
			kept[f.name] = was
		}
	}
	return kept
}

// Import are the values of an object that becomes the resource's: what says something,
// and what the provider has written.
func (t Table[P]) Import(owned Owned, live P) Values {
	values := Values{}
	for _, f := range t {
		values[f.name] = f.null()
		if f.read == nil {
			continue
		}
		there := f.value(live)
		switch {
		case f.takes != nil:
			values[f.name] = f.takes(owned, live)
		case f.imported != nil:
			if f.imported(owned, live) {
				values[f.name] = there
			}
		case f.others:
			values[f.name] = f.importedEntries(there, owned)
		case f.write == nil, owned.Has(f.path()...), !f.absent(there), f.schema.IsComputed():
			values[f.name] = there
		}
	}
	return values
}

// Unwanted are the places where the hub has something else than the object that was
// written: somebody has added it, and it contradicts the configuration.
func (t Table[P]) Unwanted(own, live P) [][]string {
	var paths [][]string
	for _, f := range t {
		here := func(path []string) bool { return slices.Equal(path, f.path()) }
		left := f.others || f.once || f.imported != nil || f.takes != nil
		compared := f.write != nil && f.read != nil && !left
		if compared && !f.agrees(own, live) && !slices.ContainsFunc(paths, here) {
			paths = append(paths, f.path())
		}
	}
	return paths
}

// Types are those of the attributes.
func (t Table[P]) Types() map[string]attr.Type {
	kinds := map[string]attr.Type{}
	for _, f := range t {
		kinds[f.name] = f.kind()
	}
	return kinds
}

// ownEntries are the hub's entries of a map, or elements of a set, that prior has.
func ownEntries(prior, live attr.Value) attr.Value {
	switch of := prior.(type) {
	case types.Map:
		if of.IsNull() {
			return of
		}
		elements := map[string]attr.Value{}
		if there, ok := live.(types.Map); ok {
			elements = maps.Clone(there.Elements())
		}
		maps.DeleteFunc(elements, func(key string, _ attr.Value) bool { return of.Elements()[key] == nil })
		return types.MapValueMust(of.ElementType(context.Background()), elements)
	case types.Set:
		if of.IsNull() {
			return of
		}
		there, _ := live.(types.Set)
		elements := slices.DeleteFunc(slices.Clone(of.Elements()), func(element attr.Value) bool {
			return !slices.ContainsFunc(there.Elements(), element.Equal)
		})
		return types.SetValueMust(of.ElementType(context.Background()), elements)
	}
	if prior.IsNull() {
		return prior
	}
	return live
}

// importedEntries are the entries of a map that an import takes over, or a text that the
// provider has written. Of a set it takes all.
func (f Field[P]) importedEntries(live attr.Value, owned Owned) attr.Value {
	switch there := live.(type) {
	case types.Map:
		importable := f.importable
		if importable == nil {
			importable = ImportableAnnotation
		}
		return ImportedMap(owned.Keys(f.path()...), owned.None(), StringMap(there), importable)
	case types.String:
		if !owned.None() && !owned.Has(f.path()...) {
			return types.StringNull()
		}
	}
	return live
}

// camelCase writes number_of_clusters as numberOfClusters.
func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		words[i+1] = Capitalize(word)
	}
	return strings.Join(words, "")
}
