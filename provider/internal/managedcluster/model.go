package managedcluster

import (
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

type managedClusterModel struct {
	Name                 types.String        `tfsdk:"name"`
	Labels               types.Map           `tfsdk:"labels"`
	Annotations          types.Map           `tfsdk:"annotations"`
	ClusterSet           types.String        `tfsdk:"cluster_set"`
	ClientID             types.String        `tfsdk:"client_id"`
	LeaseDurationSeconds types.Int64         `tfsdk:"lease_duration_seconds"`
	Taints               []taintModel        `tfsdk:"taints"`
	ClientConfigs        []clientConfigModel `tfsdk:"client_configs"`
	Adopt                types.Bool          `tfsdk:"adopt"`
	ForceConflicts       types.Bool          `tfsdk:"force_conflicts"`
	Timeouts             timeouts.Value      `tfsdk:"timeouts"`
}

type clientConfigModel struct {
	URL      types.String `tfsdk:"url"`
	CABundle types.String `tfsdk:"ca_bundle"`
}

// object is the part of the ManagedCluster that the configuration owns, save
// for the taints.
func (m *managedClusterModel) object() *clusterv1.ManagedCluster {
	object := &clusterv1.ManagedCluster{}
	object.Name = m.Name.ValueString()
	object.Labels = attribute.StringMap(m.Labels)
	object.Annotations = attribute.StringMap(m.Annotations)
	if id := m.ClientID.ValueString(); id != "" {
		if object.Annotations == nil {
			object.Annotations = map[string]string{}
		}
		object.Annotations[muster.ClientIDAnnotation] = id
	}
	if set := m.ClusterSet.ValueString(); set != "" {
		if object.Labels == nil {
			object.Labels = map[string]string{}
		}
		object.Labels[cluster.ClusterSetLabel] = set
	}
	object.Spec.LeaseDurationSeconds = int32(m.LeaseDurationSeconds.ValueInt64()) //nolint:gosec // validated
	for _, c := range m.ClientConfigs {
		object.Spec.ManagedClusterClientConfigs = append(object.Spec.ManagedClusterClientConfigs,
			clusterv1.ClientConfig{URL: c.URL.ValueString(), CABundle: []byte(c.CABundle.ValueString())})
	}
	return object
}

// observe brings what the model owns up to date.
func (m *managedClusterModel) observe(object *clusterv1.ManagedCluster) {
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	if !m.ClusterSet.IsNull() {
		m.ClusterSet = attribute.OptionalString(object.Labels[cluster.ClusterSetLabel])
	}
	if !m.ClientID.IsNull() {
		m.ClientID = attribute.OptionalString(object.Annotations[muster.ClientIDAnnotation])
	}
	if !m.LeaseDurationSeconds.IsNull() {
		m.LeaseDurationSeconds = types.Int64Value(int64(object.Spec.LeaseDurationSeconds))
	}
	if m.Taints != nil {
		m.Taints = taintModels(object.Spec.Taints)
	}
	if m.ClientConfigs != nil {
		m.ClientConfigs = clientConfigModels(object.Spec.ManagedClusterClientConfigs)
	}
}

func clientConfigModels(configs []clusterv1.ClientConfig) []clientConfigModel {
	models := make([]clientConfigModel, 0, len(configs))
	for _, c := range configs {
		models = append(models, clientConfigModel{URL: types.StringValue(c.URL), CABundle: attribute.OptionalString(string(c.CABundle))})
	}
	return models
}

// importManagedCluster takes over what the provider's field manager owns; of a
// cluster that the provider has not made, what people may have set.
func importManagedCluster(object *clusterv1.ManagedCluster) managedClusterModel {
	owned := ownership.Of(object, hub.FieldManager)
	m := managedClusterModel{Name: types.StringValue(object.Name), Timeouts: attribute.NullTimeouts("delete")}
	m.Labels = attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels,
		func(key string) bool { return reservedClusterLabel(key) == "" })
	m.Annotations = attribute.ImportedMap(owned.Keys("metadata", "annotations"), owned.None(), object.Annotations,
		func(key string) bool {
			return !strings.Contains(key, "open-cluster-management.io") && attribute.ImportableAnnotation(key)
		})
	if slices.Contains(owned.Keys("metadata", "annotations"), muster.ClientIDAnnotation) {
		m.ClientID = attribute.OptionalString(object.Annotations[muster.ClientIDAnnotation])
	}
	set := object.Labels[cluster.ClusterSetLabel]
	if slices.Contains(owned.Keys("metadata", "labels"), cluster.ClusterSetLabel) || (owned.None() && set != cluster.DefaultSet) {
		m.ClusterSet = attribute.OptionalString(set)
	}
	seconds := object.Spec.LeaseDurationSeconds
	if owned.Has("spec", "leaseDurationSeconds") || (owned.None() && seconds != 0 && seconds != cluster.DefaultLeaseDurationSeconds) {
		m.LeaseDurationSeconds = types.Int64Value(int64(seconds))
	}
	if taints := taintModels(object.Spec.Taints); len(taints) > 0 {
		m.Taints = taints
	}
	if owned.Has("spec", "managedClusterClientConfigs") {
		m.ClientConfigs = clientConfigModels(object.Spec.ManagedClusterClientConfigs)
	}
	return m
}
