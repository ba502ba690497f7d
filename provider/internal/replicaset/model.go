package replicaset

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// Between the model of a replica set and the API's object, there and back.

type replicaSetModel struct {
	Namespace   types.String `tfsdk:"namespace"`
	Name        types.String `tfsdk:"name"`
	Labels      types.Map    `tfsdk:"labels"`
	Annotations types.Map    `tfsdk:"annotations"`
	workload.Content
	DeleteOption    *manifestwork.DeleteOptionModel    `tfsdk:"delete_option"`
	ManifestConfigs []manifestwork.ManifestConfigModel `tfsdk:"manifest_configs"`
	Executor        *manifestwork.ExecutorModel        `tfsdk:"executor"`
	Placements      []placementRefModel                `tfsdk:"placements"`
	DeletionPolicy  types.String                       `tfsdk:"cascade_deletion_policy"`
	Wait            *replicaSetWaitModel               `tfsdk:"wait"`
	Ready           types.Bool                         `tfsdk:"ready"`
	Generation      types.Int64                        `tfsdk:"generation"`
	replicaSetStatusModel
	Adopt          types.Bool     `tfsdk:"adopt"`
	ForceConflicts types.Bool     `tfsdk:"force_conflicts"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
}

// What implements crud.Model.
func (m *replicaSetModel) What() string {
	return fmt.Sprintf("manifest work replica set %q", m.Namespace.ValueString()+"/"+m.Name.ValueString())
}

// Identity implements crud.Model.
func (m *replicaSetModel) Identity() any {
	return attribute.NamespacedIdentity{Namespace: m.Namespace, Name: m.Name}
}

// replicaSetLabel is the value of the label by which works name their replica set.
func replicaSetLabel(namespace, name string) string { return namespace + "." + name }

// object is the ManifestWorkReplicaSet that the model describes, without its
// objects.
func (m *replicaSetModel) object() *workv1alpha1.ManifestWorkReplicaSet {
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	object.Namespace, object.Name = m.Namespace.ValueString(), m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	template := &object.Spec.ManifestWorkTemplate
	template.DeleteOption = m.DeleteOption.Option()
	template.ManifestConfigs = manifestwork.ManifestConfigs(m.ManifestConfigs)
	template.Executor = m.Executor.Executor()
	object.Spec.PlacementRefs = placementRefs(m.Placements)
	object.Spec.CascadeDeletionPolicy = workv1alpha1.CascadeDeletionPolicy(m.DeletionPolicy.ValueString())
	return object
}

// complete is the replica set to write, with the objects that are in the
// configuration alone.
func (m *replicaSetModel) complete(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) *workv1alpha1.ManifestWorkReplicaSet {
	object := m.object()
	m.Put(ctx, config, object, &object.Spec.ManifestWorkTemplate.Workload, diags)
	return object
}

// liveContent are the objects of a replica set as the hub has it.
func liveContent(object *workv1alpha1.ManifestWorkReplicaSet) workload.Live {
	return workload.Live{Manifests: object.Spec.ManifestWorkTemplate.Workload.Manifests, Annotations: object.Annotations}
}

// observe brings up to date what the model owns, and keeps its wording where it
// means the same as what the hub has.
func (m *replicaSetModel) observe(object *workv1alpha1.ManifestWorkReplicaSet, written *replicaSetMark) error {
	mine, live := m.object().Spec.ManifestWorkTemplate, object.Spec.ManifestWorkTemplate
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	if err := m.Observe(liveContent(object)); err != nil {
		return err
	}
	if !attribute.Same(mine.DeleteOption, live.DeleteOption) {
		m.DeleteOption = manifestwork.DeleteOptionModelOf(live.DeleteOption)
	}
	if !attribute.Same(mine.ManifestConfigs, live.ManifestConfigs) {
		m.ManifestConfigs = manifestwork.ManifestConfigModels(live.ManifestConfigs)
	}
	m.Executor = manifestwork.ExecutorModelOf(live.Executor)
	m.Placements = placementRefModels(object.Spec.PlacementRefs, m.Placements)
	m.DeletionPolicy = types.StringValue(string(object.Spec.CascadeDeletionPolicy))
	m.Generation = types.Int64Value(object.Generation)
	m.replicaSetStatusModel = replicaSetStatus(object, written)
	if m.Wait != nil && !m.Ready.ValueBool() {
		m.Ready = types.BoolValue(m.Wait.met(object, written))
	}
	return nil
}

func importReplicaSet(object *workv1alpha1.ManifestWorkReplicaSet) (replicaSetModel, error) {
	owned := ownership.Of(object, hub.FieldManager)
	all := func(string) bool { return true }
	ours := func(key string) bool {
		return key != work.WriteOnlyAnnotation && attribute.ImportableAnnotation(key)
	}
	template := object.Spec.ManifestWorkTemplate
	m := replicaSetModel{
		Namespace:             types.StringValue(object.Namespace),
		Name:                  types.StringValue(object.Name),
		Labels:                attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, all),
		Annotations:           attribute.ImportedMap(owned.Keys("metadata", "annotations"), owned.None(), object.Annotations, ours),
		DeleteOption:          manifestwork.DeleteOptionModelOf(template.DeleteOption),
		ManifestConfigs:       manifestwork.ManifestConfigModels(template.ManifestConfigs),
		Executor:              manifestwork.ExecutorModelOf(template.Executor),
		Placements:            placementRefModels(object.Spec.PlacementRefs, nil),
		DeletionPolicy:        types.StringValue(string(object.Spec.CascadeDeletionPolicy)),
		Generation:            types.Int64Value(object.Generation),
		replicaSetStatusModel: replicaSetStatus(object, nil),
		Timeouts:              attribute.NullTimeouts("create", "update", "delete"),
	}
	var err error
	m.Content, err = workload.Import(liveContent(object))
	return m, err
}

// Key implements crud.Model.
func (m *replicaSetModel) Key() (namespace, name string) {
	return m.Namespace.ValueString(), m.Name.ValueString()
}
