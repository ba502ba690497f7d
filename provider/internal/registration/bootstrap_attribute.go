package registration

import (
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// BootstrapAttribute says what kind of bootstrap kubeconfig a resource makes.
func BootstrapAttribute(description string, validators ...validator.Object) schema.SingleNestedAttribute {
	attributes := map[string]schema.Attribute{
		"enabled": schema.BoolAttribute{
			MarkdownDescription: "Whether to make one. With `false` its Secret has to come from elsewhere. Defaults " +
				"to `true`.",
			Optional: true,
		},
		"version": schema.Int64Attribute{
			MarkdownDescription: "Raise it to hand a new bootstrap kubeconfig to the agent.",
			Optional:            true,
			Validators:          []validator.Int64{int64validator.AtLeast(0)},
		},
	}
	for name, text := range bootstrapTexts() {
		attributes[name] = text
	}
	return schema.SingleNestedAttribute{
		MarkdownDescription: description, Optional: true, Validators: validators, Attributes: attributes,
	}
}

// bootstrapTexts are the attributes of a bootstrap kubeconfig, wherever it is made.
func bootstrapTexts() map[string]schema.StringAttribute {
	short := attribute.ShortDuration
	return map[string]schema.StringAttribute{
		"credential": attribute.Optional(fmt.Sprintf("The credential that the agent registers with. `%s`, the "+
			"default, is a Kubernetes bootstrap token. `%s` is a token of the service account `%s/%s`, for hubs "+
			"whose API server takes no bootstrap tokens, as those of most cloud providers; it can register any "+
			"cluster.",
			CredentialToken, CredentialServiceAccount, cluster.Namespace, cluster.BootstrapServiceAccount),
			stringvalidator.OneOf(CredentialToken, CredentialServiceAccount)),
		"ttl": attribute.Optional(fmt.Sprintf("How long the token stays valid if it is not revoked before, such as "+
			"`30m`. At least `%s`, with a service account `%s`; defaults to `%s`.",
			short(minimumBootstrapTTL), short(minimumServiceAccountTTL), short(defaultBootstrapTTL)),
			attribute.ValidDuration(minimumBootstrapTTL)),
		"server": attribute.Optional("URL at which the agent reaches the hub. Defaults to what the hub publishes in "+
			"`kube-public/cluster-info`, then to the provider's own host.", attribute.ValidHTTPSURL()),
		"cluster_ca_certificate": attribute.Optional("PEM certificates of the authorities that vouch for the hub. "+
			"Defaults like `server`.", attribute.ValidPEM()),
	}
}

// BootstrapOf is what attributes with bootstrapTexts ask for.
func BootstrapOf(values attribute.Values, name, clusterUID string) Bootstrap {
	return Bootstrap{
		Cluster: name, ClusterUID: clusterUID,
		Credential: values.Text("credential"), TTL: parseTTL(values.Text("ttl")),
		Server: values.Text("server"), CA: values.Text("cluster_ca_certificate"),
	}
}

// CheckTTL refuses lives that Kubernetes gives no service account's token. of is the
// attribute.
func CheckTTL(of path.Path, credential, ttl string, diags *diag.Diagnostics) {
	parsed, err := time.ParseDuration(ttl)
	if err != nil || credential != CredentialServiceAccount || parsed >= minimumServiceAccountTTL {
		return
	}
	diags.AddAttributeError(of, "The token's life is too short",
		fmt.Sprintf("ttl is %q, and tokens of service accounts live for %s at least. Use a longer one, or credential "+
			"= %q.",
			ttl, attribute.ShortDuration(minimumServiceAccountTTL), CredentialToken))
}

// parseTTL is a life as the configuration puts it, or the default.
func parseTTL(ttl string) time.Duration {
	if parsed, err := time.ParseDuration(ttl); err == nil {
		return parsed
	}
	return defaultBootstrapTTL
}
