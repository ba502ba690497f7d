package addon

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	resourceschema "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// NewRendered is the data source muster_rendered_addon.
func NewRendered() datasource.DataSource {
	return crud.Query{
		Type: "rendered_addon",
		Description: "What one cluster gets of a `muster_addon_template`: its objects with the variables of a " +
			"`muster_addon_deployment_config`, and the `values` and `overrides` of the template, filled in. It is " +
			"worked out by the provider, from the template and the managed cluster as they are on the hub, so that " +
			"the add-on need not be installed.\n\nTerraform takes a data source with a sensitive attribute for " +
			"sensitive as a whole: show what is not secret with `nonsensitive`.",
		Attributes: func() map[string]schema.Attribute {
			all := attribute.InputAttributes(map[string]resourceschema.Attribute{
				"template": attribute.Required("Name of the template.", attribute.ValidObjectName("template name")),
				"managed_cluster": attribute.Required("Name of the managed cluster.",
					attribute.ValidClusterName()),
				"deployment_config": referentAttribute("The deployment configuration that the add-on has there.", true),
			})
			all["rendered"] = schema.ListAttribute{
				MarkdownDescription: "The objects as the cluster gets them, each as JSON.", Computed: true,
				Sensitive: true, ElementType: types.StringType,
			}
			all["install_namespace"] = schema.StringAttribute{
				MarkdownDescription: "Namespace of the add-on's agent.", Computed: true,
			}
			all["unknown_variables"] = schema.ListAttribute{
				MarkdownDescription: "Variables in the objects that nothing has a value for. They are left out.",
				Computed:            true, ElementType: types.StringType,
			}
			return all
		},
		Read: render,
	}.NewDataSource()
}

func render(ctx context.Context, a *crud.Asking, values attribute.Values) {
	source, mc := &v1alpha1.AddOnTemplate{}, &clusterv1.ManagedCluster{}
	name, cluster := values.Text("template"), values.Text("managed_cluster")
	if a.Failed(fmt.Sprintf("read the add-on template %q", name), a.Client.Get(ctx, source, "", name)) ||
		a.Failed(fmt.Sprintf("read the managed cluster %q", cluster), a.Client.Get(ctx, mc, "", cluster)) {
		return
	}
	in := template.Input{Cluster: mc, AddOn: &v1alpha1.ManagedClusterAddOn{}}
	in.AddOn.Namespace, in.AddOn.Name = cluster, source.Spec.AddonName
	if values.IsSet("deployment_config") {
		var of v1alpha1.ConfigReferent
		referentTable(true).Write(values["deployment_config"].(types.Object).Attributes(), &of)
		in.Config = &v1alpha1.AddOnDeploymentConfig{}
		if a.Failed(fmt.Sprintf("read the add-on deployment config %q", of.Namespace+"/"+of.Name),
			a.Client.Get(ctx, in.Config, of.Namespace, of.Name)) {
			return
		}
	}
	own, err := override.OfAddOn(source, work.DefaultManifestLimit)
	var parsed *template.Template
	if err == nil {
		parsed, err = template.Parse(source)
	}
	if err != nil {
		a.Diagnostics.AddAttributeError(path.Root("template"), "Invalid add-on template",
			fmt.Sprintf("No cluster would get anything of the add-on template %q: %s.", name, workload.LacksText(err)))
		return
	}
	out, err := parsed.RenderFor(ctx, own, in)
	if err != nil {
		a.Diagnostics.AddAttributeError(path.Root("managed_cluster"), "A cluster without its own content",
			fmt.Sprintf("The cluster %q would get nothing of the add-on: %s. Give it what is missing, or give the "+
				"value a default.", cluster, workload.LacksText(err)))
		return
	}
	rendered := []string{}
	for _, o := range out.Objects {
		text, err := o.MarshalJSON()
		if a.Failed("write an object as JSON", err) {
			return
		}
		rendered = append(rendered, string(text))
	}
	values["rendered"], values["unknown_variables"] = attribute.StringListValue(rendered),
		attribute.StringListValue(append([]string{}, out.Unknown...))
	values["install_namespace"] = types.StringValue(out.Namespace)
}
