package replicaset

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// NewRendered is the data source muster_rendered_manifests.
func NewRendered() datasource.DataSource {
	return crud.Query{
		Type: "rendered_manifests",
		Description: "What one cluster gets of a `muster_manifest_work_replica_set` with `values` and `overrides`: " +
			"its manifests as they are in that cluster. It is worked out by the provider, from the managed cluster " +
			"as it is on the hub, so that it needs no replica set. See the guide [Values per " +
			"cluster](../guides/overrides.md).\n\nTerraform takes a data source with a sensitive attribute for " +
			"sensitive as a whole: show what is not secret with `nonsensitive`.",
		Attributes: func() map[string]schema.Attribute {
			table := attribute.Table[replicaSet](overrideFields())
			all := attribute.InputAttributes(table.Attributes())
			all["managed_cluster"] = schema.StringAttribute{
				MarkdownDescription: "Name of the managed cluster.", Required: true,
				Validators: []validator.String{attribute.ValidClusterName()},
			}
			all["manifests"] = schema.ListAttribute{
				MarkdownDescription: "Objects as YAML or JSON, as in the replica set.", Required: true, Sensitive: true,
				ElementType: types.StringType,
			}
			all["rendered"] = schema.ListAttribute{
				MarkdownDescription: "The objects as the cluster gets them, each as " +
					"JSON.", Computed: true, Sensitive: true,
				ElementType: types.StringType,
			}
			return all
		},
		Validate: func(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
			workload.CheckOverride(attribute.ValuesOf(ctx, config, diags), diags)
		},
		Read: render,
	}.NewDataSource()
}

func render(ctx context.Context, a *crud.Asking, values attribute.Values) {
	rules := workload.OfWorks().FilledIn(override.HasPlaceholder)
	if a.Diagnostics.Append(workload.ContentOf(values).Check(rules)...); a.Diagnostics.HasError() {
		return
	}
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	workload.PutOverride(values, set) // an empty one, too: there are values that every cluster has
	objects, _ := workload.ContentOf(values).Known()
	for _, o := range objects {
		m := workv1.Manifest{RawExtension: runtime.RawExtension{Raw: o.JSON}}
		set.Spec.ManifestWorkTemplate.Workload.Manifests = append(set.Spec.ManifestWorkTemplate.Workload.Manifests, m)
	}
	template, err := templateOf(ctx, a.Client, set)
	if err != nil {
		workload.RefuseOverride(err, a.Diagnostics)
		return
	}
	name, mc := values.Text("managed_cluster"), &clusterv1.ManagedCluster{}
	if a.Failed(fmt.Sprintf("read the managed cluster %q", name), a.Client.Get(ctx, mc, "", name)) {
		return
	}
	own, err := template.For(ctx, mc)
	if err != nil {
		a.Diagnostics.AddAttributeError(
			path.Root("managed_cluster"),
			"A cluster without its own content",
			fmt.Sprintf(
				"The cluster %q would get nothing: %s. Give it what is missing, or give the value a default.",
				name,
				workload.LacksText(err),
			),
		)
		return
	}
	var rendered []string
	for _, m := range own.Workload.Manifests {
		rendered = append(rendered, string(m.Raw))
	}
	values["rendered"] = attribute.StringListValue(rendered)
}
