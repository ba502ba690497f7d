package managedcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// taintModel is a taint that the configuration sets. The hub stamps the time.
type taintModel struct {
	Key    types.String `tfsdk:"key"`
	Value  types.String `tfsdk:"value"`
	Effect types.String `tfsdk:"effect"`
}

func taintsAttribute() schema.SetNestedAttribute {
	return schema.SetNestedAttribute{
		MarkdownDescription: "Taints that keep placements without a matching toleration away from the cluster. Once " +
			"set, these are all the taints that people may put on it; the two that the hub itself manages " +
			"(`" + cluster.UnavailableTaint + "`, `" + cluster.UnreachableTaint + "`) come and go beside " +
			"them. If omitted, taints are not managed.",
		Optional:   true,
		Validators: []validator.Set{uniqueTaints{"at most one taint for each key"}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"key": schema.StringAttribute{
				MarkdownDescription: "Key of the taint, in the form of a label key. A cluster has at most one taint " +
					"for each key.",
				Required: true,
				Validators: []validator.String{attribute.ValidKey("taint key"), attribute.Not("the hub sets "+
					"and removes this taint by itself", cluster.UnavailableTaint, cluster.UnreachableTaint)},
			},
			"value": schema.StringAttribute{
				MarkdownDescription: "Value that a toleration with the operator `Equal` has to name.",
				Optional:            true,
				Validators:          []validator.String{attribute.LengthBetween(1, 1024)},
			},
			"effect": schema.StringAttribute{
				MarkdownDescription: "`NoSelect`: the cluster is not selected and leaves decisions it is in. " +
					"`NoSelectIfNew`: it is not newly selected. `PreferNoSelect`: others are preferred.",
				Required:   true,
				Validators: attribute.OneOf(clusterv1.TaintEffectNoSelect, clusterv1.TaintEffectNoSelectIfNew, clusterv1.TaintEffectPreferNoSelect),
			},
		}},
	}
}

// uniqueTaints refuses two taints with one key: the hub would mix up
// the times.
type uniqueTaints struct{ attribute.Described }

func (uniqueTaints) ValidateSet(_ context.Context, req validator.SetRequest, resp *validator.SetResponse) {
	seen := map[string]bool{}
	for _, element := range req.ConfigValue.Elements() {
		object, ok := element.(types.Object)
		if !ok {
			continue
		}
		key, ok := object.Attributes()["key"].(types.String)
		if !ok || key.IsNull() || key.IsUnknown() {
			continue
		}
		if seen[key.ValueString()] {
			resp.Diagnostics.AddAttributeError(req.Path, "Two taints with the same key",
				fmt.Sprintf("The key %q appears twice, but a cluster has at most one taint for each key. Remove one "+
					"of them.", key.ValueString()))
		}
		seen[key.ValueString()] = true
	}
}

func isHubTaint(key string) bool {
	return key == cluster.UnavailableTaint || key == cluster.UnreachableTaint
}

// taintModels are the taints that are not the hub's own.
func taintModels(taints []clusterv1.Taint) []taintModel {
	models := []taintModel{}
	for _, t := range taints {
		if !isHubTaint(t.Key) {
			models = append(models, taintModel{
				Key: types.StringValue(t.Key), Value: attribute.OptionalString(t.Value), Effect: types.StringValue(string(t.Effect)),
			})
		}
	}
	return models
}

// mergeTaints is the list of taints that a cluster with live should get. wanted
// is nil when the configuration does not manage taints any more; those that it
// set before are then removed. Taints that stay keep their time, which the hub
// insists on. changed is false when there is nothing to write.
func mergeTaints(live []clusterv1.Taint, wanted, before []taintModel) (merged []clusterv1.Taint, changed bool) {
	keep := func(t clusterv1.Taint) bool {
		same := func(m taintModel) bool {
			return m.Key.ValueString() == t.Key && m.Value.ValueString() == t.Value && m.Effect.ValueString() == string(t.Effect)
		}
		if wanted == nil {
			return !slices.ContainsFunc(before, func(m taintModel) bool { return m.Key.ValueString() == t.Key })
		}
		return slices.ContainsFunc(wanted, same)
	}
	merged = []clusterv1.Taint{}
	for _, t := range live {
		if isHubTaint(t.Key) || keep(t) {
			merged = append(merged, t)
		}
	}
	changed = len(merged) != len(live)
	for _, m := range wanted {
		key := m.Key.ValueString()
		if !slices.ContainsFunc(merged, func(t clusterv1.Taint) bool { return t.Key == key }) {
			merged = append(merged, clusterv1.Taint{Key: key, Value: m.Value.ValueString(), Effect: clusterv1.TaintEffect(m.Effect.ValueString())})
			changed = true
		}
	}
	slices.SortStableFunc(merged, func(a, b clusterv1.Taint) int { return strings.Compare(a.Key, b.Key) })
	return merged, changed
}

// lostTaints are the taints, but the hub's own, that a cluster would lose to those
// that are wanted.
func lostTaints(live []clusterv1.Taint, wanted []taintModel) []crud.Difference {
	merged, _ := mergeTaints(live, wanted, nil)
	var lost []crud.Difference
	for _, t := range live {
		kept := func(m clusterv1.Taint) bool { return m.Key == t.Key && m.Value == t.Value && m.Effect == t.Effect }
		if !slices.ContainsFunc(merged, kept) {
			lost = append(lost, crud.Difference{Path: fmt.Sprintf("spec.taints[%s]", t.Key), There: string(t.Effect)})
		}
	}
	return lost
}

// taintsIn are the taints that a plan or a state sets; nil when it manages none.
func taintsIn(values *attribute.Values) []taintModel {
	var taints []taintModel
	if values == nil || !values.IsSet("taints") ||
		tfsdk.ValueAs(context.Background(), (*values)["taints"], &taints).HasError() {
		return nil
	}
	return taints
}

// writeTaints writes the taints of a plan when the rest was written. Those that could not
// be written stay as they were in the state, so that the next apply writes them.
func writeTaints(ctx context.Context, c *change) bool {
	problems := len(*c.Diagnostics)
	applyTaints(ctx, c.Client, c.Object, taintsIn(c.Plan), taintsIn(c.Prior), c.Diagnostics)
	if len(*c.Diagnostics) > problems && c.Prior != nil {
		(*c.Plan)["taints"] = (*c.Prior)["taints"]
	}
	return true
}

// applyTaints writes taints under the resource version of object. The list is
// one value to server-side apply and the hub writes it too, so that applying it
// would drop the hub's taints.
func applyTaints(
	ctx context.Context, client *kube.Client, object managedCluster, wanted, before []taintModel, diags *diag.Diagnostics,
) {
	const attempts = 10 // the hub writes taints a few times in a cluster's life
	for attempt := 1; ; attempt++ {
		merged, changed := mergeTaints(object.Spec.Taints, wanted, before)
		if !changed {
			return
		}
		err := client.MergePatch(ctx, object, hub.FieldManager, map[string]any{
			"metadata": map[string]any{"resourceVersion": object.ResourceVersion},
			"spec":     map[string]any{"taints": merged},
		})
		if err == nil {
			return
		}
		if apierrors.IsConflict(err) && attempt < attempts {
			if err = client.Get(ctx, object, "", object.Name); err == nil {
				continue
			}
		}
		hub.AddAPIError(diags, client, fmt.Sprintf("set the taints of managed cluster %q", object.Name), err)
		return
	}
}
