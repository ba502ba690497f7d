package crud

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/datasource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Query declares a data source that neither reads one object of a kind (see Data) nor
// lists several (see Listing).
type Query struct {
	// Type is its type without "muster_".
	Type string
	// Description documents it.
	Description string
	// Attributes are those of the schema, without timeouts.
	Attributes func() map[string]schema.Attribute
	// Takes is what the timeout limits, such as "the wait", and Timeout is the default; a
	// query without them has no timeout.
	Takes   string
	Timeout time.Duration
	// Validate is optional: it checks how attributes go together.
	Validate func(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics)
	// Read completes the values, which are those of the configuration. ctx ends with the
	// timeout. Nothing is saved after an error.
	Read func(ctx context.Context, a *Asking, values attribute.Values)
}

// Asking is what a query has to ask the hub.
type Asking struct {
	Hub         *hub.Hub
	Client      *kube.Client
	Timeout     time.Duration
	Diagnostics *diag.Diagnostics
}

// Failed adds the error of a request, if there is one, and reports whether there is.
// doing is what was being done to what.
func (a *Asking) Failed(doing string, err error) bool {
	if err != nil {
		hub.AddAPIError(a.Diagnostics, a.Client, doing, err)
	}
	return err != nil
}

// NewDataSource is the data source.
func (q Query) NewDataSource() datasource.DataSource { return &query{Query: q} }

var _ datasource.DataSourceWithValidateConfig = (*query)(nil)

// query is the data source of a Query.
type query struct {
	DataSource
	Query
}

// Metadata implements datasource.DataSource.
func (d *query) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + d.Type
}

// Schema implements datasource.DataSource.
func (d *query) Schema(ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{MarkdownDescription: d.Description, Attributes: d.Attributes()}
	if d.Takes != "" {
		resp.Schema.Blocks = map[string]schema.Block{"timeouts": timeouts.BlockWithOpts(ctx, timeouts.Opts{
			ReadDescription: attribute.TimeoutText(d.Takes, d.Timeout),
		})}
	}
}

// ValidateConfig implements datasource.DataSourceWithValidateConfig.
func (d *query) ValidateConfig(
	ctx context.Context, req datasource.ValidateConfigRequest, resp *datasource.ValidateConfigResponse,
) {
	if d.Validate != nil {
		d.Validate(ctx, req.Config, &resp.Diagnostics)
	}
}

// Read implements datasource.DataSource.
func (d *query) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if d.Deferred(req, resp) {
		return
	}
	a := &Asking{Hub: d.Hub, Diagnostics: &resp.Diagnostics}
	var config types.Object
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	values := attribute.Values(config.Attributes())
	if d.Takes != "" {
		limits, _ := values["timeouts"].(timeouts.Value)
		timeout, problems := limits.Read(ctx, d.Timeout)
		resp.Diagnostics.Append(problems...)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
		a.Timeout = timeout
	}
	a.Client = d.Hub.QueryClient(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	if d.Query.Read(ctx, a, values); !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, types.ObjectValueMust(config.AttributeTypes(ctx), values))...)
	}
}
