package registration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
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

// Registration is muster_cluster_registration.
func Registration() crud.Declared {
	return &crud.Kind[managedCluster]{
		Type: "cluster_registration", Noun: "the registration of managed cluster",
		Empty: &clusterv1.ManagedCluster{}, Sole: true,
		Description: "Waits until a cluster has joined the hub (`" + cluster.ConditionJoined + "`) and is available " +
			"(`" + cluster.ConditionAvailable + "`), so that placements may select it. It creates nothing and " +
			"destroys nothing. Let everything depend on it that needs a running cluster, such as manifest works " +
			"with `wait`.\n\n" +
			"The wait is a resource of its own on purpose: when it times out, the next apply waits again, and " +
			"neither the cluster's record nor its agent is touched. A cluster that later becomes unavailable does " +
			"not change the plan; look at the data source `muster_managed_cluster` for its present state.",
		Keys: []crud.Key{{
			Name: "managed_cluster", Description: "Name of the managed cluster.", Valid: attribute.ValidClusterName(),
		}},
		Table: attribute.Table[managedCluster]{
			attribute.Local[managedCluster]("agent_ready", schema.BoolAttribute{
				MarkdownDescription: "Whether the cluster's agent is ready, as the attribute `ready` of " +
					"`muster_klusterlet` says. With `false`, the wait for a cluster that has not joined ends after " +
					"30 seconds: an agent that could not reach the hub, or did not start, is not going to register. " +
					"It is write-only: no change of it shows in a plan.",
				Optional: true, WriteOnly: true,
			}),
		},
		Timeouts: crud.Timeouts{Create: "the registration"},
		Part:     &crud.Part[managedCluster]{Write: awaitRegistration},
		List: &crud.List[managedCluster]{
			Plural: "registrations of managed clusters", Objects: &clusterv1.ManagedClusterList{},
			About: "Listed are the clusters that have joined and are available. The resource leaves nothing on the " +
				"hub, so that the list can't tell which of them are in Terraform already.",
			Is:       func(object managedCluster) bool { return len(unregistered(object)) == 0 },
			Managed:  func(managedCluster) bool { return false },
			Sets:     crud.SetsOfCluster,
			Describe: crud.DescribeCluster,
		},
	}
}

// awaitRegistration waits for a cluster, and reports whether it has registered.
func awaitRegistration(ctx context.Context, c *acceptance) bool {
	if c.Prior != nil { // Only a timeout has changed.
		return true
	}
	var agentReady types.Bool
	c.Diagnostics.Append(c.Config.GetAttribute(ctx, path.Root("agent_ready"), &agentReady)...)
	name, object := c.Keys[0], c.Object
	w := crud.Wait{
		Client: c.Client, What: c.What, Object: object, Timeout: c.Timeout,
		Missing:  func() []string { return unregistered(object) },
		Troubles: func() []kube.Trouble { return troubles(agentReady, object) },
		Follow: func(ctx context.Context, look func() (bool, error)) error {
			return c.Client.Wait(ctx, object, "", name, func(exists bool) (bool, error) {
				if !exists {
					*object = clusterv1.ManagedCluster{}
				}
				return look()
			})
		},
	}
	err := w.Until(ctx)
	var gaveUp *kube.GaveUpError
	switch {
	case err == nil:
		return true
	case hub.IsTimeout(err):
		detail := DescribeRegistration(object, name, time.Now())
		if !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined) {
			looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadBudget)
			defer cancel()
			detail += "\n\n" + attribute.JoinLines(DescribeWaitingRequests(looking, c.Client, name, time.Now()))
		}
		c.Diagnostics.AddError(fmt.Sprintf("Managed cluster %q has not registered within %s", name, c.Timeout), detail)
	case errors.As(err, &gaveUp):
		c.Diagnostics.AddError(fmt.Sprintf("Managed cluster %q has no agent that could register", name),
			gaveUp.Text+"\n\n"+DescribeRegistration(object, name, time.Now()))
	default:
		hub.AddAPIError(c.Diagnostics, c.Client, "wait for "+c.What, err)
	}
	return false
}

// unregistered lists what a cluster lacks until it is registered and placements may select
// it.
func unregistered(object managedCluster) []string {
	missing := attribute.UnmetConditions([]attribute.WaitCondition{
		{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue},
		{Type: cluster.ConditionAvailable, Status: metav1.ConditionTrue},
	}, object.Status.Conditions, 0, "the hub")
	if taint := object.HubTaint(); taint != "" {
		missing = append(missing, taint+": the hub has not removed this taint yet")
	}
	return missing
}

// troubles are why the cluster will not register.
func troubles(agentReady types.Bool, object managedCluster) []kube.Trouble {
	joined := meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined)
	if agentReady.IsNull() || agentReady.ValueBool() || joined {
		return nil
	}
	return []kube.Trouble{{After: workload.LastingPatience, Text: fmt.Sprintf("agent_ready is false, and the cluster "+
		"has not joined within %s, so the wait ended before its timeout. The warning of the resource that installs "+
		"the agent says what is wrong with it. Correct that, and apply again.", workload.LastingPatience)}}
}

// DescribeRegistration says how far a registration has come and what the next
// step is.
func DescribeRegistration(object managedCluster, name string, now time.Time) string {
	conditions := object.Status.Conditions
	switch {
	case object.Name == "":
		return fmt.Sprintf("The hub has no ManagedCluster %q. Create it with muster_managed_cluster, or install an "+
			"agent that registers under this name. Next:\n  kubectl get managedclusters", name)
	case !object.Spec.AcceptsClient():
		return fmt.Sprintf("The cluster is not accepted: hubAcceptsClient is not true. Add a "+
			"muster_cluster_acceptance for it. Conditions:\n%s\n\nNext:\n  kubectl describe managedcluster %s",
			hub.DescribeConditions(conditions, now), name)
	case !meta.IsStatusConditionTrue(conditions, cluster.ConditionJoined):
		return fmt.Sprintf("The cluster is accepted, but its agent has not joined. Conditions:\n%s\n\n"+
			"Either the agent does not run or can't reach the hub (look in the managed cluster), or its certificate "+
			"request is not approved (look on the hub). Next:\n  kubectl get csr -l %s=%s\n"+
			"  kubectl -n %s logs deployment/klusterlet-agent    # in the managed cluster",
			hub.DescribeConditions(conditions, now), cluster.NameLabel, name, cluster.AgentNamespace)
	case meta.IsStatusConditionTrue(conditions, cluster.ConditionAvailable) && object.HubTaint() != "":
		return fmt.Sprintf("The cluster is available, but the hub has not removed its taint %s, so no placement "+
			"selects the cluster. The hub removes it within a moment. If it stays, its controllers don't run, or "+
			"somebody sets it again. Next:\n  kubectl get managedcluster %s -o yaml --show-managed-fields",
			object.HubTaint(), name)
	default:
		return fmt.Sprintf("The agent has joined, but the cluster is not available. Conditions:\n%s\n\nNext, in the "+
			"managed cluster:\n  kubectl get --raw /livez\n  kubectl -n %s logs deployment/klusterlet-agent",
			hub.DescribeConditions(conditions, now), cluster.AgentNamespace)
	}
}
