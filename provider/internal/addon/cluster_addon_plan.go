package addon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// What is decided of an add-on in a cluster while planning, and what a plan tells of
// the hub.

// planClusterAddOn warns of what stands in the add-on's way.
func planClusterAddOn(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.Plan.Raw.IsNull() {
		warnOfRemoval(ctx, r, req, resp)
		return false
	}
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	if !resp.Diagnostics.HasError() && changes.In("managed_cluster", "name", "labels", "annotations", "configs",
		"hosting_cluster", "install_namespace") {
		warnOfObstacles(ctx, r, resp, req.State.Raw.IsNull())
	}
	return true
}

// warnOfObstacles warns of what stands in the way of a planned add-on, if the hub answers
// and all that matters is known.
func warnOfObstacles(ctx context.Context, r *crud.Resource, resp *resource.ModifyPlanResponse, isNew bool) {
	values, client := attribute.ValuesOf(ctx, resp.Plan, &resp.Diagnostics), r.Hub.PlanClient()
	if resp.Diagnostics.HasError() || client == nil || r.Hub.HasWritten() ||
		values["managed_cluster"].IsUnknown() || values["name"].IsUnknown() {
		return // In an apply, the plan has warned.
	}
	planned := &v1alpha1.ManagedClusterAddOn{}
	planned.Namespace, planned.Name = values.Text("managed_cluster"), values.Text("name")
	if attribute.Known(values["configs"]) {
		clusterAddOnTable().Write(attribute.Values{"configs": values["configs"]}, planned)
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	o := obstacles{hub: r.Hub, client: client, addOn: planned, diags: &resp.Diagnostics}
	for _, at := range []string{"managed_cluster", "hosting_cluster"} {
		o.cluster(ctx, at, values.Text(at))
	}
	definition := &v1alpha1.ClusterManagementAddOn{}
	if o.lacks(ctx, definition, "", planned.Name) {
		o.diags.AddAttributeWarning(path.Root("name"), fmt.Sprintf("No add-on %q on the hub", planned.Name),
			noAddOn(planned.Name))
	}
	if definition.UID == "" || r.Hub.IsPlanned(definition, "", planned.Name) {
		definition = nil // It is not known as it will be.
	}
	if isNew && definition != nil && byPlacements(definition) {
		o.placements(ctx, definition)
	}
	for i, c := range planned.Spec.Configs {
		o.configuration(ctx, path.Root("configs").AtListIndex(i), c, definition)
	}
}

// obstacles looks at the hub for what stands in an add-on's way.
type obstacles struct {
	hub    *hub.Hub
	client *kube.Client
	addOn  clusterAddOn
	diags  *diag.Diagnostics
}

// lacks reports whether the hub is known not to have an object, and this plan is not
// known to create it.
func (o *obstacles) lacks(ctx context.Context, object kube.Object, namespace, name string) bool {
	err := o.client.Get(ctx, object, namespace, name)
	if err != nil && !kube.IsNotFound(err, name) {
		o.hub.DidNotAnswer(err)
	}
	return kube.IsNotFound(err, name) && !o.hub.IsPlanned(object, namespace, name)
}

// cluster warns of a cluster that does not exist.
func (o *obstacles) cluster(ctx context.Context, at, name string) {
	if name != "" && o.lacks(ctx, &clusterv1.ManagedCluster{}, "", name) {
		o.diags.AddAttributeWarning(path.Root(at), "No such managed cluster", fmt.Sprintf("%s is %q, and the hub %s "+
			"has no managed cluster of this name. Refer to the resource that makes it "+
			"(muster_managed_cluster.NAME.name), so that it is there first, or correct the "+
			"name.", at, name, o.client.Host()))
	}
}

// placements warns of an add-on that placements install, here or elsewhere.
func (o *obstacles) placements(ctx context.Context, definition fleetAddOn) {
	cluster := o.addOn.Namespace
	selected, _, err := chosen(ctx, o.hub, o.client, definition)
	if err != nil {
		o.hub.DidNotAnswer(err)
		return // A plan needs no hub, and no right to read the fleet.
	}
	what := clusterAddOnText([]string{cluster, o.addOn.Name})
	summary, detail := "The hub would remove "+what, unselected(definition, cluster)+
		" If this apply does not change that, it is refused."
	if slices.Contains(selected, cluster) {
		summary, detail = "Installed by a placement, too: "+what, fmt.Sprintf("The add-on is installed by "+
			"placements (%s), which select the cluster %q. So the hub installs "+
			"it there in any case, and again when this resource is destroyed. The resource makes sense where it "+
			"sets configs, labels or annotations of its own.", placementsText(definition), cluster)
	}
	o.diags.AddAttributeWarning(path.Root("managed_cluster"), summary, detail)
}

// configuration warns of a configuration that does not exist, and of a kind that the
// add-on does not understand. definition is nil where it is not known.
func (o *obstacles) configuration(
	ctx context.Context, at path.Path, c v1alpha1.AddOnConfig, definition fleetAddOn,
) {
	supports := func(s v1alpha1.ConfigMeta) bool { return s.ConfigGroupResource == c.ConfigGroupResource }
	if definition != nil && !slices.ContainsFunc(definition.Spec.SupportedConfigs, supports) {
		var kinds []string
		for _, s := range definition.Spec.SupportedConfigs {
			kinds = append(kinds, s.Resource+" of the group \""+s.Group+"\"")
		}
		o.diags.AddAttributeWarning(at, "Configuration that the add-on does not understand", fmt.Sprintf("%s is of "+
			"the kind %s of the group %q, and the add-on %q understands %s. The hub would report the reason %s and "+
			"go no further.",
			attribute.Place(at), c.Resource, c.Group, definition.Name,
			cmp.Or(strings.Join(kinds, ", "), "no configuration"), addon.ReasonConfigurationUnsupported))
	}
	if object := ofKind(c.ConfigGroupResource); object != nil && o.lacks(ctx, object, c.Namespace, c.Name) {
		o.diags.AddAttributeWarning(at, "No such configuration", fmt.Sprintf("%s names %s, which the hub %s "+
			"does not have. The add-on waits for it. Refer to the resource that makes it, so that it is there "+
			"first, or correct the name.", attribute.Place(at), configText(c), o.client.Host()))
	}
}

// ofKind is an empty object of a kind of configuration that the provider knows; nil for
// others.
func ofKind(kind v1alpha1.ConfigGroupResource) kube.Object {
	switch kind {
	case ownKind(addon.TemplateResource):
		return &v1alpha1.AddOnTemplate{}
	case ownKind(addon.DeploymentConfigResource):
		return &v1alpha1.AddOnDeploymentConfig{}
	}
	return nil
}

// noAddOn tells what an add-on in a cluster lacks that is nowhere defined.
func noAddOn(name string) string {
	return fmt.Sprintf("There is no ClusterManagementAddOn %q, so nothing deploys or configures the add-on. Define "+
		"it with muster_addon and refer to that resource's name, install the manager of the add-on on the hub, or "+
		"correct the name.", name)
}

// byPlacements reports whether the hub installs an add-on where placements say.
func byPlacements(definition fleetAddOn) bool {
	return definition.DeletionTimestamp == nil && !configs.SelfManaged(definition) &&
		definition.Spec.InstallStrategy.Type == v1alpha1.InstallStrategyPlacements
}

func placementsText(definition fleetAddOn) string {
	var names []string
	for _, p := range definition.Spec.InstallStrategy.Placements {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	return strings.Join(names, ", ")
}

// unselected tells why an add-on can't stay in a cluster.
func unselected(definition fleetAddOn, cluster string) string {
	return fmt.Sprintf("The add-on %q is installed by placements (%s), which do not select the cluster %q, and the "+
		"hub removes an add-on from every cluster that its placements do not select. "+
		"Let a placement select the cluster, or remove placements from the muster_addon to install it by hand "+
		"everywhere.", definition.Name, placementsText(definition), cluster)
}

// warnOfRemoval warns of an add-on that the hub installs again when it is destroyed, and
// of a cluster whose agent can't remove it.
func warnOfRemoval(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.State.Raw.IsNull() || r.Hub.HasWritten() {
		return
	}
	values, client := attribute.ValuesOf(ctx, req.State, &resp.Diagnostics), r.Hub.PlanClient()
	cluster, name := values.Text("managed_cluster"), values.Text("name")
	what := clusterAddOnText([]string{cluster, name})
	crud.WarnOfLostCluster(ctx, client, cluster, what, &resp.Diagnostics)
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	definition := &v1alpha1.ClusterManagementAddOn{}
	if client == nil || client.Get(ctx, definition, "", name) != nil || !byPlacements(definition) {
		return
	}
	if selected, _, err := chosen(ctx, r.Hub, client, definition); err == nil && slices.Contains(selected, cluster) {
		resp.Diagnostics.AddWarning("Installed again by a placement: "+what,
			fmt.Sprintf("Placements of the add-on (%s) select the cluster. As long as they do, the hub installs the "+
				"add-on there again, without what this resource has set. To remove it from the cluster, let the "+
				"placements no longer select it.",
				placementsText(definition)))
	}
}

// decisionPatience is how long a creation waits for placements that were just changed
// to select the cluster.
const decisionPatience = 5 * time.Second

// mayStay waits a moment until the placements of an add-on that is installed by
// placements select the cluster: the hub would remove it otherwise. Where that can't be
// told, the creation goes on.
func mayStay(ctx context.Context, c *clusterAddOnChange) bool {
	definition, client, cluster := &v1alpha1.ClusterManagementAddOn{}, c.Client, c.Keys[0]
	if c.Prior != nil || client.Get(ctx, definition, "", c.Keys[1]) != nil || !byPlacements(definition) {
		return true
	}
	waiting, cancel := context.WithTimeout(ctx, decisionPatience)
	defer cancel()
	list, item := &clusterv1beta1.PlacementDecisionList{}, &clusterv1beta1.PlacementDecision{}
	err := client.WaitObjects(waiting, list, item, kube.ListOptions{}, func(map[string]kube.Object) (bool, error) {
		decided, err := decidedFor(waiting, client, definition)
		return slices.Contains(decided, cluster), err
	})
	if !hub.IsTimeout(err) || ctx.Err() != nil {
		return true
	}
	c.Diagnostics.AddAttributeError(path.Root("managed_cluster"), "The hub would remove "+c.What,
		unselected(definition, cluster)+" Nothing was created.")
	return false
}

// When an add-on in a cluster is what a wait waits for.

// missingIn lists what is not as the wait wants it in a cluster, each in words. hashes are
// those of the configurations as they are now, as far as they were read.
func (m *waitModel) missingIn(object clusterAddOn, hashes hashesOf) []string {
	var missing []string
	if m.RolledOut.ValueBool() {
		for _, why := range notApplied(object, hashes) {
			missing = append(missing, "rolled_out: "+why)
		}
	}
	if m.Available.ValueBool() && !isAvailable(object) {
		missing = append(missing, "available: "+conditionText(object, addon.ConditionAvailable))
	}
	return missing
}

// notApplied lists what keeps the cluster from having the configurations that count
// there.
func notApplied(object clusterAddOn, hashes hashesOf) []string {
	var missing []string
	referenced := map[v1alpha1.AddOnConfig]bool{}
	for _, r := range wantedIn(object) {
		c := wanted(r.ConfigGroupResource, r.DesiredConfig)
		referenced[c] = true
		hash, known := hashes[c]
		switch {
		case r.DesiredConfig.SpecHash == "":
			missing = append(missing, configText(c)+" does not exist, or its manager has not looked at it")
		case known && hash != r.DesiredConfig.SpecHash:
			missing = append(missing, "the last change of "+configText(c)+" has not come to the cluster's turn")
		case isMissing(r):
			missing = append(missing, "the cluster does not have "+configText(c)+" yet")
		}
	}
	for _, c := range object.Spec.Configs {
		if !referenced[c] {
			missing = append(missing, "the hub has not reported on "+configText(c)+" yet")
		}
	}
	if !isConfigured(object) {
		missing = append(missing, conditionText(object, addon.ConditionConfigured))
	}
	c := meta.FindStatusCondition(object.Status.Conditions, addon.ConditionProgressing)
	if c == nil || !isCompleted(*c) {
		missing = append(missing, conditionText(object, addon.ConditionProgressing))
	}
	return missing
}

func configText(c v1alpha1.AddOnConfig) string {
	return c.Resource + " " + workload.Qualified(c.Namespace, c.Name)
}

func conditionText(object clusterAddOn, kind string) string {
	c := meta.FindStatusCondition(object.Status.Conditions, kind)
	if c == nil {
		return kind + " is not reported yet"
	}
	return hub.DescribeCondition(*c, time.Time{})
}

// followClusterAddOn is what comes after the add-on was written in a cluster.
func followClusterAddOn(_ context.Context, c *clusterAddOnChange) crud.Follow {
	f := crud.Follow{Attribute: clusterAddOnWaitAttribute()}
	if wait := waitIn(c.Plan); wait != nil {
		f.Wait = wait.untilInCluster(c).Run
	}
	return f
}

// untilInCluster waits for the add-on in its cluster.
func (m *waitModel) untilInCluster(c *clusterAddOnChange) *crud.Wait {
	hashes, client, object := hashesOf{}, c.Client, c.Object
	return &crud.Wait{
		Client: client, What: c.What, Resource: "managedclusteraddon", Object: object, Timeout: c.Timeout,
		Gone: "it was deleted meanwhile, as the hub does where placements install the add-on and don't select the " +
			"cluster",
		Prepare: func(ctx context.Context) error {
			if object.DeletionTimestamp != nil {
				return errors.New("it is being deleted")
			}
			for _, r := range wantedIn(object) {
				if m.RolledOut.ValueBool() {
					hashes.read(ctx, client, wanted(r.ConfigGroupResource, r.DesiredConfig))
				}
			}
			return nil
		},
		Missing:    func() []string { return m.missingIn(object, hashes) },
		Conditions: func() []metav1.Condition { return object.Status.Conditions },
		Details:    func(ctx context.Context) []string { return describeInCluster(ctx, client, object) },
	}
}

// describeInCluster says what keeps an add-on in a cluster from being as it should be.
func describeInCluster(ctx context.Context, client *kube.Client, object clusterAddOn) []string {
	var lines []string
	if works, err := worksOf(ctx, client, object.Name); err == nil {
		lines = describeWorks("  ",
			slices.Concat(works[object.Namespace], works[object.Annotations[addon.HostingClusterAnnotation]]))
	}
	if kube.IsNotFound(client.Get(ctx, &v1alpha1.ClusterManagementAddOn{}, "", object.Name), object.Name) {
		lines = append(lines, strings.TrimSpace(noAddOn(object.Name)))
	}
	managed := &clusterv1.ManagedCluster{}
	if err := client.Get(ctx, managed, "", object.Namespace); err == nil &&
		!meta.IsStatusConditionTrue(managed.Status.Conditions, cluster.ConditionAvailable) {
		lines = append(lines, fmt.Sprintf("The cluster %q is not available:", object.Namespace),
			hub.DescribeConditions(managed.Status.Conditions, time.Now()))
	}
	return lines
}
