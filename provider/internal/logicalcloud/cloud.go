// Package logicalcloud has the resources muster_logical_cloud,
// muster_logical_cloud_wait and muster_access_role, and the data source
// muster_logical_cloud: a namespace with quotas and rights in many clusters, and
// what may be granted there.
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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
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
			Reading: func(_ context.Context, c *cloudChange) {
				values, object := c.Prior, c.Object
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

// When a cloud is what a wait waits for.

type waitModel struct {
	Ready      types.Bool     `tfsdk:"ready"`
	MinReady   types.Int64    `tfsdk:"min_ready"`
	Conditions []types.String `tfsdk:"conditions"`
}

func waitAttribute() crud.WaitAttribute {
	return crud.WaitAttribute{
		Kind: "logical cloud", Failing: "muster_logical_cloud_wait",
		Lost: "the cloud, and so withdraw everybody's access",
		Notes: "A wait for all clusters ends before its timeout when one has refused the cloud's objects for 30 " +
			"seconds, or for 3 where no retry can change that.",
		Options: waitOptions(),
	}
}

// waitOptions are what there is to wait for.
func waitOptions() crud.WaitOptions {
	return crud.WaitOptions{
		crud.WaitFlag("ready", "Whether to wait until placements select clusters and all of them have the cloud's "+
			"objects, as they are in the configuration. It is the condition `Ready`."),
		crud.WaitCount("min_ready", "Waits until at least this many clusters are ready, "+
			"so that one that is offline does not hold up the run."),
		crud.WaitConditions("Conditions of the cloud to wait for, each as its type, which then has to be true, " +
			"or as `type=status`: `Selected`, `Applied` and `Ready`."),
	}
}

// wanted are the conditions to wait for, in the order of their types.
func (m *waitModel) wanted() []attribute.WaitCondition {
	return attribute.WaitConditionsAnd(m.Conditions, m.Ready, muster.ConditionReady)
}

// wait waits for a cloud.
func (m *waitModel) wait(client *kube.Client, object *v1alpha1.LogicalCloud, timeout time.Duration) *crud.Wait {
	return &crud.Wait{
		Client: client, Object: object, Timeout: timeout,
		What: fmt.Sprintf("logical cloud %q", object.Namespace+"/"+object.Name), Resource: "logicalcloud",
		Missing:  func() []string { return m.missing(object) },
		Troubles: func() []kube.Trouble { return m.troubles(object) },
		GivenUp: func(err *kube.GaveUpError) []string {
			return []string{fmt.Sprintf("Clusters refuse the cloud's objects, and have done so for %s, "+
				"so the wait ended before its timeout.", attribute.ShortDuration(err.After))}
		},
		Conditions: func() []metav1.Condition { return object.Status.Conditions },
		Details:    func(context.Context) []string { return describeClusters(object) },
	}
}

// missing lists what is not as the wait wants it.
func (m *waitModel) missing(object *v1alpha1.LogicalCloud) []string {
	missing := attribute.UnmetConditions(m.wanted(), object.Status.Conditions, object.Generation, "the hub")
	least, ready := m.MinReady.ValueInt64(), int64(object.Status.Clusters.Ready)
	if least > 0 && (ready < least || !reported(object)) {
		missing = append(missing, fmt.Sprintf("min_ready: %d of %d clusters are ready", ready, least))
	}
	return missing
}

// reported tells whether the hub has dealt with the cloud as it is now.
func reported(object *v1alpha1.LogicalCloud) bool {
	c := meta.FindStatusCondition(object.Status.Conditions, muster.ConditionReady)
	return c != nil && c.ObservedGeneration >= object.Generation
}

// troubles are what clusters refuse of a cloud that is waited for in all of them.
func (m *waitModel) troubles(object *v1alpha1.LogicalCloud) []kube.Trouble {
	all := slices.ContainsFunc(m.wanted(), func(c attribute.WaitCondition) bool {
		everywhere := c.Type == muster.ConditionReady || c.Type == muster.ConditionApplied
		return everywhere && c.Status == metav1.ConditionTrue
	})
	if !all || !reported(object) {
		return nil
	}
	var troubles []kube.Trouble
	clusters := object.Status.Clusters
	refusing := min(len(clusters.Failing), int(clusters.Failed)) // After them come those that are late.
	for _, f := range clusters.Failing[:refusing] {
		for _, t := range workload.TroubleOf(f.Message) {
			t.Text = "cluster " + f.Name + ": " + t.Text
			troubles = append(troubles, t)
		}
	}
	return troubles
}

// describeClusters counts a cloud's clusters, and lists those that hold it up.
func describeClusters(object *v1alpha1.LogicalCloud) []string {
	c := object.Status.Clusters
	lines := []string{fmt.Sprintf("Clusters: %d selected, %d ready, %d failed.", c.Selected, c.Ready, c.Failed)}
	for _, f := range c.Failing {
		lines = append(lines, fmt.Sprintf("  cluster %s: %s: %s", f.Name, f.Reason, f.Message))
	}
	if c.Selected == 0 {
		lines = append(lines, "", "No placement selects a cluster for it. The placements have to be in the cloud's "+
			"namespace, and a cluster set has to be bound there: kubectl get placements -n "+object.Namespace)
	}
	return lines
}

// describeDeletion tells what keeps a cloud that should be gone.
func describeDeletion(object *v1alpha1.LogicalCloud, timeout time.Duration, now time.Time) string {
	lines := []string{
		fmt.Sprintf("The logical cloud was still there %s after its deletion was asked "+
			"for.", attribute.ShortDuration(timeout)),
		hub.DescribeDeletion(object, now),
	}
	if c := meta.FindStatusCondition(object.Status.Conditions, muster.ConditionDeleting); c != nil {
		lines = append(lines, "  The hub says: "+c.Message)
	}
	return attribute.JoinLines(append(lines, "",
		"The rights are withdrawn where the agents are connected. Apply again when the others are back. "+
			"A cluster that is lost for good has to leave the fleet first: muster detach CLUSTER --force."))
}

// Wait is muster_logical_cloud_wait.
func Wait() crud.Declared {
	return crud.WaitResource[logicalCloud]{
		Type: "logical_cloud_wait", Noun: "logical cloud", Empty: &v1alpha1.LogicalCloud{},
		Description: "Waits until the clusters of a logical cloud are ready, and fails the run when they are not. " +
			"It creates nothing and destroys nothing. Let everything depend on it that needs the cloud's namespace " +
			"in the clusters.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but nobody's access is " +
			"touched, and the next apply waits again. `wait` of `muster_logical_cloud` can't do that after a creation.",
		Keys: []crud.Key{
			{
				Name: "namespace", Description: "Namespace of the logical cloud.",
				Valid: attribute.ValidName("namespace"),
			},
			{
				Name: "name", Description: "Name of the logical cloud.",
				Valid: attribute.ValidObjectName("logical cloud name"),
			},
		},
		Options: waitOptions(),
		Again: attribute.Table[logicalCloud]{attribute.Local[logicalCloud]("triggers", attribute.OptionalTextMap(
			"Values whose change makes it wait again, such as `{ grants = "+
				"jsonencode(muster_logical_cloud.prod.grants) }`."))},
		Wait: func(ctx context.Context, c *cloudChange, options types.Object) (summary, problem string) {
			return attribute.As[*waitModel](options).wait(c.Client, c.Object, c.Timeout).Run(ctx)
		},
	}.Kind()
}
