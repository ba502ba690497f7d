package crud

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
)

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
