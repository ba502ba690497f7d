package access

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
)

// What is checked and decided of an access request while planning.

// validateRequest refuses a renewal before access has begun.
func validateRequest(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var ttl, before types.String
	diags.Append(config.GetAttribute(ctx, path.Root("ttl"), &ttl)...)
	diags.Append(config.GetAttribute(ctx, path.Root("renew_before"), &before)...)
	life, err := time.ParseDuration(ttl.ValueString())
	earlier, alsoErr := time.ParseDuration(before.ValueString())
	if errors.Join(err, alsoErr) == nil && earlier >= life {
		diags.AddAttributeError(path.Root("renew_before"), "Renewed as soon as it is there",
			fmt.Sprintf("renew_before is %s, and ttl is %s, so every apply would ask again. Shorten renew_before.",
				before.ValueString(), ttl.ValueString()))
	}
}

// planRequest plans to ask again where access ends soon. The hub is asked what would come
// of a first request.
func planRequest(
	ctx context.Context, _ *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return true
	}
	answer := append(answerTable().Reports(), "namespace", "name")
	crud.KeepReported(req, resp, answer...)
	var state types.Object
	var before types.String
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Plan.GetAttribute(ctx, path.Root("renew_before"), &before)...)
	if resp.Diagnostics.HasError() {
		return false
	}
	again := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw).In("csr_pem", "ttl")
	if again || due(state.Attributes(), before.ValueString(), time.Now()) {
		crud.PlanUnknown(resp, answer...)
	}
	return false
}

// due reports whether access has ended, or ends so soon that it is to be renewed.
func due(state attribute.Values, renewBefore string, now time.Time) bool {
	end, err := time.Parse(time.RFC3339, state.Text("not_after"))
	if err != nil || state.Text("certificate_pem") == "" {
		return true
	}
	before, err := time.ParseDuration(renewBefore)
	if begin, unknown := time.Parse(time.RFC3339, state.Text("not_before")); err != nil && unknown == nil {
		before = end.Sub(begin) / 3
	}
	return !now.Before(end.Add(-before))
}

// validCloud admits logical clouds as namespace/name.
func validCloud() validator.String {
	return attribute.ValidText("a logical cloud as "+
		"namespace/name", func(_ path.Path, text string) (summary, detail string) {
		if _, _, err := useraccess.SplitCloud(text); err != nil {
			return "Invalid logical cloud", attribute.Capitalize(err.Error()) + "."
		}
		return "", ""
	})
}

// ValidLifetime admits the API's lifetimes of access.
func ValidLifetime() validator.String {
	const description = "a duration such as 30m or 12h, in whole seconds, from 10m to 8760h"
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		if d, err := time.ParseDuration(text); err != nil || d == 0 || useraccess.CheckLifetime(d) != nil {
			return "Invalid lifetime", fmt.Sprintf("%s is %q, but it takes whole seconds from 10m to 8760h, such as "+
				"8h.",
				attribute.Place(at), text)
		}
		return "", ""
	})
}

// validRequest admits certificate requests that a hub might take. It never repeats the
// text, which may be a key by mistake.
func validRequest() validator.String {
	const description = "a certificate request in PEM, with the subject of muster_access_subject"
	return attribute.ValidText(description, func(_ path.Path, text string) (summary, detail string) {
		if err := checkRequest([]byte(text)); err != nil {
			return "Invalid certificate request", fmt.Sprintf("The hub would refuse it: %v. Take the subject from "+
				"the data source muster_access_subject, with the request's public key.", err)
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
