// Package action has the actions of the provider: what administrators do to a fleet
// from day to day, and Terraform 1.14 and later on request. They wait until clusters
// have joined, deny or detach one, have an agent renew its certificate, revoke
// bootstrap tokens, have a work applied once more, and resume a rollout that has
// stopped.
//
// All of them write nothing when nothing is to be done, so that they can be
// repeated. What is asked of an agent is an annotation that the agent removes when
// it has done it: two who ask at the same time ask once, and both learn of it.
package action

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
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
		a.attributes["timeout"] = attribute.Optional(attribute.TimeoutText(a.takes, a.timeout),
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

// someClusters are the names of clusters.
func someClusters(description string) schema.Attribute {
	return attribute.OptionalTextSet(description, setvalidator.SizeAtLeast(1),
		setvalidator.ValueStringsAre(attribute.ValidClusterName()))
}
