package action

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
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
	var all []func() action.Action
	for _, d := range []declaration{
		waitJoined(), denyCluster(), detachCluster(), rotateCertificate(), revokeToken(), replayWork(), resumeRollout(),
	} {
		all = append(all, func() action.Action { return &declared{declaration: d} })
	}
	return all
}

// clusterName is the attribute that names one managed cluster.
const clusterName = "managed_cluster"

// declaration is an action: all that is particular to it.
type declaration struct {
	// name is its type without "muster_".
	name, description string
	attributes        map[string]schema.Attribute
	// takes is what the attribute timeout limits, and timeout its default; an action
	// without them does not wait.
	takes      string
	timeout    time.Duration
	validators []action.ConfigValidator
	// doing is what it does, for errors, and to are the attributes that name to what.
	doing string
	to    []string
	do    func(ctx context.Context, r *run) error
}

// run is one run of an action.
type run struct {
	*reporter
	// Values are the configuration, and cluster is its managed_cluster.
	attribute.Values
	cluster string
	hub     *hub.Hub
	client  *kube.Client
	timeout time.Duration
}

var (
	_ action.ActionWithConfigure        = (*declared)(nil)
	_ action.ActionWithConfigValidators = (*declared)(nil)
)

// declared is the action of a declaration.
type declared struct {
	declaration
	hub *hub.Hub
}

// Metadata implements action.Action.
func (a *declared) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + a.name
}

// Schema implements action.Action.
func (a *declared) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	if a.takes != "" {
		a.attributes["timeout"] = optional(attribute.TimeoutText(a.takes, a.timeout),
			attribute.ValidDuration(time.Second))
	}
	resp.Schema = schema.Schema{MarkdownDescription: a.description, Attributes: a.attributes}
}

// Configure implements action.ActionWithConfigure.
func (a *declared) Configure(_ context.Context, req action.ConfigureRequest, resp *action.ConfigureResponse) {
	a.hub = hub.Configured(req.ProviderData, &resp.Diagnostics)
}

// ConfigValidators implements action.ActionWithConfigValidators.
func (a *declared) ConfigValidators(context.Context) []action.ConfigValidator { return a.validators }

// Invoke implements action.Action.
func (a *declared) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var config types.Object
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	client := a.hub.Client(&resp.Diagnostics)
	if client == nil {
		return
	}
	r := &run{Values: config.Attributes(), hub: a.hub, client: client, reporter: newReporter(
		func(text string) { resp.SendProgress(action.InvokeProgressEvent{Message: text}) },
		func(summary, detail string) { resp.Diagnostics.AddWarning(summary, detail) },
	)}
	r.cluster, r.timeout = r.Text(clusterName), r.duration("timeout", a.timeout)
	if err := a.do(ctx, r); err != nil {
		doing, names := a.doing, []string{}
		for _, name := range a.to {
			names = append(names, r.Text(name))
		}
		if len(names) > 0 {
			doing += fmt.Sprintf(" %q", strings.Join(names, "/"))
		}
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
	}
}

// duration is the value of an attribute that is validated, or the standard.
func (r *run) duration(name string, standard time.Duration) time.Duration {
	if d, err := time.ParseDuration(r.Text(name)); err == nil {
		return d
	}
	return standard
}

// wait waits with the timeout of the action, and beside that looks at regular intervals;
// look may be nil. late is the error about a wait whose time is up, and leaves says what
// an interruption leaves.
func (r *run) wait(
	ctx context.Context, look func(context.Context), wait func(context.Context) error, late func() error, leaves string,
) error {
	waiting, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err := r.looking(waiting, look, wait)
	if hub.IsTimeout(err) && ctx.Err() == nil {
		return late()
	}
	return interrupted(ctx, err, leaves)
}

// required is a text that has to be set.
func required(description string, valid validator.String) schema.StringAttribute {
	return schema.StringAttribute{
		MarkdownDescription: description, Required: true, Validators: []validator.String{valid},
	}
}

// optional is a text that may be left out.
func optional(description string, valid ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{MarkdownDescription: description, Optional: true, Validators: valid}
}

// flag is true or false, and false if it is left out.
func flag(description string) schema.BoolAttribute {
	return schema.BoolAttribute{MarkdownDescription: description, Optional: true}
}

// someClusters are the names of clusters.
func someClusters(description string) schema.SetAttribute {
	return schema.SetAttribute{
		MarkdownDescription: description, Optional: true, ElementType: types.StringType,
		Validators: []validator.Set{
			setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.ValidClusterName()),
		},
	}
}
