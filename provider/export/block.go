package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
)

// renderer writes resources. addresses are the resources that others can refer to.
type renderer struct{ addresses addresses }

// block is a resource's block, with what of its state a configuration can set.
func (r renderer) block(schema *tfprotov6.Schema, resource embedded.Resource, name string) (*hclwrite.Block, error) {
	block := hclwrite.NewBlock("resource", []string{resource.Type, name})
	values := map[string]tftypes.Value{}
	if err := resource.State.As(&values); err != nil {
		return nil, err
	}
	var hidden []string
	for _, a := range configurable(schema.Block.Attributes, resource.Identity) {
		value := values[a.Name]
		switch {
		case value.IsNull():
			continue
		case a.Sensitive:
			hidden = append(hidden, a.Name)
			continue
		}
		tokens, err := r.attribute(a, value, scope{resource: resource, path: a.Name})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		block.Body().SetAttributeRaw(a.Name, tokens)
	}
	r.comment(block, values, hidden)
	return block, nil
}

// comment says what was left out because it may be secret.
func (r renderer) comment(block *hclwrite.Block, values map[string]tftypes.Value, hidden []string) {
	if slices.Contains(hidden, "manifests") {
		hidden = slices.DeleteFunc(hidden, func(name string) bool { return name == "manifests" })
		if isEmpty(values["objects"]) {
			block.Body().RemoveAttribute("objects")
			block.Body().AppendUnstructuredTokens(comments(
				"Some of these objects may be secret, so that none is written here, and all stay as they are",
				"on the hub. To have them in the configuration, set manifests_wo and manifests_wo_version, with",
				"the secrets from a variable that is sensitive and ephemeral.",
			))
		}
	}
	if len(hidden) > 0 {
		block.Body().AppendUnstructuredTokens(comments("Left out because it may be secret: " + strings.Join(hidden,
			", ") + "."))
	}
}

// isEmpty reports whether a value has no elements.
func isEmpty(value tftypes.Value) bool {
	var elements []tftypes.Value
	return value.IsNull() || (value.As(&elements) == nil && len(elements) == 0)
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

// scope is where a value is: in which resource, and at which attribute.
type scope struct {
	resource embedded.Resource
	path     string
}

// attribute writes the value of an attribute, and refers to another resource where the
// value names it.
func (r renderer) attribute(a *tfprotov6.SchemaAttribute, value tftypes.Value, at scope) (hclwrite.Tokens, error) {
	if a.NestedType == nil {
		return r.value(value, at)
	}
	switch a.NestedType.Nesting {
	case tfprotov6.SchemaObjectNestingModeSingle:
		return r.object(a.NestedType.Attributes, value, at)
	case tfprotov6.SchemaObjectNestingModeMap:
		values := map[string]tftypes.Value{}
		if err := value.As(&values); err != nil {
			return nil, err
		}
		var written []hclwrite.ObjectAttrTokens
		for _, key := range sortedKeys(values) {
			tokens, err := r.object(a.NestedType.Attributes, values[key], at)
			if err != nil {
				return nil, err
			}
			written = append(written, hclwrite.ObjectAttrTokens{Name: keyTokens(key), Value: tokens})
		}
		return hclwrite.TokensForObject(written), nil
	}
	var values []tftypes.Value
	if err := value.As(&values); err != nil {
		return nil, err
	}
	var written []hclwrite.Tokens
	for _, one := range values {
		tokens, err := r.object(a.NestedType.Attributes, one, at)
		if err != nil {
			return nil, err
		}
		written = append(written, tokens)
	}
	return hclwrite.TokensForTuple(written), nil
}

func (r renderer) object(
	attributes []*tfprotov6.SchemaAttribute, value tftypes.Value, at scope,
) (hclwrite.Tokens, error) {
	values := map[string]tftypes.Value{}
	if err := value.As(&values); err != nil {
		return nil, err
	}
	var written []hclwrite.ObjectAttrTokens
	for _, a := range configurable(attributes, nil) {
		if values[a.Name].IsNull() || a.Sensitive {
			continue
		}
		tokens, err := r.attribute(a, values[a.Name], scope{resource: at.resource, path: at.path + "." + a.Name})
		if err != nil {
			return nil, err
		}
		written = append(written, hclwrite.ObjectAttrTokens{Name: keyTokens(a.Name), Value: tokens})
	}
	return hclwrite.TokensForObject(written), nil
}

// value writes a value without a schema of its own.
func (r renderer) value(value tftypes.Value, at scope) (hclwrite.Tokens, error) {
	if tokens, ok := r.addresses.reference(value, at); ok {
		return tokens, nil
	}
	switch value.Type().(type) {
	case tftypes.List, tftypes.Set:
	default:
		return entry(value)
	}
	var values []tftypes.Value
	if err := value.As(&values); err != nil {
		return nil, err
	}
	var written []hclwrite.Tokens
	for _, one := range values {
		tokens, ok := r.addresses.reference(one, at)
		if !ok {
			var err error
			if tokens, err = expression(one); err != nil {
				return nil, err
			}
		}
		written = append(written, tokens)
	}
	return hclwrite.TokensForTuple(written), nil
}
