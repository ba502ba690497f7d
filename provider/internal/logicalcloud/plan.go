package logicalcloud

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// What is checked and decided of a cloud while planning.

// validateCloud checks how the attributes of a cloud go together.
func validateCloud(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var cloud types.Object
	if diags.Append(config.Get(ctx, &cloud)...); diags.HasError() {
		return
	}
	quotas, _ := cloud.Attributes()["quotas"].(types.Map)
	scopes, _ := cloud.Attributes()["quota_scopes"].(types.Map)
	list, _ := cloud.Attributes()["grants"].(types.List)
	access, _ := cloud.Attributes()["access"].(types.Object)
	checkScopes(quotas, scopes, diags)
	named := checkGrants(list, diags)
	checkAccess(access, named || list.IsUnknown(), diags)
}

// checkScopes refuses scopes of quotas that there are not.
func checkScopes(quotas, scopes types.Map, diags *diag.Diagnostics) {
	if quotas.IsUnknown() || scopes.IsUnknown() {
		return
	}
	for name := range scopes.Elements() {
		if _, ok := quotas.Elements()[name]; !ok {
			diags.AddAttributeError(path.Root("quota_scopes").AtMapKey(name), "Scopes of no quota",
				fmt.Sprintf("quota_scopes has %q, and quotas has no quota of this name. Correct the name, or remove "+
					"it.", name))
		}
	}
}

// checkGrants refuses grants of nothing, and to nobody. named tells whether one of
// them names users.
func checkGrants(list types.List, diags *diag.Diagnostics) (named bool) {
	for i, element := range list.Elements() {
		grant, ok := element.(types.Object)
		if !ok || grant.IsNull() || grant.IsUnknown() {
			named = named || element.IsUnknown()
			continue
		}
		at, of := path.Root("grants").AtListIndex(i), grant.Attributes()
		role, rules, users, groups := of["role"], of["rules"], of["users"], of["groups"]
		named = named || !users.IsNull()
		switch {
		case role.IsUnknown() || rules.IsUnknown():
		case role.IsNull() && rules.IsNull():
			diags.AddAttributeError(at, "Grant of nothing", attribute.Place(at)+" names neither a role nor rules. "+
				"Set role to the name of a muster_access_role, or write rules.")
		case !role.IsNull() && !rules.IsNull():
			diags.AddAttributeError(at, "Grant of two kinds", attribute.Place(at)+" has a role and rules. Make two "+
				"grants of it.")
		}
		if users.IsNull() && groups.IsNull() {
			diags.AddAttributeError(at, "Grant to nobody", attribute.Place(at)+" names neither users nor groups.")
		}
		scope, _ := of["scope"].(types.String)
		namespaced := !scope.IsUnknown() && scope.ValueString() != string(v1alpha1.ScopeCluster)
		checkRules(at.AtName("rules"), rules, namespaced, diags)
	}
	return named
}

// checkAccess refuses lifetimes that contradict each other, and keys of the hub for
// nobody. named tells whether a grant names users.
func checkAccess(access types.Object, named bool, diags *diag.Diagnostics) {
	if access.IsNull() || access.IsUnknown() {
		return
	}
	at, of := path.Root("access"), attribute.Values(access.Attributes())
	usual, most := of.Text("default_lifetime"), of.Text("max_lifetime")
	if !of["default_lifetime"].IsUnknown() && !of["max_lifetime"].IsUnknown() {
		usual, most = cmp.Or(usual, defaultLifetime), cmp.Or(most, defaultMaxLifetime)
	}
	shorter, err := time.ParseDuration(usual)
	longer, alsoErr := time.ParseDuration(most)
	if err == nil && alsoErr == nil && shorter > longer {
		diags.AddAttributeError(at.AtName("max_lifetime"), "Access lasts longer than it may",
			fmt.Sprintf("access.default_lifetime is %s, and access.max_lifetime is %s. Shorten the default, or raise "+
				"the maximum.", usual, most))
	}
	if of.Text("key_policy") == string(v1alpha1.KeyHubMade) && !named {
		diags.AddAttributeError(at.AtName("key_policy"), "Keys for nobody",
			"access.key_policy is \"HubMade\", so the hub makes a key for each user that the grants name, and none "+
				"names users. Name the users in grants; groups don't tell the hub who is in them.")
	}
}

// planCloud warns of what a change takes away.
func planCloud(
	ctx context.Context, _ *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.State.Raw.IsNull() {
		return true
	}
	var before, after types.Object
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	state, was := attribute.Values(before.Attributes()), inClusters(before)
	if req.Plan.Raw.IsNull() {
		if was.Text("on_delete") == string(v1alpha1.OnDeleteDelete) {
			what := fmt.Sprintf("logical cloud %q", state.Text("namespace")+"/"+state.Text("name"))
			resp.Diagnostics.AddWarning("Deletes namespaces in the clusters: "+what,
				fmt.Sprintf("cluster_namespace.on_delete is \"Delete\": the namespace %q goes in every cluster of the "+
					"cloud, with all that is in it, save where it was adopted. To keep it, apply on_delete = \"Keep\" "+
					"first.", was.Text("name")))
		}
		return false
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &after)...)
	in := inClusters(after)
	if resp.Diagnostics.HasError() || in["name"] != nil && !in["name"].Equal(was["name"]) {
		return false // Terraform plans again, for a new cloud.
	}
	warnOfLostPlacements(state, after.Attributes(), in.Text("on_delete"), &resp.Diagnostics)
	return true
}

// inClusters is the attribute cluster_namespace of a cloud.
func inClusters(cloud types.Object) attribute.Values {
	namespace, _ := cloud.Attributes()["cluster_namespace"].(types.Object)
	return namespace.Attributes()
}

// warnOfLostPlacements tells what becomes of the clusters that only placements select
// which leave the cloud.
func warnOfLostPlacements(before, after attribute.Values, onDelete string, diags *diag.Diagnostics) {
	were, _ := before["placements"].(types.Set)
	are, _ := after["placements"].(types.Set)
	if !attribute.Known(are) {
		return
	}
	kept := attribute.StringList(are)
	lost := slices.DeleteFunc(attribute.StringList(were), func(name string) bool { return slices.Contains(kept, name) })
	if len(lost) == 0 {
		return
	}
	becomes := "The namespace stays there, with all that is in it."
	if onDelete == string(v1alpha1.OnDeleteDelete) {
		becomes = "The namespace is deleted there, with all that is in it, as on_delete is \"Delete\"."
	}
	diags.AddAttributeWarning(path.Root("placements"), "Clusters leave the logical cloud",
		fmt.Sprintf("The clusters that only %s selects lose the cloud's rights and quotas, and the access of its "+
			"users. %s", strings.Join(lost, ", "), becomes))
}
