package clusterimport

import (
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/agentoptions"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// specAttributes are those of the import itself.
func specAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": attribute.Identifying("Name of the import, and of the managed cluster that it is for. Changing it replaces the import.",
			attribute.ValidClusterName()),
		"labels":      attribute.Labels("Labels of the import. Those of the managed cluster are `cluster_labels`.", nil),
		"annotations": attribute.Annotations("Annotations of the import."),
		"kubeconfig_secret": schema.StringAttribute{
			MarkdownDescription: "Name of the Secret in the hub's namespace `" + muster.ImportNamespace + "` that has the kubeconfig, under the key `kubeconfig`. " +
				"With `kubeconfig_wo` Terraform makes it; without, somebody else does. Defaults to `name`.",
			Optional: true, Computed: true,
			Validators: []validator.String{attribute.ValidObjectName("Secret name")},
		},
		"forget_after_join": schema.BoolAttribute{
			MarkdownDescription: "Whether the hub deletes the Secret once the cluster has joined. With `false` the hub keeps the kubeconfig, looks at the agent every 5 minutes and restores what others have changed: " +
				"a hub that keeps kubeconfigs is one theft away from all of its clusters. Defaults to `true`.",
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
		},
		"endpoint": endpointAttribute(),
		"agent":    agentAttribute(),
		"cluster_labels": attribute.Labels("Labels of the managed cluster, if the hub makes it. A later change does not reach it: use `muster_managed_cluster` for labels that change.",
			reservedClusterLabel),
		"cluster_set": schema.StringAttribute{
			MarkdownDescription: "Cluster set of the managed cluster, if the hub makes it. If omitted, the set `default`. Who applies needs the right to join it.",
			Optional:            true,
			Validators:          []validator.String{attribute.ValidName("cluster set name")},
		},
		"accept": schema.BoolAttribute{
			MarkdownDescription: "Whether the hub accepts the cluster, once: a later denial stays. Who applies needs the right to accept clusters. Not to be used beside a `muster_cluster_acceptance` of the same cluster. Defaults to `false`.",
			Optional:            true, Computed: true, Default: booldefault.StaticBool(false),
		},
		"redeploy": schema.Int64Attribute{
			MarkdownDescription: "Counter that has everything installed once more when it is raised, for example in a cluster that was made again from an image. It is a rolling update where the agent runs.",
			Optional:            true,
			Validators:          []validator.Int64{int64validator.AtLeast(0)},
		},
		"cluster_uid": schema.StringAttribute{
			MarkdownDescription: "UID of the cluster's namespace `kube-system`. Any other cluster behind the kubeconfig is refused. If omitted, the first cluster counts. " +
				"Set it to the UID of the new cluster where one replaces another under its name.",
			Optional:   true,
			Validators: []validator.String{stringvalidator.LengthBetween(1, 64)},
		},
	}
}

func endpointAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Where the agent finds the hub. If omitted, what the hub publishes; a change there rolls the agent, too.",
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"server": schema.StringAttribute{
				MarkdownDescription: "URL of the hub. Defaults to the one that the hub publishes.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidHTTPSURL()},
			},
			"cluster_ca_certificate": schema.StringAttribute{
				MarkdownDescription: "Certificates in PEM by which the agent verifies the hub. Defaults to those that the hub publishes.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidPEM()},
			},
			"proxy_url": schema.StringAttribute{
				MarkdownDescription: "Proxy on the agent's way to the hub, such as `http://proxy.example.com:3128`.",
				Optional:            true,
				Validators:          []validator.String{attribute.ValidURL()},
			},
			"trust": schema.StringAttribute{
				MarkdownDescription: "By what the agent verifies the hub: `Bundle`, by `cluster_ca_certificate` or the hub's own CA, or `System`, by the authorities that its image trusts, for a hub with a public certificate. Defaults to `Bundle`.",
				Optional:            true, Computed: true, Default: stringdefault.StaticString(string(v1alpha1.TrustBundle)),
				Validators: attribute.OneOf(v1alpha1.TrustBundle, v1alpha1.TrustSystem),
			},
		},
	}
}

// agentAttribute has the options of muster_klusterlet.
func agentAttribute() schema.SingleNestedAttribute {
	attributes := maps.Clone(agentoptions.Attributes())
	attributes["namespace"] = schema.StringAttribute{
		MarkdownDescription: "Namespace for the agent. It can't be changed later: the agent would stay in the namespace from before. Defaults to `" + cluster.AgentNamespace + "`.",
		Optional:            true,
		Validators:          []validator.String{attribute.ValidName("namespace")},
	}
	return schema.SingleNestedAttribute{
		MarkdownDescription: "How the agent runs, as in `muster_klusterlet`. A change is a rolling update, and the cluster does not register again.",
		Optional:            true,
		Attributes:          attributes,
	}
}

// handInAttributes are those of what Terraform hands in.
func handInAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"kubeconfig_wo": schema.StringAttribute{
			MarkdownDescription: "Kubeconfig of the cluster, through which the hub installs the agent. Its user needs the role cluster-admin. Everything has to be in it (`kubectl config view --raw --flatten --minify`): " +
				"programs (`exec`, `auth-provider`), names of files and `insecure-skip-tls-verify` are refused. " +
				"Write-only: it is in neither state nor plan. It is handed in when the import is created or changed, when `kubeconfig_wo_version` is raised, and when the hub says that it needs it (`kubeconfig_needed`).",
			Optional: true, Sensitive: true, WriteOnly: true,
			Validators: []validator.String{containedKubeconfig(), stringvalidator.AlsoRequires(path.MatchRoot("kubeconfig_wo_version"))},
		},
		"kubeconfig_wo_version": schema.Int64Attribute{
			MarkdownDescription: "Number of the kubeconfig. Raise it to hand it in again, for example one with a new token, or to have the hub look at the agent and repair it.",
			Optional:            true,
			Validators:          []validator.Int64{int64validator.AtLeast(0), int64validator.AlsoRequires(path.MatchRoot("kubeconfig_wo"))},
		},
	}
}

// containedKubeconfig admits kubeconfigs that hubs take. It never repeats the value.
func containedKubeconfig() validator.String {
	return attribute.ValidText("a kubeconfig that needs nothing beside itself", func(at path.Path, text string) (summary, detail string) {
		if why := problemsOfKubeconfig(text); why != "" {
			return "Invalid kubeconfig", attribute.Place(at) + ": " + why
		}
		return "", ""
	})
}

func reservedClusterLabel(key string) string {
	switch key {
	case cluster.ClusterSetLabel:
		return "use the attribute cluster_set"
	case cluster.TokenLabel:
		return "the hub notes with it by which token a cluster was created"
	}
	return ""
}
