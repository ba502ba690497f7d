package addon

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

type (
	clusterAddOn       = *v1alpha1.ManagedClusterAddOn
	clusterAddOnChange = crud.Change[clusterAddOn]
)

// InCluster is muster_cluster_addon.
func InCluster() crud.Declared {
	return &crud.Kind[clusterAddOn]{
		Type: "cluster_addon", Empty: &v1alpha1.ManagedClusterAddOn{}, InCluster: true,
		Description: "An add-on in one managed cluster (a ManagedClusterAddOn): it installs the add-on there, or " +
			"gives one that a placement installs there configurations of its own.\n\n" +
			"The add-on itself is a `muster_addon`, or comes with a manager of its own. If it is installed by " +
			"placements, **the hub removes it from every cluster that they do not select**, and installs it again " +
			"where they select the cluster. A plan says so, and the apply refuses to create what the hub would " +
			"remove.\n\n" +
			"Destroying waits until the add-on's pre-delete jobs have run in the cluster and its objects are gone.",
		Keys: []crud.Key{
			{
				Name:        "managed_cluster",
				Description: "Name of the managed cluster. It has to be accepted. Changing it moves the add-on.",
				Valid:       attribute.ValidClusterName(),
			},
			{
				Name: "name",
				Description: "Name of the add-on, that of its `muster_addon`. Changing it replaces the add-on in the " +
					"cluster.",
				Valid: attribute.ValidObjectName("add-on name"),
			},
		},
		Table: clusterAddOnTable(),
		Timeouts: crud.Timeouts{
			Create: "creating, with `wait`,", Update: "changing, with `wait`,",
			Delete: "removing the add-on from the cluster",
		},
		Waits: &crud.Waits{Again: []string{"triggers"}},
		Hooks: crud.Hooks[clusterAddOn]{
			What:     clusterAddOnText,
			Validate: validateClusterAddOn,
			Plan:     planClusterAddOn,
			Own: func(_ attribute.Values, o *crud.Owned) {
				// One that the hub has made for a placement loses nothing when configurations are added to it.
				o.Write.Harmless = crud.Difference.Added
			},
			BeforeWrite: mayStay,
			Follow:      followClusterAddOn,
			Reading: func(_ context.Context, c *clusterAddOnChange) {
				values, object := c.Prior, c.Object
				crud.StayReady(values, func() bool { return len(waitIn(values).missingIn(object, nil)) == 0 })
			},
			Going: func(c *clusterAddOnChange) *crud.Going {
				going := ofAddOn(c.Keys[1])
				going.Cluster = c.Keys[0]
				return going
			},
			Late: func(ctx context.Context, c *clusterAddOnChange) (summary, detail string) {
				return notRemoved(ctx, c.Client, c.What, c.Keys[1], []clusterAddOn{c.Object}, c.Timeout)
			},
		},
		List: &crud.List[clusterAddOn]{
			Plural: "add-ons in clusters", Objects: &v1alpha1.ManagedClusterAddOnList{},
			About: "Those that the hub has installed for the placements of an add-on, and that nobody has changed, " +
				"count as made by a controller.",
			Generated: madeByHub,
			Cluster:   func(object clusterAddOn) string { return object.Namespace },
			Describe: func(object clusterAddOn) string {
				return crud.Count(len(object.Spec.Configs), "configuration")
			},
		},
	}
}

func clusterAddOnTable() attribute.Table[clusterAddOn] {
	return append(attribute.Table[clusterAddOn]{
		attribute.LabelsField[clusterAddOn]("Labels of the add-on in the cluster."),
		attribute.AnnotationsBeside[clusterAddOn]("Annotations of the add-on in the cluster. That of its hosting "+
			"cluster is `hosting_cluster`.",
			map[string]string{
				addon.HostingClusterAnnotation:   "use the attribute hosting_cluster",
				addon.InstallNamespaceAnnotation: "use the attribute install_namespace",
			}),
		configsField("Configurations for this cluster. Of each kind that they contain they replace those of the "+
			"placement, and the add-on's defaults. A change of their content waits for no rollout.",
			func(object clusterAddOn) *[]v1alpha1.AddOnConfig { return &object.Spec.Configs }),
		attribute.AnnotationField[clusterAddOn]("hosting_cluster", attribute.Optional("Name of the managed cluster "+
			"in which the add-on's agent runs, where that is another one than its own. It is the annotation "+
			"`"+addon.HostingClusterAnnotation+
			"`. If omitted, the annotation is left as it is: the hub copies that of the managed cluster when it "+
			"installs an add-on for a placement. The add-on has to support it.", attribute.ValidClusterName()),
			addon.HostingClusterAnnotation),
		attribute.Text("install_namespace", attribute.Defaulted("Namespace in the cluster for the agent of an "+
			"add-on that has a manager of its own. Those from templates do not look at it: use "+
			"`agent_install_namespace` of a `muster_addon_deployment_config`. Defaults to "+
			"`"+addon.DefaultInstallNamespace+"`.", addon.DefaultInstallNamespace, attribute.ValidName("namespace")),
			func(object clusterAddOn) *string { return &object.Spec.InstallNamespace }),
		attribute.Local[clusterAddOn]("wait", clusterAddOnWaitAttribute().Schema()),
		attribute.Local[clusterAddOn]("triggers", attribute.OptionalTextMap("Values whose change makes it wait "+
			"again, where nothing of this resource changes, such as `{ settings = "+
			"jsonencode(muster_addon_deployment_config.paris.customized_variables) }`. Needs "+
			"`wait`.", mapvalidator.AlsoRequires(path.MatchRoot("wait")))),
		attribute.Local[clusterAddOn]("ready", attribute.Ready("Whether what `wait` asks for was met; null without "+
			"`wait`.")),
	}, clusterAddOnStatus()...)
}

// clusterAddOnText names an add-on in a cluster in messages.
func clusterAddOnText(keys []string) string {
	return fmt.Sprintf("add-on %q in cluster %q", keys[1], keys[0])
}

func clusterAddOnWaitAttribute() crud.WaitAttribute {
	return crud.WaitAttribute{
		Kind: "add-on", Lost: "the add-on",
		Notes: "How far it is meanwhile is in the provider's log (TF_LOG_PROVIDER=info).",
		Options: crud.WaitOptions{
			crud.WaitFlag("rolled_out", "Whether to wait until the cluster has the configurations that count there, "+
				"as they are now: `Configured` is true, and `Progressing` is false with the reason `Completed`. "+
				"Where a rollout has yet to reach the cluster, that is waited for."),
			crud.WaitFlag("available", "Whether to wait until the condition `Available` is true. By itself it may "+
				"be that of a former configuration: set `rolled_out`, too, to wait for the present one."),
		},
	}
}

// validateClusterAddOn refuses an add-on that is hosted in its own cluster.
func validateClusterAddOn(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	values := attribute.ValuesOf(ctx, config, diags)
	hosting := values.Text("hosting_cluster")
	if !diags.HasError() && hosting != "" && hosting == values.Text("managed_cluster") {
		diags.AddAttributeError(path.Root("hosting_cluster"), "Hosted in its own cluster",
			fmt.Sprintf("hosting_cluster is %q, which is the cluster of the add-on. Leave it out: the agent then "+
				"runs in its own cluster.", hosting))
	}
}

// ofAddOn is what goes with an add-on: itself, and its works.
func ofAddOn(name string) *crud.Going {
	return &crud.Going{
		Works:  func(w *workv1.ManifestWork) bool { return w.Labels[cluster.AddOnNameLabel] == name },
		AddOns: func(a clusterAddOn) bool { return a.Name == name },
	}
}

// madeByHub reports whether the hub has installed an add-on in a cluster by itself, and
// nobody has changed its specification. The hub gives owner references to add-ons that
// people have installed, too, so these do not tell; but then somebody else has written
// the specification.
func madeByHub(object clusterAddOn) bool {
	if len(object.OwnerReferences) == 0 {
		return false
	}
	return !slices.ContainsFunc(object.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		fields := crud.FieldsOf(object, entry.Manager)
		return entry.Subresource == "" && fields.Has("spec") && !fields.Has("metadata", "ownerReferences")
	})
}

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
			"Whether it works: the condition `Available`, `True`, `False` or `Unknown`; empty while nobody reports it.",
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
	return ptr.Deref(meta.FindStatusCondition(x.Status.Conditions, kind), metav1.Condition{}).Status
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
				"Who signs: `kubernetes.io/kube-apiserver-client` for the hub's API, or a signer of the add-on's own.",
				func(r registration) string { return r.SignerName }),
			attribute.ReportedText("user", "User in the certificate, or of the token.",
				func(r registration) string { return r.Subject.User }),
			attribute.ReportedTextList("groups", "Groups in the certificate.",
				func(r registration) []string { return r.Subject.Groups })),
		attribute.ReportedObjects("conditions",
			"Conditions of the add-on in the cluster, such as `Available`, `Progressing` and `RegistrationApplied`, "+
				"as last read. They keep changing after an apply; `wait` waits for some of them.",
			conditionsOf,
			attribute.ReportedText("type", "Type of the condition, such as `Available`.",
				func(c condition) string { return c.Type }),
			attribute.ReportedText("status", "`True`, `False` or `Unknown`.",
				func(c condition) metav1.ConditionStatus { return c.Status }),
			attribute.ReportedText("reason", "Reason in one word.", func(c condition) string { return c.Reason }),
			attribute.ReportedText("message", "Reason in a sentence.", func(c condition) string { return c.Message })),
	}
}

// NewClusterAddOnsDataSource is the data source muster_cluster_addons.
func NewClusterAddOnsDataSource() datasource.DataSource {
	return crud.Listing[clusterAddOn]{
		Type: "cluster_addons", Plural: "add-ons in clusters", Objects: &v1alpha1.ManagedClusterAddOnList{},
		Description: "Add-ons in clusters: all of one cluster, one of them in all clusters, or all there are, with " +
			"how they are.",
		Filters: []crud.Filter[clusterAddOn]{
			crud.InNamespace[clusterAddOn]("managed_cluster", "cluster name", "Only the add-ons of this cluster."),
			crud.Named[clusterAddOn]("add-on name", "Only this add-on."),
			crud.Labelled[clusterAddOn]("Only those with these labels: a label selector in the notation of kubectl."),
			{
				Name: "available",
				Description: "Only those that are so: `True`, `False`, or `Unknown`, which includes those that " +
					"nobody has reported on.",
				Valid: attribute.OneOf(metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown),
				Keep: func(value string, x clusterAddOn) bool {
					return value == string(cmp.Or(statusOf(x, addon.ConditionAvailable), metav1.ConditionUnknown))
				},
			},
		},
		Elements: "addons", About: "The add-ons, in the order of their clusters and names.",
		Table: observedTable(),
	}.NewDataSource()
}

// inClusters are the add-on in all clusters, by their names.
func inClusters(ctx context.Context, client *kube.Client, name string) ([]clusterAddOn, error) {
	list := &v1alpha1.ManagedClusterAddOnList{}
	if err := client.List(ctx, list, named(name)); err != nil {
		return nil, err
	}
	var addOns []clusterAddOn
	for i := range list.Items {
		addOns = append(addOns, &list.Items[i])
	}
	slices.SortFunc(addOns, func(a, b clusterAddOn) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return addOns, nil
}

// named selects the add-on in all clusters.
func named(name string) kube.ListOptions {
	return kube.ListOptions{FieldSelector: "metadata.name=" + name}
}
