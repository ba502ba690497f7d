package access

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

type kubeconfigModel struct {
	LogicalCloud    types.String   `tfsdk:"logical_cloud"`
	ManagedCluster  types.String   `tfsdk:"managed_cluster"`
	ManagedClusters []types.String `tfsdk:"managed_clusters"`
	User            types.String   `tfsdk:"user"`
	Groups          []types.String `tfsdk:"groups"`
	Mode            types.String   `tfsdk:"mode"`
	TTL             types.String   `tfsdk:"ttl"`
	Timeout         types.String   `tfsdk:"timeout"`
	GrantedTo       types.String   `tfsdk:"granted_to"`
	ExpiresAt       types.String   `tfsdk:"expires_at"`
	Kubeconfig      types.String   `tfsdk:"kubeconfig"`
	wayIn
	Clusters types.Map `tfsdk:"clusters"`
}

// wayIn is what the provider "kubernetes" takes.
type wayIn struct {
	Host        types.String `tfsdk:"host"`
	CA          types.String `tfsdk:"cluster_ca_certificate"`
	Certificate types.String `tfsdk:"client_certificate"`
	Key         types.String `tfsdk:"client_key"`
	Token       types.String `tfsdk:"token"`
}

func (e *kubeconfigEphemeral) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	attributes := map[string]schema.Attribute{
		"logical_cloud": schema.StringAttribute{
			MarkdownDescription: "The logical cloud as `namespace/name`: `id` of a `muster_logical_cloud`.", Required: true,
			Validators: []validator.String{validCloud()},
		},
		"managed_cluster": schema.StringAttribute{
			MarkdownDescription: "One of the cloud's clusters. Either this or `managed_clusters`.", Optional: true,
			Validators: []validator.String{attribute.ValidClusterName()},
		},
		"managed_clusters": schema.SetAttribute{
			MarkdownDescription: "Several of the cloud's clusters. Then `host` and the like are null, and `clusters` has them by cluster.", Optional: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.ValidClusterName())},
		},
		"user": schema.StringAttribute{
			MarkdownDescription: "User of the hub that gets access, if not the one that the provider is to the hub. Asking for another needs the right to impersonate that user.", Optional: true,
			Validators: []validator.String{stringvalidator.LengthBetween(1, 253)},
		},
		"groups": schema.SetAttribute{
			MarkdownDescription: "Groups of `user`, by which grants to groups are found. Only with `user`.", Optional: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.AlsoRequires(path.MatchRoot("user"))},
		},
		"mode": schema.StringAttribute{
			MarkdownDescription: "How to get in: by a client `Certificate`, by a service account's `Token`, or `Auto` for a certificate where the cluster signs one, and a token elsewhere. Defaults to the one mode that the logical cloud allows, or to `Auto`.", Optional: true,
			Validators: attribute.OneOf(v1alpha1.AccessCertificate, v1alpha1.AccessToken, v1alpha1.AccessAuto),
		},
		"ttl": schema.StringAttribute{
			MarkdownDescription: "How long access lasts if it is not withdrawn before, such as `1h`: whole seconds from `10m`. It can't be prolonged, so it has to last for the whole run. If omitted, what the cloud says.", Optional: true,
			Validators: []validator.String{validLifetime()},
		},
		"timeout": schema.StringAttribute{
			MarkdownDescription: attribute.TimeoutText("the answer", defaultWait), Optional: true,
			Validators: []validator.String{attribute.ValidDuration(time.Second)},
		},
		"granted_to": schema.StringAttribute{MarkdownDescription: "User of the hub that has access.", Computed: true},
		"expires_at": schema.StringAttribute{MarkdownDescription: "When access ends, in RFC 3339; the earliest of several.", Computed: true},
		"kubeconfig": schema.StringAttribute{
			MarkdownDescription: "A kubeconfig with a context `USER@CLUSTER` for each cluster, in the cloud's namespace.", Computed: true, Sensitive: true,
		},
		"clusters": schema.MapNestedAttribute{
			MarkdownDescription: "The way into each cluster, by its name.", Computed: true, Sensitive: true,
			NestedObject: schema.NestedAttributeObject{Attributes: wayInAttributes()},
		},
	}
	for name, attribute := range wayInAttributes() {
		attributes[name] = attribute
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Access to clusters of a logical cloud for one run of Terraform, for example for `provider \"kubernetes\"`. " +
			"Keys are made in memory, and neither they nor the certificates appear in the state or in the plan. When the run ends, access is withdrawn; a run that is killed leaves it until `ttl` is over.\n\n" +
			"The provider's identity on the hub needs the verb `use` on the logical cloud, and a grant that names it. The certificate reaches the cluster at the address that its agent reports.",
		Attributes: attributes,
	}
}

// wayInAttributes are those that the provider "kubernetes" takes.
func wayInAttributes() map[string]schema.Attribute {
	text := func(description string, sensitive bool) schema.StringAttribute {
		return schema.StringAttribute{MarkdownDescription: description, Computed: true, Sensitive: sensitive}
	}
	return map[string]schema.Attribute{
		"host":                   text("URL of the cluster's API server.", false),
		"cluster_ca_certificate": text("PEM certificates of the authorities that vouch for it. Null where the system's do.", false),
		"client_certificate":     text("Client certificate in PEM. Null with a token.", false),
		"client_key":             text("Key of the certificate in PEM. Null with a token.", true),
		"token":                  text("Token. Null with a certificate.", true),
	}
}

// ValidateConfig wants clusters to be named in one of two ways.
func (e *kubeconfigEphemeral) ValidateConfig(ctx context.Context, req ephemeral.ValidateConfigRequest, resp *ephemeral.ValidateConfigResponse) {
	var one types.String
	var several types.Set
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("managed_cluster"), &one)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("managed_clusters"), &several)...)
	switch {
	case resp.Diagnostics.HasError() || one.IsUnknown() || several.IsUnknown():
	case one.IsNull() && several.IsNull():
		resp.Diagnostics.AddAttributeError(path.Root("managed_cluster"), "No cluster", "Set managed_cluster to one of the cloud's clusters, or managed_clusters to several.")
	case !one.IsNull() && !several.IsNull():
		resp.Diagnostics.AddAttributeError(path.Root("managed_clusters"), "Clusters in two ways", "managed_cluster and managed_clusters are both set. Remove one of them.")
	}
}

func (m *kubeconfigModel) ask(of *v1alpha1.LogicalCloud, cluster, hubID string) useraccess.Ask {
	namespace, cloud, _ := useraccess.SplitCloud(m.LogicalCloud.ValueString()) // validated
	lifetime, _ := time.ParseDuration(m.TTL.ValueString())                     // 0 when it is left out; validated
	return useraccess.Ask{
		Namespace: namespace, Cloud: cloud, Cluster: cluster, HubID: hubID, User: m.GrantedTo.ValueString(), Groups: attribute.Texts(m.Groups),
		Mode: v1alpha1.AccessMode(attribute.OrDefault(m.Mode, string(useraccess.ModeFor(of)))), Lifetime: lifetime,
	}
}

func wayInType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{
		"host": types.StringType, "cluster_ca_certificate": types.StringType, "client_certificate": types.StringType, "client_key": types.StringType, "token": types.StringType,
	}}
}

// unknown is the model while the hub is not known.
func (m *kubeconfigModel) unknown() {
	unknown := types.StringUnknown()
	m.GrantedTo, m.ExpiresAt, m.Kubeconfig = unknown, unknown, unknown
	m.wayIn = wayIn{unknown, unknown, unknown, unknown, unknown}
	m.Clusters = types.MapUnknown(wayInType())
}

// fill puts the credentials into the model.
func (m *kubeconfigModel) fill(credentials []useraccess.Credential, namespace string) error {
	ways := map[string]attr.Value{}
	var entries []useraccess.Entry
	var end time.Time
	for _, c := range credentials {
		way := wayIn{
			Host: types.StringValue(c.Endpoint.URL), CA: attribute.OptionalString(string(c.Endpoint.CABundle)),
			Certificate: attribute.OptionalString(string(c.Certificate)), Key: attribute.OptionalString(string(c.Key)), Token: attribute.OptionalString(c.Token),
		}
		ways[c.Cluster] = types.ObjectValueMust(wayInType().AttrTypes, map[string]attr.Value{
			"host": way.Host, "cluster_ca_certificate": way.CA, "client_certificate": way.Certificate, "client_key": way.Key, "token": way.Token,
		})
		if !m.ManagedCluster.IsNull() {
			m.wayIn = way
		}
		if end.IsZero() || c.NotAfter.Before(end) {
			end = c.NotAfter
		}
		entries = append(entries, c.Entry())
	}
	text, err := useraccess.Kubeconfig(entries, namespace)
	m.Kubeconfig = types.StringValue(string(text))
	m.ExpiresAt = types.StringValue(end.UTC().Format(time.RFC3339))
	m.Clusters = types.MapValueMust(wayInType(), ways)
	return err
}
