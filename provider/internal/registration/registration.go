package registration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

var (
	_ resource.ResourceWithConfigure   = (*clusterRegistrationResource)(nil)
	_ resource.ResourceWithImportState = (*clusterRegistrationResource)(nil)
	_ resource.ResourceWithIdentity    = (*clusterRegistrationResource)(nil)
)

type clusterRegistrationResource struct{ crud.WaitResource }

type clusterRegistrationModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	// AgentReady is null in plans and states.
	AgentReady types.Bool     `tfsdk:"agent_ready"`
	Timeouts   timeouts.Value `tfsdk:"timeouts"`
}

// NewRegistration is muster_cluster_registration.
func NewRegistration() resource.Resource {
	return &clusterRegistrationResource{crud.WaitResource{
		Type: "cluster_registration", Keys: []string{"managed_cluster"},
		Model:  func() crud.WaitModel { return &clusterRegistrationModel{} },
		Object: func() kube.Object { return &clusterv1.ManagedCluster{} },
	}}
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
			"agent_ready": schema.BoolAttribute{
				MarkdownDescription: "Whether the cluster's agent is ready, as the attribute `ready` of `muster_klusterlet` says. With `false`, the wait for a cluster that has not joined ends after 30 seconds: " +
					"an agent that could not reach the hub, or did not start, is not going to register. It is write-only: no change of it shows in a plan.",
				Optional: true, WriteOnly: true,
			},
		},
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{Create: true, CreateDescription: attribute.TimeoutText("the registration", attribute.DefaultWait)}),
		},
	}
}

// Wait implements crud.WaitModel.
func (m *clusterRegistrationModel) Wait(
	waiting context.Context, client *kube.Client, timeout time.Duration,
) (summary, problem string) {
	name, object := m.ManagedCluster.ValueString(), &clusterv1.ManagedCluster{}
	object.Name = name
	w := crud.Wait{
		Client: client, What: m.What(), Object: object, Timeout: timeout,
		Missing:  func() []string { return unregistered(object) },
		Troubles: func() []kube.Trouble { return troubles(m.AgentReady, object) },
		Follow: func(ctx context.Context, look func() (bool, error)) error {
			return client.Wait(ctx, object, "", name, func(exists bool) (bool, error) {
				if !exists {
					*object = clusterv1.ManagedCluster{}
				}
				return look()
			})
		},
	}
	err := w.Until(waiting)
	var gaveUp *kube.GaveUpError
	switch {
	case err == nil:
		return "", ""
	case hub.IsTimeout(err):
		detail := DescribeRegistration(object, name, time.Now())
		if !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined) {
			looking, cancel := context.WithTimeout(context.WithoutCancel(waiting), hub.ReadBudget)
			defer cancel()
			detail += "\n\n" + attribute.JoinLines(DescribeWaitingRequests(looking, client, name, time.Now()))
		}
		return fmt.Sprintf("Managed cluster %q has not registered within %s", name, timeout), detail
	case errors.As(err, &gaveUp):
		return fmt.Sprintf("Managed cluster %q has no agent that could register", name),
			gaveUp.Text + "\n\n" + DescribeRegistration(object, name, time.Now())
	default:
		doing := fmt.Sprintf("wait for the registration of managed cluster %q", name)
		return "Cannot " + doing, hub.Explain(client.Host(), doing, err)
	}
}

// unregistered lists the conditions that a cluster lacks until it is registered.
func unregistered(object *clusterv1.ManagedCluster) []string {
	return attribute.UnmetConditions([]attribute.WaitCondition{
		{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue},
		{Type: cluster.ConditionAvailable, Status: metav1.ConditionTrue},
	}, object.Status.Conditions, 0, "the hub")
}

// troubles are why the cluster will not register.
func troubles(agentReady types.Bool, object *clusterv1.ManagedCluster) []kube.Trouble {
	if agentReady.IsNull() || agentReady.ValueBool() || meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined) {
		return nil
	}
	return []kube.Trouble{{After: workload.LastingPatience, Text: fmt.Sprintf("agent_ready is false, and the cluster has not joined within %s, so the wait ended before its timeout. "+
		"The warning of the resource that installs the agent says what is wrong with it. Correct that, and apply again.", workload.LastingPatience)}}
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

// DescribeRegistration says how far a registration has come and what the next
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

// Limits implements crud.WaitModel.
func (m *clusterRegistrationModel) Limits() timeouts.Value { return m.Timeouts }
