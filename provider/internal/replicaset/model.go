package replicaset

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// Between the model of a replica set and the API's object, there and back.

type replicaSetModel struct {
	Namespace       types.String                       `tfsdk:"namespace"`
	Name            types.String                       `tfsdk:"name"`
	Labels          types.Map                          `tfsdk:"labels"`
	Annotations     types.Map                          `tfsdk:"annotations"`
	Manifests       types.List                         `tfsdk:"manifests"`
	Fields          types.Map                          `tfsdk:"fields"`
	DeleteOption    *manifestwork.DeleteOptionModel    `tfsdk:"delete_option"`
	ManifestConfigs []manifestwork.ManifestConfigModel `tfsdk:"manifest_configs"`
	Executor        *manifestwork.ExecutorModel        `tfsdk:"executor"`
	Placements      []placementRefModel                `tfsdk:"placements"`
	DeletionPolicy  types.String                       `tfsdk:"cascade_deletion_policy"`
	Wait            *replicaSetWaitModel               `tfsdk:"wait"`
	Ready           types.Bool                         `tfsdk:"ready"`
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

// object is the ManifestWorkReplicaSet that the configuration describes.
func (m *replicaSetModel) object() (*workv1alpha1.ManifestWorkReplicaSet, error) {
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	object.Namespace, object.Name = m.Namespace.ValueString(), m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	manifests, err := manifest.ParseAll(attribute.StringList(m.Manifests))
	if err != nil {
		return nil, err
	}
	template := &object.Spec.ManifestWorkTemplate
	for _, x := range manifests {
		template.Workload.Manifests = append(template.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: x.JSON}})
	}
	template.DeleteOption = m.DeleteOption.Option()
	template.ManifestConfigs = manifestwork.ManifestConfigs(m.ManifestConfigs)
	template.Executor = m.Executor.Executor()
	object.Spec.PlacementRefs = placementRefs(m.Placements)
	object.Spec.CascadeDeletionPolicy = workv1alpha1.CascadeDeletionPolicy(m.DeletionPolicy.ValueString())
	return object, nil
}

// observe brings up to date what the model owns, and keeps its wording where it
// means the same as what the hub has.
func (m *replicaSetModel) observe(object *workv1alpha1.ManifestWorkReplicaSet, written *replicaSetMark) error {
	own, err := m.object()
	if err != nil {
		own = &workv1alpha1.ManifestWorkReplicaSet{} // a state that can't be read any more differs
	}
	before := m.Manifests
	mine, live := own.Spec.ManifestWorkTemplate, object.Spec.ManifestWorkTemplate
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	manifests, err := templateManifests(live)
	if err != nil {
		return err
	}
	if known, err := templateManifests(mine); err != nil || !manifest.Equal(known, manifests) {
		if m.Manifests, err = manifestwork.ManifestTexts(manifests); err != nil {
			return err
		}
	}
	m.Fields = manifestFields(m.Manifests, before, m.Fields)
	if m.DeleteOption != nil && !attribute.Same(mine.DeleteOption, live.DeleteOption) {
		m.DeleteOption = manifestwork.DeleteOptionModelOf(live.DeleteOption)
	}
	if m.ManifestConfigs != nil && !attribute.Same(mine.ManifestConfigs, live.ManifestConfigs) {
		m.ManifestConfigs = manifestwork.ManifestConfigModels(live.ManifestConfigs)
	}
	if m.Executor != nil {
		m.Executor = manifestwork.ExecutorModelOf(live.Executor)
	}
	m.Placements = placementRefModels(object.Spec.PlacementRefs, m.Placements)
	m.DeletionPolicy = types.StringValue(string(object.Spec.CascadeDeletionPolicy))
	m.replicaSetStatusModel = replicaSetStatus(object, written)
	if m.Wait != nil && !m.Ready.ValueBool() {
		m.Ready = types.BoolValue(m.Wait.met(object, written))
	}
	return nil
}

func importReplicaSet(object *workv1alpha1.ManifestWorkReplicaSet) (replicaSetModel, error) {
	owned := ownership.Of(object, hub.FieldManager)
	all := func(string) bool { return true }
	template := object.Spec.ManifestWorkTemplate
	m := replicaSetModel{
		Namespace:             types.StringValue(object.Namespace),
		Name:                  types.StringValue(object.Name),
		Labels:                attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, all),
		Annotations:           attribute.ImportedMap(owned.Keys("metadata", "annotations"), owned.None(), object.Annotations, func(key string) bool { return attribute.ReservedAnnotation(key) == "" }),
		DeleteOption:          manifestwork.DeleteOptionModelOf(template.DeleteOption),
		ManifestConfigs:       manifestwork.ManifestConfigModels(template.ManifestConfigs),
		Executor:              manifestwork.ExecutorModelOf(template.Executor),
		Placements:            placementRefModels(object.Spec.PlacementRefs, nil),
		DeletionPolicy:        types.StringValue(string(object.Spec.CascadeDeletionPolicy)),
		replicaSetStatusModel: replicaSetStatus(object, nil),
		Timeouts:              attribute.NullTimeouts("create", "update", "delete"),
	}
	manifests, err := templateManifests(template)
	if err != nil {
		return m, err
	}
	m.Manifests, err = manifestwork.ManifestTexts(manifests)
	m.Fields = manifestFields(m.Manifests, types.ListNull(types.StringType), types.MapNull(manifestwork.FieldsElement()))
	return m, err
}

// manifestFields are the fields of manifests that follow upon before, whose
// fields were past; unknown as long as the manifests are.
func manifestFields(manifests, before types.List, past types.Map) types.Map {
	if !attribute.Known(manifests) {
		return manifestwork.UnknownFields()
	}
	now, err := manifest.ParseAll(attribute.StringList(manifests))
	if err != nil {
		return manifestwork.UnknownFields() // creating and updating say what is wrong
	}
	was, err := manifest.ParseAll(attribute.StringList(before))
	if err != nil {
		was = nil // a state that can't be read any more has nothing to go on from
	}
	return manifestwork.FieldsValue(manifest.FieldsOf(now, was, manifestwork.FieldsOf(past)))
}

func templateManifests(template workv1.ManifestWorkSpec) ([]manifest.Object, error) {
	var objects []manifest.Object
	for i, x := range template.Workload.Manifests {
		parsed, err := manifest.FromJSON(x.Raw)
		if err != nil {
			return nil, fmt.Errorf("read manifest %d of the replica set: %w", i, err)
		}
		objects = append(objects, parsed)
	}
	return objects, nil
}

// Key implements crud.Model.
func (m *replicaSetModel) Key() (namespace, name string) {
	return m.Namespace.ValueString(), m.Name.ValueString()
}
