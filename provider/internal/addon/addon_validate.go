package addon

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
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
	var annotations types.Map
	var template types.String
	var deployment, wait types.Object
	var supported, placements types.List
	for name, target := range map[string]any{
		"annotations": &annotations, "template": &template, "deployment_config": &deployment,
		"supported_configs": &supported, "placements": &placements, "wait": &wait,
	} {
		diags.Append(config.GetAttribute(ctx, path.Root(name), target)...)
	}
	if diags.HasError() {
		return
	}
	if _, set := annotations.Elements()[addon.LifecycleAnnotation]; set {
		diags.AddAttributeError(path.Root("annotations").AtMapKey(addon.LifecycleAnnotation), "Reserved key",
			fmt.Sprintf("%q can't be set here: use managed_by.", addon.LifecycleAnnotation))
	}
	if !template.IsNull() {
		checkTwice(supported, addon.TemplateResource, "template", diags)
	}
	if !deployment.IsNull() {
		checkTwice(supported, addon.DeploymentConfigResource, "deployment_config", diags)
	}
	if !wait.IsNull() && !wait.IsUnknown() && placements.IsNull() {
		diags.AddAttributeError(path.Root("wait"), "Nothing to wait for",
			"The add-on has no placements, so the hub installs it nowhere by itself. Set placements, or remove the "+
				"wait; muster_cluster_addon waits for the add-on in one cluster.")
	}
}

// checkTwice refuses a kind in supported_configs that an attribute stands for.
func checkTwice(supported types.List, resource, by string, diags *diag.Diagnostics) {
	for i, element := range supported.Elements() {
		if kind, known := kindOf(element); known && kind == ownKind(resource) {
			diags.AddAttributeError(path.Root("supported_configs").AtListIndex(i), "Duplicate kind of configuration",
				fmt.Sprintf("supported_configs[%d] names %s, and %s stands for the same kind with a default. Remove "+
					"one of them.", i, resource, by))
		}
	}
}

// kindOf is the kind that an element of supported_configs names, if it is known.
func kindOf(element attr.Value) (kind v1alpha1.ConfigGroupResource, known bool) {
	object, ok := element.(types.Object)
	if !ok || object.IsNull() || object.IsUnknown() {
		return kind, false
	}
	group, _ := object.Attributes()["group"].(types.String)
	resource, _ := object.Attributes()["resource"].(types.String)
	if group.IsUnknown() || resource.IsUnknown() {
		return kind, false
	}
	if group.IsNull() { // A validator sees no defaults.
		group = types.StringValue(addon.GroupName)
	}
	return v1alpha1.ConfigGroupResource{Group: group.ValueString(), Resource: resource.ValueString()}, true
}

// supportedValidator refuses kinds that are named twice, and defaults in the wrong
// place.
type supportedValidator struct{ attribute.Described }

// ValidateList implements validator.List.
func (supportedValidator) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	seen := map[v1alpha1.ConfigGroupResource]int{}
	for i, element := range req.ConfigValue.Elements() {
		kind, known := kindOf(element)
		if !known {
			continue
		}
		at := req.Path.AtListIndex(i)
		if first, twice := seen[kind]; twice {
			resp.Diagnostics.AddAttributeError(at, "Duplicate kind of configuration",
				fmt.Sprintf("%s and %s name the same kind. Remove one of them: a kind has one "+
					"default.", attribute.Place(req.Path.AtListIndex(first)), attribute.Place(at)))
		}
		seen[kind] = i
		standard, _ := element.(types.Object).Attributes()["default"].(types.Object)
		if standard.IsNull() || !attribute.Known(standard) {
			continue
		}
		namespace, _ := standard.Attributes()["namespace"].(types.String)
		checkConfigPlace(at.AtName("default"), v1alpha1.AddOnConfig{
			ConfigGroupResource: kind, ConfigReferent: v1alpha1.ConfigReferent{Namespace: namespace.ValueString()},
		}, &resp.Diagnostics)
	}
}

// placementsValidator refuses an empty list and placements that are named twice, and
// checks the strategies.
type placementsValidator struct{ attribute.Described }

// ValidateList implements validator.List.
func (placementsValidator) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if len(req.ConfigValue.Elements()) == 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "No placements",
			"placements = [] selects no cluster, so the hub would remove the add-on from all of them. Name a "+
				"placement, or leave placements out to install the add-on by hand.")
	}
	seen := map[[2]string]int{}
	for i, element := range req.ConfigValue.Elements() {
		object, ok := element.(types.Object)
		if !ok || object.IsNull() || object.IsUnknown() {
			continue
		}
		at := req.Path.AtListIndex(i)
		namespace, _ := object.Attributes()["namespace"].(types.String)
		name, _ := object.Attributes()["name"].(types.String)
		if !namespace.IsUnknown() && !name.IsUnknown() {
			key := [2]string{namespace.ValueString(), name.ValueString()}
			if first, twice := seen[key]; twice {
				resp.Diagnostics.AddAttributeError(at, "Duplicate placement",
					fmt.Sprintf("placements[%d] and placements[%d] both name %s/%s, and the hub could not tell which "+
						"strategy holds. Remove one of them.", first, i, key[0], key[1]))
			}
			seen[key] = i
		}
		if strategy, ok := object.Attributes()["rollout_strategy"].(types.Object); ok && !strategy.IsNull() && !strategy.IsUnknown() {
			workload.CheckRollout(strategy, at.AtName("rollout_strategy"), &resp.Diagnostics)
		}
	}
}
