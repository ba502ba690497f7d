// Package clusterset has the resources muster_managed_cluster_set and
// muster_managed_cluster_set_binding.
package clusterset

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

type clusterSet = *clusterv1beta2.ManagedClusterSet

// Set is muster_managed_cluster_set.
func Set() crud.Declared {
	return &crud.Kind[clusterSet]{
		Type: "managed_cluster_set", Noun: "cluster set", Empty: &clusterv1beta2.ManagedClusterSet{},
		Description: "A set of managed clusters: the unit in which clusters are given to teams. " +
			"A cluster joins the set by its `cluster_set`, or by its labels when the set has a `label_selector`. " +
			"A namespace's placements can select from the set once it is bound there with " +
			"`muster_managed_cluster_set_binding`.\n\n" +
			"The hub creates the sets `default` and `global` itself and reverts changes of their membership. " +
			"A resource for one of them adds its labels and namespaces (with `label_selector = {}` for `global`), " +
			"needs no `adopt`, and removes only these when it is destroyed: the set stays.",
		Keys: []crud.Key{{
			Name: "name", Description: "Name of the set. Changing it replaces the set.",
			Valid: attribute.ValidName("cluster set name"),
		}},
		Table:   setTable(),
		Foreign: crud.ForeignAnnotations,
		Hooks: crud.Hooks[clusterSet]{
			Fill: func(_ []string, set clusterSet) {
				set.Spec.ClusterSelector.SelectorType = clusterv1beta2.ExclusiveClusterSetLabel
			},
			Own: func(_ attribute.Values, o *crud.Owned) {
				if isHubSet(o.Write.Object.GetName()) {
					o.Write.Harmless = crud.Difference.Added // What is added there is nobody's loss.
				}
			},
			BeforeDelete: func(ctx context.Context, c *crud.Change[clusterSet]) bool {
				if isHubSet(c.Keys[0]) {
					release(ctx, c)
					return false
				}
				return true
			},
		},
		List: &crud.List[clusterSet]{
			Plural: "cluster sets", Objects: &clusterv1beta2.ManagedClusterSetList{},
			About:     "The sets `default` and `global`, which every hub has, count as made by the hub.",
			Generated: func(set clusterSet) bool { return isHubSet(set.Name) || len(set.OwnerReferences) > 0 },
			Describe: func(set clusterSet) string {
				if selectsByLabels(set) {
					return "by labels"
				}
				return ""
			},
		},
	}
}

func setTable() attribute.Table[clusterSet] {
	return attribute.Table[clusterSet]{
		attribute.LabelsField[clusterSet]("Labels of the set itself."),
		attribute.ObjectPointer("label_selector",
			attribute.OptionalObject("Makes the clusters with these labels members, whatever other sets they are in. "+
				"An empty one, `{}`, takes all clusters. If omitted, the members are the clusters whose "+
				"`cluster_set` names the set."),
			func(set clusterSet) **metav1.LabelSelector { return &set.Spec.ClusterSelector.LabelSelector },
			attribute.SelectorFields()...).
			Sets(func(set clusterSet) { set.Spec.ClusterSelector.SelectorType = clusterv1beta2.LabelSelector }).
			Where(selectsByLabels).
			At("spec.clusterSelector"),
		attribute.TextSetOf("managed_namespaces",
			schema.SetAttribute{
				MarkdownDescription: "Namespaces that the agent of every member creates in its cluster. " +
					"They stay when the cluster leaves the set.",
				Optional:    true,
				ElementType: types.StringType,
				Validators:  []validator.Set{setvalidator.ValueStringsAre(attribute.ValidName("namespace"))},
			},
			func(set clusterSet) *[]clusterv1beta2.ManagedNamespaceConfig { return &set.Spec.ManagedNamespaces },
			func(n *clusterv1beta2.ManagedNamespaceConfig) *string { return &n.Name }).BesideOthers(),
	}
}

func selectsByLabels(set clusterSet) bool {
	return set.Spec.ClusterSelector.SelectorType == clusterv1beta2.LabelSelector
}

// isHubSet reports whether the hub makes the set itself, and again when it is
// deleted.
func isHubSet(name string) bool { return name == cluster.DefaultSet || name == cluster.GlobalSet }

// release takes from one of the hub's own sets what the resource has set of it.
func release(ctx context.Context, c *crud.Change[clusterSet]) {
	bare := &clusterv1beta2.ManagedClusterSet{}
	bare.Name = c.Keys[0]
	err := crud.Release(ctx, c.Client, bare, hub.FieldManager, crud.ClaimOf(ctx, c.Private, c.Diagnostics))
	if err = crud.Left(c.Client, c.What, err, c.Diagnostics); err != nil {
		hub.AddAPIError(c.Diagnostics, c.Client, "release "+c.What, err)
	}
}
