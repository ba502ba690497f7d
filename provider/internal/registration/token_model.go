package registration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

type bootstrapTokenModel struct {
	ManagedCluster  types.String `tfsdk:"managed_cluster"`
	ManagedClusters types.Set    `tfsdk:"managed_clusters"`
	ClusterLabels   types.Map    `tfsdk:"cluster_labels"`
	MaxClusters     types.Int64  `tfsdk:"max_clusters"`
	ClientIDs       types.Set    `tfsdk:"client_ids"`
	AllowedLabels   types.Set    `tfsdk:"allowed_labels"`
	Description     types.String `tfsdk:"description"`
	TTL             types.String `tfsdk:"ttl"`
	TokenID         types.String `tfsdk:"token_id"`
	Token           types.String `tfsdk:"token"`
	ExpiresAt       types.String `tfsdk:"expires_at"`
	UsedBy          types.List   `tfsdk:"used_by"`
}

// importToken takes over an existing token.
func importToken(secret *corev1.Secret) *bootstrapTokenModel {
	token := tokenOf(secret)
	m := &bootstrapTokenModel{
		ManagedClusters: types.SetNull(types.StringType),
		ClusterLabels:   labelsOf(token),
		MaxClusters:     limitOf(token),
		ClientIDs:       textsOf(token.Scope.ClientIDs),
		AllowedLabels:   textsOf(token.Scope.AllowedLabels),
		Description:     attribute.OptionalString(token.Description),
		TTL:             attribute.OptionalString(token.TTL),
		TokenID:         types.StringValue(token.ID),
	}
	switch len(token.Clusters) {
	case 0:
	case 1:
		m.ManagedCluster = types.StringValue(token.Clusters[0])
	default:
		m.ManagedClusters = attribute.StringSetValue(token.Clusters)
	}
	m.observe(token)
	return m
}

// What implements crud.Model.
func (m *bootstrapTokenModel) What() string {
	return fmt.Sprintf("bootstrap token %q", m.TokenID.ValueString())
}

// Key implements crud.Model.
func (m *bootstrapTokenModel) Key() (namespace, name string) {
	return metav1.NamespaceSystem, tokenSecretName(m.TokenID.ValueString())
}

// Identity implements crud.Model.
func (m *bootstrapTokenModel) Identity() any { return tokenIdentity{m.TokenID} }

// clusters are those that the token is bound to.
func (m *bootstrapTokenModel) clusters() []string {
	if name := m.ManagedCluster.ValueString(); name != "" {
		return []string{name}
	}
	names := attribute.StringList(m.ManagedClusters)
	slices.Sort(names)
	return names
}

// scope is what the token may be used for.
func (m *bootstrapTokenModel) scope() cluster.TokenScope {
	s := cluster.TokenScope{
		Labels: attribute.StringMap(m.ClusterLabels), MaxClusters: int(m.MaxClusters.ValueInt64()),
		ClientIDs: attribute.StringList(m.ClientIDs), AllowedLabels: attribute.StringList(m.AllowedLabels),
	}
	slices.Sort(s.ClientIDs)
	slices.Sort(s.AllowedLabels)
	return s
}

// observe takes over what the hub says of the token. What the configuration
// leaves out of the scope may be somebody else's.
func (m *bootstrapTokenModel) observe(token bootstrapToken) {
	m.Token = types.StringValue(token.String())
	m.ExpiresAt = token.expiresAt()
	m.UsedBy = attribute.StringListValue(append([]string{}, token.Scope.UsedBy...))
	if !m.ClusterLabels.IsNull() {
		m.ClusterLabels = labelsOf(token)
	}
	if !m.MaxClusters.IsNull() {
		m.MaxClusters = limitOf(token)
	}
	if !m.ClientIDs.IsNull() {
		m.ClientIDs = textsOf(token.Scope.ClientIDs)
	}
	if !m.AllowedLabels.IsNull() {
		m.AllowedLabels = textsOf(token.Scope.AllowedLabels)
	}
}

func textsOf(texts []string) types.Set {
	if len(texts) == 0 {
		return types.SetNull(types.StringType)
	}
	return attribute.StringSetValue(texts)
}

func labelsOf(token bootstrapToken) types.Map {
	if len(token.Scope.Labels) == 0 {
		return types.MapNull(types.StringType)
	}
	return attribute.StringMapValue(token.Scope.Labels)
}

func limitOf(token bootstrapToken) types.Int64 {
	if token.Scope.MaxClusters == 0 {
		return types.Int64Null()
	}
	return types.Int64Value(int64(token.Scope.MaxClusters))
}

// keepsScope reports whether the hub keeps what the configuration promises of the
// token. One that does not would take it for a token without limits.
func (r *bootstrapTokenResource) keepsScope(ctx context.Context, client *kube.Client, plan *bootstrapTokenModel, doing string, diags *diag.Diagnostics) bool {
	var promised []string
	if !plan.ClusterLabels.IsNull() {
		promised = append(promised, "cluster_labels")
	}
	if !plan.MaxClusters.IsNull() {
		promised = append(promised, "max_clusters")
	}
	needs := hubinfo.TokenScope
	for name, set := range map[string]types.Set{"client_ids": plan.ClientIDs, "allowed_labels": plan.AllowedLabels} {
		if !set.IsNull() {
			promised, needs = append(promised, name), hubinfo.ClusterRegistration
		}
	}
	if len(promised) == 0 {
		return true
	}
	slices.Sort(promised)
	knows, err := r.Hub.Has(ctx, client, needs)
	if err != nil {
		hub.AddAPIError(diags, client, doing, err)
		return false
	}
	if !knows {
		diags.AddAttributeError(path.Root(promised[0]), "The hub ignores the scope of bootstrap tokens",
			fmt.Sprintf("%s is set, and the hub %s does not support it: its tokens register any number of clusters, with any labels. "+
				"Leave it out and keep the token short-lived, or use a muster hub.", strings.Join(promised, " and "), client.Host()))
	}
	return knows
}

// live starts the token's lifetime now.
func (t *bootstrapToken) live(ttl types.String) {
	t.TTL, t.Expires = ttl.ValueString(), time.Time{}
	if lifetime, err := time.ParseDuration(t.TTL); err == nil {
		t.Expires = time.Now().Add(lifetime)
	}
}

func (t *bootstrapToken) expiresAt() types.String {
	if t.Expires.IsZero() {
		return types.StringNull()
	}
	return types.StringValue(t.Expires.UTC().Format(time.RFC3339))
}

type tokenIdentity struct {
	TokenID types.String `tfsdk:"token_id"`
}

// owned is the token as an object of the hub.
func (t bootstrapToken) owned() crud.Owned {
	o := crud.Own(t.object(), fmt.Sprintf("bootstrap token %q", t.ID), t.ID, types.BoolNull(), types.BoolNull())
	o.Discreet = true
	o.Write.Foreign = crud.ForeignMetadata
	return o
}
