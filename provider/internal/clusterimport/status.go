package clusterimport

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// statusTable is what the hub reports about an import.
func statusTable() attribute.Table[clusterImport] {
	flag := func(description string) schema.BoolAttribute {
		return schema.BoolAttribute{MarkdownDescription: description, Computed: true}
	}
	return attribute.Table[clusterImport]{
		attribute.Reported("installed",
			flag("Whether the agent is installed as configured, and runs, as last read."),
			func(i clusterImport) types.Bool {
				return types.BoolValue(current(i, muster.ConditionAgentInstalled, metav1.ConditionTrue))
			}),
		attribute.Reported("joined",
			flag("Whether the cluster has joined, as last read."),
			func(i clusterImport) types.Bool {
				return types.BoolValue(meta.IsStatusConditionTrue(i.Status.Conditions, muster.ConditionJoined))
			}),
		attribute.Reported("kubeconfig_needed",
			flag("Whether the hub needs a kubeconfig and has none, as last read: at first, when the hub's address "+
				"or CA has changed, "+
				"or when somebody has deleted the Secret of an import with `forget_after_join = false`. "+
				"With `kubeconfig_wo` in the configuration, the next apply hands it in."),
			func(i clusterImport) types.Bool { return types.BoolValue(needsKubeconfig(i)) }),
		attribute.Reported("installed_cluster_uid",
			attribute.TextAttribute("UID of the namespace `kube-system` of the cluster that the agent was "+
				"installed in; empty before."),
			func(i clusterImport) types.String { return types.StringValue(i.Status.ClusterUID) }),
		attribute.Reported("installed_cluster_authority",
			attribute.TextAttribute("Who vouched for the API server of that cluster, as in `cluster_authority`; "+
				"empty before."),
			func(i clusterImport) types.String { return types.StringValue(i.Status.ClusterAuthority) }),
		attribute.Reported("problem",
			attribute.TextAttribute("What is wrong or is waited for, and what to do, in the hub's words; empty "+
				"when the cluster has joined."),
			func(i clusterImport) types.String { return types.StringValue(problemOf(i)) }),
	}
}

// current reports whether a condition has a status, and is about the import as it is.
func current(object clusterImport, condition string, is metav1.ConditionStatus) bool {
	c := meta.FindStatusCondition(object.Status.Conditions, condition)
	return c != nil && c.Status == is && c.ObservedGeneration >= object.Generation
}

// needsKubeconfig reports whether the hub waits for somebody to hand in a kubeconfig.
func needsKubeconfig(object clusterImport) bool {
	for condition, reasons := range map[string][]string{
		muster.ConditionKubeconfigUsable: {muster.ReasonSecretMissing, muster.ReasonForgotten},
		muster.ConditionAgentInstalled:   {muster.ReasonKubeconfigNeeded},
	} {
		c := meta.FindStatusCondition(object.Status.Conditions, condition)
		if c == nil || c.ObservedGeneration < object.Generation {
			continue
		}
		for _, reason := range reasons {
			forgotten := reason == muster.ReasonForgotten && ptr.Deref(object.Spec.ForgetAfterJoin, true)
			if c.Reason == reason && !forgotten {
				return true
			}
		}
	}
	return false
}

// problemOf is the message of the first condition that is not as it should be in the
// end.
func problemOf(object clusterImport) string {
	for _, condition := range []string{muster.ConditionKubeconfigUsable, muster.ConditionAgentInstalled, muster.ConditionJoined} {
		c := meta.FindStatusCondition(object.Status.Conditions, condition)
		if c == nil || c.Status == metav1.ConditionTrue || c.Reason == muster.ReasonForgotten && !needsKubeconfig(object) {
			continue
		}
		return c.Message
	}
	return ""
}

// failed is why no wait helps: the hub has refused what was handed in, or the cluster
// is another installer's. It is empty while it may still go well.
func failed(object clusterImport) string {
	for condition, reasons := range map[string][]string{
		muster.ConditionKubeconfigUsable: {muster.ReasonKubeconfigRefused, muster.ReasonAnotherCluster, muster.ReasonAnotherAuthority},
		muster.ConditionJoined:           {muster.ReasonRejoinNeeded},
		muster.ConditionAgentInstalled:   {muster.ReasonInstalledByOther},
	} {
		c := meta.FindStatusCondition(object.Status.Conditions, condition)
		if c == nil || c.Status != metav1.ConditionFalse || c.ObservedGeneration < object.Generation {
			continue
		}
		for _, reason := range reasons {
			if c.Reason == reason {
				return c.Message
			}
		}
	}
	return ""
}
