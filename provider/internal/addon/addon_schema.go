package addon

import (
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
)

// Who manages an add-on, as managed_by has it.
const (
	managedByHub  = "hub"
	managedBySelf = "self"
)

// addOnResourceAttributes are those of the resource, beside its name.
func addOnResourceAttributes() map[string]schema.Attribute {
	attributes := addOnAttributes()
	maps.Copy(attributes, addOnStatusAttributes())
	maps.Copy(attributes, plannedAttributes())
	attributes["preview"] = schema.BoolAttribute{
		MarkdownDescription: "Whether a plan that changes where the add-on is installed asks the hub for the fleet, " +
			"and warns of the clusters that would get and lose it. A hub that does not answer at once is no error. " +
			"Defaults to `true`.",
		Optional: true,
	}
	attributes["wait"] = addOnWaitAttribute().Schema()
	attributes["ready"] = attribute.Ready("Whether what `wait` asks for was met; null without `wait`.")
	return attributes
}

// addOnAttributes are those of the add-on itself.
func addOnAttributes() map[string]schema.Attribute {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{MarkdownDescription: description, Optional: true, Validators: []validator.String{attribute.NotEmpty()}}
	}
	return map[string]schema.Attribute{
		"labels":       attribute.Labels("Labels of the add-on.", nil),
		"annotations":  attribute.Annotations("Annotations of the add-on. That of its lifecycle is `managed_by`."),
		"display_name": text("Name of the add-on for people."),
		"description":  text("What the add-on is for, in a sentence or two."),
		"managed_by": schema.StringAttribute{
			MarkdownDescription: "Who installs and configures the add-on in the clusters. `hub`: the hub, by " +
				"`placements` and configurations. `self`: a manager of its own, and the hub leaves it alone. " +
				"It is the annotation `" + addon.LifecycleAnnotation + "`. If omitted, the annotation is left as it " +
				"is; without it the hub manages the add-on.",
			Optional:   true,
			Validators: attribute.OneOf(managedByHub, managedBySelf),
		},
		"template": schema.StringAttribute{
			MarkdownDescription: "Name of the `muster_addon_template` that the add-on is made from, where neither a " +
				"placement nor a cluster names another one.",
			Optional:   true,
			Validators: []validator.String{attribute.ValidObjectName("template name")},
		},
		"deployment_config": referentAttribute("The `muster_addon_deployment_config` for all clusters, where neither "+
			"a placement nor a cluster names another one.", true),
		"supported_configs": supportedConfigsAttribute(),
		"placements":        placementsAttribute(),
	}
}

// referentAttribute names an object of a known kind. namespaced says whether the kind
// has namespaces; where it may or may not, it is false.
func referentAttribute(description string, namespaced bool) schema.SingleNestedAttribute {
	about := "Namespace of the object."
	if !namespaced {
		about += " Leave it out for kinds that have none."
	}
	return schema.SingleNestedAttribute{
		MarkdownDescription: description,
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"namespace": schema.StringAttribute{
				MarkdownDescription: about, Required: namespaced, Optional: !namespaced,
				Validators: []validator.String{attribute.ValidName("namespace")},
			},
			"name": schema.StringAttribute{
				MarkdownDescription: "Name of the object.", Required: true,
				Validators: []validator.String{attribute.ValidObjectName("configuration name")},
			},
		},
	}
}

func supportedConfigsAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Kinds of configuration that the add-on understands, each with an optional default. The " +
			"hub refuses to configure an add-on with any other kind. " +
			"`template` and `deployment_config` are short for the kinds " +
			"`" + addon.TemplateResource + "` and `" + addon.DeploymentConfigResource + "` with a default. " +
			"To give each placement a template of its own, name the kind " +
			"`" + addon.TemplateResource + "` here without a default.",
		Optional: true,
		Validators: []validator.List{listvalidator.SizeAtLeast(1), supportedValidator{"kinds of configuration, each " +
			"named once"}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"group":    configGroupAttribute(),
			"resource": configResourceAttribute(),
			"default": referentAttribute("The configuration for all clusters, where neither a placement nor a "+
				"cluster names another one of the kind.", false),
		}},
	}
}

func placementsAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Placements that select the clusters. A cluster that several of them select goes by the " +
			"last of these in the list. If omitted, the add-on is installed by hand, with `muster_cluster_addon`.",
		Optional:   true,
		Validators: []validator.List{placementsValidator{"at least one placement, each named once"}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"namespace": schema.StringAttribute{
				MarkdownDescription: "Namespace of the placement.", Required: true,
				Validators: []validator.String{attribute.ValidName("namespace")},
			},
			"name": schema.StringAttribute{
				MarkdownDescription: "Name of the placement.", Required: true,
				Validators: []validator.String{attribute.ValidName("placement name")},
			},
			"configs": configsAttribute("Configurations for the placement's clusters. For each kind that they name " +
				"they replace the add-on's defaults of that kind."),
			"rollout_strategy": workload.RolloutAttribute("If omitted, it goes to all of them at once and waits "+
				"forever. A cluster is done when the works of the add-on have the present configuration and their "+
				"objects are there, and has failed when it takes longer than `progress_deadline`. It is about "+
				"configuration, templates included: a cluster that is newly selected gets the add-on by it, too.",
				"If omitted, it is the size of the placement's decision groups, and no limit where these have none."),
		}},
	}
}

// addOnStatusAttributes are what the hub reports.
func addOnStatusAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"install_progressions": schema.ListNestedAttribute{
			MarkdownDescription: "How far the present configuration has spread, placement by placement, as last read.",
			Computed:            true,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"namespace": attribute.TextAttribute("Namespace of the placement."),
				"name":      attribute.TextAttribute("Name of the placement."),
				"completed": schema.BoolAttribute{MarkdownDescription: "Whether all of its clusters have " +
					"it.", Computed: true},
				"reason": attribute.TextAttribute("`Progressing`, `Completed` or `Failed`; empty while the hub " +
					"has not reported anything."),
				"message": attribute.TextAttribute("How many clusters are selected, configured, failed and given up."),
			}},
		},
		"rolled_out": schema.BoolAttribute{
			MarkdownDescription: "Whether every selected cluster has the present configuration: all of " +
				"`install_progressions` are completed, for what is in the configuration now. False without " +
				"`placements`.",
			Computed: true,
		},
		"installed_clusters": schema.ListAttribute{
			MarkdownDescription: "Clusters that have the add-on, as last read, in alphabetical order. Null where " +
				"they may not be read.",
			Computed: true, ElementType: types.StringType,
		},
	}
}

func plannedAttributes() map[string]schema.Attribute {
	list := func(description string) schema.ListAttribute {
		return schema.ListAttribute{MarkdownDescription: description, Computed: true, ElementType: types.StringType}
	}
	planned := list("Clusters that the last change of `placements` was expected to install the add-on in. " +
		"Set from the data source `muster_placement_preview`, it is shown in plans. " +
		"If omitted, it is what the scheduling library predicted right before the change was written, known only " +
		"after the apply, and null without `placements`, if the hub could not be asked or `preview` is `false`. It " +
		"does not affect where the add-on is installed.")
	planned.Optional = true
	return map[string]schema.Attribute{
		"planned_clusters": planned,
		"planned_added":    list("Those of `planned_clusters` that did not have the add-on before the change."),
		"planned_dropped":  list("Those that had the add-on before the change and are not in `planned_clusters`."),
	}
}
