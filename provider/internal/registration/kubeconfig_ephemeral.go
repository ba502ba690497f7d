package registration

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	resourceschema "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

const (
	defaultBootstrapTTL = time.Hour
	minimumBootstrapTTL = time.Minute
)

// NewKubeconfig is the ephemeral resource muster_bootstrap_kubeconfig.
func NewKubeconfig() ephemeral.EphemeralResource {
	k := crud.Ephemeral[openCredential]{
		Type: "bootstrap_kubeconfig",
		Description: "A kubeconfig with which one cluster's agent can register at the hub, for the write-only " +
			"attribute `bootstrap_kubeconfig_wo` of `muster_klusterlet`. Its token is created when Terraform needs " +
			"it, is valid for `ttl`, is renewed while Terraform runs, and is revoked when Terraform closes it. It " +
			"appears neither in the state nor in the plan.\n\n" +
			"With `managed_cluster` the token is bound: a muster hub lets it register that cluster and no other, and " +
			"approves its certificate request by itself once the cluster is accepted.",
		Attributes: kubeconfigAttributes,
		Validate: func(config attribute.Values, diags *diag.Diagnostics) {
			CheckTTL(path.Root("ttl"), config.Text("credential"), config.Text("ttl"), diags)
		},
		Open: openKubeconfig, Renew: renewKubeconfig,
		Close: func(ctx context.Context, client *kube.Client, open openCredential, diags *diag.Diagnostics) {
			if err := open.Revoke(ctx, client); err != nil {
				hub.AddAPIError(diags, client, fmt.Sprintf("revoke the bootstrap token by deleting the Secret %s/%s; "+
					"it expires by itself", open.Namespace, open.Name), err)
			}
		},
	}
	return k.New()
}

func kubeconfigAttributes() map[string]schema.Attribute {
	secret := func(description string) resourceschema.StringAttribute {
		s := attribute.TextAttribute(description)
		s.Sensitive = true
		return s
	}
	all := map[string]schema.Attribute{
		"managed_cluster": attribute.Optional("Name of the cluster that the token is bound to. If omitted, it can "+
			"register any cluster.", attribute.ValidClusterName()),
		"kubeconfig": secret("The kubeconfig."),
		"token":      secret("The token in it."),
		"expires_at": attribute.TextAttribute("When the token expires unless it is renewed, in RFC 3339."),
	}
	for name, a := range bootstrapTexts() {
		switch name {
		case "credential":
			a.MarkdownDescription += " Terraform does not renew the latter, so `ttl` has to last for the whole " +
				"run. Both are revoked when Terraform closes the resource."
		case "server", "cluster_ca_certificate":
			a.Computed = true
		}
		all[name] = a
	}
	return all
}

func openKubeconfig(ctx context.Context, o *crud.Opening) (open openCredential, renewAt time.Time) {
	values, name := o.Values, o.Values.Text("managed_cluster")
	made, err := BootstrapOf(values, name, "").Issue(ctx, o.Hub, o.Client, o.Diagnostics)
	if err != nil {
		doing := "make a bootstrap token"
		if name != "" {
			doing += fmt.Sprintf(" for managed cluster %q", name)
		}
		hub.AddAPIError(o.Diagnostics, o.Client, doing, err)
		return open, renewAt
	}
	maps.Copy(values, attribute.Values{
		"server": types.StringValue(made.Server), "cluster_ca_certificate": types.StringValue(made.CA),
		"kubeconfig": types.StringValue(string(made.Kubeconfig)), "token": types.StringValue(made.Token),
		"expires_at": types.StringValue(made.Expires.UTC().Format(time.RFC3339)),
	})
	if made.Renewable {
		renewAt = made.Expires.Add(-made.TTL / 2)
	}
	return made.openCredential, renewAt
}

// renewKubeconfig puts the expiry off.
func renewKubeconfig(
	ctx context.Context, client *kube.Client, open openCredential, diags *diag.Diagnostics,
) (renewAt time.Time) {
	if !open.Renewable {
		return renewAt
	}
	expires := time.Now().Add(open.TTL)
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = open.Namespace, open.Name
	err := client.MergePatch(ctx, secret, hub.FieldManager, map[string]any{"data": map[string][]byte{
		bootstrapapi.BootstrapTokenExpirationKey: []byte(expires.UTC().Format(time.RFC3339)),
	}})
	if err != nil {
		doing := fmt.Sprintf("renew the bootstrap token in the Secret %s/%s", open.Namespace, open.Name)
		hub.AddAPIError(diags, client, doing, err)
		return renewAt
	}
	return expires.Add(-open.TTL / 2)
}
