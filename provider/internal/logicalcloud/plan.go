package logicalcloud

import (
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
	var quotas, scopes types.Map
	var list types.List
	var access types.Object
	for name, target := range map[string]any{"quotas": &quotas, "quota_scopes": &scopes, "grants": &list, "access": &access} {
		diags.Append(config.GetAttribute(ctx, path.Root(name), target)...)
	}
	if diags.HasError() {
		return
	}
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
		checkRules(at.AtName("rules"), rules, !scope.IsUnknown() && scope.ValueString() != string(v1alpha1.ScopeCluster), diags)
	}
	return named
}

// checkAccess refuses lifetimes that contradict each other, and keys of the hub for
// nobody. named tells whether a grant names users.
func checkAccess(access types.Object, named bool, diags *diag.Diagnostics) {
	if access.IsNull() || access.IsUnknown() {
		return
	}
	text := func(name, standard string) (string, bool) {
		value, ok := access.Attributes()[name].(types.String)
		if !ok || value.IsUnknown() {
			return "", false
		}
		return attribute.OrDefault(value, standard), true
	}
	at := path.Root("access")
	usual, known := text("default_lifetime", defaultLifetime)
	most, alsoKnown := text("max_lifetime", defaultMaxLifetime)
	if known && alsoKnown {
		shorter, err := time.ParseDuration(usual)
		longer, alsoErr := time.ParseDuration(most)
		if err == nil && alsoErr == nil && shorter > longer {
			diags.AddAttributeError(at.AtName("max_lifetime"), "Access lasts longer than it may",
				fmt.Sprintf("access.default_lifetime is %s, and access.max_lifetime is %s. Shorten the default, or "+
					"raise the maximum.", usual, most))
		}
	}
	if policy, _ := text("key_policy", ""); policy == string(v1alpha1.KeyHubMade) && !named {
		diags.AddAttributeError(at.AtName("key_policy"), "Keys for nobody",
			"access.key_policy is \"HubMade\", so the hub makes a key for each user that the grants name, and none "+
				"names users. Name the users in grants; groups don't tell the hub who is in them.")
	}
}

// planCloud warns of what a change takes away.
func planCloud(
	ctx context.Context, _ *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	switch {
	case req.Plan.Raw.IsNull():
		warnOfDestruction(ctx, req, resp)
		return false
	case renamed(ctx, req):
		return false // Terraform plans again, for a new cloud.
	}
	warnOfLostPlacements(ctx, req, resp)
	return true
}

// renamed reports whether the cloud has another namespace in the clusters, and so is
// replaced by another of its name.
func renamed(ctx context.Context, req resource.ModifyPlanRequest) bool {
	var before, after types.String
	at := path.Root("cluster_namespace").AtName("name")
	return !req.State.Raw.IsNull() && !req.State.GetAttribute(ctx, at, &before).HasError() &&
		!req.Plan.GetAttribute(ctx, at, &after).HasError() && !before.Equal(after)
}

// warnOfDestruction tells what goes with a cloud whose namespaces go.
func warnOfDestruction(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var whole types.Object
	if req.State.Raw.IsNull() || req.State.Get(ctx, &whole).HasError() {
		return
	}
	state := attribute.Values(whole.Attributes())
	namespace, _ := state["cluster_namespace"].(types.Object)
	in := attribute.Values(namespace.Attributes())
	if in.Text("on_delete") == string(v1alpha1.OnDeleteDelete) {
		what := fmt.Sprintf("logical cloud %q", state.Text("namespace")+"/"+state.Text("name"))
		resp.Diagnostics.AddWarning("Deletes namespaces in the clusters: "+what,
			fmt.Sprintf("cluster_namespace.on_delete is \"Delete\": the namespace %q goes in every cluster of the "+
				"cloud, with all that is in it, "+
				"save where it was adopted. To keep it, apply on_delete = \"Keep\" first.", in.Text("name")))
	}
}

// warnOfLostPlacements tells what becomes of the clusters that only placements select
// which leave the cloud.
func warnOfLostPlacements(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var before, after types.Set
	var namespace types.Object
	if req.State.Raw.IsNull() || req.State.GetAttribute(ctx, path.Root("placements"), &before).HasError() ||
		req.Plan.GetAttribute(ctx, path.Root("placements"), &after).HasError() ||
		req.Plan.GetAttribute(ctx, path.Root("cluster_namespace"), &namespace).HasError() || !attribute.Known(after) {
		return
	}
	kept := attribute.StringList(after)
	lost := slices.DeleteFunc(attribute.StringList(before), func(name string) bool { return slices.Contains(kept, name) })
	if len(lost) == 0 {
		return
	}
	becomes := "The namespace stays there, with all that is in it."
	if onDelete, ok := namespace.Attributes()["on_delete"].(types.String); ok && onDelete.ValueString() == string(v1alpha1.OnDeleteDelete) {
		becomes = "The namespace is deleted there, with all that is in it, as on_delete is \"Delete\"."
	}
	resp.Diagnostics.AddAttributeWarning(path.Root("placements"), "Clusters leave the logical cloud",
		fmt.Sprintf("The clusters that only %s selects lose the cloud's rights and quotas, and the access of its "+
			"users. %s", strings.Join(lost, ", "), becomes))
}
