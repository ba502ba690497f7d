package addon

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

type addOnChange = crud.Change[addOnModel, *v1alpha1.ClusterManagementAddOn]

// AddOn is muster_addon.
func AddOn() crud.Declared {
	return &crud.Kind[addOnModel, *v1alpha1.ClusterManagementAddOn]{
		Type: "addon", Noun: "add-on", Empty: &v1alpha1.ClusterManagementAddOn{},
		Description: "An add-on: what it consists of, and in which clusters it is installed (a " +
			"ClusterManagementAddOn). With `template` the hub itself deploys it, from a `muster_addon_template`; " +
			"other add-ons have a manager of their own on the hub, written with Open Cluster Management's " +
			"framework.\n\n" +
			"With `placements` the hub installs it in the clusters that they select, **and removes it everywhere " +
			"else**, also where somebody has installed it by hand. A placement that does not exist selects nothing: " +
			"name one by a reference to its resource, so that it is there first. Without `placements` the add-on is " +
			"where a `muster_cluster_addon` puts it.\n\n" +
			"A plan that changes where the add-on is installed warns of the clusters that would get and lose it, as " +
			"the hub's scheduling library predicts them from the fleet at that moment. They are not planned values, " +
			"because the fleet may change before the apply; to have them in the plan, set `planned_clusters` to " +
			"what `muster_placement_preview` predicts.\n\n" +
			"A change reaches the clusters by the `rollout_strategy` of each placement. Give each version of a " +
			"template a name of its own, with `create_before_destroy`, as the module addon does: then clusters that " +
			"the rollout has not reached keep the former version, and a former version can come back.",
		Keys: []crud.Key{{
			Name: "name", Description: "Name of the add-on on the hub, and in each cluster. Changing it replaces the " +
				"add-on.",
			Valid: attribute.ValidObjectName("add-on name"),
		}},
		Model: &crud.Conversion[addOnModel, *v1alpha1.ClusterManagementAddOn]{
			Attributes: addOnResourceAttributes,
			Object:     func(m *addOnModel) *v1alpha1.ClusterManagementAddOn { return m.object() },
			Observe: func(m *addOnModel, live *v1alpha1.ClusterManagementAddOn) error {
				m.addOnSpecModel.observe(live)
				return nil
			},
			Import:   importAddOn,
			Unwanted: (*addOnModel).unwanted,
			Unwritten: []string{
				"preview", "wait", "ready", "timeouts", "install_progressions", "rolled_out", "installed_clusters",
				"planned_clusters", "planned_added", "planned_dropped",
			},
		},
		Timeouts: crud.Timeouts{
			Create: "creating, with `wait`,", Update: "changing, with `wait`,",
			Delete: "deleting, which waits until the add-on is gone from all clusters and its jobs have run,",
		},
		Places: map[string]string{"spec.installStrategy": "placements", "spec.supportedConfigs": "supported_configs"},
		Waits:  &crud.Waits{Reported: []string{"install_progressions", "rolled_out", "installed_clusters"}},
		Hooks: crud.Hooks[addOnModel, *v1alpha1.ClusterManagementAddOn]{
			Validate:    validateAddOn,
			KeepWording: keepPlacements,
			Plan:        planAddOn,
			BeforeWrite: expect,
			Follow:      followAddOn,
			AlsoRead:    readClusters,
			AfterDelete: waitUntilGone,
		},
		List: &crud.List[*v1alpha1.ClusterManagementAddOn]{
			Plural: "add-ons", Objects: &v1alpha1.ClusterManagementAddOnList{},
			Describe: func(object *v1alpha1.ClusterManagementAddOn) string {
				if n := len(object.Spec.InstallStrategy.Placements); n > 0 {
					return crud.Count(n, "placement")
				}
				return "installed by hand"
			},
		},
	}
}

// readClusters takes over what is reported, on the hub and in the clusters.
func readClusters(ctx context.Context, client *kube.Client, m *addOnModel, object *v1alpha1.ClusterManagementAddOn) error {
	m.report(object)
	addOns, err := inClusters(ctx, client, object.Name)
	if m.InstalledClusters = clustersOf(addOns); err != nil {
		m.InstalledClusters = types.ListNull(types.StringType)
	}
	m.Ready = crud.StillReady(m.Ready, m.Wait != nil, func() bool {
		return err == nil && m.Wait.metBy(&m.addOnStatusModel, addOns)
	})
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// followAddOn is what comes after the add-on was written.
func followAddOn(ctx context.Context, c *addOnChange) crud.Follow {
	plan, open := c.Plan, c.Plan.Progressions.IsUnknown()
	plan.reportPlanned(c.Object)
	f := crud.Follow{
		Attribute: addOnWaitAttribute(), Ready: &plan.Ready,
		Settle: func(context.Context) {},
		Report: func() {
			if !open {
				return // What the plan has shown stays.
			}
			plan.report(c.Object)
			reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
			defer cancel()
			if addOns, err := inClusters(reading, c.Client, c.Object.Name); err == nil {
				plan.InstalledClusters = clustersOf(addOns)
			}
		},
	}
	if plan.Wait != nil {
		a := &awaited{client: c.Client, wait: plan.Wait, object: c.Object}
		f.Wait = a.until(c.What, c.Timeout).Run
	}
	return f
}

// waitUntilGone waits until a deleted add-on is gone from all clusters: what it is made
// from may be deleted only then.
func waitUntilGone(ctx context.Context, c *addOnChange) {
	name := c.Keys[0]
	if c.Object.UID == "" || !kube.IsNotFound(c.Client.Get(ctx, &v1alpha1.ClusterManagementAddOn{}, "", name), name) {
		return // It was another's, or nothing was there.
	}
	waiting, cancel := context.WithTimeout(ctx, c.Timeout-time.Since(c.Began))
	defer cancel()
	defer crud.ReleaseLost(waiting, c.Client, *ofAddOn(name))(c.Diagnostics)
	left, err := gone(waiting, c.Client, c.Object)
	switch {
	case err == nil || apierrors.IsForbidden(err):
	case hub.IsTimeout(err):
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
		defer cancel()
		works, _ := worksOf(reading, c.Client, name) // Without them, the finalizers tell.
		c.Diagnostics.AddError("Not removed yet: "+c.What, describeRemoval(left, works, c.Timeout, time.Now()))
	default:
		hub.AddAPIError(c.Diagnostics, c.Client, "wait until "+c.What+" is gone from its clusters", err)
	}
}

// gone waits until the add-on is gone from all clusters, and returns what is left. What
// does not belong to the object that was deleted is not waited for.
func gone(
	ctx context.Context, client *kube.Client, object *v1alpha1.ClusterManagementAddOn,
) ([]*v1alpha1.ManagedClusterAddOn, error) {
	a := &awaited{}
	list, kind := &v1alpha1.ManagedClusterAddOnList{}, &v1alpha1.ManagedClusterAddOn{}
	err := client.WaitObjects(ctx, list, kind, named(object.Name), func(objects map[string]kube.Object) (bool, error) {
		a.addOns = map[string]*v1alpha1.ManagedClusterAddOn{}
		for _, o := range objects {
			x, ok := o.(*v1alpha1.ManagedClusterAddOn)
			if !ok || x.Name != object.Name {
				continue
			}
			for _, owner := range x.OwnerReferences {
				if owner.UID == object.UID {
					a.addOns[x.Namespace] = x
				}
			}
		}
		return len(a.addOns) == 0, nil
	})
	return a.inClusters(), err
}
