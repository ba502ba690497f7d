package addon

import (
	"cmp"
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

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
