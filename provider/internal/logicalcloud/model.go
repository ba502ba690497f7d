package logicalcloud

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Between the model of a logical cloud and the API's object, there and back.

type cloudModel struct {
	ID types.String `tfsdk:"id"`
	specModel
	statusModel
	Wait           *waitModel     `tfsdk:"wait"`
	Ready          types.Bool     `tfsdk:"ready"`
	Adopt          types.Bool     `tfsdk:"adopt"`
	ForceConflicts types.Bool     `tfsdk:"force_conflicts"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
}

// specModel is what a configuration says of a cloud.
type specModel struct {
	Namespace        types.String           `tfsdk:"namespace"`
	Name             types.String           `tfsdk:"name"`
	Labels           types.Map              `tfsdk:"labels"`
	Annotations      types.Map              `tfsdk:"annotations"`
	Placements       []types.String         `tfsdk:"placements"`
	ClusterNamespace *clusterNamespaceModel `tfsdk:"cluster_namespace"`
	Quotas           types.Map              `tfsdk:"quotas"`
	QuotaScopes      types.Map              `tfsdk:"quota_scopes"`
	Grants           []grantModel           `tfsdk:"grants"`
	Access           *accessModel           `tfsdk:"access"`
}

type clusterNamespaceModel struct {
	Name        types.String `tfsdk:"name"`
	Labels      types.Map    `tfsdk:"labels"`
	Annotations types.Map    `tfsdk:"annotations"`
	Existing    types.String `tfsdk:"existing"`
	OnDelete    types.String `tfsdk:"on_delete"`
}

type grantModel struct {
	Role   types.String   `tfsdk:"role"`
	Rules  []ruleModel    `tfsdk:"rules"`
	Scope  types.String   `tfsdk:"scope"`
	Users  []types.String `tfsdk:"users"`
	Groups []types.String `tfsdk:"groups"`
}

type accessModel struct {
	Modes              []types.String `tfsdk:"modes"`
	DefaultLifetime    types.String   `tfsdk:"default_lifetime"`
	MaxLifetime        types.String   `tfsdk:"max_lifetime"`
	KeyPolicy          types.String   `tfsdk:"key_policy"`
	MaxRequestsPerUser types.Int64    `tfsdk:"max_requests_per_user"`
}

// What implements crud.Model.
func (m *cloudModel) What() string {
	return fmt.Sprintf("logical cloud %q", m.Namespace.ValueString()+"/"+m.Name.ValueString())
}

// Key implements crud.Model.
func (m *cloudModel) Key() (namespace, name string) {
	return m.Namespace.ValueString(), m.Name.ValueString()
}

// Identity implements crud.Model.
func (m *cloudModel) Identity() any {
	return attribute.NamespacedIdentity{Namespace: m.Namespace, Name: m.Name}
}

// owned is the cloud as an object of the hub. Placements and quotas that somebody
// adds change who gets where, so that they contradict the configuration.
func (m *cloudModel) owned(object *v1alpha1.LogicalCloud) crud.Owned {
	o := crud.Own(object, m.What(), m.Namespace.ValueString()+"/"+m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	o.Places = map[string]string{"spec.namespace": "cluster_namespace"}
	o.Write.Unwanted = func(live kube.Object) [][]string {
		cloud, ok := live.(*v1alpha1.LogicalCloud)
		if !ok {
			return nil
		}
		return m.unwanted(cloud)
	}
	return o
}

func (m *specModel) unwanted(live *v1alpha1.LogicalCloud) [][]string {
	var paths [][]string
	mine := m.object().Spec
	if !slices.Equal(placementNames(mine.Placements), placementNames(live.Spec.Placements)) {
		paths = append(paths, []string{"spec", "placements"})
	}
	if !sameQuotas(mine.Quotas, live.Spec.Quotas) {
		paths = append(paths, []string{"spec", "quotas"})
	}
	if len(mine.Grants) == 0 && len(live.Spec.Grants) > 0 {
		paths = append(paths, []string{"spec", "grants"})
	}
	return paths
}

// object is the LogicalCloud that the model describes.
func (m *specModel) object() *v1alpha1.LogicalCloud {
	object := &v1alpha1.LogicalCloud{}
	object.Namespace, object.Name = m.Namespace.ValueString(), m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	for _, name := range sortedTexts(m.Placements) {
		object.Spec.Placements = append(object.Spec.Placements, v1alpha1.PlacementReference{Name: name})
	}
	if n := m.ClusterNamespace; n != nil {
		object.Spec.Namespace = v1alpha1.CloudNamespace{
			Name: n.Name.ValueString(), Labels: attribute.StringMap(n.Labels), Annotations: attribute.StringMap(n.Annotations),
			Existing: v1alpha1.Existing(n.Existing.ValueString()), OnDelete: v1alpha1.OnDelete(n.OnDelete.ValueString()),
		}
	}
	object.Spec.Quotas = quotas(m.Quotas, m.QuotaScopes)
	object.Spec.Grants = grants(m.Grants)
	if a := m.Access; a != nil {
		object.Spec.Access = a.access()
	}
	return object
}

func (a *accessModel) access() v1alpha1.CloudAccess {
	access := v1alpha1.CloudAccess{
		DefaultLifetimeSeconds: lifetimeSeconds(a.DefaultLifetime), MaxLifetimeSeconds: lifetimeSeconds(a.MaxLifetime),
		KeyPolicy: v1alpha1.KeyPolicy(a.KeyPolicy.ValueString()), MaxRequestsPerUser: int32(a.MaxRequestsPerUser.ValueInt64()), //nolint:gosec // validated
	}
	for _, mode := range sortedTexts(a.Modes) {
		access.Modes = append(access.Modes, v1alpha1.AccessMode(mode))
	}
	return access
}

// lifetimeSeconds is 0 for what is no lifetime, which validation refuses.
func lifetimeSeconds(text types.String) int32 {
	d, err := time.ParseDuration(text.ValueString())
	if err != nil || d > maxLifetime {
		return 0
	}
	return int32(d / time.Second)
}

// observe brings up to date what the model owns, and keeps its wording where it
// means the same as what the hub has.
func (m *cloudModel) observe(object *v1alpha1.LogicalCloud) {
	m.specModel.observe(object)
	m.ID = types.StringValue(object.Namespace + "/" + object.Name)
	m.report(object)
	switch {
	case m.Wait == nil:
		m.Ready = types.BoolNull()
	case !m.Ready.ValueBool():
		m.Ready = types.BoolValue(len(m.Wait.lacks(object)) == 0)
	}
}

func (m *specModel) observe(object *v1alpha1.LogicalCloud) {
	spec := object.Spec
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	if names := placementNames(spec.Placements); !slices.Equal(sortedTexts(m.Placements), names) {
		m.Placements = attribute.TextValues(names)
	}
	if m.ClusterNamespace == nil {
		m.ClusterNamespace = clusterNamespaceOf(spec.Namespace, spec.Namespace.Labels, spec.Namespace.Annotations)
	} else {
		n := clusterNamespaceOf(spec.Namespace, nil, nil)
		n.Labels = attribute.ObservedMap(m.ClusterNamespace.Labels, spec.Namespace.Labels)
		n.Annotations = attribute.ObservedMap(m.ClusterNamespace.Annotations, spec.Namespace.Annotations)
		m.ClusterNamespace = n
	}
	if !sameQuotas(quotas(m.Quotas, m.QuotaScopes), spec.Quotas) {
		m.Quotas, m.QuotaScopes = quotaValues(spec.Quotas)
	}
	m.Grants = grantModels(spec.Grants, m.Grants)
	if m.Access == nil || !attribute.Same(sortedAccess(m.Access.access()), sortedAccess(spec.Access)) {
		m.Access = accessModelOf(spec.Access)
	}
}

func clusterNamespaceOf(n v1alpha1.CloudNamespace, labels, annotations map[string]string) *clusterNamespaceModel {
	texts := func(m map[string]string) types.Map {
		if len(m) == 0 {
			return types.MapNull(types.StringType)
		}
		return attribute.StringMapValue(m)
	}
	return &clusterNamespaceModel{
		Name: types.StringValue(n.Name), Labels: texts(labels), Annotations: texts(annotations),
		Existing: types.StringValue(string(n.Existing)), OnDelete: types.StringValue(string(n.OnDelete)),
	}
}

func accessModelOf(a v1alpha1.CloudAccess) *accessModel {
	m := &accessModel{
		DefaultLifetime: lifetimeText(a.DefaultLifetimeSeconds), MaxLifetime: lifetimeText(a.MaxLifetimeSeconds),
		KeyPolicy: types.StringValue(string(a.KeyPolicy)), MaxRequestsPerUser: types.Int64Value(int64(a.MaxRequestsPerUser)),
	}
	for _, mode := range a.Modes {
		m.Modes = append(m.Modes, types.StringValue(string(mode)))
	}
	return m
}

// lifetimeText is 8h for 28800 seconds.
func lifetimeText(seconds int32) types.String {
	text := attribute.ShortDuration(time.Duration(seconds) * time.Second)
	if hours, ok := strings.CutSuffix(text, "h0m"); ok {
		text = hours + "h"
	}
	return types.StringValue(text)
}

func sortedAccess(a v1alpha1.CloudAccess) v1alpha1.CloudAccess {
	a.Modes = slices.Sorted(slices.Values(a.Modes))
	return a
}

func placementNames(references []v1alpha1.PlacementReference) []string {
	var names []string
	for _, r := range references {
		names = append(names, r.Name)
	}
	return attribute.Sorted(names)
}

func importCloud(object *v1alpha1.LogicalCloud) *cloudModel {
	owned := ownership.Of(object, hub.FieldManager)
	m := &cloudModel{
		ID:       types.StringValue(object.Namespace + "/" + object.Name),
		Timeouts: attribute.NullTimeouts("create", "update", "delete"),
	}
	m.specModel = importSpec(object, func(metadata metav1.Object, field string, live map[string]string) types.Map {
		return attribute.ImportedMap(owned.Keys("metadata", field), owned.None(), live, attribute.ImportableAnnotation)
	})
	m.report(object)
	return m
}

// importSpec takes over all of the cloud. imported are the entries of its labels and
// annotations that are taken over.
func importSpec(object *v1alpha1.LogicalCloud, imported func(object metav1.Object, field string, live map[string]string) types.Map) specModel {
	spec := object.Spec
	m := specModel{
		Namespace: types.StringValue(object.Namespace), Name: types.StringValue(object.Name),
		Labels: imported(object, "labels", object.Labels), Annotations: imported(object, "annotations", object.Annotations),
		Placements:       attribute.TextValues(placementNames(spec.Placements)),
		ClusterNamespace: clusterNamespaceOf(spec.Namespace, spec.Namespace.Labels, spec.Namespace.Annotations),
		Grants:           grantModels(spec.Grants, nil), Access: accessModelOf(spec.Access),
	}
	m.Quotas, m.QuotaScopes = quotaValues(spec.Quotas)
	return m
}
