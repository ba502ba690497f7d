package action

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

var _ action.ActionWithConfigure = (*denyCluster)(nil)

type denyCluster struct{ onHub }

type denyClusterModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Force          types.Bool   `tfsdk:"force_conflicts"`
	Timeout        types.String `tfsdk:"timeout"`
}

// defaultDenial is how long a hub may take to withdraw rights.
const defaultDenial = 2 * time.Minute

// NewDenyCluster is muster_deny_cluster.
func NewDenyCluster() action.Action { return &denyCluster{onHub{name: "deny_cluster"}} }

func (a *denyCluster) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Denies a cluster: sets `hubAcceptsClient` to false and waits until the hub has withdrawn the rights of its agent. What runs in the cluster keeps running, and its works stay on the hub. " +
			"A denied cluster stays denied until it is accepted again; its agent then goes on with the certificate that it has.\n\n" +
			"A cluster that a `muster_cluster_acceptance` accepts is better denied there, with `accepted = false`: its next apply would accept the cluster again, so the action refuses.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": clusterAttribute("Name of the managed cluster."),
			"force_conflicts": schema.BoolAttribute{
				MarkdownDescription: "Whether to deny the cluster also when a `muster_cluster_acceptance` accepts it, for emergencies. Change that resource before its next apply.",
				Optional:            true,
			},
			"timeout": timeoutAttribute("the hub", defaultDenial),
		},
	}
}

func (a *denyCluster) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var config denyClusterModel
	a.invoke(ctx, req, resp, &config, func(client *kube.Client, report *reporter) (string, error) {
		name := config.ManagedCluster.ValueString()
		return quoted("deny managed cluster", name), deny(ctx, client, denyOptions{
			Cluster: name, Force: config.Force.ValueBool(), Timeout: durationOf(config.Timeout, defaultDenial),
		}, report)
	})
}

// denyOptions say which cluster is denied, and how.
type denyOptions struct {
	Cluster string
	// Force denies it also when a muster_cluster_acceptance accepts it.
	Force bool
	// Timeout is how long the hub may take to withdraw the rights.
	Timeout time.Duration
}

// deny withdraws a cluster's acceptance, and waits until the hub has withdrawn the
// rights of its agent. What runs in the cluster keeps running.
func deny(ctx context.Context, client *kube.Client, o denyOptions, report *reporter) error {
	object, err := find(ctx, client, o.Cluster)
	if err != nil {
		return err
	}
	switch {
	case !object.Spec.AcceptsClient() && !grantedRights(object):
		report.say("%s is not accepted. Nothing is to be done.", o.Cluster)
		return nil
	case object.Spec.AcceptsClient() && acceptedByTerraform(object) && !o.Force:
		return refuse(fmt.Sprintf("Terraform accepts managed cluster %q", o.Cluster),
			"A muster_cluster_acceptance has set hubAcceptsClient, and the next apply of its configuration would accept the cluster again. "+
				"Set accepted = false in that resource and apply, or remove it with its next apply. "+
				"To deny the cluster at once, for example because its credentials have leaked, set force_conflicts, and change the configuration before its next apply.")
	case object.Spec.AcceptsClient():
		object.SetName(o.Cluster)
		patch := map[string]any{"metadata": map[string]any{"uid": object.UID}, "spec": map[string]any{"hubAcceptsClient": false}}
		if err := client.MergePatch(ctx, object, hub.AcceptanceManager, patch); err != nil {
			return err
		}
		report.say("%s is denied. The hub withdraws the rights of its agent.", o.Cluster)
	default:
		report.say("%s is denied already. The hub withdraws the rights of its agent.", o.Cluster)
	}
	waiting, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	err = report.looking(waiting, nil, func(ctx context.Context) error {
		return client.Wait(ctx, object, "", o.Cluster, func(exists bool) (bool, error) {
			if exists && object.Spec.AcceptsClient() {
				return false, refuse(fmt.Sprintf("Managed cluster %q is accepted again", o.Cluster),
					"Somebody has set hubAcceptsClient to true since it was denied: a person, a muster_cluster_acceptance of another configuration, or a controller that accepts clusters. "+
						"Its managers are in: kubectl get managedcluster %s -o yaml --show-managed-fields", o.Cluster)
			}
			return !exists || !grantedRights(object), nil
		})
	})
	switch {
	case hub.IsTimeout(err) && ctx.Err() == nil:
		return refuse(fmt.Sprintf("The hub has not withdrawn the rights of managed cluster %q", o.Cluster),
			"hubAcceptsClient is false, but within %s the hub's registration controller has not reported that it has withdrawn the rights. Conditions:\n%s\n\nCheck that the controller runs. Next:\n  kubectl describe managedcluster %s",
			o.Timeout, hub.DescribeConditions(object.Status.Conditions, report.Clock.Now()), o.Cluster)
	case err != nil:
		return interrupted(ctx, err, fmt.Sprintf("Managed cluster %q is denied. The hub withdraws the rights of its agent, which nobody waits for any more.", o.Cluster))
	}
	report.say("The hub has withdrawn the rights of the agent in %s. What runs in the cluster keeps running.", o.Cluster)
	reportWorks(ctx, client, report, o.Cluster)
	return nil
}

// reportWorks says what a denial means for the works of a cluster.
func reportWorks(ctx context.Context, client *kube.Client, report *reporter, name string) {
	works := &workv1.ManifestWorkList{}
	if client.List(ctx, works, kube.ListOptions{Namespace: name}) != nil || len(works.Items) == 0 {
		return
	}
	report.say("%s of it stay on the hub. The agent gets no changes of them; it may only clean up behind those that are deleted.", plural(len(works.Items), "work"))
}

func grantedRights(object *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted)
}

// acceptedByTerraform reports whether a muster_cluster_acceptance has accepted the
// cluster. After a denial the field is owned under the same name, and false.
func acceptedByTerraform(object metav1.Object) bool {
	return crud.FieldsOf(object, hub.AcceptanceManager).Has("spec", "hubAcceptsClient")
}
