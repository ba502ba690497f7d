package crud

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

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
	// Others is a command that lists those that there are. NAMESPACE stands for the
	// first key: kubectl get manifestworks -n NAMESPACE.
	Others string
}

// query reads one object by its keys.
func (k *Kind[O]) query() Query {
	table := append(k.Table.Shown(k.Data.Without...), k.Data.Table...)
	return Query{
		Type: k.Type, Description: k.Data.Description,
		Attributes: func() map[string]schema.Attribute {
			attributes := attribute.ObservedAttributes(table.Attributes())
			for _, key := range k.Keys {
				attributes[key.Name] = schema.StringAttribute{
					MarkdownDescription: cmp.Or(key.DataDescription, key.Description),
					Required:            true,
					Validators:          []validator.String{key.Valid},
				}
			}
			return attributes
		},
		Read: func(ctx context.Context, a *Asking, values attribute.Values) {
			var keys []string
			for _, key := range k.Keys {
				keys = append(keys, values.Text(key.Name))
			}
			object, what := k.fresh(keys), k.what(keys)
			err := a.Client.Get(ctx, object, object.GetNamespace(), object.GetName())
			if kube.IsNotFound(err, object.GetName()) {
				a.Diagnostics.AddAttributeError(path.Root(k.Keys[len(keys)-1].Name), "There is no "+what,
					fmt.Sprintf("The hub %s does not know it. Those that it knows: %s", a.Client.Host(),
						strings.ReplaceAll(k.Data.Others, "NAMESPACE", keys[0])))
				return
			}
			if a.Failed("read "+what, err) {
				return
			}
			maps.Copy(values, table.Read(object))
			if k.Data.Also != nil {
				also, err := k.Data.Also(ctx, a.Client, object)
				maps.Copy(values, also)
				a.Failed("read "+what, err)
			}
		},
	}
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
