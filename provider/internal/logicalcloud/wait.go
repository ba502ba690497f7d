package logicalcloud

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// When a cloud is what a wait waits for.

type waitModel struct {
	Ready      types.Bool     `tfsdk:"ready"`
	MinReady   types.Int64    `tfsdk:"min_ready"`
	Conditions []types.String `tfsdk:"conditions"`
}

func waitAttribute() crud.WaitAttribute {
	return crud.WaitAttribute{
		Kind: "logical cloud", Failing: "muster_logical_cloud_wait",
		Lost: "the cloud, and so withdraw everybody's access",
		Notes: "A wait for all clusters ends before its timeout when one has refused the cloud's objects for 30 " +
			"seconds, or for 3 where no retry can change that.",
		Options: waitOptions(),
	}
}

// waitOptions are what there is to wait for.
func waitOptions() crud.WaitOptions {
	return crud.WaitOptions{
		crud.WaitFlag("ready", "Whether to wait until placements select clusters and all of them have the cloud's "+
			"objects, as they are in the configuration. It is the condition `Ready`."),
		crud.WaitCount("min_ready", "Waits until at least this many clusters are ready, "+
			"so that one that is offline does not hold up the run."),
		crud.WaitConditions("Conditions of the cloud to wait for, each as its type, which then has to be true, " +
			"or as `type=status`: `Selected`, `Applied` and `Ready`."),
	}
}

// wanted are the conditions to wait for, in the order of their types.
func (m *waitModel) wanted() []attribute.WaitCondition {
	return attribute.WaitConditionsAnd(m.Conditions, m.Ready, muster.ConditionReady)
}

// wait waits for a cloud.
func (m *waitModel) wait(client *kube.Client, object *v1alpha1.LogicalCloud, timeout time.Duration) *crud.Wait {
	return &crud.Wait{
		Client: client, Object: object, Timeout: timeout,
		What: fmt.Sprintf("logical cloud %q", object.Namespace+"/"+object.Name), Resource: "logicalcloud",
		Missing:  func() []string { return m.missing(object) },
		Troubles: func() []kube.Trouble { return m.troubles(object) },
		GivenUp: func(err *kube.GaveUpError) []string {
			return []string{fmt.Sprintf("Clusters refuse the cloud's objects, and have done so for %s, "+
				"so the wait ended before its timeout.", attribute.ShortDuration(err.After))}
		},
		Conditions: func() []metav1.Condition { return object.Status.Conditions },
		Details:    func(context.Context) []string { return describeClusters(object) },
	}
}

// missing lists what is not as the wait wants it.
func (m *waitModel) missing(object *v1alpha1.LogicalCloud) []string {
	missing := attribute.UnmetConditions(m.wanted(), object.Status.Conditions, object.Generation, "the hub")
	least, ready := m.MinReady.ValueInt64(), int64(object.Status.Clusters.Ready)
	if least > 0 && (ready < least || !reported(object)) {
		missing = append(missing, fmt.Sprintf("min_ready: %d of %d clusters are ready", ready, least))
	}
	return missing
}

// reported tells whether the hub has dealt with the cloud as it is now.
func reported(object *v1alpha1.LogicalCloud) bool {
	c := meta.FindStatusCondition(object.Status.Conditions, muster.ConditionReady)
	return c != nil && c.ObservedGeneration >= object.Generation
}

// troubles are what clusters refuse of a cloud that is waited for in all of them.
func (m *waitModel) troubles(object *v1alpha1.LogicalCloud) []kube.Trouble {
	all := slices.ContainsFunc(m.wanted(), func(c attribute.WaitCondition) bool {
		everywhere := c.Type == muster.ConditionReady || c.Type == muster.ConditionApplied
		return everywhere && c.Status == metav1.ConditionTrue
	})
	if !all || !reported(object) {
		return nil
	}
	var troubles []kube.Trouble
	clusters := object.Status.Clusters
	refusing := min(len(clusters.Failing), int(clusters.Failed)) // After them come those that are late.
	for _, f := range clusters.Failing[:refusing] {
		for _, t := range workload.TroubleOf(f.Message) {
			t.Text = "cluster " + f.Name + ": " + t.Text
			troubles = append(troubles, t)
		}
	}
	return troubles
}

// describeClusters counts a cloud's clusters, and lists those that hold it up.
func describeClusters(object *v1alpha1.LogicalCloud) []string {
	c := object.Status.Clusters
	lines := []string{fmt.Sprintf("Clusters: %d selected, %d ready, %d failed.", c.Selected, c.Ready, c.Failed)}
	for _, f := range c.Failing {
		lines = append(lines, fmt.Sprintf("  cluster %s: %s: %s", f.Name, f.Reason, f.Message))
	}
	if c.Selected == 0 {
		lines = append(lines, "", "No placement selects a cluster for it. The placements have to be in the cloud's "+
			"namespace, and a cluster set has to be bound there: kubectl get placements -n "+object.Namespace)
	}
	return lines
}

// describeDeletion tells what keeps a cloud that should be gone.
func describeDeletion(object *v1alpha1.LogicalCloud, timeout time.Duration, now time.Time) string {
	lines := []string{
		fmt.Sprintf("The logical cloud was still there %s after its deletion was asked "+
			"for.", attribute.ShortDuration(timeout)),
		hub.DescribeDeletion(object, now),
	}
	if c := meta.FindStatusCondition(object.Status.Conditions, muster.ConditionDeleting); c != nil {
		lines = append(lines, "  The hub says: "+c.Message)
	}
	return attribute.JoinLines(append(lines, "",
		"The rights are withdrawn where the agents are connected. Apply again when the others are back. "+
			"A cluster that is lost for good has to leave the fleet first: muster detach CLUSTER --force."))
}

// Wait is muster_logical_cloud_wait.
func Wait() crud.Declared {
	return crud.WaitResource[logicalCloud]{
		Type: "logical_cloud_wait", Noun: "logical cloud", Empty: &v1alpha1.LogicalCloud{},
		Description: "Waits until the clusters of a logical cloud are ready, and fails the run when they are not. " +
			"It creates nothing and destroys nothing. Let everything depend on it that needs the cloud's namespace " +
			"in the clusters.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but nobody's access is " +
			"touched, and the next apply waits again. `wait` of `muster_logical_cloud` can't do that after a creation.",
		Keys: []crud.Key{
			{
				Name: "namespace", Description: "Namespace of the logical cloud.",
				Valid: attribute.ValidName("namespace"),
			},
			{
				Name: "name", Description: "Name of the logical cloud.",
				Valid: attribute.ValidObjectName("logical cloud name"),
			},
		},
		Options: waitOptions(),
		Again: attribute.Table[logicalCloud]{attribute.Local[logicalCloud]("triggers", attribute.OptionalTextMap("Values "+
			"whose change makes it wait again, such as `{ grants = jsonencode(muster_logical_cloud.prod.grants) }`."))},
		Wait: func(ctx context.Context, c *cloudChange, options types.Object) (summary, problem string) {
			return attribute.As[*waitModel](options).wait(c.Client, c.Object, c.Timeout).Run(ctx)
		},
	}.Kind()
}
