package addon

import (
	"cmp"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// Between the model of an add-on and the API's object, there and back.

// addOnSpecModel is what the configuration says about an add-on.
type addOnSpecModel struct {
	Name             types.String     `tfsdk:"name"`
	Labels           types.Map        `tfsdk:"labels"`
	Annotations      types.Map        `tfsdk:"annotations"`
	DisplayName      types.String     `tfsdk:"display_name"`
	Description      types.String     `tfsdk:"description"`
	ManagedBy        types.String     `tfsdk:"managed_by"`
	Template         types.String     `tfsdk:"template"`
	DeploymentConfig *referentModel   `tfsdk:"deployment_config"`
	SupportedConfigs []supportedModel `tfsdk:"supported_configs"`
	Placements       []placementModel `tfsdk:"placements"`
}

type addOnModel struct {
	addOnSpecModel
	addOnStatusModel
	plannedModel
	Preview        types.Bool      `tfsdk:"preview"`
	Wait           *addOnWaitModel `tfsdk:"wait"`
	Ready          types.Bool      `tfsdk:"ready"`
	Adopt          types.Bool      `tfsdk:"adopt"`
	ForceConflicts types.Bool      `tfsdk:"force_conflicts"`
	Timeouts       timeouts.Value  `tfsdk:"timeouts"`
}

// referentModel names an object of a known kind.
type referentModel struct {
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"name"`
}

// supportedModel is a kind of configuration that an add-on understands.
type supportedModel struct {
	Group    types.String   `tfsdk:"group"`
	Resource types.String   `tfsdk:"resource"`
	Default  *referentModel `tfsdk:"default"`
}

// placementModel is a placement that installs an add-on.
type placementModel struct {
	Namespace       types.String           `tfsdk:"namespace"`
	Name            types.String           `tfsdk:"name"`
	Configs         []configModel          `tfsdk:"configs"`
	RolloutStrategy *workload.RolloutModel `tfsdk:"rollout_strategy"`
}

// unwanted are kinds of configuration and placements that somebody has added: they change
// what goes where, so that they contradict the configuration.
func (m *addOnModel) unwanted(live *v1alpha1.ClusterManagementAddOn) [][]string {
	var paths [][]string
	object := m.object()
	if !sameSupported(object.Spec.SupportedConfigs, live.Spec.SupportedConfigs) {
		paths = append(paths, []string{"spec", "supportedConfigs"})
	}
	if !samePlacements(object.Spec.InstallStrategy.Placements, live.Spec.InstallStrategy.Placements) {
		paths = append(paths, []string{"spec", "installStrategy", "placements"})
	}
	return paths
}

// object is the ClusterManagementAddOn that the model describes.
func (m *addOnSpecModel) object() *v1alpha1.ClusterManagementAddOn {
	object := &v1alpha1.ClusterManagementAddOn{}
	object.Name = m.Name.ValueString()
	object.Labels, object.Annotations = attribute.StringMap(m.Labels), attribute.StringMap(m.Annotations)
	if lifecycle := map[string]string{managedByHub: addon.LifecycleAddOnManager, managedBySelf: addon.LifecycleSelf}[m.ManagedBy.ValueString()]; lifecycle != "" {
		object.Annotations = attribute.OrEmpty(object.Annotations)
		object.Annotations[addon.LifecycleAnnotation] = lifecycle
	}
	object.Spec.AddOnMeta = v1alpha1.AddOnMeta{DisplayName: m.DisplayName.ValueString(), Description: m.Description.ValueString()}
	object.Spec.SupportedConfigs = m.supported()
	object.Spec.InstallStrategy.Type = v1alpha1.InstallStrategyManual
	if m.Placements != nil {
		object.Spec.InstallStrategy.Type = v1alpha1.InstallStrategyPlacements
	}
	for _, p := range m.Placements {
		object.Spec.InstallStrategy.Placements = append(object.Spec.InstallStrategy.Placements, p.strategy())
	}
	return object
}

func (p placementModel) strategy() v1alpha1.PlacementStrategy {
	return v1alpha1.PlacementStrategy{
		PlacementRef: v1alpha1.PlacementRef{Namespace: p.Namespace.ValueString(), Name: p.Name.ValueString()},
		Configs:      configsOf(p.Configs), RolloutStrategy: p.RolloutStrategy.Strategy(),
	}
}

// supported are the kinds of configuration in the API's type.
func (m *addOnSpecModel) supported() []v1alpha1.ConfigMeta {
	var kinds []v1alpha1.ConfigMeta
	own := func(resource string, referent v1alpha1.ConfigReferent) {
		kinds = append(kinds, v1alpha1.ConfigMeta{ConfigGroupResource: ownKind(resource), DefaultConfig: &referent})
	}
	if !m.Template.IsNull() {
		own(addon.TemplateResource, v1alpha1.ConfigReferent{Name: m.Template.ValueString()})
	}
	if m.DeploymentConfig != nil {
		own(addon.DeploymentConfigResource, m.DeploymentConfig.referent())
	}
	for _, s := range m.SupportedConfigs {
		kind := v1alpha1.ConfigMeta{ConfigGroupResource: v1alpha1.ConfigGroupResource{Group: s.Group.ValueString(), Resource: s.Resource.ValueString()}}
		if s.Default != nil {
			referent := s.Default.referent()
			kind.DefaultConfig = &referent
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// ownKind is a kind of configuration of the add-ons' own API group.
func ownKind(resource string) v1alpha1.ConfigGroupResource {
	return v1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: resource}
}

func (r *referentModel) referent() v1alpha1.ConfigReferent {
	return v1alpha1.ConfigReferent{Namespace: r.Namespace.ValueString(), Name: r.Name.ValueString()}
}

// sameSupported reports whether two lists of kinds mean the same, in any order. The
// reserved name of v1beta1 is no default.
func sameSupported(a, b []v1alpha1.ConfigMeta) bool {
	normal := func(list []v1alpha1.ConfigMeta) []v1alpha1.ConfigMeta {
		list = slices.Clone(list)
		for i := range list {
			if d := list[i].DefaultConfig; d != nil && (d.Name == "" || d.Name == addon.ReservedNoDefault) {
				list[i].DefaultConfig = nil
			}
		}
		slices.SortFunc(list, func(x, y v1alpha1.ConfigMeta) int {
			return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Resource, y.Resource))
		})
		return list
	}
	return attribute.Same(normal(a), normal(b))
}

// samePlacements reports whether two lists of placements mean the same, whatever the
// notation.
func samePlacements(a, b []v1alpha1.PlacementStrategy) bool {
	return slices.EqualFunc(a, b, func(x, y v1alpha1.PlacementStrategy) bool {
		return x.PlacementRef == y.PlacementRef && attribute.Same(x.Configs, y.Configs) && workload.SameRollout(x.RolloutStrategy, y.RolloutStrategy)
	})
}

// observe brings up to date what the model owns, and keeps its wording where it
// means the same as what the hub has.
func (m *addOnSpecModel) observe(object *v1alpha1.ClusterManagementAddOn) {
	spec, mine := object.Spec, m.object().Spec
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Annotations = attribute.ObservedMap(m.Annotations, object.Annotations)
	if !m.DisplayName.IsNull() {
		m.DisplayName = attribute.OptionalString(spec.AddOnMeta.DisplayName)
	}
	if !m.Description.IsNull() {
		m.Description = attribute.OptionalString(spec.AddOnMeta.Description)
	}
	if !m.ManagedBy.IsNull() {
		m.ManagedBy = managedBy(object)
	}
	if !sameSupported(mine.SupportedConfigs, spec.SupportedConfigs) {
		m.setSupported(spec.SupportedConfigs)
	}
	if mine.InstallStrategy.Type != typeOf(spec.InstallStrategy) || !samePlacements(mine.InstallStrategy.Placements, spec.InstallStrategy.Placements) {
		m.setPlacements(spec.InstallStrategy)
	}
}

// typeOf is the type of an install strategy, which an old object may lack.
func typeOf(strategy v1alpha1.InstallStrategy) string {
	return cmp.Or(strategy.Type, v1alpha1.InstallStrategyManual)
}

// managedBy is managed_by as the hub has it; null without the annotation.
func managedBy(object *v1alpha1.ClusterManagementAddOn) types.String {
	switch _, ok := object.Annotations[addon.LifecycleAnnotation]; {
	case !ok:
		return types.StringNull()
	case configs.SelfManaged(object):
		return types.StringValue(managedBySelf)
	default:
		return types.StringValue(managedByHub)
	}
}

// setSupported takes over kinds of configuration, in the short notation where there
// is one.
func (m *addOnSpecModel) setSupported(kinds []v1alpha1.ConfigMeta) {
	m.Template, m.DeploymentConfig, m.SupportedConfigs = types.StringNull(), nil, nil
	for _, kind := range kinds {
		var standard *referentModel
		if d := kind.DefaultConfig; d != nil && d.Name != "" && d.Name != addon.ReservedNoDefault {
			standard = &referentModel{Namespace: attribute.OptionalString(d.Namespace), Name: types.StringValue(d.Name)}
		}
		switch {
		case standard != nil && kind.ConfigGroupResource == ownKind(addon.TemplateResource) && standard.Namespace.IsNull():
			m.Template = standard.Name
		case standard != nil && kind.ConfigGroupResource == ownKind(addon.DeploymentConfigResource) && !standard.Namespace.IsNull():
			m.DeploymentConfig = standard
		default:
			m.SupportedConfigs = append(m.SupportedConfigs, supportedModel{
				Group: types.StringValue(kind.Group), Resource: types.StringValue(kind.Resource), Default: standard,
			})
		}
	}
}

// setPlacements takes over where the add-on is installed, and keeps the wording of
// each placement that means the same.
func (m *addOnSpecModel) setPlacements(strategy v1alpha1.InstallStrategy) {
	own := m.Placements
	m.Placements = nil
	if typeOf(strategy) != v1alpha1.InstallStrategyPlacements {
		return
	}
	m.Placements = []placementModel{}
	for _, p := range strategy.Placements {
		model := placementModel{
			Namespace: types.StringValue(p.Namespace), Name: types.StringValue(p.Name),
			Configs: configModels(p.Configs), RolloutStrategy: workload.RolloutModelOf(p.RolloutStrategy),
		}
		for _, o := range own {
			if samePlacements([]v1alpha1.PlacementStrategy{o.strategy()}, []v1alpha1.PlacementStrategy{p}) {
				model = o
			}
		}
		m.Placements = append(m.Placements, model)
	}
}

func importAddOn(object *v1alpha1.ClusterManagementAddOn) (*addOnModel, error) {
	owned := crud.FieldsOf(object, hub.FieldManager)
	m := &addOnModel{Timeouts: attribute.NullTimeouts("create", "update", "delete")}
	m.addOnSpecModel = importAddOnSpec(object, func(_ metav1.Object, field string, live map[string]string) types.Map {
		return attribute.ImportedMap(owned.Keys("metadata", field), owned.None(), live, func(key string) bool {
			return key != addon.LifecycleAnnotation && attribute.ImportableAnnotation(key)
		})
	})
	m.report(object)
	m.InstalledClusters, m.plannedModel = types.ListNull(types.StringType), nothingPlanned()
	return m, nil
}

// importAddOnSpec takes over all of an add-on. imported are the entries of its labels
// and annotations that are taken over.
func importAddOnSpec(object *v1alpha1.ClusterManagementAddOn, imported func(object metav1.Object, field string, live map[string]string) types.Map) addOnSpecModel {
	m := addOnSpecModel{
		Name: types.StringValue(object.Name), Labels: imported(object, "labels", object.Labels), Annotations: imported(object, "annotations", object.Annotations),
		DisplayName: attribute.OptionalString(object.Spec.AddOnMeta.DisplayName), Description: attribute.OptionalString(object.Spec.AddOnMeta.Description),
		ManagedBy: managedBy(object),
	}
	m.setSupported(object.Spec.SupportedConfigs)
	m.setPlacements(object.Spec.InstallStrategy)
	return m
}
