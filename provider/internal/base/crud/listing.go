package crud

import (
	"cmp"
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Listing declares a data source that lists objects of one kind.
type Listing[O kube.Object] struct {
	// Type is its type without "muster_". Plural is what messages call the objects.
	Type, Plural string
	// Description documents it.
	Description string
	// Objects is an empty list of the kind.
	Objects runtime.Object
	// Filters are the attributes that narrow the list.
	Filters []Filter[O]
	// Names documents the attribute names, which has the objects' names, each once and
	// sorted. There is none where it is empty.
	Names string
	// Elements is the attribute with the objects, by namespace and name. About documents it.
	Elements, About string
	// Table are the attributes of each object.
	Table attribute.Table[O]
	// Explain is optional: it says what an error means; an empty summary leaves it to others.
	Explain func(host string, err error) (summary, detail string)
}

// Filter is an attribute that narrows a list.
type Filter[O kube.Object] struct {
	Name, Description string
	Valid             []validator.String
	// Select has the hub select by the value, and Keep selects here. One of them is nil.
	Select func(value string, options *kube.ListOptions)
	Keep   func(value string, object O) bool
}

// InNamespace selects by the namespace. what says what that is: "namespace".
func InNamespace[O kube.Object](name, what, description string) Filter[O] {
	return Filter[O]{
		Name: name, Description: description, Valid: []validator.String{attribute.ValidName(what)},
		Select: func(value string, options *kube.ListOptions) { options.Namespace = value },
	}
}

// Named selects by the name. what says what that is: "add-on name".
func Named[O kube.Object](what, description string) Filter[O] {
	return Filter[O]{
		Name: "name", Description: description, Valid: []validator.String{attribute.ValidObjectName(what)},
		Select: func(value string, options *kube.ListOptions) { options.FieldSelector = "metadata.name=" + value },
	}
}

// Labelled selects by label_selector.
func Labelled[O kube.Object](description string) Filter[O] {
	return Filter[O]{
		Name: selectorAttribute, Description: description, Valid: []validator.String{attribute.ValidSelector()},
		Select: func(value string, options *kube.ListOptions) {
			options.LabelSelector = SelectorText(options.LabelSelector, value)
		},
	}
}

// InSet selects by cluster_set: label says in which set an object is.
func InSet[O kube.Object](label, description string) Filter[O] {
	return Filter[O]{
		Name: setAttribute, Description: description,
		Valid: []validator.String{attribute.ValidName("cluster set name")},
		Select: func(value string, options *kube.ListOptions) {
			options.LabelSelector = SelectorText(options.LabelSelector, label+"="+value)
		},
	}
}

// NewDataSource is the data source.
func (l Listing[O]) NewDataSource() datasource.DataSource { return &listing[O]{Listing: l} }

// listing is the data source of a Listing.
type listing[O kube.Object] struct {
	DataSource
	Listing[O]
}

// Metadata implements datasource.DataSource.
func (d *listing[O]) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + d.Type
}

// Schema implements datasource.DataSource.
func (d *listing[O]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := map[string]schema.Attribute{d.Elements: schema.ListNestedAttribute{
		MarkdownDescription: d.About, Computed: true,
		NestedObject: schema.NestedAttributeObject{Attributes: attribute.ObservedAttributes(d.Table.Attributes())},
	}}
	if d.Names != "" {
		attributes["names"] = schema.ListAttribute{
			MarkdownDescription: d.Names, Computed: true, ElementType: types.StringType,
		}
	}
	for _, f := range d.Filters {
		attributes[f.Name] = schema.StringAttribute{
			MarkdownDescription: f.Description, Optional: true, Validators: f.Valid,
		}
	}
	resp.Schema = schema.Schema{MarkdownDescription: d.Description, Attributes: attributes}
}

// Read implements datasource.DataSource.
func (d *listing[O]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	var config types.Object
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	client := d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	values := attribute.Values(config.Attributes())
	objects, err := d.objects(ctx, client, values)
	if err != nil {
		if d.Explain != nil {
			if summary, detail := d.Explain(client.Host(), err); summary != "" {
				resp.Diagnostics.AddError(summary, detail)
				return
			}
		}
		hub.AddAPIError(&resp.Diagnostics, client, "list "+d.Plural, err)
		return
	}
	elements := types.ObjectType{AttrTypes: d.Table.Types()}
	values[d.Elements] = types.ListValueMust(elements, d.Table.Objects(objects))
	if d.Names != "" {
		names := []string{}
		for _, object := range objects {
			names = append(names, object.GetName())
		}
		values["names"] = attribute.StringListValue(slices.Compact(attribute.Sorted(names)))
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, types.ObjectValueMust(config.AttributeTypes(ctx), values))...)
}

// objects are those that the filters let through, by namespace and name.
func (d *listing[O]) objects(ctx context.Context, client *kube.Client, values attribute.Values) ([]O, error) {
	var options kube.ListOptions
	for _, f := range d.Filters {
		if f.Select != nil && values.IsSet(f.Name) {
			f.Select(values.Text(f.Name), &options)
		}
	}
	list := d.Objects.DeepCopyObject()
	if err := client.List(ctx, list, options); err != nil {
		return nil, err
	}
	var objects []O
	err := meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(O); ok && d.keeps(object, values) {
			objects = append(objects, object)
		}
		return nil
	})
	slices.SortFunc(objects, func(a, b O) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return objects, err
}

// keeps reports whether the filters that the hub does not know let an object through.
func (d *listing[O]) keeps(object O, values attribute.Values) bool {
	return !slices.ContainsFunc(d.Filters, func(f Filter[O]) bool {
		return f.Keep != nil && values.IsSet(f.Name) && !f.Keep(values.Text(f.Name), object)
	})
}
