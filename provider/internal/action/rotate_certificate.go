package action

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/operation"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

var _ action.ActionWithConfigure = (*rotateCertificate)(nil)

type rotateCertificate struct{ onHub }

type rotateCertificateModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Timeout        types.String `tfsdk:"timeout"`
}

// defaultAnswer is how long an agent may take to do what it is asked for.
const defaultAnswer = 5 * time.Minute

// NewRotateCertificate is muster_rotate_certificate.
func NewRotateCertificate() action.Action {
	return &rotateCertificate{onHub{name: "rotate_certificate"}}
}

func (a *rotateCertificate) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Has the agent of a cluster renew its client certificate for the hub now, with a new key, and waits for it. Agents renew by themselves when a fifth of the certificate's life is left; this is for keys that may have leaked, and for hubs whose signer has changed.\n\n" +
			"The certificate from before **stays valid until it expires**, as API servers take no certificates back. To shut out anyone who has its key, let the cluster join again with another agent (`muster rejoin`): a muster hub then refuses the agent from before.\n\n" +
			"The action puts the annotation `" + cluster.RenewCertificateAnnotation + "` on the ManagedCluster, which the agent removes when it is done. " +
			"Agents of Open Cluster Management do not know it: the action says so after a while, takes the annotation back and fails.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": clusterAttribute("Name of the managed cluster. It has to be accepted and to have joined."),
			"timeout":         timeoutAttribute("the renewal", defaultAnswer),
		},
	}
}

func (a *rotateCertificate) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var config rotateCertificateModel
	a.invoke(ctx, req, resp, &config, func(client *kube.Client, listener operation.Listener) (string, error) {
		name := config.ManagedCluster.ValueString()
		return quoted("rotate the certificate of managed cluster", name),
			operation.Rotate(ctx, client, operation.RotateOptions{Cluster: name, Timeout: durationOf(config.Timeout, defaultAnswer)}, listener)
	})
}
