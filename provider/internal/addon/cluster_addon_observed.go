package addon

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// observedAddOnModel is an add-on in one cluster, as data sources have it.
type observedAddOnModel struct {
	ManagedCluster   types.String               `tfsdk:"managed_cluster"`
	Name             types.String               `tfsdk:"name"`
	Labels           types.Map                  `tfsdk:"labels"`
	InstallNamespace types.String               `tfsdk:"install_namespace"`
	Available        types.String               `tfsdk:"available"`
	Progressing      types.String               `tfsdk:"progressing"`
	Problem          types.String               `tfsdk:"problem"`
	Configs          []observedConfigModel      `tfsdk:"configs"`
	Conditions       []attribute.ConditionModel `tfsdk:"conditions"`
}

// observedConfigModel is a configuration that counts for an add-on in one cluster.
type observedConfigModel struct {
	configModel
	SpecHash types.String `tfsdk:"spec_hash"`
	Applied  types.Bool   `tfsdk:"applied"`
}

// observedAddOnAttributes are those of an add-on in one cluster.
func observedAddOnAttributes() map[string]schema.Attribute {
	text := attribute.TextAttributeOfData
	return map[string]schema.Attribute{
		"managed_cluster": text("Name of the cluster."),
		"name":            text("Name of the add-on."),
		"labels": schema.MapAttribute{MarkdownDescription: "Labels of the add-on in the " +
			"cluster.", Computed: true, ElementType: types.StringType},
		"install_namespace": text("Namespace in the cluster in which its agent runs; empty while its manager has not " +
			"said."),
		"available": text("Whether it works: the condition `Available`, `True`, `False` or `Unknown`; empty " +
			"while nobody reports it."),
		"progressing": text("Whether its configuration is still on the way: the condition `Progressing`; empty " +
			"while the hub does not report it."),
		"problem": text("What keeps it from being available with its present configuration, in a sentence; " +
			"empty when nothing does."),
		"configs": schema.ListNestedAttribute{
			MarkdownDescription: "The configurations that count for it, out of the add-on's defaults, its " +
				"placement's and the cluster's own.",
			Computed: true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"group":     text("API group of the configuration's kind."),
				"resource":  text("Plural name of the configuration's kind."),
				"namespace": text("Namespace of the object; null where it has none."),
				"name":      text("Name of the object."),
				"spec_hash": text("Hash of its content that the cluster is to have; empty while it is not known, as " +
					"when the object does not exist."),
				"applied": schema.BoolAttribute{MarkdownDescription: "Whether the cluster has it.", Computed: true},
			}},
		},
		"conditions": attribute.ConditionsAttribute("Conditions, such as `Available`, `Progressing`, `Configured`, " +
			"`ManifestApplied` and `RegistrationApplied`."),
	}
}

func observedAddOn(x *v1alpha1.ManagedClusterAddOn) observedAddOnModel {
	status := func(kind string) types.String {
		if c := meta.FindStatusCondition(x.Status.Conditions, kind); c != nil {
			return types.StringValue(string(c.Status))
		}
		return types.StringValue("")
	}
	m := observedAddOnModel{
		ManagedCluster: types.StringValue(x.Namespace), Name: types.StringValue(x.Name),
		Labels:           attribute.StringMapValue(attribute.OrEmpty(x.Labels)),
		InstallNamespace: types.StringValue(x.Status.Namespace),
		Available:        status(addon.ConditionAvailable), Progressing: status(addon.ConditionProgressing),
		Problem: types.StringValue(addOnProblem(x)),
		Configs: []observedConfigModel{}, Conditions: attribute.ConditionModels(x.Status.Conditions),
	}
	for _, r := range x.Status.ConfigReferences {
		if r.DesiredConfig == nil {
			continue
		}
		c := v1alpha1.AddOnConfig{ConfigGroupResource: r.ConfigGroupResource, ConfigReferent: r.DesiredConfig.ConfigReferent}
		m.Configs = append(m.Configs, observedConfigModel{
			configModel: configModels([]v1alpha1.AddOnConfig{c})[0],
			SpecHash:    types.StringValue(r.DesiredConfig.SpecHash), Applied: types.BoolValue(attribute.Same(r.DesiredConfig, r.LastAppliedConfig)),
		})
	}
	return m
}
