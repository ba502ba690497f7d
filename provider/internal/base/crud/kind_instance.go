package crud

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// instance is the plan or the state of one object of a kind.
type instance[M any, O kube.Object] struct {
	kind  *Kind[M, O]
	keys  []string
	model *M
	// all are the attributes as they were read, whatever the model makes of them.
	all map[string]attr.Value
}

// instanceOf reads a plan or a state.
func instanceOf[M any, O kube.Object](
	ctx context.Context, kind *Kind[M, O], from Getter, diags *diag.Diagnostics,
) *instance[M, O] {
	i := &instance[M, O]{kind: kind}
	diags.Append(i.load(ctx, from)...)
	return i
}

// What implements Model.
func (i *instance[M, O]) What() string { return i.kind.what(i.keys) }

// Key implements Model.
func (i *instance[M, O]) Key() (namespace, name string) { return i.kind.locate(i.keys) }

// Identity implements Model.
func (i *instance[M, O]) Identity() any {
	kinds, values := map[string]attr.Type{}, map[string]attr.Value{}
	for n, key := range i.kind.Keys {
		kinds[key.Name], values[key.Name] = types.StringType, types.StringValue(i.keys[n])
	}
	return types.ObjectValueMust(kinds, values)
}

// load implements loader.
func (i *instance[M, O]) load(ctx context.Context, from Getter) diag.Diagnostics {
	var all types.Object
	diags := from.Get(ctx, &all)
	i.all, i.model, i.keys = all.Attributes(), new(M), nil
	for _, key := range i.kind.Keys {
		i.keys = append(i.keys, attribute.Values(i.all).Text(key.Name))
	}
	if values, ok := i.values(); ok {
		*values = all.Attributes()
	} else {
		diags.Append(from.Get(ctx, i.model)...)
	}
	if key := i.all[i.kind.Keys[len(i.keys)-1].Name]; i.kind.Make != nil && key != nil && key.IsUnknown() {
		i.keys = i.kind.Make(i.model)
	}
	return diags
}

// values are those of a kind with a table.
func (i *instance[M, O]) values() (*attribute.Values, bool) {
	values, ok := any(i.model).(*attribute.Values)
	return values, ok
}

// stored implements loader. What a table says nothing of is null.
func (i *instance[M, O]) stored() any {
	values, ok := i.values()
	if !ok {
		return i.model
	}
	kinds := map[string]attr.Type{}
	s := schema.Schema{Attributes: i.kind.attributes(), Blocks: i.kind.blocks(context.Background())}
	if of, ok := s.Type().(attr.TypeWithAttributeTypes); ok {
		kinds = of.AttributeTypes()
	}
	complete := map[string]attr.Value{}
	for name, kind := range kinds {
		complete[name] = (*values)[name]
		if complete[name] == nil {
			complete[name] = attribute.Null(kind)
		}
	}
	for n, key := range i.kind.Keys {
		complete[key.Name] = types.StringValue(i.keys[n])
	}
	return types.ObjectValueMust(kinds, complete)
}

// bool is an attribute that is true or false.
func (i *instance[M, O]) bool(name string) types.Bool {
	truth, _ := i.all[name].(types.Bool)
	return truth
}

// object is what the hub gets.
func (i *instance[M, O]) object() O {
	values, ok := i.values()
	if !ok {
		return i.kind.Model.Object(i.model)
	}
	object := i.kind.fresh(i.keys)
	i.kind.Table.Write(*values, object)
	return object
}

// observe brings the state up to date.
func (i *instance[M, O]) observe(live O) error {
	values, ok := i.values()
	if !ok {
		return i.kind.Model.Observe(i.model, live)
	}
	i.kind.Table.Observe(*values, i.object(), i.shown(live))
	return nil
}

// report takes over what only the hub says, where the plan left it open.
func (i *instance[M, O]) report(live O) {
	if values, ok := i.values(); ok {
		i.kind.Table.Report(*values, i.all, i.shown(live))
	}
}

// shown is an object as the state may show it.
func (i *instance[M, O]) shown(live O) O {
	if i.kind.Shown == nil {
		return live
	}
	return i.kind.Shown(i.model, live)
}

// unwanted are the places where the hub has what contradicts the configuration.
func (i *instance[M, O]) unwanted(live O) [][]string {
	if _, ok := i.values(); ok {
		return i.kind.Table.Unwanted(i.object(), live)
	}
	if i.kind.Model.Unwanted == nil {
		return nil
	}
	return i.kind.Model.Unwanted(i.model, live)
}

// imported is the state of an object that becomes the resource's, without some attributes.
func (k *Kind[M, O]) imported(object O, without ...string) (Model, error) {
	i := &instance[M, O]{kind: k, keys: k.keysOf(object), model: new(M)}
	if k.Refuse != nil {
		if err := k.Refuse(object); err != nil {
			return nil, err
		}
	}
	if values, ok := i.values(); ok {
		*values = attribute.Values{}
		if k.Imported != nil {
			if err := k.Imported(i.model, object); err != nil {
				return i, err
			}
		}
		beside := *values
		*values = k.Table.Import(FieldsOf(object, hub.FieldManager), i.shown(object))
		maps.Copy(*values, beside)
		for _, name := range without {
			delete(*values, name)
		}
		return i, nil
	}
	model, err := k.Model.Import(object)
	i.model = model
	return i, err
}

// loader is a model that the framework does not read and write as it is.
type loader interface {
	load(ctx context.Context, from Getter) diag.Diagnostics
	// stored is what the framework gets.
	stored() any
}

// load reads a model.
func load(ctx context.Context, from Getter, model Model) diag.Diagnostics {
	if l, ok := model.(loader); ok {
		return l.load(ctx, from)
	}
	return from.Get(ctx, model)
}

// stored is what the framework gets of a model.
func stored(model Model) any {
	if l, ok := model.(loader); ok {
		return l.stored()
	}
	return model
}
