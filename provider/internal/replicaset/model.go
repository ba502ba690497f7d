package replicaset

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// Between the model of a replica set and the API's object, there and back.

type replicaSetModel struct {
	Namespace   types.String `tfsdk:"namespace"`
	Name        types.String `tfsdk:"name"`
	Labels      types.Map    `tfsdk:"labels"`
	Annotations types.Map    `tfsdk:"annotations"`
	workload.Content
	manifestwork.Options
	Placements     []placementRefModel `tfsdk:"placements"`
	DeletionPolicy types.String        `tfsdk:"cascade_deletion_policy"`
	Wait           *waitModel          `tfsdk:"wait"`
	Ready          types.Bool          `tfsdk:"ready"`
	Generation     types.Int64         `tfsdk:"generation"`
	replicaSetStatusModel
	Adopt          types.Bool     `tfsdk:"adopt"`
	ForceConflicts types.Bool     `tfsdk:"force_conflicts"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`

	// mark is the last write that changed the works; nil where none is known.
	mark *replicaSetMark
}

// What names the replica set in messages.
func (m *replicaSetModel) What() string {
	return fmt.Sprintf("manifest work replica set %q", m.Namespace.ValueString()+"/"+m.Name.ValueString())
}

// replicaSetLabel is the value of the label by which works name their replica set.
func replicaSetLabel(namespace, name string) string { return namespace + "." + name }

// object is the ManifestWorkReplicaSet that the model describes, without its
// objects.
func (m *replicaSetModel) object() *workv1alpha1.ManifestWorkReplicaSet {
	object := &workv1alpha1.ManifestWorkReplicaSet{}
	object.Namespace, object.Name = m.Namespace.ValueString(), m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	m.Options.Write(&object.Spec.ManifestWorkTemplate)
	object.Spec.PlacementRefs = placementRefs(m.Placements)
	object.Spec.CascadeDeletionPolicy = workv1alpha1.CascadeDeletionPolicy(m.DeletionPolicy.ValueString())
	return object
}

// liveContent are the objects of a replica set as the hub has it.
func liveContent(object *workv1alpha1.ManifestWorkReplicaSet) workload.Live {
	return workload.Live{Manifests: object.Spec.ManifestWorkTemplate.Workload.Manifests, Annotations: object.Annotations}
}

// observe brings up to date what the model owns, and keeps its wording where it
// means the same as what the hub has.
func (m *replicaSetModel) observe(object *workv1alpha1.ManifestWorkReplicaSet) error {
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	if err := m.Observe(liveContent(object)); err != nil {
		return err
	}
	m.Options.Refresh(&object.Spec.ManifestWorkTemplate)
	m.Placements = placementRefModels(object.Spec.PlacementRefs, m.Placements)
	m.DeletionPolicy = types.StringValue(string(object.Spec.CascadeDeletionPolicy))
	m.Generation = types.Int64Value(object.Generation)
	m.replicaSetStatusModel = replicaSetStatus(object, m.mark, liveContent(object).Masker(m.Content).Text)
	m.Ready = crud.StillReady(m.Ready, m.Wait != nil, func() bool { return len(m.Wait.missing(object, m.mark)) == 0 })
	return nil
}

func importReplicaSet(object *workv1alpha1.ManifestWorkReplicaSet) (*replicaSetModel, error) {
	template := object.Spec.ManifestWorkTemplate
	m := &replicaSetModel{
		Namespace:      types.StringValue(object.Namespace),
		Name:           types.StringValue(object.Name),
		Options:        manifestwork.OptionsOf(&template),
		Placements:     placementRefModels(object.Spec.PlacementRefs, nil),
		DeletionPolicy: types.StringValue(string(object.Spec.CascadeDeletionPolicy)),
		Generation:     types.Int64Value(object.Generation),
		Timeouts:       attribute.NullTimeouts("create", "update", "delete"),
	}
	m.Labels, m.Annotations = workload.ImportMetadata(object)
	var err error
	m.Content, err = workload.Import(liveContent(object))
	m.replicaSetStatusModel = replicaSetStatus(object, nil, liveContent(object).Masker(m.Content).Text)
	return m, err
}
