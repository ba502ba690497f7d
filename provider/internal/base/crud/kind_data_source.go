package crud

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Data declares the data source of a kind, which reads one object.
type Data[O kube.Object] struct {
	// Description documents it.
	Description string
	// Table are attributes beside those of the kind's table, or in place of them.
	Table attribute.Table[O]
	// Also reads values of Table that take more than the object.
	Also func(ctx context.Context, client *kube.Client, live O) (attribute.Values, error)
	// Without are attributes of the kind's table that the data source does not have.
	Without []string
	// Model is the whole state, as a model with tfsdk tags, and Attributes are its
	// attributes beside the keys, for a kind without a table.
	Model      func(live O) (any, error)
	Attributes func() map[string]schema.Attribute
	// Others is a command that lists those that there are. NAMESPACE stands for the
	// first key: kubectl get manifestworks -n NAMESPACE.
	Others string
}

// kindDataSource is the data source of a kind.
type kindDataSource[O kube.Object] struct {
	DataSource
	kind *Kind[O]
}

// Metadata implements datasource.DataSource.
func (d *kindDataSource[O]) Metadata(
	_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_" + d.kind.Type
}

// Schema implements datasource.DataSource.
func (d *kindDataSource[O]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	data := d.kind.Data
	attributes := attribute.ObservedAttributes(d.table().Attributes())
	if data.Attributes != nil {
		attributes = data.Attributes()
	}
	for _, key := range d.kind.Keys {
		attributes[key.Name] = schema.StringAttribute{
			MarkdownDescription: cmp.Or(key.DataDescription, key.Description),
			Required:            true,
			Validators:          []validator.String{key.Valid},
		}
	}
	resp.Schema = schema.Schema{MarkdownDescription: data.Description, Attributes: attributes}
}

// Read implements datasource.DataSource.
func (d *kindDataSource[O]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	k := d.kind
	keys := make([]string, len(k.Keys))
	for n, key := range k.Keys {
		resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(key.Name), &keys[n])...)
	}
	client := d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	object, what := k.fresh(keys), k.what(keys)
	if err := client.Get(ctx, object, object.GetNamespace(), object.GetName()); kube.IsNotFound(err, object.GetName()) {
		resp.Diagnostics.AddAttributeError(path.Root(k.Keys[len(keys)-1].Name), "There is no "+what,
			fmt.Sprintf("The hub %s does not know it. Those that it knows: %s", client.Host(),
				strings.ReplaceAll(k.Data.Others, "NAMESPACE", keys[0])))
		return
	} else if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, "read "+what, err)
		return
	}
	if k.Data.Model != nil {
		model, err := k.Data.Model(object)
		if err != nil {
			hub.AddAPIError(&resp.Diagnostics, client, "read "+what, err)
			return
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
		return
	}
	values := d.table().Read(object)
	if k.Data.Also != nil {
		also, err := k.Data.Also(ctx, client, object)
		if err != nil {
			hub.AddAPIError(&resp.Diagnostics, client, "read "+what, err)
			return
		}
		maps.Copy(values, also)
	}
	for n, key := range k.Keys {
		values[key.Name] = types.StringValue(keys[n])
	}
	kinds, _ := resp.State.Schema.Type().(attr.TypeWithAttributeTypes)
	resp.Diagnostics.Append(resp.State.Set(ctx, types.ObjectValueMust(kinds.AttributeTypes(), values))...)
}

// table are the attributes beside the keys.
func (d *kindDataSource[O]) table() attribute.Table[O] {
	return append(d.kind.Table.Shown(d.kind.Data.Without...), d.kind.Data.Table...)
}

// DataSource is what all data sources have in common: the hub.
type DataSource struct {
	Hub *hub.Hub
}

// Configure implements datasource.DataSourceWithConfigure.
func (d *DataSource) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	d.Hub = hub.Configured(req.ProviderData, &resp.Diagnostics)
}

// Deferred puts the reading off where the hub is not known yet and Terraform
// can wait.
func (d *DataSource) Deferred(req datasource.ReadRequest, resp *datasource.ReadResponse) bool {
	if d.Hub == nil || !d.Hub.IsUnknown() || !req.ClientCapabilities.DeferralAllowed {
		return false
	}
	resp.Deferred = &datasource.Deferred{Reason: datasource.DeferredReasonProviderConfigUnknown}
	return true
}

// SelectorText joins requirements of label selectors.
func SelectorText(parts ...string) string {
	var set []string
	for _, part := range parts {
		if part != "" {
			set = append(set, part)
		}
	}
	return strings.Join(set, ",")
}
