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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

type (
	logicalCloud = *v1alpha1.LogicalCloud
	cloudChange  = crud.Change[logicalCloud]
)

// Cloud is muster_logical_cloud.
func Cloud() crud.Declared {
	return &crud.Kind[logicalCloud]{
		Type: "logical_cloud", Noun: "logical cloud", Empty: &v1alpha1.LogicalCloud{},
		Description: "Gives users of the hub one namespace of the same name in all clusters that placements select, " +
			"with quotas and rights: the logical cloud of EMCO's DCM. Users come in with short-lived certificates " +
			"or tokens, which they get by `muster access kubeconfig`, `muster_cluster_kubeconfig` or " +
			"`muster_access_request`.\n\n" +
			"Who creates a cloud needs the right to grant what it grants: the verb `bind` on its access roles. " +
			"Users need the verb `use` on the cloud to ask for access.\n\n" +
			"A cluster that the placements no longer select loses the rights and quotas at once, and keeps the " +
			"namespace unless `on_delete` says otherwise. The agent of each cluster has to do user access " +
			"(`--user-access`) for users to get in; rights and quotas arrive without that, too. Needs a muster hub " +
			"with the feature gate `UserAccess`, which is on by default.",
		Keys: []crud.Key{
			{
				Name: "namespace", DataDescription: "Namespace of the cloud on the hub.",
				Description: "Namespace on the hub, that of the placements. It has to exist, for example as a " +
					"`muster_namespace`. Changing it replaces the cloud.",
				Valid: attribute.ValidName("namespace"),
			},
			{
				Name: "name", DataDescription: "Name of the cloud.",
				Description: "Name of the cloud. Changing it replaces the cloud.",
				Valid:       attribute.ValidObjectName("logical cloud name"),
			},
		},
		Table: append(cloudTable(), cloudStatus()...),
		Timeouts: crud.Timeouts{
			Create: "creating, with `wait`,", Update: "changing, with `wait`,",
			Delete: "deleting, which waits until the rights are withdrawn in all clusters,",
		},
		Waits: &crud.Waits{},
		Hooks: crud.Hooks[logicalCloud]{
			Validate: validateCloud,
			Plan:     planCloud,
			Follow: func(_ context.Context, c *cloudChange) crud.Follow {
				f := crud.Follow{Attribute: waitAttribute()}
				if wait := waitOf(c.Plan); wait != nil {
					f.Wait = wait.wait(c.Client, c.Object, c.Timeout).Run
				}
				return f
			},
			AfterRead: func(_ context.Context, values attribute.Values, object logicalCloud, _ *diag.Diagnostics) {
				crud.StayReady(values, func() bool { return len(waitOf(values).missing(object)) == 0 })
			},
			Late: func(_ context.Context, c *cloudChange) (summary, detail string) {
				return "Not removed yet: " + c.What, describeDeletion(c.Object, c.Timeout, time.Now())
			},
		},
		List: &crud.List[logicalCloud]{
			Plural: "logical clouds", Objects: &v1alpha1.LogicalCloudList{}, Needs: hub.AccessNeeds,
			Describe: func(object logicalCloud) string { return "namespace " + object.Spec.Namespace.Name },
		},
		Data: &crud.Data[logicalCloud]{
			Description: "A logical cloud, with how many clusters have it and what is wrong with the others.",
			Without:     []string{"id"},
			Others:      "kubectl get logicalclouds -A",
			Table: attribute.Table[logicalCloud]{
				attribute.ReportedFlag("ready", "Whether every selected cluster has all of the cloud's objects, as "+
					"they are now: the condition `Ready` is true of the present generation.",
					func(object logicalCloud) bool {
						wait := waitModel{Ready: types.BoolValue(true)}
						return len(wait.missing(object)) == 0
					}),
				attribute.ReportedConditions("Conditions of the cloud: `Selected`, `Applied`, `Ready`, and while it "+
					"is being deleted `Deleting`.",
					func(object logicalCloud) []metav1.Condition { return object.Status.Conditions }),
			},
		},
	}
}

// waitOf is the attribute wait; nil without one.
func waitOf(values attribute.Values) *waitModel { return attribute.As[*waitModel](values["wait"]) }

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
