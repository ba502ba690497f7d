package registration

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

var (
	_ resource.ResourceWithConfigure   = (*clusterRegistrationResource)(nil)
	_ resource.ResourceWithImportState = (*clusterRegistrationResource)(nil)
	_ resource.ResourceWithIdentity    = (*clusterRegistrationResource)(nil)
)

type clusterRegistrationResource struct{ crud.Resource }

type clusterRegistrationModel struct {
	ManagedCluster types.String   `tfsdk:"managed_cluster"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
}

// NewRegistration is muster_cluster_registration.
func NewRegistration() resource.Resource { return &clusterRegistrationResource{} }

func (r *clusterRegistrationResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cluster_registration"
}

func (r *clusterRegistrationResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = attribute.IdentitySchema("managed_cluster")
}

func (r *clusterRegistrationResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Waits until a cluster has joined the hub (`" + cluster.ConditionJoined + "`) and is available (`" + cluster.ConditionAvailable + "`). " +
			"It creates nothing and destroys nothing. Let everything depend on it that needs a running cluster, such as manifest works with `wait`.\n\n" +
			"The wait is a resource of its own on purpose: when it times out, the next apply waits again, and neither the cluster's record nor its agent is touched. " +
			"A cluster that later becomes unavailable does not change the plan; look at the data source `muster_managed_cluster` for its present state.",
		Attributes: map[string]schema.Attribute{
			"managed_cluster": attribute.Identifying("Name of the managed cluster.",
				attribute.ValidClusterName()),
		},
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{Create: true, CreateDescription: attribute.TimeoutText("the registration", attribute.DefaultWait)}),
		},
	}
}

func (r *clusterRegistrationResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan clusterRegistrationModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, attribute.DefaultWait)
	resp.Diagnostics.Append(diags...)
	client := r.Hub.Client(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	name := plan.ManagedCluster.ValueString()
	object := &clusterv1.ManagedCluster{}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := client.Wait(waiting, object, "", name, func(exists bool) (bool, error) {
		if !exists {
			*object = clusterv1.ManagedCluster{}
		}
		return exists && isRegistered(object), nil
	})
	switch {
	case err == nil:
		crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
	case hub.IsTimeout(err):
		detail := DescribeRegistration(object, name, time.Now())
		if !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined) {
			looking, cancel := context.WithTimeout(ctx, hub.ReadBudget)
			defer cancel()
			detail += "\n\n" + attribute.JoinLines(DescribeWaitingRequests(looking, client, name, time.Now()))
		}
		resp.Diagnostics.AddError(fmt.Sprintf("Managed cluster %q has not registered within %s", name, timeout), detail)
	default:
		hub.AddAPIError(&resp.Diagnostics, client, fmt.Sprintf("wait for the registration of managed cluster %q", name), err)
	}
}

func (r *clusterRegistrationResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	r.Refresh(ctx, req, resp, &clusterRegistrationModel{}, &clusterv1.ManagedCluster{}, func() error { return nil })
}

// Update only notes a changed timeout.
func (r *clusterRegistrationResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan clusterRegistrationModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	crud.Save(ctx, &plan, &resp.State, resp.Identity, &resp.Diagnostics)
}

// Delete forgets that the cluster was waited for.
func (r *clusterRegistrationResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

func (r *clusterRegistrationResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	object := &clusterv1.ManagedCluster{}
	named := func(names []string) crud.Model {
		return &clusterRegistrationModel{ManagedCluster: types.StringValue(names[0])}
	}
	adopt := func() (crud.Model, error) { return importRegistration(object), nil }
	if state := r.Imported(ctx, req, resp, []string{"managed_cluster"}, object, named, adopt); state != nil {
		crud.Save(ctx, state, &resp.State, resp.Identity, &resp.Diagnostics)
	}
}

func importRegistration(object *clusterv1.ManagedCluster) *clusterRegistrationModel {
	return &clusterRegistrationModel{ManagedCluster: types.StringValue(object.Name), Timeouts: attribute.NullTimeouts("create")}
}

func isRegistered(object *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined) &&
		meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionAvailable)
}

// DescribeRegistration tells how far a registration has come and what the next
// step is.
func DescribeRegistration(object *clusterv1.ManagedCluster, name string, now time.Time) string {
	conditions := object.Status.Conditions
	switch {
	case object.Name == "":
		return fmt.Sprintf("The hub has no ManagedCluster %q. Create it with muster_managed_cluster, or install an agent that registers under this name. Next:\n  kubectl get managedclusters", name)
	case !object.Spec.AcceptsClient():
		return fmt.Sprintf("The cluster is not accepted: hubAcceptsClient is not true. Add a muster_cluster_acceptance for it. Conditions:\n%s\n\nNext:\n  kubectl describe managedcluster %s",
			hub.DescribeConditions(conditions, now), name)
	case !meta.IsStatusConditionTrue(conditions, cluster.ConditionJoined):
		return fmt.Sprintf("The cluster is accepted, but its agent has not joined. Conditions:\n%s\n\n"+
			"Either the agent does not run or can't reach the hub (look in the managed cluster), or its certificate request is not approved (look on the hub). Next:\n"+
			"  kubectl get csr -l %s=%s\n  kubectl -n %s logs deployment/klusterlet-agent    # in the managed cluster",
			hub.DescribeConditions(conditions, now), cluster.NameLabel, name, cluster.AgentNamespace)
	default:
		return fmt.Sprintf("The agent has joined, but the cluster is not available. Conditions:\n%s\n\nNext, in the managed cluster:\n  kubectl get --raw /livez\n  kubectl -n %s logs deployment/klusterlet-agent",
			hub.DescribeConditions(conditions, now), cluster.AgentNamespace)
	}
}

// What implements crud.Model.
func (m *clusterRegistrationModel) What() string {
	return fmt.Sprintf("the registration of managed cluster %q", m.ManagedCluster.ValueString())
}

// Key implements crud.Model.
func (m *clusterRegistrationModel) Key() (namespace, name string) {
	return "", m.ManagedCluster.ValueString()
}

// Identity implements crud.Model.
func (m *clusterRegistrationModel) Identity() any {
	return attribute.ClusterIdentity{ManagedCluster: m.ManagedCluster}
}
