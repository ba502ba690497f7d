package clusterimport

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

func table() attribute.Table[clusterImport] {
	return slices.Concat(attribute.Table[clusterImport]{
		attribute.LabelsField[clusterImport]("Labels of the import. Those of the managed cluster are " +
			"`cluster_labels`."),
		attribute.AnnotationsField[clusterImport]("Annotations of the import."),
		attribute.Object("endpoint", attribute.OptionalObject("Where the agent finds the hub. If omitted, what the "+
			"hub publishes; a change there rolls the agent, too."),
			func(i clusterImport) *v1alpha1.HubEndpoint { return &i.Spec.Endpoint },
			endpointTable()...),
		agentField(),
	}, secretTable(), clusterTable(), counterTable(), statusTable(), attribute.Table[clusterImport]{
		attribute.Local[clusterImport]("wait", waitAttribute().Schema()),
		attribute.Local[clusterImport]("ready", attribute.Ready("Whether what `wait` asks for was met; null "+
			"without `wait`.")),
	})
}

// secretTable is about the kubeconfig.
func secretTable() attribute.Table[clusterImport] {
	return attribute.Table[clusterImport]{
		attribute.Text("kubeconfig_secret",
			schema.StringAttribute{
				MarkdownDescription: "Name of the Secret in the hub's namespace `" + muster.ImportNamespace + "` " +
					"that has the kubeconfig, under the key `kubeconfig`. " +
					"With `kubeconfig_wo` Terraform makes it; without, somebody else does. Defaults to `name`.",
				Optional: true, Computed: true,
				Validators: []validator.String{attribute.ValidObjectName("Secret name")},
			},
			func(i clusterImport) *string { return &i.Spec.KubeconfigSecret }),
		attribute.FlagPointer("forget_after_join", attribute.DefaultFlag("Whether the hub deletes the Secret once "+
			"the cluster has joined. With `false` the hub keeps the kubeconfig, looks at the agent every 5 minutes "+
			"and restores what others have changed: a hub that keeps kubeconfigs is one theft away from all of its "+
			"clusters. Defaults to `true`.", true),
			func(i clusterImport) **bool { return &i.Spec.ForgetAfterJoin }).Standard(types.BoolValue(true)),
		attribute.Local[clusterImport]("kubeconfig_wo", schema.StringAttribute{
			MarkdownDescription: "Kubeconfig of the cluster, through which the hub installs the agent. Its user " +
				"needs the role cluster-admin. " +
				"Everything has to be in it (`kubectl config view --raw --flatten --minify`): " +
				"programs (`exec`, `auth-provider`), names of files and `insecure-skip-tls-verify` are refused. " +
				"Write-only: it is in neither state nor plan. It is handed in when the import is created or changed, " +
				"when `kubeconfig_wo_version` is raised, and when the hub says that it needs it (`kubeconfig_needed`).",
			Optional: true, Sensitive: true, WriteOnly: true,
			Validators: []validator.String{stringvalidator.AlsoRequires(path.MatchRoot("kubeconfig_wo_version"))},
		}),
		attribute.Local[clusterImport]("kubeconfig_wo_version", attribute.OptionalNumber("Number of the kubeconfig. "+
			"Raise it to hand it in again, for example one with a new token, or to have the hub look at the agent "+
			"and repair it.", int64validator.AtLeast(0), int64validator.AlsoRequires(path.MatchRoot("kubeconfig_wo")))),
	}
}

// clusterTable is about the cluster and its record on the hub.
func clusterTable() attribute.Table[clusterImport] {
	return attribute.Table[clusterImport]{
		attribute.TextMap("cluster_labels", attribute.Labels("Labels of the managed cluster, if the hub makes it. A "+
			"later change does not reach it: use `muster_managed_cluster` for labels that "+
			"change.", reservedClusterLabel),
			func(i clusterImport) *map[string]string { return &i.Spec.Labels }).At("spec.labels"),
		attribute.Text("cluster_set", attribute.Optional("Cluster set of the managed cluster, if the hub makes it. "+
			"If omitted, the set `default`. Who applies needs the right to join "+
			"it.", attribute.ValidName("cluster set name")),
			func(i clusterImport) *string { return &i.Spec.ClusterSet }),
		attribute.Flag("accept", attribute.DefaultFlag("Whether the hub accepts the cluster, once: a later denial "+
			"stays. Who applies needs the right to accept clusters. Not to be used beside a "+
			"`muster_cluster_acceptance` of the same cluster. Defaults to `false`.", false),
			func(i clusterImport) *bool { return &i.Spec.Accept }),
		attribute.Text("cluster_uid", attribute.Optional("UID of the cluster's namespace `kube-system`. Any other "+
			"cluster behind the kubeconfig is refused. If omitted, the first cluster counts. Set it to the UID of "+
			"the new cluster where one replaces another under its name, and `cluster_authority` with it.",
			stringvalidator.LengthBetween(1, 64)),
			func(i clusterImport) *string { return &i.Spec.ClusterUID }).At("spec.clusterUID"),
		attribute.Text("cluster_authority", attribute.Optional("Who vouches for the cluster's API server: `sha256:` "+
			"and the SHA-256 of the public key of its certificate authority, in hexadecimal digits, or `dns:` and "+
			"the server's name, where a public authority vouches. A server that another one vouches for gets "+
			"nothing, not even the kubeconfig's credentials. If omitted, the one of the first import counts "+
			"(`installed_cluster_authority`). Set it when the cluster has a new authority: `problem` names it. Who "+
			"applies needs the rights to update and to accept the managed cluster.",
			attribute.ValidText("the authority of a cluster", invalidAuthority)),
			func(i clusterImport) *string { return &i.Spec.ClusterAuthority }),
		attribute.Flag("publish_server", attribute.DefaultFlag("Whether users reach the cluster at the server of "+
			"the kubeconfig: the hub puts its URL and its certificate authority into `managedClusterClientConfigs` "+
			"of the managed cluster, before other addresses. Not to be used beside `client_configs` of a "+
			"`muster_managed_cluster`. Defaults to `false`.", false),
			func(i clusterImport) *bool { return &i.Spec.PublishServer }),
	}
}

// counterTable has what is done once more when it is raised.
func counterTable() attribute.Table[clusterImport] {
	counter := func(description string) schema.Int64Attribute {
		return attribute.OptionalNumber(description, int64validator.AtLeast(0))
	}
	return attribute.Table[clusterImport]{
		attribute.Number("redeploy",
			counter("Counter that has everything installed once more when it is raised, for example in a cluster "+
				"that was made again from an image. It is a rolling update where the agent runs."),
			func(i clusterImport) *int64 { return &i.Spec.Redeploy }),
		attribute.Number("rejoin",
			counter("Counter that lets a cluster that has joined before join again, once, when it is raised: after "+
				"its agent has lost its identity, as `problem` then says. The agent that joins takes the place of "+
				"the one from before. Who applies needs the right to create Secrets in the hub's namespace "+
				"`kube-system`, as for `muster rejoin`."),
			func(i clusterImport) *int64 { return &i.Spec.Rejoin }),
	}
}

func endpointTable() attribute.Table[*v1alpha1.HubEndpoint] {
	type endpoint = *v1alpha1.HubEndpoint
	return attribute.Table[endpoint]{
		attribute.Text("server", attribute.Optional("URL of the hub. Defaults to the one that the hub "+
			"publishes.", attribute.ValidHTTPSURL()),
			func(e endpoint) *string { return &e.Server }),
		attribute.Code("cluster_ca_certificate", attribute.Optional("Certificates in PEM by which the agent "+
			"verifies the hub. Defaults to those that the hub publishes.",
			attribute.ValidPEM()),
			func(value types.String, e endpoint) { e.CABundle = []byte(value.ValueString()) },
			func(e endpoint) types.String { return attribute.OptionalString(string(e.CABundle)) }),
		attribute.Text("proxy_url", attribute.Optional("Proxy on the agent's way to the hub, such as "+
			"`http://proxy.example.com:3128`.", attribute.ValidURL()),
			func(e endpoint) *string { return &e.ProxyURL }),
		attribute.Code("trust", attribute.Defaulted("By what the agent verifies the hub: `Bundle`, by "+
			"`cluster_ca_certificate` or the hub's own CA, or `System`, by the authorities that its image trusts, "+
			"for a hub with a public certificate. Defaults to "+
			"`Bundle`.", v1alpha1.TrustBundle, attribute.OneOf(v1alpha1.TrustBundle, v1alpha1.TrustSystem)...),
			func(value types.String, e endpoint) { e.Trust = v1alpha1.HubTrust(value.ValueString()) },
			// An endpoint that is left out has none.
			func(e endpoint) types.String { return attribute.OptionalString(string(e.Trust)) }),
	}
}

// agentField has the options of muster_klusterlet.
func agentField() attribute.Field[clusterImport] {
	type options = *v1alpha1.AgentOptions
	namespace := attribute.Text("namespace", attribute.Optional("Namespace for the agent. It can't be changed "+
		"later: the agent would stay in the namespace from before. Defaults to "+
		"`"+cluster.AgentNamespace+"`.", attribute.ValidName("namespace")),
		func(o options) *string { return &o.Namespace })
	return attribute.Object("agent", attribute.OptionalObject("How the agent runs, as in `muster_klusterlet`. A "+
		"change is a rolling update, and the cluster does not register again."),
		func(i clusterImport) options { return &i.Spec.Agent },
		append(klusterlet.AgentTable(), namespace)...)
}

// invalidAuthority says what is wrong with what a hub calls the authority of a cluster.
func invalidAuthority(at path.Path, text string) (summary, detail string) {
	if err := kubeconfig.CheckAuthority(text); err != nil {
		return "Invalid cluster authority", attribute.Place(at) + ": " + err.Error()
	}
	return "", ""
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
