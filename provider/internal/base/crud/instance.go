package crud

import (
	"context"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// instance is the plan or the state of one object of a kind.
type instance[O kube.Object] struct {
	kind *Kind[O]
	keys []string
	// values are the attributes, which hooks complete.
	values attribute.Values
	// read are the attributes as they were read.
	read attribute.Values
}

// instanceOf reads a plan or a state.
func instanceOf[O kube.Object](
	ctx context.Context, kind *Kind[O], from Getter, diags *diag.Diagnostics,
) *instance[O] {
	values := attribute.ValuesOf(ctx, from, diags)
	i := &instance[O]{kind: kind, values: values, read: maps.Clone(values)}
	for _, key := range kind.Keys {
		i.keys = append(i.keys, values.Text(key.Name))
	}
	if key := values[kind.Keys[len(i.keys)-1].Name]; kind.Make != nil && key != nil && key.IsUnknown() {
		i.keys = kind.Make(values)
	}
	return i
}

// what names the object in messages: placement "default/p".
func (i *instance[O]) what() string { return i.kind.what(i.keys) }

// identity is the identity of the resource.
func (i *instance[O]) identity() types.Object {
	kinds, values := map[string]attr.Type{}, map[string]attr.Value{}
	for n, key := range i.kind.Keys {
		kinds[key.Name], values[key.Name] = types.StringType, types.StringValue(i.keys[n])
	}
	return types.ObjectValueMust(kinds, values)
}

// stored is what the framework gets. What nothing is known of is null.
func (i *instance[O]) stored() types.Object {
	kinds := map[string]attr.Type{}
	if of, ok := i.kind.schema(context.Background()).Type().(attr.TypeWithAttributeTypes); ok {
		kinds = of.AttributeTypes()
	}
	complete := map[string]attr.Value{}
	for name, kind := range kinds {
		complete[name] = i.values[name]
		if complete[name] == nil {
			complete[name] = attribute.Null(kind)
		}
	}
	for n, key := range i.kind.Keys {
		complete[key.Name] = types.StringValue(i.keys[n])
	}
	return types.ObjectValueMust(kinds, complete)
}

// object is what the hub gets.
func (i *instance[O]) object() O {
	object := i.kind.fresh(i.keys)
	i.kind.Table.Write(i.values, object)
	return object
}

// report takes over what only the hub says, where the plan left it open.
func (i *instance[O]) report(live O) { i.kind.Table.Report(i.values, i.read, i.shown(live)) }

// shown is an object as the state may show it.
func (i *instance[O]) shown(live O) O {
	if i.kind.Shown == nil {
		return live
	}
	return i.kind.Shown(i.values, live)
}

// timeoutOf is the timeout of an operation, or the standard one if none is set.
type timeoutOf func(
	of timeouts.Value, ctx context.Context, standard time.Duration,
) (time.Duration, diag.Diagnostics)

// timeout is that of an operation.
func (i *instance[O]) timeout(
	ctx context.Context, of timeoutOf, standard time.Duration, diags *diag.Diagnostics,
) time.Duration {
	value, ok := i.values["timeouts"].(timeouts.Value)
	if !ok {
		return attribute.DefaultDelete
	}
	timeout, problems := of(value, ctx, standard)
	diags.Append(problems...)
	return timeout
}

// imported is the state of an object that becomes the resource's, without some attributes.
func (k *Kind[O]) imported(object O, without ...string) (*instance[O], error) {
	i := &instance[O]{kind: k, keys: k.keysOf(object), values: attribute.Values{}}
	if k.Refuse != nil {
		if err := k.Refuse(object); err != nil {
			return nil, err
		}
	}
	if k.Imported != nil {
		if err := k.Imported(i.values, object); err != nil {
			return nil, err
		}
	}
	beside := i.values
	i.values = k.Table.Import(FieldsOf(object, hub.FieldManager), i.shown(object))
	maps.Copy(i.values, beside)
	for _, name := range without {
		delete(i.values, name)
	}
	return i, nil
}
