package addon

import (
	"cmp"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

// Who manages an add-on, as managed_by has it.
const (
	managedByHub  = "hub"
	managedBySelf = "self"
)

// addOnTable are the attributes of the add-on, beside its name.
func addOnTable() attribute.Table[fleetAddOn] {
	return slices.Concat(attribute.Table[fleetAddOn]{
		attribute.LabelsField[fleetAddOn]("Labels of the add-on."),
		attribute.AnnotationsBeside[fleetAddOn]("Annotations of the add-on. That of its lifecycle is `managed_by`, "+
			"and that of its gates is `gates`.",
			attribute.BesideGates(map[string]string{addon.LifecycleAnnotation: "use managed_by"})),
		attribute.GatesField[fleetAddOn](),
		attribute.Text("display_name", attribute.Optional("Name of the add-on for people.", attribute.NotEmpty()),
			func(o fleetAddOn) *string { return &o.Spec.AddOnMeta.DisplayName }).
			At("spec.addOnMeta.displayName").LeftToOthers(always),
		attribute.Text("description",
			attribute.Optional("What the add-on is for, in a sentence or two.", attribute.NotEmpty()),
			func(o fleetAddOn) *string { return &o.Spec.AddOnMeta.Description }).
			At("spec.addOnMeta.description").LeftToOthers(always),
		managedByField(),
		attribute.Code("template", attribute.Optional("Name of the `muster_addon_template` that the add-on is made "+
			"from, where neither a placement nor a cluster names another "+
			"one.", attribute.ValidObjectName("template name")),
			func(value types.String, o fleetAddOn) {
				addDefault(o, addon.TemplateResource, v1alpha1.ConfigReferent{Name: value.ValueString()})
			},
			func(o fleetAddOn) types.String {
				return attribute.OptionalString(defaultIn(o, addon.TemplateResource).Name)
			}).At("spec.supportedConfigs"),
		attribute.Code("deployment_config",
			referentAttribute("The `muster_addon_deployment_config` for all clusters, where neither a placement nor "+
				"a cluster names another one.", true),
			func(value types.Object, o fleetAddOn) {
				var referent v1alpha1.ConfigReferent
				referentTable(true).Write(value.Attributes(), &referent)
				addDefault(o, addon.DeploymentConfigResource, referent)
			},
			func(o fleetAddOn) types.Object {
				referent := defaultIn(o, addon.DeploymentConfigResource)
				return referentTable(true).Object(&referent)
			}).At("spec.supportedConfigs"),
		supportedConfigsField(),
		placementsField(),
		attribute.Local[fleetAddOn]("preview", attribute.OptionalFlag("Whether a plan that changes where the add-on "+
			"is installed asks the hub for the fleet, and warns of the clusters that would get and lose it. A hub "+
			"that does not answer at once is no error. Defaults to `true`.")),
		attribute.Local[fleetAddOn]("wait", addOnWaitAttribute().Schema()),
		attribute.Local[fleetAddOn]("ready",
			attribute.Ready("Whether what `wait` asks for was met; null without `wait`.")),
		installedClusters(),
	}, plannedTable(), addOnStatus())
}

// always says that an import takes over what is there, no matter which user wrote it.
func always(attribute.Owned, fleetAddOn) bool { return true }

func managedByField() attribute.Field[fleetAddOn] {
	return attribute.Code("managed_by", attribute.Optional("Who installs and configures the add-on in the clusters. "+
		"`hub`: the hub, by `placements` and configurations. `self`: a manager of its own, and the hub leaves it "+
		"alone. It is the annotation `"+addon.LifecycleAnnotation+"`. If omitted, the annotation is left as it "+
		"is; without it the hub manages the add-on.", attribute.OneOf(managedByHub, managedBySelf)...),
		func(value types.String, o fleetAddOn) {
			o.Annotations = attribute.OrEmpty(o.Annotations)
			o.Annotations[addon.LifecycleAnnotation] = addon.LifecycleAddOnManager
			if value.ValueString() == managedBySelf {
				o.Annotations[addon.LifecycleAnnotation] = addon.LifecycleSelf
			}
		},
		func(o fleetAddOn) types.String {
			switch _, ok := o.Annotations[addon.LifecycleAnnotation]; {
			case !ok:
				return types.StringNull()
			case configs.SelfManaged(o):
				return types.StringValue(managedBySelf)
			}
			return types.StringValue(managedByHub)
		}).AtAnnotation(addon.LifecycleAnnotation).LeftToOthers(always)
}

// ownKind is a kind of configuration of the add-ons' own API group.
func ownKind(resource string) v1alpha1.ConfigGroupResource {
	return v1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: resource}
}

// addDefault adds a kind of the add-ons' own with a default.
func addDefault(o fleetAddOn, resource string, referent v1alpha1.ConfigReferent) {
	o.Spec.SupportedConfigs = append(o.Spec.SupportedConfigs,
		v1alpha1.ConfigMeta{ConfigGroupResource: ownKind(resource), DefaultConfig: &referent})
}

// defaultIn is the default of a kind that has an attribute of its own; empty without one.
func defaultIn(o fleetAddOn, resource string) v1alpha1.ConfigReferent {
	for _, kind := range o.Spec.SupportedConfigs {
		if kind.ConfigGroupResource == ownKind(resource) && isShort(kind) {
			return *kind.DefaultConfig
		}
	}
	return v1alpha1.ConfigReferent{}
}

// isShort reports whether template or deployment_config say all about a kind.
func isShort(kind v1alpha1.ConfigMeta) bool {
	if !hasDefault(kind) {
		return false
	}
	switch kind.ConfigGroupResource {
	case ownKind(addon.TemplateResource):
		return kind.DefaultConfig.Namespace == ""
	case ownKind(addon.DeploymentConfigResource):
		return kind.DefaultConfig.Namespace != ""
	}
	return false
}

// hasDefault reports whether a kind has a default. The reserved name of v1beta1 is none.
func hasDefault(kind v1alpha1.ConfigMeta) bool {
	return kind.DefaultConfig != nil && kind.DefaultConfig.Name != "" &&
		kind.DefaultConfig.Name != addon.ReservedNoDefault
}

// otherKinds are the kinds of an add-on that have no attributes of their own, in the order
// of their names.
func otherKinds(o fleetAddOn) fleetAddOn {
	other := &v1alpha1.ClusterManagementAddOn{}
	for _, kind := range o.Spec.SupportedConfigs {
		if !hasDefault(kind) {
			kind.DefaultConfig = nil
		}
		if !isShort(kind) {
			other.Spec.SupportedConfigs = append(other.Spec.SupportedConfigs, kind)
		}
	}
	slices.SortFunc(other.Spec.SupportedConfigs, func(x, y v1alpha1.ConfigMeta) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Resource, y.Resource))
	})
	return other
}

// referentTable names an object of a known kind. namespaced says whether the kind has
// namespaces; where it may or may not, it is false.
func referentTable(namespaced bool) attribute.Table[*v1alpha1.ConfigReferent] {
	valid := attribute.ValidName("namespace")
	namespace := attribute.Optional("Namespace of the object. Leave it out for kinds that have none.", valid)
	if namespaced {
		namespace = attribute.Required("Namespace of the object.", valid)
	}
	return attribute.Table[*v1alpha1.ConfigReferent]{
		attribute.Text("namespace", namespace, func(r *v1alpha1.ConfigReferent) *string { return &r.Namespace }),
		attribute.Text("name",
			attribute.Required("Name of the object.", attribute.ValidObjectName("configuration name")),
			func(r *v1alpha1.ConfigReferent) *string { return &r.Name }),
	}
}

func referentAttribute(description string, namespaced bool) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: description, Optional: true, Attributes: referentTable(namespaced).Attributes(),
	}
}

func supportedConfigsField() attribute.Field[fleetAddOn] {
	return attribute.Objects("supported_configs", attribute.OptionalObjects("Kinds of configuration that the add-on "+
		"understands, each with an optional default. The hub refuses to configure an add-on with any other kind. "+
		"`template` and `deployment_config` are short for the kinds `"+addon.TemplateResource+"` and "+
		"`"+addon.DeploymentConfigResource+"` with a default. To give each placement a template of its own, name the "+
		"kind `"+addon.TemplateResource+"` here without a default.", listvalidator.SizeAtLeast(1), validSupported()),
		func(o fleetAddOn) *[]v1alpha1.ConfigMeta { return &o.Spec.SupportedConfigs },
		attribute.Text("group", configGroupAttribute(), func(c *v1alpha1.ConfigMeta) *string { return &c.Group }),
		attribute.Text("resource", configResourceAttribute(),
			func(c *v1alpha1.ConfigMeta) *string { return &c.Resource }),
		attribute.ObjectPointer("default", attribute.OptionalObject("The configuration for all clusters, where "+
			"neither a placement nor a cluster names another one of the kind."),
			func(c *v1alpha1.ConfigMeta) **v1alpha1.ConfigReferent { return &c.DefaultConfig },
			referentTable(false)...)).
		From(otherKinds).KeepsWording()
}

func placementsField() attribute.Field[fleetAddOn] {
	type placement = *v1alpha1.PlacementStrategy
	return attribute.Objects("placements", attribute.OptionalObjects("Placements that select the clusters. A "+
		"cluster that several of them select goes by the last of these in the list. If omitted, the add-on is "+
		"installed by hand, with `muster_cluster_addon`.", validPlacements()),
		func(o fleetAddOn) *[]v1alpha1.PlacementStrategy { return &o.Spec.InstallStrategy.Placements },
		attribute.Text("namespace", attribute.Required("Namespace of the placement.", attribute.ValidName("namespace")),
			func(p placement) *string { return &p.Namespace }),
		attribute.Text("name", attribute.Required("Name of the placement.", attribute.ValidName("placement name")),
			func(p placement) *string { return &p.Name }),
		configsField("Configurations for the placement's clusters. For each kind that they name they replace the "+
			"add-on's defaults of that kind.",
			func(p placement) *[]v1alpha1.AddOnConfig { return &p.Configs }),
		workload.RolloutField("If omitted, it goes to all of them at once and waits "+
			"forever. A cluster is done when the works of the add-on have the present configuration and their "+
			"objects are there, and has failed when it takes longer than `progress_deadline`. It is about "+
			"configuration, templates included: a cluster that is newly selected gets the add-on by it, too.",
			"If omitted, it is the size of the placement's decision groups, and no limit where these have none.",
			func(p placement) *clusterv1alpha1.RolloutStrategy { return &p.RolloutStrategy })).
		Sets(func(o fleetAddOn) { o.Spec.InstallStrategy.Type = v1alpha1.InstallStrategyPlacements }).
		Where(func(o fleetAddOn) bool {
			return o.Spec.InstallStrategy.Type == v1alpha1.InstallStrategyPlacements
		}).
		At("spec.installStrategy.placements").KeepsWording()
}

// addOnStatus are what the hub reports.
func addOnStatus() attribute.Table[fleetAddOn] {
	type progression = v1alpha1.InstallProgression
	return attribute.Table[fleetAddOn]{
		attribute.ReportedObjects("install_progressions",
			"How far the present configuration has spread, placement by placement, as last read.",
			func(o fleetAddOn) []progression { return o.Status.InstallProgressions },
			attribute.ReportedText("namespace", "Namespace of the placement.",
				func(p progression) string { return p.Namespace }),
			attribute.ReportedText("name", "Name of the placement.", func(p progression) string { return p.Name }),
			attribute.ReportedFlag("completed", "Whether all of its clusters have it.", completed),
			attribute.ReportedText("reason",
				"`Progressing`, `Completed` or `Failed`; empty while the hub has not reported anything.",
				func(p progression) string { return progressing(p).Reason }),
			attribute.ReportedText("message", "How many clusters are selected, configured, failed and given up.",
				func(p progression) string { return progressing(p).Message })),
		attribute.ReportedFlag("rolled_out",
			"Whether every selected cluster has the present configuration: all of `install_progressions` are "+
				"completed, for what is in the configuration now. False without `placements`.",
			func(o fleetAddOn) bool {
				return len(notRolledOut(o, nil)) == 0 && len(o.Status.InstallProgressions) > 0
			}),
	}
}

func installedClusters() attribute.Field[fleetAddOn] {
	return attribute.Local[fleetAddOn]("installed_clusters", textsAttribute("Clusters that have the add-on, as last "+
		"read, in alphabetical order. Null where they may not be read."))
}

// textsAttribute is a list of texts that only the provider sets.
func textsAttribute(description string) schema.ListAttribute {
	return attribute.TextsAttribute(description)
}

// plannedTable are what the last change was expected to do.
func plannedTable() attribute.Table[fleetAddOn] {
	planned := textsAttribute("Clusters that the last change of `placements` was expected to install the " +
		"add-on in. Set from the data source `muster_placement_preview`, it is shown in plans. " +
		"If omitted, it is what the scheduling library predicted right before the change was written, known only " +
		"after the apply, and null without `placements`, if the hub could not be asked or `preview` is `false`. It " +
		"does not affect where the add-on is installed.")
	planned.Optional = true
	return attribute.Table[fleetAddOn]{
		attribute.Local[fleetAddOn]("planned_clusters", planned),
		attribute.Local[fleetAddOn]("planned_added", textsAttribute("Those of `planned_clusters` that did "+
			"not have the add-on before the change.")),
		attribute.Local[fleetAddOn]("planned_dropped", textsAttribute("Those that had the add-on before "+
			"the change and are not in `planned_clusters`.")),
	}
}
