package logicalcloud

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
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
