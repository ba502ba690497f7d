package addon

import (
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// Between the model of an add-on in a cluster and the API's object, there and back.

// owned is the add-on as an object of the hub. Configurations that somebody else adds
// replace those of the placement, so they contradict a configuration without them.
// One that the hub has made for a placement loses nothing when configurations are added
// to it.
func (m *clusterAddOnModel) owned(object *v1alpha1.ManagedClusterAddOn) crud.Owned {
	o := crud.Own(object, m.What(), m.ManagedCluster.ValueString()+"/"+m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	o.Write.Harmless = ownership.Difference.Added
	wanted := configsOf(m.Configs)
	o.Write.Unwanted = func(live kube.Object) [][]string {
		if a, ok := live.(*v1alpha1.ManagedClusterAddOn); ok && !attribute.Same(wanted, a.Spec.Configs) {
			return [][]string{{"spec", "configs"}}
		}
		return nil
	}
	return o
}

func (m *clusterAddOnModel) object() *v1alpha1.ManagedClusterAddOn {
	object := &v1alpha1.ManagedClusterAddOn{}
	object.Namespace, object.Name = m.Key()
	object.Labels = attribute.StringMap(m.Labels)
	annotations := maps.Clone(attribute.StringMap(m.Annotations))
	if hosting := m.HostingCluster.ValueString(); hosting != "" {
		annotations = attribute.OrEmpty(annotations)
		annotations[addon.HostingClusterAnnotation] = hosting
	}
	object.Annotations = annotations
	object.Spec = v1alpha1.ManagedClusterAddOnSpec{InstallNamespace: m.InstallNamespace.ValueString(), Configs: configsOf(m.Configs)}
	return object
}

// observe brings up to date what the model owns.
func (m *clusterAddOnModel) observe(object *v1alpha1.ManagedClusterAddOn) {
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	if !m.HostingCluster.IsNull() {
		m.HostingCluster = attribute.OptionalString(object.Annotations[addon.HostingClusterAnnotation])
	}
	if !attribute.Same(configsOf(m.Configs), object.Spec.Configs) {
		m.Configs = configModels(object.Spec.Configs)
	}
	m.InstallNamespace = types.StringValue(object.Spec.InstallNamespace)
	m.report(object)
	switch {
	case m.Wait == nil:
		m.Ready = types.BoolNull()
	case !m.Ready.ValueBool():
		m.Ready = types.BoolValue(len(m.lacks(object, nil)) == 0)
	}
}

func importClusterAddOn(object *v1alpha1.ManagedClusterAddOn) *clusterAddOnModel {
	owned := ownership.Of(object, hub.FieldManager)
	annotations := attribute.StringMap(attribute.ImportedMap(owned.Keys("metadata", "annotations"), owned.None(), object.Annotations,
		func(key string) bool {
			return key != addon.InstallNamespaceAnnotation && attribute.ImportableAnnotation(key)
		}))
	m := &clusterAddOnModel{
		ManagedCluster:   types.StringValue(object.Namespace),
		Name:             types.StringValue(object.Name),
		Labels:           attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, func(string) bool { return true }),
		Configs:          configModels(object.Spec.Configs),
		HostingCluster:   attribute.OptionalString(annotations[addon.HostingClusterAnnotation]),
		InstallNamespace: types.StringValue(object.Spec.InstallNamespace),
		Annotations:      types.MapNull(types.StringType),
		Triggers:         types.MapNull(types.StringType),
		Timeouts:         attribute.NullTimeouts("create", "update", "delete"),
	}
	if delete(annotations, addon.HostingClusterAnnotation); len(annotations) > 0 {
		m.Annotations = attribute.StringMapValue(annotations)
	}
	m.report(object)
	return m
}

// madeByHub reports whether the hub has installed an add-on in a cluster by itself, and
// nobody has changed its specification. The hub gives owner references to add-ons that
// people have installed, too, so these do not tell; but then somebody else has written
// the specification.
func madeByHub(object *v1alpha1.ManagedClusterAddOn) bool {
	if len(object.OwnerReferences) == 0 {
		return false
	}
	return !slices.ContainsFunc(object.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		fields := ownership.Of(object, entry.Manager)
		return entry.Subresource == "" && fields.Has("spec") && !fields.Has("metadata", "ownerReferences")
	})
}
