package manifestwork

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// When a work is what a wait waits for.

type waitModel struct {
	Conditions []types.String `tfsdk:"conditions"`
}

func waitAttribute() crud.WaitAttribute {
	return crud.WaitAttribute{
		Kind: "work", Failing: "muster_manifest_work_wait",
		Until: "the agent has reported these conditions",
		Lost:  "the work",
		Notes: "When the agent can't apply the manifests, the wait ends before its timeout: after 3 seconds if no " +
			"retry can change that, such as with a field that the API server refuses, and after 30 seconds of the " +
			"same errors if somebody may put it right. A missing namespace, or a webhook that does not answer, is " +
			"waited out.",
		Options: waitOptions(),
	}
}

// waitOf is the attribute wait; nil without one.
func waitOf(values attribute.Values) *waitModel { return attribute.As[*waitModel](values["wait"]) }

// waitOptions are what there is to wait for.
func waitOptions() crud.WaitOptions {
	return crud.WaitOptions{
		crud.WaitConditions("The conditions to wait for: a type that has to be true, such as `Applied` (the agent " +
			"wrote all objects), `Available` (they all exist) or `Complete` and others that `condition_rules` " +
			"derive; or a type with another status, such as `Progressing=False` or `Degraded=False`."),
	}
}

// wait waits for a work. places say where its objects are in the configuration.
func (m *waitModel) wait(
	client *kube.Client, object manifestWork, timeout time.Duration, places workload.Places,
) *crud.Wait {
	return &crud.Wait{
		Client: client, Object: object, Timeout: timeout, Gone: "it does not exist",
		What: what(object), Resource: "manifestwork",
		Missing:    func() []string { return m.missing(object) },
		Troubles:   func() []kube.Trouble { return workload.Troubles(object) },
		GivenUp:    func(err *kube.GaveUpError) []string { return describeGivenUp(object, err) },
		Conditions: func() []metav1.Condition { return object.Status.Conditions },
		Details: func(ctx context.Context) []string {
			now := time.Now()
			away := describeCluster(ctx, client, object.Namespace, now)
			return append(m.describeObjects(object, now, places), away...)
		},
	}
}

// missing lists the conditions that a work does not have, each with the reason.
func (m *waitModel) missing(object manifestWork) []string {
	var missing []string
	for _, c := range attribute.WaitConditions(m.Conditions) {
		why := c.Unmet(object.Status.Conditions, object.Generation, "the agent")
		have := meta.FindStatusCondition(object.Status.Conditions, c.Type)
		switch {
		case why == "":
			continue
		case workload.IsFinished(object):
			why = "the work is Complete, and such works are not applied again"
		case have == nil && (c.Type == work.ConditionApplied || c.Type == work.ConditionAvailable):
			why = "the agent has not reported it"
		case have == nil:
			why += "; a condition other than Applied and Available may take a rule in manifest_configs"
		}
		missing = append(missing, c.String()+": "+why)
	}
	return missing
}

// describeGivenUp says why the wait for a work ended before its timeout.
func describeGivenUp(object manifestWork, err *kube.GaveUpError) []string {
	if err.Text == workload.FinishedAdvice {
		return []string{workload.FinishedAdvice}
	}
	why := fmt.Sprintf("The agent can't apply it, and has reported the same errors for %s, so the wait ended before "+
		"its timeout. Correct the manifests, or what stands in their way in the cluster.", err.After)
	return append([]string{why}, workload.Remedies(object)...)
}

// describeObjects lists the objects of a work that are at fault, and what the agent
// reported of the objects.
func (m *waitModel) describeObjects(object manifestWork, now time.Time, places workload.Places) []string {
	var lines, reported []string
	if faults := describeFaults(object, attribute.WaitConditions(m.Conditions), now, places); len(faults) > 0 {
		lines = append([]string{"Objects at fault:"}, faults...)
	}
	for _, m := range object.Status.ResourceStatus.Manifests {
		for _, value := range m.StatusFeedbacks.Values {
			name := workload.Places(nil).Name(m.ResourceMeta)
			reported = append(reported, fmt.Sprintf("  %s: %s = %s", name, value.Name, feedbackText(value.Value)))
		}
	}
	if len(reported) > 0 {
		lines = append(append(lines, "Reported values:"), reported...)
	}
	return lines
}

// describeFaults lists the conditions of single objects that are not as they
// should be.
func describeFaults(
	object manifestWork, wanted []attribute.WaitCondition, now time.Time, places workload.Places,
) []string {
	should := map[string]metav1.ConditionStatus{
		work.ConditionApplied:   metav1.ConditionTrue,
		work.ConditionAvailable: metav1.ConditionTrue,
		work.ConditionDegraded:  metav1.ConditionFalse,
	}
	for _, c := range wanted {
		should[c.Type] = c.Status
	}
	var lines []string
	for _, m := range object.Status.ResourceStatus.Manifests {
		for _, c := range m.Conditions {
			status, matters := should[c.Type]
			failed := c.Type == work.ConditionStatusFeedbackSynced && c.Reason == work.ReasonFeedbackFailed
			if (matters && c.Status != status) || failed {
				text := strings.TrimSpace(hub.DescribeConditions([]metav1.Condition{c}, now))
				lines = append(lines, "  "+places.Name(m.ResourceMeta)+": "+text)
			}
		}
	}
	return lines
}

// placementAttribute is the placement that a work depends on.
func placementAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Placement that has to have chosen the cluster before the work is created. Creating " +
			"waits for it; a cluster that the placement drops later keeps the work, " +
			"so a cluster that is unavailable for a while does not lose what runs in it.",
		Optional: true,
		Attributes: map[string]schema.Attribute{
			"namespace": attribute.Required("Namespace of the placement.", attribute.ValidName("namespace")),
			"name":      attribute.Required("Name of the placement.", attribute.ValidName("placement name")),
		},
	}
}

// waitUntilChosen returns once the placement has chosen the cluster. It reports
// whether it has.
func waitUntilChosen(ctx context.Context, c *change) bool {
	wanted, _ := c.Plan["placement"].(types.Object)
	of := attribute.Values(wanted.Attributes())
	namespace, name := of.Text("namespace"), of.Text("name")
	clusterName := c.Keys[0]
	decisions := &clusterv1beta1.PlacementDecisionList{}
	err := c.Client.WaitList(ctx, decisions, &clusterv1beta1.PlacementDecision{},
		kube.ListOptions{Namespace: namespace, LabelSelector: cluster.PlacementLabel + "=" + name},
		func() (bool, error) {
			return slices.ContainsFunc(decisions.Items, func(d clusterv1beta1.PlacementDecision) bool {
				return slices.ContainsFunc(d.Status.Decisions, func(x clusterv1beta1.ClusterDecision) bool {
					return x.ClusterName == clusterName
				})
			}), nil
		})
	switch {
	case err == nil:
		return true
	case !hub.IsTimeout(err):
		hub.AddAPIError(c.Diagnostics, c.Client,
			fmt.Sprintf("wait until placement %q chooses cluster %q", namespace+"/"+name, clusterName), err)
		return false
	}
	why := fmt.Sprintf("There is no placement %q in namespace %q.", name, namespace)
	placement := &clusterv1beta1.Placement{}
	if err := c.Client.Get(context.WithoutCancel(ctx), placement, namespace, name); err == nil {
		why = "Conditions of the placement:\n" + hub.DescribeConditions(placement.Status.Conditions, time.Now())
	}
	c.Diagnostics.AddAttributeError(path.Root("placement"),
		fmt.Sprintf("Placement %q has not chosen cluster %q", namespace+"/"+name, clusterName),
		fmt.Sprintf("After %s the cluster is not among its decisions. %s\n\nCompare the labels and taints of the "+
			"cluster with the placement's predicates and tolerations:\n  kubectl describe managedcluster %s\n  "+
			"kubectl describe placement -n %s %s",
			c.Timeout, why, clusterName, namespace, name))
	return false
}

// describeDeletion says what keeps a work that should be gone.
func describeDeletion(ctx context.Context, client *kube.Client, object manifestWork, timeout time.Duration) string {
	now := time.Now()
	lines := []string{
		fmt.Sprintf("The work was still there %s after its deletion was asked for.", timeout),
		hub.DescribeDeletion(object, now),
		hub.DescribeConditions(object.Status.Conditions, now),
	}
	away := describeCluster(ctx, client, object.Namespace, now)
	if len(away) == 0 {
		return attribute.JoinLines(append(lines, "",
			"The cluster is available, so its agent is at it. What holds the objects there, in the cluster:",
			"  kubectl get appliedmanifestworks",
			"  kubectl describe KIND NAME    # its finalizers, and what they wait for",
			"Apply again when they are gone."))
	}
	lines = append(lines, away...)
	return attribute.JoinLines(append(lines, "",
		"Apply again when the agent is back. "+crud.LostAdvice(object.Namespace),
		"or give the objects of this work alone up:",
		fmt.Sprintf("  kubectl patch manifestwork -n %s %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}'",
			object.Namespace, object.Name)))
}

// describeCluster says that a cluster is away or gone, if it is and the hub answers soon.
func describeCluster(ctx context.Context, client *kube.Client, name string, now time.Time) []string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	managed := &clusterv1.ManagedCluster{}
	err := client.Get(ctx, managed, "", name)
	if kube.IsNotFound(err, name) {
		return []string{fmt.Sprintf("The hub has no managed cluster %q any more.", name)}
	}
	if err != nil || meta.IsStatusConditionTrue(managed.Status.Conditions, cluster.ConditionAvailable) {
		return nil
	}
	return []string{
		fmt.Sprintf("The cluster %q is not available:", name),
		hub.DescribeConditions(managed.Status.Conditions, now),
	}
}

// Wait is muster_manifest_work_wait.
func Wait() crud.Declared {
	return crud.WaitResource[manifestWork]{
		Type: "manifest_work_wait", Noun: "manifest work", Empty: &workv1.ManifestWork{},
		Description: "Waits until the agent has reported conditions of a manifest work, and fails the run when it " +
			"does not. It creates nothing and destroys nothing. Let everything depend on it that needs the work's " +
			"objects.\n\n" +
			"The wait is a resource of its own on purpose: when it fails, the run fails, but neither the work nor " +
			"its objects are touched, and the next apply waits again. `wait` of `muster_manifest_work` can't do " +
			"that after a creation. With `generation` it waits again for each change of the work. When the agent " +
			"can't apply the work, the wait ends before its timeout, as there. A work that fails later does not " +
			"change the plan.",
		Keys: []crud.Key{
			{
				Name: "managed_cluster", Description: "Name of the managed cluster.",
				Valid: attribute.ValidClusterName(),
			},
			{Name: "name", Description: "Name of the work.", Valid: attribute.ValidObjectName("work name")},
		},
		Options: waitOptions(),
		Again:   workload.GenerationToWaitFor[manifestWork]("muster_manifest_work"),
		Wait: func(ctx context.Context, c *change, options types.Object) (summary, problem string) {
			wait := attribute.As[*waitModel](options)
			summary, problem = wait.wait(c.Client, c.Object, c.Timeout, nil).Run(ctx)
			return summary, content().Live(c.Object).Masked(problem)
		},
	}.Kind()
}
