package addon

import (
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// What hub and agent report of an add-on in one cluster.

// observedTable is the add-on in one cluster, as data sources have it.
func observedTable() attribute.Table[clusterAddOn] {
	return attribute.Table[clusterAddOn]{
		attribute.ReportedText("managed_cluster", "Name of the cluster.", clusterAddOn.GetNamespace),
		attribute.ReportedText("name", "Name of the add-on.", clusterAddOn.GetName),
		attribute.ReportedTextMap("labels", "Labels of the add-on in the cluster.", clusterAddOn.GetLabels),
		attribute.ReportedText("install_namespace",
			"Namespace in the cluster in which its agent runs; empty while its manager has not said.",
			func(x clusterAddOn) string { return x.Status.Namespace }),
		attribute.ReportedText("available",
			"Whether it works: the condition `Available`, `True`, `False` or `Unknown`; empty while nobody "+
				"reports it.",
			func(x clusterAddOn) metav1.ConditionStatus { return statusOf(x, addon.ConditionAvailable) }),
		attribute.ReportedText("progressing",
			"Whether its configuration is still on the way: the condition `Progressing`; empty while the hub does "+
				"not report it.",
			func(x clusterAddOn) metav1.ConditionStatus { return statusOf(x, addon.ConditionProgressing) }),
		attribute.ReportedText("problem",
			"What keeps it from being available with its present configuration, in a sentence; empty when nothing "+
				"does.",
			addOnProblem),
		configReferences("configs", "The configurations that count for it, out of the add-on's defaults, its "+
			"placement's and the cluster's own."),
		attribute.ReportedConditions("Conditions, such as `Available`, `Progressing`, `Configured`, "+
			"`ManifestApplied` and `RegistrationApplied`.",
			conditionsOf),
	}
}

func conditionsOf(x clusterAddOn) []metav1.Condition { return x.Status.Conditions }

// statusOf is the status of a condition; "" without it.
func statusOf(x clusterAddOn, kind string) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(x.Status.Conditions, kind); c != nil {
		return c.Status
	}
	return ""
}

// configReferences are the configurations that count for an add-on in a cluster.
func configReferences(name, description string) attribute.Field[clusterAddOn] {
	type reference = v1alpha1.ConfigReference
	return attribute.ReportedObjects(name, description, wantedIn,
		attribute.ReportedText("group", "API group of the configuration's kind.",
			func(r reference) string { return r.Group }),
		attribute.ReportedText("resource", "Plural name of the configuration's kind.",
			func(r reference) string { return r.Resource }),
		attribute.ReportedTextOrNull("namespace", "Namespace of the object; null where it has none.",
			func(r reference) string { return r.DesiredConfig.Namespace }),
		attribute.ReportedText("name", "Name of the object.",
			func(r reference) string { return r.DesiredConfig.Name }),
		attribute.ReportedText("spec_hash",
			"Hash of its content that the cluster is to have; empty while it is not known, as when the object does "+
				"not exist.",
			func(r reference) string { return r.DesiredConfig.SpecHash }),
		attribute.ReportedFlag("applied", "Whether the cluster has it.",
			func(r reference) bool { return !isMissing(r) }))
}

// wantedIn are the references that say which configuration a cluster is to have, which
// those of some managers don't.
func wantedIn(x clusterAddOn) []v1alpha1.ConfigReference {
	var wanted []v1alpha1.ConfigReference
	for _, r := range x.Status.ConfigReferences {
		if r.DesiredConfig != nil {
			wanted = append(wanted, r)
		}
	}
	return wanted
}

// clustersOf are the clusters of an add-on that was read, as installed_clusters has them.
func clustersOf(addOns []clusterAddOn) types.List {
	clusters := []string{}
	for _, x := range addOns {
		clusters = append(clusters, x.Namespace)
	}
	return attribute.StringListValue(clusters)
}

// clusterAddOnStatus is what hub and agent report in the resource. Times are left out:
// they would make a difference where nothing has happened.
func clusterAddOnStatus() attribute.Table[clusterAddOn] {
	type (
		registration = v1alpha1.RegistrationConfig
		condition    = metav1.Condition
	)
	return attribute.Table[clusterAddOn]{
		attribute.ReportedText("agent_namespace",
			"Namespace in the cluster in which the agent runs and has its credentials, as last read; empty while "+
				"the add-on's manager has not said.",
			func(x clusterAddOn) string { return x.Status.Namespace }),
		configReferences("config_references", "The configurations that count in the cluster, out of the add-on's "+
			"defaults, its placement's and `configs`, as last read."),
		attribute.ReportedObjects("registrations", "The credentials that the agent gets, as last read.",
			func(x clusterAddOn) []registration { return x.Status.Registrations },
			attribute.ReportedText("signer_name",
				"Who signs: `kubernetes.io/kube-apiserver-client` for the hub's API, or a signer of the add-on's "+
					"own.",
				func(r registration) string { return r.SignerName }),
			attribute.ReportedText("user", "User in the certificate, or of the token.",
				func(r registration) string { return r.Subject.User }),
			attribute.ReportedTextList("groups", "Groups in the certificate.",
				func(r registration) []string { return r.Subject.Groups })),
		attribute.ReportedObjects("conditions",
			"Conditions of the add-on in the cluster, such as `Available`, `Progressing` and "+
				"`RegistrationApplied`, as last read. They keep changing after an apply; `wait` waits for some of "+
				"them.",
			conditionsOf,
			attribute.ReportedText("type", "Type of the condition, such as `Available`.",
				func(c condition) string { return c.Type }),
			attribute.ReportedText("status", "`True`, `False` or `Unknown`.",
				func(c condition) metav1.ConditionStatus { return c.Status }),
			attribute.ReportedText("reason", "Reason in one word.", func(c condition) string { return c.Reason }),
			attribute.ReportedText("message", "Reason in a sentence.", func(c condition) string { return c.Message })),
	}
}
