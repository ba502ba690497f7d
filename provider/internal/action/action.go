package action

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// All are the actions of the provider.
func All() []func() action.Action {
	return []func() action.Action{
		NewWaitJoined,
		NewDenyCluster,
		NewDetachCluster,
		NewRotateCertificate,
		NewRevokeToken,
		NewReplayWork,
		NewResumeRollout,
	}
}

// minimumTimeout is what a wait takes that has nothing to wait for.
const minimumTimeout = time.Second

// onHub is what all actions have in common: the hub, and a name.
type onHub struct {
	hub  *hub.Hub
	name string
}

// Metadata implements action.Action.
func (a *onHub) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + a.name
}

// Configure implements action.ActionWithConfigure.
func (a *onHub) Configure(_ context.Context, req action.ConfigureRequest, resp *action.ConfigureResponse) {
	a.hub = hub.Configured(req.ProviderData, &resp.Diagnostics)
}

// invoke reads the configuration into config, and calls do, which says what it is
// about and does it.
func (a *onHub) invoke(
	ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse, config any,
	do func(*kube.Client, *reporter) (doing string, err error),
) {
	resp.Diagnostics.Append(req.Config.Get(ctx, config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	client := a.hub.Client(&resp.Diagnostics)
	if client == nil {
		return
	}
	doing, err := do(client, newReporter(
		func(text string) { resp.SendProgress(action.InvokeProgressEvent{Message: text}) },
		func(summary, detail string) { resp.Diagnostics.AddWarning(summary, detail) },
	))
	if err != nil {
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
	}
}

// clusterAttribute names one managed cluster.
func clusterAttribute(description string) schema.StringAttribute {
	return schema.StringAttribute{MarkdownDescription: description, Required: true, Validators: []validator.String{attribute.ValidClusterName()}}
}

// timeoutAttribute is on all actions that wait.
func timeoutAttribute(what string, standard time.Duration) schema.StringAttribute {
	return schema.StringAttribute{
		MarkdownDescription: attribute.TimeoutText(what, standard),
		Optional:            true,
		Validators:          []validator.String{attribute.ValidDuration(minimumTimeout)},
	}
}

// durationOf is the value of an attribute that is validated, or the standard.
func durationOf(value types.String, standard time.Duration) time.Duration {
	if d, err := time.ParseDuration(value.ValueString()); err == nil {
		return d
	}
	return standard
}

// quoted is for what an action is doing.
func quoted(what, name string) string { return fmt.Sprintf("%s %q", what, name) }
