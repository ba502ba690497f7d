package addon

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
)

func (r *clusterAddOnResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := map[string]schema.Attribute{
		"managed_cluster": attribute.Identifying("Name of the managed cluster. It has to be accepted. Changing it moves the add-on.",
			attribute.ValidClusterName()),
		"name": attribute.Identifying("Name of the add-on, that of its `muster_addon`. Changing it replaces the add-on in the cluster.",
			attribute.ValidObjectName("add-on name")),
		"labels":      attribute.Labels("Labels of the add-on in the cluster.", nil),
		"annotations": attribute.Annotations("Annotations of the add-on in the cluster. That of its hosting cluster is `hosting_cluster`."),
		"configs": configsAttribute("Configurations for this cluster. Of each kind that they contain they replace those of the placement, and the add-on's defaults. " +
			"A change of their content waits for no rollout."),
		"hosting_cluster": schema.StringAttribute{
			MarkdownDescription: "Name of the managed cluster in which the add-on's agent runs, where that is another one than its own. It is the annotation `" + addon.HostingClusterAnnotation + "`. " +
				"If omitted, the annotation is left as it is: the hub copies that of the managed cluster when it installs an add-on for a placement. The add-on has to support it.",
			Optional:   true,
			Validators: []validator.String{attribute.ValidClusterName()},
		},
		"install_namespace": schema.StringAttribute{
			MarkdownDescription: "Namespace in the cluster for the agent of an add-on that has a manager of its own. Those from templates do not look at it: use `agent_install_namespace` of a `muster_addon_deployment_config`. Defaults to `" + addon.DefaultInstallNamespace + "`.",
			Optional:            true, Computed: true, Default: stringdefault.StaticString(addon.DefaultInstallNamespace),
			Validators: []validator.String{attribute.ValidName("namespace")},
		},
		"wait": clusterAddOnWaitAttribute(),
		"triggers": schema.MapAttribute{
			MarkdownDescription: "Values whose change makes it wait again, where nothing of this resource changes, such as `{ settings = jsonencode(muster_addon_deployment_config.paris.customized_variables) }`. Needs `wait`.",
			Optional:            true, ElementType: types.StringType,
			Validators: []validator.Map{mapvalidator.AlsoRequires(path.MatchRoot("wait"))},
		},
		"ready":           attribute.Ready("Whether what `wait` asks for was met; null without `wait`."),
		"adopt":           attribute.AdoptAttribute(),
		"force_conflicts": attribute.ForceAttribute(),
	}
	maps.Copy(attributes, clusterAddOnStatusAttributes())
	resp.Schema = schema.Schema{
		MarkdownDescription: "An add-on in one managed cluster (a ManagedClusterAddOn): it installs the add-on there, or gives one that a placement installs there configurations of its own.\n\n" +
			"The add-on itself is a `muster_addon`, or comes with a manager of its own. If it is installed by placements, **the hub removes it from every cluster that they do not select**, and installs it again where they select the cluster. " +
			"A plan says so, and the apply refuses to create what the hub would remove.\n\n" +
			"Destroying waits until the add-on's pre-delete jobs have run in the cluster and its objects are gone.",
		Attributes: attributes,
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, CreateDescription: attribute.TimeoutText("creating, with `wait`,", attribute.DefaultWait),
				Update: true, UpdateDescription: attribute.TimeoutText("changing, with `wait`,", attribute.DefaultWait),
				Delete: true, DeleteDescription: attribute.TimeoutText("removing the add-on from the cluster", attribute.DefaultDelete),
			}),
		},
	}
}

func clusterAddOnWaitAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Waits, after creating or changing the add-on in the cluster, until the hub reports everything that is set here. " +
			"A wait that fails makes an update fail, and says what holds it up. After a creation it only warns and leaves `ready` false, because an error would make Terraform destroy and re-create the add-on; " +
			"the next apply waits again. To make the run fail there, too, use `lifecycle { postcondition { condition = self.ready ... } }`. How far it is meanwhile is in the provider's log (TF_LOG_PROVIDER=info).",
		Optional:   true,
		Validators: []validator.Object{addOnWaitValidator{"rolled_out = true, or available = true, or both"}},
		Attributes: map[string]schema.Attribute{
			"rolled_out": schema.BoolAttribute{
				MarkdownDescription: "Whether to wait until the cluster has the configurations that count there, as they are now: `Configured` is true, and `Progressing` is false with the reason `Completed`. Where a rollout has yet to reach the cluster, that is waited for.",
				Optional:            true,
			},
			"available": schema.BoolAttribute{
				MarkdownDescription: "Whether to wait until the condition `Available` is true. By itself it may be that of a former configuration: set `rolled_out`, too, to wait for the present one.",
				Optional:            true,
			},
		},
	}
}

// ValidateConfig refuses annotations that are attributes here, and an add-on that is
// hosted in its own cluster.
func (r *clusterAddOnResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var cluster, hosting types.String
	var annotations types.Map
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("managed_cluster"), &cluster)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("hosting_cluster"), &hosting)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("annotations"), &annotations)...)
	if resp.Diagnostics.HasError() {
		return
	}
	for key, name := range map[string]string{addon.HostingClusterAnnotation: "hosting_cluster", addon.InstallNamespaceAnnotation: "install_namespace"} {
		if _, set := annotations.Elements()[key]; set {
			resp.Diagnostics.AddAttributeError(path.Root("annotations").AtMapKey(key), "Reserved key", fmt.Sprintf("%q can't be set here: use the attribute %s.", key, name))
		}
	}
	if hosting.ValueString() != "" && hosting.Equal(cluster) {
		resp.Diagnostics.AddAttributeError(path.Root("hosting_cluster"), "Hosted in its own cluster",
			fmt.Sprintf("hosting_cluster is %q, which is the cluster of the add-on. Leave it out: the agent then runs in its own cluster.", hosting.ValueString()))
	}
}
