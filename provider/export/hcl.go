package export

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"github.com/zclconf/go-cty/cty/msgpack"

	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
)

// addresses are the names of the exported resources in the configuration, by their
// types and import IDs. Values that name one of them are written as references.
type addresses map[key]string

type key struct{ kind, id string }

// addressesOf gives each resource a name that is unique among those of its type and
// that stays the same as long as the objects do.
func addressesOf(resources []embedded.Resource) addresses {
	named := addresses{}
	taken := map[key]bool{}
	for _, r := range resources {
		name := identifier(r.ID())
		for n := 2; taken[key{r.Type, name}]; n++ {
			name = identifier(r.ID()) + "_" + strconv.Itoa(n)
		}
		taken[key{r.Type, name}] = true
		named[key{r.Type, r.ID()}] = name
	}
	return named
}

// identifier makes a name for a resource of any text.
func identifier(text string) string {
	name := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '_'
	}, strings.ToLower(text))
	if !hclsyntax.ValidIdentifier(name) {
		name = "_" + name
	}
	return name
}

// scope is where a value is: in which resource, and at which attribute.
type scope struct {
	resource embedded.Resource
	path     string
}

// reference is the attribute of another exported resource that a value names.
func (a addresses) reference(value cty.Value, at scope) (hclwrite.Tokens, bool) {
	if value.IsNull() || value.Type() != cty.String {
		return nil, false
	}
	name := value.AsString()
	to := key{"muster_managed_cluster", name}
	switch at.path {
	case "managed_cluster", "managed_clusters":
	case "cluster_set", "cluster_sets":
		to.kind = "muster_managed_cluster_set"
	case "namespace":
		to.kind = "muster_namespace"
	case "placements.name":
		to = key{"muster_placement", at.resource.Identity["namespace"] + "/" + name}
	default:
		return nil, false
	}
	address, ok := a[to]
	return hclwrite.TokensForIdentifier(to.kind + "." + address + ".name"), ok
}

// block is a resource's block, with what of its state a configuration can set.
func (a addresses) block(schema *tfprotov6.Schema, resource embedded.Resource, name string) (*hclwrite.Block, error) {
	block := hclwrite.NewBlock("resource", []string{resource.Type, name})
	state, err := stateOf(schema.ValueType(), resource.State)
	if err != nil {
		return nil, err
	}
	var hidden []string
	for _, attribute := range configurable(schema.Block.Attributes, resource.Identity) {
		value := state.GetAttr(attribute.Name)
		switch {
		case value.IsNull():
		case attribute.Sensitive:
			hidden = append(hidden, attribute.Name)
		default:
			block.Body().SetAttributeRaw(attribute.Name, a.attribute(attribute, value, scope{resource, attribute.Name}))
		}
	}
	comment(block, state, hidden)
	return block, nil
}

// stateOf is a state in HCL's values. Both libraries have one notation for types and one
// for values.
func stateOf(kind tftypes.Type, state tftypes.Value) (cty.Value, error) {
	text, err := kind.MarshalJSON() //nolint:staticcheck // the protocol's own notation, which has no other writer
	if err != nil {
		return cty.NilVal, err
	}
	converted, err := ctyjson.UnmarshalType(text)
	if err != nil {
		return cty.NilVal, err
	}
	encoded, err := tfprotov6.NewDynamicValue(kind, state)
	if err != nil {
		return cty.NilVal, err
	}
	return msgpack.Unmarshal(encoded.MsgPack, converted)
}

// comment says what was left out because it may be secret.
func comment(block *hclwrite.Block, state cty.Value, hidden []string) {
	if i := slices.Index(hidden, "manifests"); i >= 0 {
		hidden = slices.Delete(hidden, i, i+1)
		if objects := state.GetAttr("objects"); objects.IsNull() || objects.LengthInt() == 0 {
			block.Body().RemoveAttribute("objects")
			block.Body().AppendUnstructuredTokens(comments(
				"Some of these objects may be secret, so that none is written here, and all stay as they are",
				"on the hub. To have them in the configuration, set manifests_wo and manifests_wo_version, with",
				"the secrets from a variable that is sensitive and ephemeral.",
			))
		}
	}
	if len(hidden) > 0 {
		text := "Left out because it may be secret: " + strings.Join(hidden, ", ") + "."
		block.Body().AppendUnstructuredTokens(comments(text))
	}
}

// configurable are the attributes that a configuration can set: first what names the
// object, and then the others by name.
func configurable(attributes []*tfprotov6.SchemaAttribute, identity map[string]string) []*tfprotov6.SchemaAttribute {
	var found []*tfprotov6.SchemaAttribute
	for _, a := range attributes {
		if (a.Required || a.Optional) && !a.WriteOnly {
			found = append(found, a)
		}
	}
	rank := func(a *tfprotov6.SchemaAttribute) string {
		switch _, names := identity[a.Name]; {
		case names && (a.Name == "namespace" || a.Name == "managed_cluster"):
			return "0"
		case names:
			return "1"
		}
		return "2" + a.Name
	}
	slices.SortFunc(found, func(a, b *tfprotov6.SchemaAttribute) int { return strings.Compare(rank(a), rank(b)) })
	return found
}

// attribute writes the value of an attribute, and refers to another resource where the
// value names it.
func (a addresses) attribute(of *tfprotov6.SchemaAttribute, value cty.Value, at scope) hclwrite.Tokens {
	if tokens, ok := a.reference(value, at); ok {
		return tokens
	}
	switch kind := value.Type(); {
	case of.NestedType == nil && (kind.IsListType() || kind.IsSetType()):
		return tuple(value, func(one cty.Value) hclwrite.Tokens {
			if tokens, ok := a.reference(one, at); ok {
				return tokens
			}
			return expression(one)
		})
	case of.NestedType == nil:
		return entry(value)
	case kind.IsObjectType():
		return a.object(of.NestedType.Attributes, value, at)
	case kind.IsMapType():
		return object(value, func(one cty.Value) hclwrite.Tokens { return a.object(of.NestedType.Attributes, one, at) })
	}
	return tuple(value, func(one cty.Value) hclwrite.Tokens { return a.object(of.NestedType.Attributes, one, at) })
}

// object writes what a configuration can set of an object.
func (a addresses) object(attributes []*tfprotov6.SchemaAttribute, value cty.Value, at scope) hclwrite.Tokens {
	var written []hclwrite.ObjectAttrTokens
	for _, attribute := range configurable(attributes, nil) {
		one := value.GetAttr(attribute.Name)
		if one.IsNull() || attribute.Sensitive {
			continue
		}
		tokens := a.attribute(attribute, one, scope{resource: at.resource, path: at.path + "." + attribute.Name})
		written = append(written, hclwrite.ObjectAttrTokens{Name: keyTokens(attribute.Name), Value: tokens})
	}
	return hclwrite.TokensForObject(written)
}

// expression writes a value as it is, nulls included: in the objects of a work they
// mean something.
func expression(value cty.Value) hclwrite.Tokens {
	switch kind := value.Type(); {
	case value.IsNull():
		return hclwrite.TokensForValue(cty.NullVal(cty.DynamicPseudoType))
	case kind.IsPrimitiveType():
		return hclwrite.TokensForValue(value)
	case kind.IsMapType(), kind.IsObjectType():
		return object(value, entry)
	}
	return tuple(value, expression)
}

// entry is the value of an attribute or of a key, where a text may have lines of its
// own.
func entry(value cty.Value) hclwrite.Tokens {
	if tokens, ok := lines(value); ok {
		return tokens
	}
	return expression(value)
}

// tuple writes the elements of a list or a set.
func tuple(value cty.Value, write func(cty.Value) hclwrite.Tokens) hclwrite.Tokens {
	var written []hclwrite.Tokens
	for _, one := range value.AsValueSlice() {
		written = append(written, write(one))
	}
	return hclwrite.TokensForTuple(written)
}

// object writes the entries of a map or an object.
func object(value cty.Value, write func(cty.Value) hclwrite.Tokens) hclwrite.Tokens {
	var written []hclwrite.ObjectAttrTokens
	values := value.AsValueMap()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		written = append(written, hclwrite.ObjectAttrTokens{Name: keyTokens(key), Value: write(values[key])})
	}
	return hclwrite.TokensForObject(written)
}

// lines writes a text of several lines as they look. ok is false for one that only
// quotes can hold.
func lines(value cty.Value) (written hclwrite.Tokens, ok bool) {
	if value.IsNull() || value.Type() != cty.String {
		return nil, false
	}
	in := value.AsString()
	body, ended := strings.CutSuffix(in, "\n")
	quoted := strings.ContainsFunc(in, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0xFFFD })
	if !ended || !strings.Contains(body, "\n") || quoted {
		return nil, false
	}
	marker := "EOT"
	isMarker := func(line string) bool { return strings.TrimSpace(line) == marker }
	for slices.ContainsFunc(strings.Split(in, "\n"), isMarker) {
		marker += "T"
	}
	escaped := strings.NewReplacer("${", "$${", "%{", "%%{").Replace(in)
	return hclwrite.Tokens{
		{Type: hclsyntax.TokenOHeredoc, Bytes: []byte("<<" + marker + "\n")},
		{Type: hclsyntax.TokenStringLit, Bytes: []byte(escaped)},
		{Type: hclsyntax.TokenCHeredoc, Bytes: []byte(marker)},
	}, true
}

// keyTokens writes a key of an object without quotes where that is possible.
func keyTokens(key string) hclwrite.Tokens {
	if hclsyntax.ValidIdentifier(key) && key != "null" && key != "true" && key != "false" && key != "for" {
		return hclwrite.TokensForIdentifier(key)
	}
	return hclwrite.TokensForValue(cty.StringVal(key))
}

// comments are lines of comment.
func comments(lines ...string) hclwrite.Tokens {
	var tokens hclwrite.Tokens
	for _, line := range lines {
		tokens = append(tokens, &hclwrite.Token{Type: hclsyntax.TokenComment, Bytes: []byte("# " + line + "\n")})
	}
	return tokens
}
