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

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// What is decided of an add-on in a cluster while planning, and what a plan tells of
// the hub.

// clusterLocal are the attributes that are not written to the hub.
func clusterLocal() []string {
	return []string{"wait", "triggers", "ready", "adopt", "force_conflicts", "timeouts", "agent_namespace", "config_references", "registrations", "conditions"}
}

// ModifyPlan plans what the hub reports, asks it what would come of the change, and
// warns of what stands in the add-on's way.
func (r *clusterAddOnResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		r.warnOfReturn(ctx, req, resp)
		return
	}
	var wait types.Object
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("wait"), &wait)...)
	unmet := false
	if !req.State.Raw.IsNull() {
		var ready types.Bool
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("ready"), &ready)...)
		unmet = !wait.IsNull() && !ready.ValueBool()
		crud.KeepReported(req, resp, "ready", "agent_namespace", "config_references", "registrations", "conditions")
	}
	changes := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw)
	writes := changes.Beyond(clusterLocal()...)
	if writes || unmet || changes.In("wait", "triggers") {
		ready := types.BoolUnknown()
		if wait.IsNull() {
			ready = types.BoolNull()
		}
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ready"), ready)...)
		for name, value := range unreported() {
			resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), value)...)
		}
	}
	if !writes || resp.Diagnostics.HasError() {
		return
	}
	r.DryRun(ctx, req, resp, func(from crud.Getter, diags *diag.Diagnostics) (crud.Owned, bool) {
		var model clusterAddOnModel
		diags.Append(from.Get(ctx, &model)...)
		return model.owned(model.object()), !diags.HasError()
	})
	r.warn(ctx, resp, req.State.Raw.IsNull())
}

// warn warns of what stands in the way of a planned add-on, if the hub answers and all
// that matters is known.
func (r *clusterAddOnResource) warn(ctx context.Context, resp *resource.ModifyPlanResponse, isNew bool) {
	var m clusterAddOnModel
	for at, target := range map[string]any{"managed_cluster": &m.ManagedCluster, "name": &m.Name, "hosting_cluster": &m.HostingCluster} {
		resp.Diagnostics.Append(resp.Plan.GetAttribute(ctx, path.Root(at), target)...)
	}
	var list types.List
	resp.Diagnostics.Append(resp.Plan.GetAttribute(ctx, path.Root("configs"), &list)...)
	client := r.Hub.PlanClient()
	if resp.Diagnostics.HasError() || client == nil || r.Hub.HasWritten() || m.ManagedCluster.IsUnknown() || m.Name.IsUnknown() {
		return // In an apply, the plan has told.
	}
	if attribute.Known(list) {
		resp.Diagnostics.Append(list.ElementsAs(ctx, &m.Configs, false)...)
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	l := lookout{resource: r, client: client, model: &m, diags: &resp.Diagnostics}
	l.clusters(ctx)
	l.addOn(ctx, isNew)
	l.configurations(ctx)
}

// lookout looks at the hub for what stands in an add-on's way.
type lookout struct {
	resource *clusterAddOnResource
	client   *kube.Client
	model    *clusterAddOnModel
	diags    *diag.Diagnostics
}

// lacks reports whether the hub is known not to have an object, and this plan is not
// known to create it.
func (l *lookout) lacks(ctx context.Context, object kube.Object, namespace, name string) bool {
	err := l.client.Get(ctx, object, namespace, name)
	if err != nil && !kube.IsNotFound(err, name) {
		l.resource.Hub.DidNotAnswer(err)
	}
	return kube.IsNotFound(err, name) && !l.resource.Hub.IsPlanned(object, namespace, name)
}

// clusters warns of clusters that do not exist.
func (l *lookout) clusters(ctx context.Context) {
	for at, value := range map[string]types.String{"managed_cluster": l.model.ManagedCluster, "hosting_cluster": l.model.HostingCluster} {
		if name := value.ValueString(); name != "" && l.lacks(ctx, &clusterv1.ManagedCluster{}, "", name) {
			l.diags.AddAttributeWarning(path.Root(at), "No such managed cluster", fmt.Sprintf("%s is %q, and the hub %s has no managed cluster of this name. "+
				"Refer to the resource that makes it (muster_managed_cluster.NAME.name), so that it is there first, or correct the name.", at, name, l.client.Host()))
		}
	}
}

// addOn warns of an add-on that does not exist, and of one that placements install.
func (l *lookout) addOn(ctx context.Context, isNew bool) {
	definition := &v1alpha1.ClusterManagementAddOn{}
	name, cluster := l.model.Name.ValueString(), l.model.ManagedCluster.ValueString()
	if l.lacks(ctx, definition, "", name) {
		l.diags.AddAttributeWarning(path.Root("name"), fmt.Sprintf("No add-on %q on the hub", name), noAddOn(name))
		return
	}
	if definition.UID == "" || !byPlacements(definition) || !isNew || l.resource.Hub.IsPlanned(definition, "", name) {
		return
	}
	chosen, err := l.resource.chosen(ctx, l.client, definition)
	if err != nil {
		l.resource.Hub.DidNotAnswer(err)
		return // A plan needs no hub, and no right to read the fleet.
	}
	if !slices.Contains(chosen, cluster) {
		l.diags.AddAttributeWarning(path.Root("managed_cluster"), "The hub would remove "+l.model.What(), unselected(definition, cluster)+
			" If this apply does not change that, it is refused.")
		return
	}
	l.diags.AddAttributeWarning(path.Root("managed_cluster"), "Installed by a placement, too: "+l.model.What(),
		fmt.Sprintf("The add-on is installed by placements (%s), which select the cluster %q. So the hub installs it there in any case, and again when this resource is destroyed. "+
			"The resource makes sense where it sets configs, labels or annotations of its own.", placementsText(definition), cluster))
}

// configurations warns of configurations that do not exist, and of kinds that the
// add-on does not understand.
func (l *lookout) configurations(ctx context.Context) {
	definition := &v1alpha1.ClusterManagementAddOn{}
	known := l.client.Get(ctx, definition, "", l.model.Name.ValueString()) == nil
	for i, c := range configsOf(l.model.Configs) {
		at := path.Root("configs").AtListIndex(i)
		supports := func(s v1alpha1.ConfigMeta) bool { return s.ConfigGroupResource == c.ConfigGroupResource }
		if known && !l.resource.Hub.IsPlanned(definition, "", definition.Name) && !slices.ContainsFunc(definition.Spec.SupportedConfigs, supports) {
			var kinds []string
			for _, s := range definition.Spec.SupportedConfigs {
				kinds = append(kinds, s.Resource+" of the group \""+s.Group+"\"")
			}
			l.diags.AddAttributeWarning(at, "Configuration that the add-on does not understand", fmt.Sprintf("%s is of the kind %s of the group %q, and the add-on %q understands %s. "+
				"The hub would report the reason %s and go no further.", attribute.Place(at), c.Resource, c.Group, definition.Name, orNothing(kinds), addon.ReasonConfigurationUnsupported))
		}
		object := ofKind(c.ConfigGroupResource)
		if object != nil && l.lacks(ctx, object, c.Namespace, c.Name) {
			l.diags.AddAttributeWarning(at, "No such configuration", fmt.Sprintf("%s names %s, which the hub %s does not have. The add-on waits for it. "+
				"Refer to the resource that makes it, so that it is there first, or correct the name.", attribute.Place(at), configText(c), l.client.Host()))
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
	return fmt.Sprintf("There is no ClusterManagementAddOn %q, so nothing deploys or configures the add-on. Define it with muster_addon and refer to that resource's name, install the manager of the add-on on the hub, or correct the name.", name)
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
	return fmt.Sprintf("The add-on %q is installed by placements (%s), which do not select the cluster %q, and the hub removes an add-on from every cluster that its placements do not select. "+
		"Let a placement select the cluster, or remove placements from the muster_addon to install it by hand everywhere.", definition.Name, placementsText(definition), cluster)
}

// chosen are the clusters that the placements of an add-on select, or will select when
// the hub has scheduled them.
func (r *clusterAddOnResource) chosen(ctx context.Context, client *kube.Client, definition *v1alpha1.ClusterManagementAddOn) ([]string, error) {
	snapshot, err := r.Hub.LiveFleet(ctx)
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

// warnOfReturn tells that the hub installs a destroyed add-on again.
func (r *clusterAddOnResource) warnOfReturn(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var m clusterAddOnModel
	client := r.Hub.PlanClient()
	if req.State.Raw.IsNull() || client == nil || r.Hub.HasWritten() || req.State.Get(ctx, &m).HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hub.PreviewTimeout)
	defer cancel()
	definition := &v1alpha1.ClusterManagementAddOn{}
	if client.Get(ctx, definition, "", m.Name.ValueString()) != nil || !byPlacements(definition) {
		return
	}
	if chosen, err := r.chosen(ctx, client, definition); err == nil && slices.Contains(chosen, m.ManagedCluster.ValueString()) {
		resp.Diagnostics.AddWarning("Installed again by a placement: "+m.What(), fmt.Sprintf("Placements of the add-on (%s) select the cluster. As long as they do, the hub installs the add-on there again, without what this resource has set. "+
			"To remove it from the cluster, let the placements no longer select it.", placementsText(definition)))
	}
}

// decisionPatience is how long a creation waits for placements that were just changed
// to select the cluster.
const decisionPatience = 5 * time.Second

// mayStay waits a moment until the placements of an add-on that is installed by
// placements select the cluster: the hub would remove it otherwise. Where that can't be
// told, the creation goes on.
func (m *clusterAddOnModel) mayStay(ctx context.Context, client *kube.Client, diags *diag.Diagnostics) bool {
	definition := &v1alpha1.ClusterManagementAddOn{}
	if client.Get(ctx, definition, "", m.Name.ValueString()) != nil || !byPlacements(definition) {
		return true
	}
	waiting, cancel := context.WithTimeout(ctx, decisionPatience)
	defer cancel()
	cluster, a := m.ManagedCluster.ValueString(), awaited{client: client, object: definition}
	err := client.WaitObjects(waiting, &clusterv1beta1.PlacementDecisionList{}, &clusterv1beta1.PlacementDecision{}, kube.ListOptions{}, func(map[string]kube.Object) (bool, error) {
		chosen, err := a.selected(waiting)
		return slices.Contains(chosen, cluster), err
	})
	if !hub.IsTimeout(err) || ctx.Err() != nil {
		return true
	}
	diags.AddAttributeError(path.Root("managed_cluster"), "The hub would remove "+m.What(), unselected(definition, cluster)+" Nothing was created.")
	return false
}
