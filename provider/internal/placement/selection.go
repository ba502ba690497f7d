package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

type (
	placement = *clusterv1beta1.Placement
	field     = attribute.Field[placement]
)

// selection are the attributes by which clusters are selected. The resource and the
// preview have them in common.
func selection() attribute.Table[placement] {
	const byName = clusterv1beta1.PlacementSortByClusterName
	return attribute.Table[placement]{
		attribute.TextList("cluster_sets",
			schema.ListAttribute{
				MarkdownDescription: "Cluster sets to select from. Those that are not bound to the namespace are " +
					"ignored. If omitted, all that are bound.",
				Optional: true,
				Validators: []validator.List{
					listvalidator.UniqueValues(), listvalidator.ValueStringsAre(attribute.ValidName("cluster set name")),
				},
			},
			func(p placement) *[]string { return &p.Spec.ClusterSets }),
		attribute.NumberPointer("number_of_clusters",
			attribute.OptionalNumber("The greatest number of clusters to select. If omitted, all that qualify; `0` "+
				"selects none.", int64validator.Between(0, 1<<31-1)),
			func(p placement) **int32 { return &p.Spec.NumberOfClusters }),
		predicates(), tolerations(), prioritizerPolicy(), spreadPolicy(), decisionStrategy(),
		attribute.Text("sort_by",
			attribute.Optional("Order of the clusters in the decisions: `ClusterName`, or `Score` for the best first. "+
				"It does not change which are selected. muster's hub does so; upstream's scheduler (as of 2025) "+
				"always orders by name. If omitted, the hub sets `"+string(byName)+"`.",
				stringvalidator.OneOf(string(byName), string(clusterv1beta1.PlacementSortByScore))),
			func(p placement) *clusterv1beta1.PlacementSortBy { return &p.Spec.SortBy }).
			Standard(types.StringValue(string(byName))),
	}
}

func predicates() field {
	type predicate = *clusterv1beta1.ClusterPredicate
	return attribute.Objects("predicates",
		schema.ListNestedAttribute{
			MarkdownDescription: "Alternatives by which a cluster can qualify: one matching entry is enough. Within " +
				"an entry everything has to match. If omitted, every cluster qualifies.",
			Optional:   true,
			Validators: []validator.List{listvalidator.SizeAtLeast(1)},
			NestedObject: schema.NestedAttributeObject{
				Validators: []validator.Object{attribute.ValidObject("a selector or expressions", checkPredicate)},
			},
		},
		func(p placement) *[]clusterv1beta1.ClusterPredicate { return &p.Spec.Predicates },
		labelSelector(func(p predicate) *metav1.LabelSelector { return &p.RequiredClusterSelector.LabelSelector }),
		claimSelector(func(p predicate) *claims { return &p.RequiredClusterSelector.ClaimSelector }),
		attribute.TextList("cel_expressions",
			schema.ListAttribute{
				MarkdownDescription: "Expressions in the Common Expression Language over the variable " +
					"`managedCluster`, such as `managedCluster.status.version.kubernetes == \"v1.33.1\"`, that all " +
					"have to be true.",
				Optional:   true,
				Validators: []validator.List{listvalidator.ValueStringsAre(attribute.NotEmpty())},
			},
			func(p predicate) *[]string { return &p.RequiredClusterSelector.CELSelector.CELExpressions }))
}

// checkPredicate refuses a predicate that sets nothing. It would select every cluster,
// and is what remains of one whose attribute is misspelled: Terraform drops attributes
// of nested objects that the schema does not have.
func checkPredicate(at path.Path, predicate attribute.Values, diags *diag.Diagnostics) {
	names := slices.Sorted(maps.Keys(predicate))
	if !slices.ContainsFunc(names, predicate.IsSet) {
		diags.AddAttributeError(at, "Empty predicate", fmt.Sprintf("%s sets none of %s, so it would select every "+
			"cluster. Terraform leaves out attributes that it does not know: check their spelling. To select every "+
			"cluster, leave the predicate out.", at, strings.Join(names, ", ")))
	}
}

type claims = clusterv1beta1.ClusterClaimSelector

func labelSelector[P any](at func(P) *metav1.LabelSelector) attribute.Field[P] {
	return attribute.LabelSelectorField("Selects by the labels of the managed cluster.", at)
}

func claimSelector[P any](at func(P) *claims) attribute.Field[P] {
	return attribute.Object("claim_selector",
		schema.SingleNestedAttribute{
			MarkdownDescription: "Selects by the cluster's claims, as if they were labels.", Optional: true,
		}, at,
		attribute.MatchExpressions("Conditions on claims; all of them have to match.",
			func(c *claims) *[]metav1.LabelSelectorRequirement { return &c.MatchExpressions }))
}

func tolerations() field {
	const equal, exists = clusterv1beta1.TolerationOpEqual, clusterv1beta1.TolerationOpExists
	type toleration = *clusterv1beta1.Toleration
	return attribute.Objects("tolerations",
		schema.ListNestedAttribute{
			MarkdownDescription: "Taints to tolerate. A cluster qualifies when each of its taints is tolerated.",
			Optional:            true,
			NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{attribute.ValidObject(
				"a key, or the operator Exists; a value only with Equal", checkToleration)}},
		},
		func(p placement) *[]clusterv1beta1.Toleration { return &p.Spec.Tolerations },
		attribute.Text("key",
			attribute.Optional("Key of the taint. If omitted, with the operator `Exists`, all taints match.",
				attribute.ValidKey("taint key")),
			func(t toleration) *string { return &t.Key }),
		attribute.Text("operator",
			attribute.Optional("`Equal`: the taint has to have this `value`. `Exists`: any value will do. Defaults to "+
				"`Equal`.", attribute.OneOf(equal, exists)...),
			func(t toleration) *clusterv1beta1.TolerationOperator { return &t.Operator }).
			Default(types.StringValue(string(equal))),
		attribute.Text("value",
			attribute.Optional("Value of the taint, with the operator `Equal`.", stringvalidator.LengthBetween(1, 1024)),
			func(t toleration) *string { return &t.Value }),
		attribute.Text("effect",
			attribute.Optional("Effect of the taint: `NoSelect`, `NoSelectIfNew` or `PreferNoSelect`. If omitted, any.",
				attribute.OneOf(clusterv1.TaintEffectNoSelect, clusterv1.TaintEffectNoSelectIfNew,
					clusterv1.TaintEffectPreferNoSelect)...),
			func(t toleration) *clusterv1.TaintEffect { return &t.Effect }),
		attribute.NumberPointer("toleration_seconds",
			attribute.OptionalNumber("How long to tolerate the taint, in seconds from when it was set. If omitted, "+
				"forever; with `0`, not at all."),
			func(t toleration) **int64 { return &t.TolerationSeconds }))
}

// checkToleration refuses what the scheduler would otherwise call a misconfiguration,
// after emptying the decisions.
func checkToleration(at path.Path, toleration attribute.Values, diags *diag.Diagnostics) {
	if toleration["key"].IsUnknown() || toleration["operator"].IsUnknown() {
		return
	}
	exists := toleration.Text("operator") == string(clusterv1beta1.TolerationOpExists)
	if !toleration.IsSet("key") && !exists {
		diags.AddAttributeError(at, "Toleration without a key",
			fmt.Sprintf("%s has no key. A toleration without a key tolerates every taint and has to say so: set "+
				`operator = "Exists", or name a key.`, attribute.Place(at)))
	}
	if exists && toleration.IsSet("value") && !toleration["value"].IsUnknown() {
		diags.AddAttributeError(at.AtName("value"), "Needless value",
			fmt.Sprintf("The operator Exists tolerates any value, so value = %q has no place. Remove it, or use the "+
				"operator Equal.", toleration.Text("value")))
	}
}
