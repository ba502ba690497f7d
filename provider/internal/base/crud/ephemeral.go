package crud

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

var (
	_ ephemeral.EphemeralResourceWithConfigure      = (*ephemeralResource[any])(nil)
	_ ephemeral.EphemeralResourceWithValidateConfig = (*ephemeralResource[any])(nil)
	_ ephemeral.EphemeralResourceWithRenew          = (*ephemeralResource[any])(nil)
	_ ephemeral.EphemeralResourceWithClose          = (*ephemeralResource[any])(nil)
)

// Ephemeral declares an ephemeral resource: a credential that Terraform has for one run.
// N is what Renew and Close need to know of it.
type Ephemeral[N any] struct {
	// Type is its type without "muster_".
	Type string
	// Description documents it.
	Description string
	// Attributes are those of its schema.
	Attributes func() map[string]schema.Attribute
	// Validate checks how attributes go together.
	Validate func(config attribute.Values, diags *diag.Diagnostics)
	// Open makes the credential, and fills in the values that are computed. renewAt is
	// when to renew it; zero is never. After an error nothing of it may be left.
	Open func(ctx context.Context, o *Opening) (note N, renewAt time.Time)
	// Renew prolongs the credential, and says when to do so again.
	Renew func(ctx context.Context, client *kube.Client, note N, diags *diag.Diagnostics) (renewAt time.Time)
	// Close makes the credential void.
	Close func(ctx context.Context, client *kube.Client, note N, diags *diag.Diagnostics)
}

// Opening is an ephemeral resource that is being opened.
type Opening struct {
	Hub    *hub.Hub
	Client *kube.Client
	// Values are the attributes as the configuration has them.
	Values      attribute.Values
	Diagnostics *diag.Diagnostics
}

// New is the ephemeral resource.
func (k *Ephemeral[N]) New() ephemeral.EphemeralResource { return &ephemeralResource[N]{kind: k} }

type ephemeralResource[N any] struct {
	kind *Ephemeral[N]
	hub  *hub.Hub
}

// Metadata implements ephemeral.EphemeralResource.
func (e *ephemeralResource[N]) Metadata(
	_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_" + e.kind.Type
}

// Configure implements ephemeral.EphemeralResourceWithConfigure.
func (e *ephemeralResource[N]) Configure(
	_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse,
) {
	e.hub = hub.Configured(req.ProviderData, &resp.Diagnostics)
}

// Schema implements ephemeral.EphemeralResource.
func (e *ephemeralResource[N]) Schema(
	_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse,
) {
	resp.Schema = schema.Schema{MarkdownDescription: e.kind.Description, Attributes: e.kind.Attributes()}
}

// ValidateConfig implements ephemeral.EphemeralResourceWithValidateConfig.
func (e *ephemeralResource[N]) ValidateConfig(
	ctx context.Context, req ephemeral.ValidateConfigRequest, resp *ephemeral.ValidateConfigResponse,
) {
	if config := configOf(ctx, req.Config, &resp.Diagnostics); !resp.Diagnostics.HasError() {
		e.kind.Validate(config.Attributes(), &resp.Diagnostics)
	}
}

// Open implements ephemeral.EphemeralResource. Terraform opens ephemeral resources while
// planning, too. A hub that the same apply creates gives no credential yet, which is no
// reason to refuse the plan.
func (e *ephemeralResource[N]) Open(
	ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse,
) {
	config := configOf(ctx, req.Config, &resp.Diagnostics)
	values := config.Attributes()
	switch {
	case resp.Diagnostics.HasError():
		return
	case e.hub == nil || !e.hub.IsUnknown():
		client := e.hub.Client(&resp.Diagnostics)
		if client == nil {
			return
		}
		note, renewAt := e.kind.Open(ctx, &Opening{e.hub, client, values, &resp.Diagnostics})
		if resp.Diagnostics.HasError() {
			return
		}
		resp.RenewAt = renewAt
		private, err := json.Marshal(note)
		if err != nil {
			resp.Diagnostics.AddError("Cannot note what is to be revoked", err.Error())
			e.kind.Close(ctx, client, note, &resp.Diagnostics)
			return
		}
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, noteKey, private)...)
	case req.ClientCapabilities.DeferralAllowed:
		resp.Deferred = &ephemeral.Deferred{Reason: ephemeral.DeferredReasonProviderConfigUnknown}
		return
	default:
		for name, a := range e.kind.Attributes() {
			if a.IsComputed() && values[name].IsNull() {
				values[name] = attribute.Unknown(a.GetType())
			}
		}
	}
	resp.Diagnostics.Append(resp.Result.Set(ctx, types.ObjectValueMust(config.AttributeTypes(ctx), values))...)
}

// Renew implements ephemeral.EphemeralResourceWithRenew.
func (e *ephemeralResource[N]) Renew(
	ctx context.Context, req ephemeral.RenewRequest, resp *ephemeral.RenewResponse,
) {
	if client, note := e.noted(ctx, req.Private, &resp.Diagnostics); client != nil {
		resp.RenewAt = e.kind.Renew(ctx, client, note, &resp.Diagnostics)
	}
}

// Close implements ephemeral.EphemeralResourceWithClose.
func (e *ephemeralResource[N]) Close(
	ctx context.Context, req ephemeral.CloseRequest, resp *ephemeral.CloseResponse,
) {
	if client, note := e.noted(ctx, req.Private, &resp.Diagnostics); client != nil {
		e.kind.Close(ctx, client, note, &resp.Diagnostics)
	}
}

// noteKey is where the note is in the private data.
const noteKey = "note"

// noted is what Open has noted. The client is nil after an error, and where nothing was
// made while the hub was unknown.
func (e *ephemeralResource[N]) noted(
	ctx context.Context, private PrivateReader, diags *diag.Diagnostics,
) (client *kube.Client, note N) {
	text, problems := private.GetKey(ctx, noteKey)
	diags.Append(problems...)
	if diags.HasError() || text == nil {
		return nil, note
	}
	if err := json.Unmarshal(text, &note); err != nil {
		diags.AddError("Cannot read what was noted of the credential", err.Error())
		return nil, note
	}
	return e.hub.Client(diags), note
}

func configOf(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) types.Object {
	var whole types.Object
	diags.Append(config.Get(ctx, &whole)...)
	return whole
}
