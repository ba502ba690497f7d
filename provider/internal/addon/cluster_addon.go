package addon

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
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
			Create: "creating, with `wait`,", Update: "changing, with `wait`,", Delete: "removing the add-on from " +
				"the cluster",
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
			AfterRead: func(_ context.Context, values attribute.Values, object clusterAddOn, _ *diag.Diagnostics) {
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
			Made:    madeByHub,
			Cluster: func(object clusterAddOn) string { return object.Namespace },
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
		attribute.AnnotationField[clusterAddOn]("hosting_cluster",
			attribute.Optional("Name of the managed cluster in which the add-on's agent runs, where that is another "+
				"one than its own. It is the annotation `"+addon.HostingClusterAnnotation+
				"`. If omitted, the annotation is left as "+
				"it is: the hub copies that of the managed cluster when it installs an add-on for a placement. The "+
				"add-on has to support it.", attribute.ValidClusterName()),
			addon.HostingClusterAnnotation),
		attribute.Text("install_namespace",
			schema.StringAttribute{
				MarkdownDescription: "Namespace in the cluster for the agent of an add-on that has a manager of its " +
					"own. Those from templates do not look at it: use `agent_install_namespace` of a " +
					"`muster_addon_deployment_config`. Defaults to `" + addon.DefaultInstallNamespace + "`.",
				Optional: true, Computed: true, Default: stringdefault.StaticString(addon.DefaultInstallNamespace),
				Validators: []validator.String{attribute.ValidName("namespace")},
			},
			func(object clusterAddOn) *string { return &object.Spec.InstallNamespace }),
		attribute.Local[clusterAddOn]("wait", clusterAddOnWaitAttribute().Schema()),
		attribute.Local[clusterAddOn]("triggers", schema.MapAttribute{
			MarkdownDescription: "Values whose change makes it wait again, where nothing of this resource changes, " +
				"such as `{ settings = jsonencode(muster_addon_deployment_config.paris.customized_variables) }`. " +
				"Needs `wait`.",
			Optional: true, ElementType: types.StringType,
			Validators: []validator.Map{mapvalidator.AlsoRequires(path.MatchRoot("wait"))},
		}),
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
