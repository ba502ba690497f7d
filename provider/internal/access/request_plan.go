package access

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
)

// What is checked and decided of an access request while planning.

// ValidateConfig refuses a renewal before access has begun.
func (r *requestResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var ttl, before types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("ttl"), &ttl)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("renew_before"), &before)...)
	life, err := time.ParseDuration(ttl.ValueString())
	earlier, alsoErr := time.ParseDuration(before.ValueString())
	if err == nil && alsoErr == nil && earlier >= life {
		resp.Diagnostics.AddAttributeError(path.Root("renew_before"), "Renewed as soon as it is there",
			fmt.Sprintf("renew_before is %s, and ttl is %s, so every apply would ask again. Shorten renew_before.", before.ValueString(), ttl.ValueString()))
	}
}

// ModifyPlan plans to ask again where access ends soon, and asks the hub what would
// come of a new request.
func (r *requestResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	if req.State.Raw.IsNull() {
		r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
			var model requestModel
			diags.Append(from.Get(ctx, &model)...)
			object, err := model.object()
			if err != nil || diags.HasError() {
				return crud.Owned{}, false
			}
			return model.owned(object), true
		})
		return
	}
	crud.KeepReported(req, resp, answers()...)
	var state requestModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Plan.GetAttribute(ctx, path.Root("renew_before"), &state.RenewBefore)...)
	if resp.Diagnostics.HasError() {
		return
	}
	again := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw).In("csr_pem", "ttl")
	if !again && !state.due(time.Now()) {
		return
	}
	for name, value := range unknownAnswer() {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
	}
}

// validCloud admits logical clouds as namespace/name.
func validCloud() validator.String {
	return attribute.ValidText("a logical cloud as namespace/name", func(_ path.Path, text string) (summary, detail string) {
		if _, _, err := useraccess.SplitCloud(text); err != nil {
			return "Invalid logical cloud", attribute.Capitalize(err.Error()) + "."
		}
		return "", ""
	})
}

// validLifetime admits the API's lifetimes of access.
func validLifetime() validator.String {
	return attribute.ValidText("a duration such as 30m or 12h, in whole seconds, from 10m to 8760h", func(at path.Path, text string) (summary, detail string) {
		d, err := time.ParseDuration(text)
		if err == nil && d == 0 {
			err = fmt.Errorf("leave it out for what the cloud says")
		}
		if err == nil {
			err = useraccess.CheckLifetime(d)
		}
		if err != nil {
			return "Invalid lifetime", fmt.Sprintf("%s is %q, but it takes whole seconds from 10m to 8760h, such as 8h.", attribute.Place(at), text)
		}
		return "", ""
	})
}

// validRequest admits certificate requests that a hub might take. It never repeats the
// text, which may be a key by mistake.
func validRequest() validator.String {
	return attribute.ValidText("a certificate request in PEM, with the subject of muster_access_subject", func(_ path.Path, text string) (summary, detail string) {
		if err := checkRequest([]byte(text)); err != nil {
			return "Invalid certificate request", fmt.Sprintf("The hub would refuse it: %v. Take the subject from the data source muster_access_subject, with the request's public key.", err)
		}
		return "", ""
	})
}

// checkRequest checks all of a certificate request that can be checked without the
// hub: that its subject fits together, whatever user and hub it names.
func checkRequest(text []byte) error {
	hubID, user := "", ""
	if block, _ := pem.Decode(text); block != nil {
		if csr, err := x509.ParseCertificateRequest(block.Bytes); err == nil {
			rest, _ := strings.CutPrefix(csr.Subject.CommonName, "muster:")
			hubID, user, _ = strings.Cut(rest, ":")
		}
	}
	_, err := access.CheckRequest(text, hubID, user)
	return err
}
