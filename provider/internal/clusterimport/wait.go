package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// When an import is what a wait waits for.

func waitAttribute() crud.WaitAttribute {
	return crud.WaitAttribute{
		Kind: "cluster import", Lost: "the import",
		Notes: "The wait ends early when the hub refuses the kubeconfig.",
		Options: crud.WaitOptions{
			crud.WaitFlag("joined", "Whether to wait until the agent is installed as configured and runs, and the "+
				"cluster has joined. "+
				"The cluster has to be accepted: by `accept`, or by a resource that does not depend on this one."),
			crud.WaitFlag("available", "Whether to wait, after that, until the managed cluster is available."),
		},
	}
}

// awaited is an import that is waited for, and then, if that is asked for, its cluster.
type awaited struct {
	client  *kube.Client
	object  clusterImport
	managed clusterv1.ManagedCluster
	// version is that of the Secret that was handed in; empty where none was.
	version   string
	available bool
}

func (a *awaited) wait(timeout time.Duration) *crud.Wait {
	return &crud.Wait{
		Client: a.client, Object: a.object, Timeout: timeout,
		What: fmt.Sprintf("cluster import %q", a.object.Name), Resource: "clusterimport",
		Prepare: func(context.Context) error {
			if why := failed(a.object); why != "" && !outdated(a.object, a.version) {
				return &crud.FinalError{Why: why}
			}
			return nil
		},
		Missing: func() []string {
			missing := lacks(a.object, a.version)
			switch {
			case !a.available:
			case !meta.IsStatusConditionTrue(a.managed.Status.Conditions, cluster.ConditionAvailable):
				missing = append(missing, "available: the managed cluster is not available")
			case a.managed.HubTaint() != "":
				missing = append(missing, "available: the hub has not removed the taint "+a.managed.HubTaint()+" yet")
			}
			return missing
		},
		Follow:     a.follow,
		Conditions: func() []metav1.Condition { return a.object.Status.Conditions },
		Details: func(context.Context) []string {
			if len(a.managed.Status.Conditions) == 0 {
				return nil
			}
			return []string{"The managed cluster:", hub.DescribeConditions(a.managed.Status.Conditions, time.Now())}
		},
		Next: []string{"muster status " + a.object.Name},
	}
}

// follow looks at each change of the import until the cluster has joined, and then at
// each change of the cluster.
func (a *awaited) follow(ctx context.Context, look func() (bool, error)) error {
	err := a.client.Wait(ctx, a.object, "", a.object.Name, func(exists bool) (bool, error) {
		if !exists {
			return false, errors.New("it was deleted meanwhile")
		}
		met, err := look()
		return met || len(lacks(a.object, a.version)) == 0, err
	})
	if err != nil || !a.available {
		return err
	}
	return a.client.Wait(ctx, &a.managed, "", a.object.Name, func(exists bool) (bool, error) {
		if !exists {
			return false, errors.New("the managed cluster was deleted meanwhile")
		}
		return look()
	})
}

// outdated reports whether the hub has yet to deal with the Secret that was handed in.
func outdated(object clusterImport, version string) bool {
	return version != "" && object.Status.KubeconfigVersion != version
}

// lacks lists what an import lacks until its cluster has joined.
func lacks(object clusterImport, version string) []string {
	if outdated(object, version) {
		return []string{"the kubeconfig: the hub has not dealt with it yet"}
	}
	wanted := []attribute.WaitCondition{
		{Type: muster.ConditionAgentInstalled, Status: metav1.ConditionTrue},
		{Type: muster.ConditionJoined, Status: metav1.ConditionTrue},
	}
	missing := attribute.UnmetConditions(wanted, object.Status.Conditions, object.Generation, "the hub")
	spec, status := object.Spec, object.Status
	if needsKubeconfig(object) || status.Redeployed < spec.Redeploy || status.Rejoined < spec.Rejoin {
		missing = append(missing, "the kubeconfig: the hub needs it, and has none")
	}
	return missing
}

// follow is what comes after the import was written: the kubeconfig, and the wait.
func follow(ctx context.Context, c *change) crud.Follow {
	values := c.Plan
	open := c.Prior == nil || c.Changes.In(statusTable().Unwritten()...)
	if open { // What the hub says of a kubeconfig is from before.
		values["kubeconfig_needed"] = types.BoolValue(false)
	}
	version, ok := handInWhatIsDue(ctx, c)
	f := crud.Follow{Attribute: waitAttribute()}
	client := c.Hub.Client(c.Diagnostics)
	switch {
	case values.IsSet("wait"):
		a := &awaited{client: client, object: c.Object, version: version}
		a.available = values.Object("wait").Bool("available")
		f.Wait = a.wait(c.Timeout).Run
		if !ok && values["ready"].IsUnknown() {
			values["ready"] = types.BoolValue(false) // There is an error already: it is not waited for.
		}
	case version != "":
		noticed := false
		f.Settle = func(waiting context.Context) { noticed = isNoticed(waiting, client, c.Object, version) }
		f.Report = func() {
			if noticed && open {
				maps.Copy(values, statusTable().Read(c.Object))
			}
		}
	}
	return f
}

// handInWhatIsDue hands the kubeconfig in where that is due, and withdraws one that is
// not used any more. It returns the version of the Secret, empty where none was handed in.
func handInWhatIsDue(ctx context.Context, c *change) (version string, ok bool) {
	if c.Prior != nil && c.Prior.IsSet("kubeconfig_wo_version") &&
		(c.Changes.In("kubeconfig_secret") || !c.Plan.IsSet("kubeconfig_wo_version")) {
		withdraw(ctx, c)
	}
	var content types.String
	c.Diagnostics.Append(c.Config.GetAttribute(ctx, path.Root("kubeconfig_wo"), &content)...)
	if content.IsNull() || c.Prior != nil && !handsIn(c.Changes, c.Prior.Bool("kubeconfig_needed")) {
		return "", true
	}
	return handIn(ctx, c, content.ValueString())
}

// noticeTimeout is how long an apply without a wait gives the hub to notice a kubeconfig.
const noticeTimeout = 5 * time.Second

// isNoticed waits for a moment until the hub has dealt with the kubeconfig that was handed
// in, and reports whether it has. Otherwise the next plan could still read that the
// hub needs one. A hub that takes longer, as with a cluster that does not answer, is not
// waited for.
func isNoticed(waiting context.Context, client *kube.Client, object clusterImport, version string) bool {
	ctx, cancel := context.WithTimeout(waiting, noticeTimeout)
	defer cancel()
	err := client.Wait(ctx, object, "", object.Name, func(exists bool) (bool, error) {
		return !exists || !outdated(object, version), nil
	})
	return err == nil && !outdated(object, version)
}

// statusTable is what the hub reports about an import.
func statusTable() attribute.Table[clusterImport] {
	return attribute.Table[clusterImport]{
		attribute.ReportedFlag("installed", "Whether the agent is installed as configured, and runs, as last read.",
			func(i clusterImport) bool { return current(i, muster.ConditionAgentInstalled, metav1.ConditionTrue) }),
		attribute.ReportedFlag("joined", "Whether the cluster has joined, as last read.",
			func(i clusterImport) bool {
				return meta.IsStatusConditionTrue(i.Status.Conditions, muster.ConditionJoined)
			}),
		attribute.ReportedFlag("kubeconfig_needed", "Whether the hub needs a kubeconfig and has none, as last read: "+
			"at first, when the hub's address or CA has changed, or when somebody has deleted the Secret of an import "+
			"with `forget_after_join = false`. With `kubeconfig_wo` in the configuration, the next apply hands it in.",
			needsKubeconfig),
		attribute.ReportedText("installed_cluster_uid", "UID of the namespace `kube-system` of the cluster that the "+
			"agent was installed in; empty before.",
			func(i clusterImport) string { return i.Status.ClusterUID }),
		attribute.ReportedText("installed_cluster_authority", "Who vouched for the API server of that cluster, as in "+
			"`cluster_authority`; empty before.",
			func(i clusterImport) string { return i.Status.ClusterAuthority }),
		attribute.ReportedText("problem", "What is wrong or is waited for, and what to do, in the hub's words; empty "+
			"when the cluster has joined.", problemOf),
	}
}

// current reports whether a condition has a status, and is about the import as it is.
func current(object clusterImport, condition string, is metav1.ConditionStatus) bool {
	c := meta.FindStatusCondition(object.Status.Conditions, condition)
	return c != nil && c.Status == is && c.ObservedGeneration >= object.Generation
}

// needsKubeconfig reports whether the hub waits for somebody to hand in a kubeconfig.
func needsKubeconfig(object clusterImport) bool {
	reasons := []string{muster.ReasonSecretMissing, muster.ReasonKubeconfigNeeded}
	if !ptr.Deref(object.Spec.ForgetAfterJoin, true) {
		reasons = append(reasons, muster.ReasonForgotten)
	}
	return says(object, reasons...) != nil
}

// says is a condition about the import as it is that has one of these reasons.
func says(object clusterImport, reasons ...string) *metav1.Condition {
	i := slices.IndexFunc(object.Status.Conditions, func(c metav1.Condition) bool {
		return c.ObservedGeneration >= object.Generation && slices.Contains(reasons, c.Reason)
	})
	if i < 0 {
		return nil
	}
	return &object.Status.Conditions[i]
}

// problemOf is the message of the first condition that is not as it should be in the
// end.
func problemOf(object clusterImport) string {
	for _, condition := range []string{
		muster.ConditionKubeconfigUsable, muster.ConditionAgentInstalled, muster.ConditionJoined,
	} {
		c := meta.FindStatusCondition(object.Status.Conditions, condition)
		if c == nil || c.Status == metav1.ConditionTrue ||
			c.Reason == muster.ReasonForgotten && !needsKubeconfig(object) {
			continue
		}
		return c.Message
	}
	return ""
}

// failed is why no wait helps: the hub has refused what was handed in, or the cluster
// is another installer's. It is empty while it may still go well.
func failed(object clusterImport) string {
	c := says(object, muster.ReasonKubeconfigRefused, muster.ReasonAnotherCluster, muster.ReasonAnotherAuthority,
		muster.ReasonRejoinNeeded, muster.ReasonInstalledByOther)
	if c == nil || c.Status != metav1.ConditionFalse {
		return ""
	}
	return c.Message
}
