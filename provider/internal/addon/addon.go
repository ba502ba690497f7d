// Package addon has the resources and data sources of add-ons: muster_addon, what
// an add-on is and where it is installed; muster_cluster_addon, the add-on in one
// cluster; muster_addon_template and muster_addon_deployment_config, what an add-on
// consists of and how its agents run.
//
// It writes v1alpha1 of the API group, which every hub serves and stores: older
// upstream hubs serve nothing else.
package addon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

type (
	fleetAddOn  = *v1alpha1.ClusterManagementAddOn
	addOnChange = crud.Change[fleetAddOn]
)

// AddOn is muster_addon.
func AddOn() crud.Declared {
	return &crud.Kind[fleetAddOn]{
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
			Name: "name", DataDescription: "Name of the add-on.",
			Description: "Name of the add-on on the hub, and in each cluster. Changing it replaces the add-on.",
			Valid:       attribute.ValidObjectName("add-on name"),
		}},
		Table: addOnTable(),
		Timeouts: crud.Timeouts{
			Create: "creating, with `wait`,", Update: "changing, with `wait`,",
			Delete: "deleting, which waits until the add-on is gone from all clusters and its jobs have run,",
		},
		Places: map[string]string{"spec.installStrategy": "placements", "spec.supportedConfigs": "supported_configs"},
		Waits:  &crud.Waits{Reported: []string{"installed_clusters"}},
		Hooks: crud.Hooks[fleetAddOn]{
			Fill: func(_ []string, object fleetAddOn) {
				object.Spec.InstallStrategy.Type = v1alpha1.InstallStrategyManual
			},
			Validate:    validateAddOn,
			Plan:        planAddOn,
			BeforeWrite: expect,
			Follow:      followAddOn,
			AlsoRead:    readClusters,
			AfterDelete: waitUntilGone,
		},
		List: &crud.List[fleetAddOn]{
			Plural: "add-ons", Objects: &v1alpha1.ClusterManagementAddOnList{},
			Describe: func(object fleetAddOn) string {
				if n := len(object.Spec.InstallStrategy.Placements); n > 0 {
					return crud.Count(n, "placement")
				}
				return "installed by hand"
			},
		},
		Data: &crud.Data[fleetAddOn]{
			Description: "An add-on, with how far its configuration has spread and how it is in each cluster.",
			Others:      "kubectl get clustermanagementaddons",
			Table: attribute.Table[fleetAddOn]{
				installedClusters(),
				attribute.ReportedObjects("clusters",
					"The add-on in each cluster that has it, in the order of the clusters' names.",
					func(fleetAddOn) []clusterAddOn { return nil }, observedTable()...),
			},
			Also: func(ctx context.Context, client *kube.Client, object fleetAddOn) (attribute.Values, error) {
				addOns, err := inClusters(ctx, client, object.Name)
				return attribute.Values{
					"installed_clusters": clustersOf(addOns),
					"clusters": types.ListValueMust(
						types.ObjectType{AttrTypes: observedTable().Types()}, observedTable().Objects(addOns)),
				}, err
			},
		},
	}
}

// readClusters takes over how the add-on is in the clusters.
func readClusters(ctx context.Context, client *kube.Client, values attribute.Values, object fleetAddOn) error {
	addOns, err := inClusters(ctx, client, object.Name)
	values["installed_clusters"] = types.ListNull(types.StringType)
	if err == nil {
		values["installed_clusters"] = clustersOf(addOns)
	}
	crud.StayReady(values, func() bool {
		return err == nil && waitIn(values).metBy(values.Bool("rolled_out"), addOns)
	})
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// followAddOn is what comes after the add-on was written.
func followAddOn(ctx context.Context, c *addOnChange) crud.Follow {
	plan, open := c.Plan, c.Plan["installed_clusters"].IsUnknown()
	if open {
		plan["installed_clusters"] = types.ListNull(types.StringType)
	}
	f := crud.Follow{
		Attribute: addOnWaitAttribute(),
		Settle:    func(context.Context) {},
		Report: func() {
			if !open {
				return // What the plan has shown stays.
			}
			for name, value := range addOnStatus().Read(c.Object) {
				plan[name] = value
			}
			reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
			defer cancel()
			if addOns, err := inClusters(reading, c.Client, c.Object.Name); err == nil {
				plan["installed_clusters"] = clustersOf(addOns)
			}
		},
	}
	if wait := waitIn(plan); wait != nil {
		a := &awaited{client: c.Client, wait: wait, object: c.Object}
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
		c.Diagnostics.AddError(notRemoved(ctx, c.Client, c.What, name, left, c.Timeout))
	default:
		hub.AddAPIError(c.Diagnostics, c.Client, "wait until "+c.What+" is gone from its clusters", err)
	}
}

// gone waits until the add-on is gone from all clusters, and returns what is left. What
// does not belong to the object that was deleted is not waited for.
func gone(ctx context.Context, client *kube.Client, object fleetAddOn) (left []clusterAddOn, err error) {
	owner := func(o metav1.OwnerReference) bool { return o.UID == object.UID }
	others := func(x clusterAddOn) bool { return !slices.ContainsFunc(x.OwnerReferences, owner) }
	err = followClusters(ctx, client, object.Name, func(addOns []clusterAddOn) (bool, error) {
		left = slices.DeleteFunc(addOns, others)
		return len(left) == 0, nil
	})
	return left, err
}

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
			if element.IsSet("default") && attribute.Known(element["default"]) {
				checkConfigPlace(at.AtName("default"), kind, element.Object("default").Text("namespace"), diags)
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
		}
	})
}
