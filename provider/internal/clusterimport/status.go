package clusterimport

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// What the hub reports about an import. The values are the framework's, for they are
// unknown while planning.

type statusModel struct {
	Installed           types.Bool   `tfsdk:"installed"`
	Joined              types.Bool   `tfsdk:"joined"`
	KubeconfigNeeded    types.Bool   `tfsdk:"kubeconfig_needed"`
	InstalledClusterUID types.String `tfsdk:"installed_cluster_uid"`
	Problem             types.String `tfsdk:"problem"`
}

// reported are the names of the attributes of statusModel.
func reported() []string {
	return []string{"installed", "joined", "kubeconfig_needed", "installed_cluster_uid", "problem"}
}

func statusAttributes() map[string]schema.Attribute {
	flag := func(description string) schema.BoolAttribute {
		return schema.BoolAttribute{MarkdownDescription: description, Computed: true}
	}
	return map[string]schema.Attribute{
		"installed": flag("Whether the agent is installed as configured, and runs, as last read."),
		"joined":    flag("Whether the cluster has joined, as last read."),
		"kubeconfig_needed": flag("Whether the hub needs a kubeconfig and has none, as last read: at first, when the hub's address or CA has changed, or when somebody has deleted the Secret of an import with `forget_after_join = false`. " +
			"With `kubeconfig_wo` in the configuration, the next apply hands it in."),
		"installed_cluster_uid": attribute.TextAttribute("UID of the namespace `kube-system` of the cluster that the agent was installed in; empty before."),
		"problem":               attribute.TextAttribute("What is wrong or is waited for, and what to do, in the hub's words; empty when the cluster has joined."),
	}
}

// report takes over what the hub reports.
func (m *statusModel) report(object *v1alpha1.ClusterImport) {
	m.Installed = types.BoolValue(current(object, muster.ConditionAgentInstalled, metav1.ConditionTrue))
	m.Joined = types.BoolValue(meta.IsStatusConditionTrue(object.Status.Conditions, muster.ConditionJoined))
	m.KubeconfigNeeded = types.BoolValue(needsKubeconfig(object))
	m.InstalledClusterUID = types.StringValue(object.Status.ClusterUID)
	m.Problem = types.StringValue(problemOf(object))
}

// current reports whether a condition has a status, and is about the import as it is.
func current(object *v1alpha1.ClusterImport, condition string, is metav1.ConditionStatus) bool {
	c := meta.FindStatusCondition(object.Status.Conditions, condition)
	return c != nil && c.Status == is && c.ObservedGeneration >= object.Generation
}

// needsKubeconfig reports whether the hub waits for somebody to hand in a kubeconfig.
func needsKubeconfig(object *v1alpha1.ClusterImport) bool {
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
func problemOf(object *v1alpha1.ClusterImport) string {
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
func failed(object *v1alpha1.ClusterImport) string {
	for condition, reasons := range map[string][]string{
		muster.ConditionKubeconfigUsable: {muster.ReasonKubeconfigRefused, muster.ReasonAnotherCluster},
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
