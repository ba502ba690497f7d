package registration

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

// BootstrapModel is the attribute of BootstrapAttribute.
type BootstrapModel struct {
	Enabled    types.Bool   `tfsdk:"enabled"`
	Credential types.String `tfsdk:"credential"`
	TTL        types.String `tfsdk:"ttl"`
	Server     types.String `tfsdk:"server"`
	CA         types.String `tfsdk:"cluster_ca_certificate"`
	Version    types.Int64  `tfsdk:"version"`
}

// BootstrapAttribute says what kind of bootstrap kubeconfig a resource makes.
func BootstrapAttribute(description string, validators ...validator.Object) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: description,
		Optional:            true,
		Validators:          validators,
		Attributes: map[string]schema.Attribute{
			"enabled": schema.BoolAttribute{
				MarkdownDescription: "Whether to make one. With `false` its Secret has to come from elsewhere. Defaults to `true`.",
				Optional:            true,
			},
			"credential": schema.StringAttribute{
				MarkdownDescription: credentialDescription(),
				Optional:            true,
				Validators:          []validator.String{stringvalidator.OneOf(CredentialToken, CredentialServiceAccount)},
			},
			"ttl": schema.StringAttribute{
				MarkdownDescription: ttlDescription(),
				Optional:            true,
				Validators:          []validator.String{attribute.ValidDuration(minimumBootstrapTTL)},
			},
			"server": schema.StringAttribute{
				MarkdownDescription: serverDescription,
				Optional:            true,
				Validators:          []validator.String{attribute.ValidHTTPSURL()},
			},
			"cluster_ca_certificate": schema.StringAttribute{
				MarkdownDescription: caDescription,
				Optional:            true,
				Validators:          []validator.String{attribute.ValidPEM()},
			},
			"version": schema.Int64Attribute{
				MarkdownDescription: "Raise it to hand a new bootstrap kubeconfig to the agent.",
				Optional:            true,
				Validators:          []validator.Int64{int64validator.AtLeast(0)},
			},
		},
	}
}

// Bootstrap is what the attribute asks for.
func (m BootstrapModel) Bootstrap(name, clusterUID string) Bootstrap {
	return Bootstrap{
		Cluster: name, ClusterUID: clusterUID,
		Credential: m.Credential.ValueString(), TTL: ParseTTL(m.TTL.ValueString()),
		Server: m.Server.ValueString(), CA: m.CA.ValueString(),
	}
}
