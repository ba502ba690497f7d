package addon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
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
	if !resp.Diagnostics.HasError() && changes.In("managed_cluster", "name", "labels", "annotations", "configs", "hosting_cluster", "install_namespace") {
		warnOfObstacles(ctx, r, resp, req.State.Raw.IsNull())
	}
	return true
}

// plannedAddOn is what a plan says of an add-on in a cluster.
type plannedAddOn struct {
	cluster, name, hosting string
	configs                []v1alpha1.AddOnConfig
}

func (a plannedAddOn) what() string { return clusterAddOnText([]string{a.cluster, a.name}) }

// warnOfObstacles warns of what stands in the way of a planned add-on, if the hub answers
// and all that matters is known.
func warnOfObstacles(ctx context.Context, r *crud.Resource, resp *resource.ModifyPlanResponse, isNew bool) {
	var cluster, name, hosting types.String
	var list types.List
	for at, target := range map[string]any{"managed_cluster": &cluster, "name": &name, "hosting_cluster": &hosting, "configs": &list} {
		resp.Diagnostics.Append(resp.Plan.GetAttribute(ctx, path.Root(at), target)...)
	}
	client := r.Hub.PlanClient()
	if resp.Diagnostics.HasError() || client == nil || r.Hub.HasWritten() || cluster.IsUnknown() || name.IsUnknown() {
		return // In an apply, the plan has warned.
	}
	a := plannedAddOn{cluster: cluster.ValueString(), name: name.ValueString(), hosting: hosting.ValueString()}
	if attribute.Known(list) {
		a.configs = configsOf(attribute.As[[]configModel](list))
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	o := obstacles{hub: r.Hub, client: client, addOn: a, diags: &resp.Diagnostics}
	o.clusters(ctx)
	o.definition(ctx, isNew)
	o.configurations(ctx)
}

// obstacles looks at the hub for what stands in an add-on's way.
type obstacles struct {
	hub    *hub.Hub
	client *kube.Client
	addOn  plannedAddOn
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

// clusters warns of clusters that do not exist.
func (o *obstacles) clusters(ctx context.Context) {
	for at, name := range map[string]string{"managed_cluster": o.addOn.cluster, "hosting_cluster": o.addOn.hosting} {
		if name != "" && o.lacks(ctx, &clusterv1.ManagedCluster{}, "", name) {
			o.diags.AddAttributeWarning(path.Root(at), "No such managed cluster", fmt.Sprintf("%s is %q, and the hub "+
				"%s has no managed cluster of this name. "+
				"Refer to the resource that makes it (muster_managed_cluster.NAME.name), so that it is there first, "+
				"or correct the name.", at, name, o.client.Host()))
		}
	}
}

// definition warns of an add-on that does not exist, and of one that placements install.
func (o *obstacles) definition(ctx context.Context, isNew bool) {
	definition := &v1alpha1.ClusterManagementAddOn{}
	name, cluster := o.addOn.name, o.addOn.cluster
	if o.lacks(ctx, definition, "", name) {
		o.diags.AddAttributeWarning(path.Root("name"), fmt.Sprintf("No add-on %q on the hub", name), noAddOn(name))
		return
	}
	if definition.UID == "" || !byPlacements(definition) || !isNew || o.hub.IsPlanned(definition, "", name) {
		return
	}
	selected, err := chosen(ctx, o.hub, o.client, definition)
	if err != nil {
		o.hub.DidNotAnswer(err)
		return // A plan needs no hub, and no right to read the fleet.
	}
	if !slices.Contains(selected, cluster) {
		o.diags.AddAttributeWarning(path.Root("managed_cluster"), "The hub would remove "+o.addOn.what(), unselected(definition, cluster)+
			" If this apply does not change that, it is refused.")
		return
	}
	o.diags.AddAttributeWarning(path.Root("managed_cluster"), "Installed by a placement, too: "+o.addOn.what(),
		fmt.Sprintf("The add-on is installed by placements (%s), which select the cluster %q. So the hub installs "+
			"it there in any case, and again when this resource is destroyed. The resource makes sense where it "+
			"sets configs, labels or annotations of its own.", placementsText(definition), cluster))
}

// configurations warns of configurations that do not exist, and of kinds that the
// add-on does not understand.
func (o *obstacles) configurations(ctx context.Context) {
	definition := &v1alpha1.ClusterManagementAddOn{}
	known := o.client.Get(ctx, definition, "", o.addOn.name) == nil
	for i, c := range o.addOn.configs {
		at := path.Root("configs").AtListIndex(i)
		supports := func(s v1alpha1.ConfigMeta) bool { return s.ConfigGroupResource == c.ConfigGroupResource }
		if known && !o.hub.IsPlanned(definition, "", definition.Name) && !slices.ContainsFunc(definition.Spec.SupportedConfigs, supports) {
			var kinds []string
			for _, s := range definition.Spec.SupportedConfigs {
				kinds = append(kinds, s.Resource+" of the group \""+s.Group+"\"")
			}
			o.diags.AddAttributeWarning(at, "Configuration that the add-on does not understand", fmt.Sprintf("%s is of the kind %s of the group %q, and the add-on %q understands %s. "+
				"The hub would report the reason %s and go no "+
				"further.", attribute.Place(at), c.Resource, c.Group, definition.Name, orNothing(kinds), addon.ReasonConfigurationUnsupported))
		}
		object := ofKind(c.ConfigGroupResource)
		if object != nil && o.lacks(ctx, object, c.Namespace, c.Name) {
			o.diags.AddAttributeWarning(at, "No such configuration", fmt.Sprintf("%s names %s, which the hub %s "+
				"does not have. The add-on waits for it. Refer to the resource that makes it, so that it is there "+
				"first, or correct the name.", attribute.Place(at), configText(c), o.client.Host()))
		}
	}
}

func orNothing(names []string) string {
	if len(names) == 0 {
		return "no configuration"
	}
	return strings.Join(names, ", ")
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
func byPlacements(definition *v1alpha1.ClusterManagementAddOn) bool {
	return definition.DeletionTimestamp == nil && !configs.SelfManaged(definition) && definition.Spec.InstallStrategy.Type == v1alpha1.InstallStrategyPlacements
}

func placementsText(definition *v1alpha1.ClusterManagementAddOn) string {
	var names []string
	for _, p := range definition.Spec.InstallStrategy.Placements {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	return orNothing(names)
}

// unselected tells why an add-on can't stay in a cluster.
func unselected(definition *v1alpha1.ClusterManagementAddOn, cluster string) string {
	return fmt.Sprintf("The add-on %q is installed by placements (%s), which do not select the cluster %q, and the "+
		"hub removes an add-on from every cluster that its placements do not select. "+
		"Let a placement select the cluster, or remove placements from the muster_addon to install it by hand "+
		"everywhere.", definition.Name, placementsText(definition), cluster)
}

// chosen are the clusters that the placements of an add-on select, or will select when
// the hub has scheduled them.
func chosen(
	ctx context.Context, h *hub.Hub, client *kube.Client, definition *v1alpha1.ClusterManagementAddOn,
) ([]string, error) {
	snapshot, err := h.LiveFleet(ctx)
	if err != nil {
		return nil, err
	}
	var clusters []string
	for _, ref := range definition.Spec.InstallStrategy.Placements {
		placement := &clusterv1beta1.Placement{}
		switch err := client.Get(ctx, placement, ref.Namespace, ref.Name); {
		case kube.IsNotFound(err, ref.Name): // It selects nothing.
		case err != nil:
			return nil, err
		default:
			clusters = append(clusters, selectedBy(snapshot, placement)...)
		}
	}
	return clusters, nil
}

// warnOfRemoval warns of an add-on that the hub installs again when it is destroyed, and
// of a cluster whose agent can't remove it.
func warnOfRemoval(ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var cluster, name string
	client := r.Hub.PlanClient()
	if req.State.Raw.IsNull() || r.Hub.HasWritten() ||
		req.State.GetAttribute(ctx, path.Root("managed_cluster"), &cluster).HasError() ||
		req.State.GetAttribute(ctx, path.Root("name"), &name).HasError() {
		return
	}
	what := clusterAddOnText([]string{cluster, name})
	if client != nil {
		warnOfReturn(ctx, r.Hub, client, what, cluster, name, &resp.Diagnostics)
	}
	crud.WarnOfLostCluster(ctx, client, cluster, what, &resp.Diagnostics)
}

// warnOfReturn warns that the hub installs a destroyed add-on again.
func warnOfReturn(ctx context.Context, h *hub.Hub, client *kube.Client, what, cluster, name string, diags *diag.Diagnostics) {
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	definition := &v1alpha1.ClusterManagementAddOn{}
	if client.Get(ctx, definition, "", name) != nil || !byPlacements(definition) {
		return
	}
	if selected, err := chosen(ctx, h, client, definition); err == nil && slices.Contains(selected, cluster) {
		diags.AddWarning("Installed again by a placement: "+what,
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
	a := awaited{client: client, object: definition}
	err := client.WaitObjects(waiting, &clusterv1beta1.PlacementDecisionList{}, &clusterv1beta1.PlacementDecision{}, kube.ListOptions{}, func(map[string]kube.Object) (bool, error) {
		chosen, err := a.selected(waiting)
		return slices.Contains(chosen, cluster), err
	})
	if !hub.IsTimeout(err) || ctx.Err() != nil {
		return true
	}
	c.Diagnostics.AddAttributeError(path.Root("managed_cluster"), "The hub would remove "+c.What,
		unselected(definition, cluster)+" Nothing was created.")
	return false
}
