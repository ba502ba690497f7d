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
func (l Listing[O]) NewDataSource() datasource.DataSource {
	return Query{Type: l.Type, Description: l.Description, Attributes: l.attributes, Read: l.read}.NewDataSource()
}

func (l Listing[O]) attributes() map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{l.Elements: schema.ListNestedAttribute{
		MarkdownDescription: l.About, Computed: true,
		NestedObject: schema.NestedAttributeObject{Attributes: attribute.ObservedAttributes(l.Table.Attributes())},
	}}
	if l.Names != "" {
		attributes["names"] = schema.ListAttribute{
			MarkdownDescription: l.Names, Computed: true, ElementType: types.StringType,
		}
	}
	for _, f := range l.Filters {
		attributes[f.Name] = schema.StringAttribute{
			MarkdownDescription: f.Description, Optional: true, Validators: f.Valid,
		}
	}
	return attributes
}

func (l Listing[O]) read(ctx context.Context, a *Asking, values attribute.Values) {
	objects, err := l.objects(ctx, a.Client, values)
	if err != nil && l.Explain != nil {
		if summary, detail := l.Explain(a.Client.Host(), err); summary != "" {
			a.Diagnostics.AddError(summary, detail)
			return
		}
	}
	if a.Failed("list "+l.Plural, err) {
		return
	}
	elements := types.ObjectType{AttrTypes: l.Table.Types()}
	values[l.Elements] = types.ListValueMust(elements, l.Table.Objects(objects))
	if l.Names != "" {
		names := []string{}
		for _, object := range objects {
			names = append(names, object.GetName())
		}
		values["names"] = attribute.StringListValue(slices.Compact(attribute.Sorted(names)))
	}
}

// objects are those that the filters let through, by namespace and name.
func (l Listing[O]) objects(ctx context.Context, client *kube.Client, values attribute.Values) ([]O, error) {
	var options kube.ListOptions
	for _, f := range l.Filters {
		if f.Select != nil && values.IsSet(f.Name) {
			f.Select(values.Text(f.Name), &options)
		}
	}
	list := l.Objects.DeepCopyObject()
	if err := client.List(ctx, list, options); err != nil {
		return nil, err
	}
	var objects []O
	err := meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(O); ok && l.keeps(object, values) {
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
func (l Listing[O]) keeps(object O, values attribute.Values) bool {
	return !slices.ContainsFunc(l.Filters, func(f Filter[O]) bool {
		return f.Keep != nil && values.IsSet(f.Name) && !f.Keep(values.Text(f.Name), object)
	})
}
