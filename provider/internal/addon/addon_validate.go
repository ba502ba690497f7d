package addon

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// What can be told about an add-on before the hub is asked.

// validateAddOn checks how the attributes of an add-on go together.
func validateAddOn(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	values := attribute.ValuesOf(ctx, config, diags)
	if diags.HasError() {
		return
	}
	supported, _ := values["supported_configs"].(types.List)
	if values.IsSet("template") {
		checkTwice(supported, addon.TemplateResource, "template", diags)
	}
	if values.IsSet("deployment_config") {
		checkTwice(supported, addon.DeploymentConfigResource, "deployment_config", diags)
	}
	if values.IsSet("wait") && !values["wait"].IsUnknown() && !values.IsSet("placements") {
		diags.AddAttributeError(path.Root("wait"), "Nothing to wait for",
			"The add-on has no placements, so the hub installs it nowhere by itself. Set placements, or remove the "+
				"wait; muster_cluster_addon waits for the add-on in one cluster.")
	}
}

// checkTwice refuses a kind in supported_configs that an attribute stands for.
func checkTwice(supported types.List, resource, by string, diags *diag.Diagnostics) {
	for i, element := range attribute.EachObject(supported) {
		if kind, known := kindOf(element); known && kind == ownKind(resource) {
			diags.AddAttributeError(path.Root("supported_configs").AtListIndex(i), "Duplicate kind of configuration",
				fmt.Sprintf("supported_configs[%d] names %s, and %s stands for the same kind with a default. Remove "+
					"one of them.", i, resource, by))
		}
	}
}

// kindOf is the kind that an element of supported_configs or of configs names, if it is
// known. A validator sees no defaults.
func kindOf(element attribute.Values) (kind v1alpha1.ConfigGroupResource, known bool) {
	kind = ownKind(element.Text("resource"))
	if element.IsSet("group") {
		kind.Group = element.Text("group")
	}
	return kind, !element["group"].IsUnknown() && !element["resource"].IsUnknown()
}

// validSupported refuses kinds that are named twice, and defaults in the wrong place.
func validSupported() validator.List {
	const description = "kinds of configuration, each named once"
	return attribute.ValidList(description, func(at path.Path, list types.List, diags *diag.Diagnostics) {
		seen := attribute.Seen{}
		for i, element := range attribute.EachObject(list) {
			kind, known := kindOf(element)
			if !known {
				continue
			}
			at := at.AtListIndex(i)
			seen.Again(kind.Group+"/"+kind.Resource, at, "Duplicate kind of configuration",
				"name the same kind. Remove one of them: a kind has one default.", diags)
			standard, _ := element["default"].(types.Object)
			if !standard.IsNull() && attribute.Known(standard) {
				namespace := attribute.Values(standard.Attributes()).Text("namespace")
				checkConfigPlace(at.AtName("default"), kind, namespace, diags)
			}
		}
	})
}

// validPlacements refuses an empty list and placements that are named twice, and checks
// the strategies.
func validPlacements() validator.List {
	const description = "at least one placement, each named once"
	return attribute.ValidList(description, func(at path.Path, list types.List, diags *diag.Diagnostics) {
		if len(list.Elements()) == 0 {
			diags.AddAttributeError(at, "No placements",
				"placements = [] selects no cluster, so the hub would remove the add-on from all of them. Name a "+
					"placement, or leave placements out to install the add-on by hand.")
		}
		seen := attribute.Seen{}
		for i, placement := range attribute.EachObject(list) {
			at, key := at.AtListIndex(i), placement.Text("namespace")+"/"+placement.Text("name")
			if !placement["namespace"].IsUnknown() && !placement["name"].IsUnknown() {
				seen.Again(key, at, "Duplicate placement", "both name "+key+", and the hub could not tell which "+
					"strategy holds. Remove one of them.", diags)
			}
			if s, ok := placement["rollout_strategy"].(types.Object); ok && !s.IsNull() && !s.IsUnknown() {
				workload.CheckRollout(s, at.AtName("rollout_strategy"), diags)
			}
		}
	})
}
