package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// When a placement is what a wait waits for.

type placementWaitModel struct {
	Satisfied   types.Bool     `tfsdk:"satisfied"`
	MinClusters types.Int64    `tfsdk:"min_clusters"`
	Conditions  []types.String `tfsdk:"conditions"`
}

func placementWaitAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Waits, after creating or changing the placement, until the hub reports everything that is set here. " +
			"A wait that fails makes an update fail. After a creation it only warns and leaves `ready` false, because an error would make Terraform destroy and re-create the placement and everything that follows its decisions; " +
			"the next apply waits again. To stop there, add a `postcondition` on `self.ready`. " +
			"Upstream's scheduler does not set the observed generation of conditions: there, a condition from before an update counts.",
		Optional:   true,
		Validators: []validator.Object{placementWaitValidator{"at least one of satisfied = true, min_clusters and conditions"}},
		Attributes: map[string]schema.Attribute{
			"satisfied": schema.BoolAttribute{
				MarkdownDescription: "Whether to wait until as many clusters are selected as the placement asks for; at least one. It is the condition `PlacementSatisfied`.",
				Optional:            true,
			},
			"min_clusters": schema.Int64Attribute{
				MarkdownDescription: "Waits until at least this many clusters are selected.",
				Optional:            true,
				Validators:          []validator.Int64{int64validator.AtLeast(1)},
			},
			"conditions": schema.SetAttribute{
				MarkdownDescription: "Conditions of the placement to wait for, each as its type, which then has to be true, or as `type=status`, such as `PlacementMisconfigured=False`.",
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(attribute.ValidWaitCondition())},
			},
		},
	}
}

// placementWaitValidator refuses a wait for nothing.
type placementWaitValidator struct{ attribute.Described }

func (placementWaitValidator) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	for name, value := range req.ConfigValue.Attributes() {
		if satisfied, ok := value.(types.Bool); ok && name == "satisfied" && !satisfied.IsUnknown() {
			if satisfied.ValueBool() {
				return
			}
			continue
		}
		if !value.IsNull() {
			return
		}
	}
	resp.Diagnostics.AddAttributeError(req.Path, "Nothing to wait for",
		"The wait names nothing that it waits for: set satisfied = true, min_clusters or conditions, or remove wait.")
}

// conditions are those to wait for, in the order of their types.
func (m *placementWaitModel) conditions() []attribute.WaitCondition {
	wanted := attribute.WaitConditions(m.Conditions)
	satisfied := attribute.WaitCondition{Type: cluster.ConditionPlacementSatisfied, Status: metav1.ConditionTrue}
	if m.Satisfied.ValueBool() && !slices.Contains(wanted, satisfied) {
		wanted = append(wanted, satisfied)
	}
	return wanted
}

// lacks lists what is not as the wait wants it, each in words.
func (m *placementWaitModel) lacks(object *clusterv1beta1.Placement) []string {
	var lacks []string
	for _, wanted := range m.conditions() {
		c := meta.FindStatusCondition(object.Status.Conditions, wanted.Type)
		switch {
		case c == nil:
			lacks = append(lacks, wanted.String()+": nobody has reported it")
		case !tellsOfPresent(object, c):
			lacks = append(lacks, fmt.Sprintf("%s: it is reported for generation %d only, so the scheduler has not seen the last change", wanted, c.ObservedGeneration))
		case c.Status != wanted.Status:
			lacks = append(lacks, fmt.Sprintf("%s: it is %s", wanted, c.Status))
		}
	}
	if have, want := int64(object.Status.NumberOfSelectedClusters), m.MinClusters.ValueInt64(); have < want || (want > 0 && !decidedOn(object)) {
		lacks = append(lacks, fmt.Sprintf("min_clusters: %d of %d are selected", have, want))
	}
	return lacks
}

// tellsOfPresent reports whether a condition is about the placement as it is now.
// Schedulers that do not say which generation they have seen are believed.
func tellsOfPresent(object *clusterv1beta1.Placement, c *metav1.Condition) bool {
	return c.ObservedGeneration == 0 || c.ObservedGeneration >= object.Generation
}

// decidedOn reports whether the scheduler has dealt with the placement as it is
// now.
func decidedOn(object *clusterv1beta1.Placement) bool {
	c := meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionPlacementSatisfied)
	return c != nil && tellsOfPresent(object, c)
}

func waitForPlacement(ctx context.Context, client *kube.Client, object *clusterv1beta1.Placement, met func() bool) error {
	return client.Wait(ctx, object, object.Namespace, object.Name, func(exists bool) (bool, error) {
		if !exists {
			return false, fmt.Errorf("it was deleted meanwhile")
		}
		return met(), nil
	})
}

// describePlacement tells why a placement is not what was waited for.
func describePlacement(object *clusterv1beta1.Placement, wait *placementWaitModel, timeout time.Duration, now time.Time) string {
	lines := []string{fmt.Sprintf("Within %s generation %d did not reach what is waited for:", attribute.ShortDuration(timeout), object.Generation)}
	for _, lack := range wait.lacks(object) {
		lines = append(lines, "  "+lack)
	}
	lines = append(lines, fmt.Sprintf("Selected clusters: %d. Conditions:", object.Status.NumberOfSelectedClusters), hub.DescribeConditions(object.Status.Conditions, now))
	if remedy := placementRemedy(object); remedy != "" {
		lines = append(lines, "", remedy)
	}
	return attribute.JoinLines(append(lines, "", "Next:", fmt.Sprintf("  kubectl describe placement -n %s %s", object.Namespace, object.Name)))
}

// placementRemedy is what helps a placement that is not satisfied.
func placementRemedy(object *clusterv1beta1.Placement) string {
	if c := meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionPlacementMisconfigured); c != nil && c.Status == metav1.ConditionTrue {
		return "Correct what the condition PlacementMisconfigured names."
	}
	c := meta.FindStatusCondition(object.Status.Conditions, cluster.ConditionPlacementSatisfied)
	if c == nil {
		return "Perhaps no scheduler runs on the hub."
	}
	switch c.Reason {
	case cluster.ReasonNoManagedClusterSetBindings:
		return fmt.Sprintf("Bind a cluster set to the namespace with a muster_managed_cluster_set_binding, and let the placement depend on it: kubectl get managedclustersetbindings -n %s", object.Namespace)
	case cluster.ReasonNoIntersection:
		return fmt.Sprintf("None of the sets in cluster_sets (%s) is bound to the namespace: kubectl get managedclustersetbindings -n %s", strings.Join(object.Spec.ClusterSets, ", "), object.Namespace)
	case cluster.ReasonAllManagedClusterSetsEmpty:
		return "Put clusters into these sets with cluster_set of muster_managed_cluster."
	case cluster.ReasonNoManagedClusterMatched, cluster.ReasonNotAllDecisionsScheduled:
		return "The data source muster_placement_preview explains why each cluster is not selected. Often it is a taint: clusters that are not accepted, or whose agent is silent, have one."
	}
	return ""
}
