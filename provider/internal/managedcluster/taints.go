package managedcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

type taint = clusterv1.Taint

// taintsField are the taints that the configuration sets. The hub stamps the time.
func taintsField() attribute.Field[managedCluster] {
	return attribute.ObjectSet("taints",
		schema.SetNestedAttribute{
			MarkdownDescription: "Taints that keep placements without a matching toleration away from the cluster. " +
				"Once set, these are all the taints that people may put on it; the two that the hub itself manages " +
				"(`" + cluster.UnavailableTaint + "`, `" + cluster.UnreachableTaint + "`) come and go beside " +
				"them. If omitted, taints are not managed.",
			Optional:   true,
			Validators: []validator.Set{uniqueTaints{"at most one taint for each key"}},
		},
		func(taints []taint, c managedCluster) { c.Spec.Taints, _ = mergeTaints(nil, taints, nil) },
		func(c managedCluster) []taint { return taintsOfPeople(c.Spec.Taints) },
		attribute.Text("key",
			attribute.Required("Key of the taint, in the form of a label key. A cluster has at most one taint for "+
				"each "+
				"key.", attribute.ValidKey("taint key"), attribute.Not("the hub sets and removes this taint by itself",
				cluster.UnavailableTaint, cluster.UnreachableTaint)),
			func(t *taint) *string { return &t.Key }),
		attribute.Text("value",
			attribute.Optional("Value that a toleration with the operator `Equal` has to name.",
				attribute.LengthBetween(1, 1024)),
			func(t *taint) *string { return &t.Value }),
		attribute.Text("effect",
			attribute.Required("`NoSelect`: the cluster is not selected and leaves decisions it is in. "+
				"`NoSelectIfNew`: it is not newly selected. `PreferNoSelect`: others are preferred.",
				attribute.OneOf(clusterv1.TaintEffectNoSelect, clusterv1.TaintEffectNoSelectIfNew,
					clusterv1.TaintEffectPreferNoSelect)...),
			func(t *taint) *clusterv1.TaintEffect { return &t.Effect })).
		LeftToOthers(func(_ attribute.Owned, c managedCluster) bool { return len(taintsOfPeople(c.Spec.Taints)) > 0 })
}

// uniqueTaints refuses two taints with one key: the hub would mix up
// the times.
type uniqueTaints struct{ attribute.Described }

func (uniqueTaints) ValidateSet(_ context.Context, req validator.SetRequest, resp *validator.SetResponse) {
	seen := map[string]bool{}
	for _, taint := range attribute.EachObject(req.ConfigValue) {
		key := taint.Text("key")
		if key != "" && seen[key] {
			resp.Diagnostics.AddAttributeError(req.Path, "Two taints with the same key",
				fmt.Sprintf("The key %q appears twice, but a cluster has at most one taint for each key. Remove one "+
					"of them.", key))
		}
		seen[key] = true
	}
}

// taintsOfPeople are those that are not the hub's own.
func taintsOfPeople(taints []taint) []taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t taint) bool { return cluster.IsHubTaint(t.Key) })
}

// has reports whether a taint is among others, whatever its time.
func has(taints []taint, t taint) bool {
	return slices.ContainsFunc(taints, func(o taint) bool {
		return o.Key == t.Key && o.Value == t.Value && o.Effect == t.Effect
	})
}

func hasKey(taints []taint, key string) bool {
	return slices.ContainsFunc(taints, func(t taint) bool { return t.Key == key })
}

// mergeTaints is the list of taints that a cluster with live should get. wanted
// is nil when the configuration does not manage taints any more; those that it
// set before are then removed. Taints that stay keep their time, which the hub
// insists on. changed is false when there is nothing to write.
func mergeTaints(live, wanted, before []taint) (merged []taint, changed bool) {
	merged = []taint{}
	for _, t := range live {
		if cluster.IsHubTaint(t.Key) || has(wanted, t) || wanted == nil && !hasKey(before, t.Key) {
			merged = append(merged, t)
		}
	}
	changed = len(merged) != len(live)
	for _, t := range wanted {
		if !hasKey(merged, t.Key) {
			merged, changed = append(merged, t), true
		}
	}
	slices.SortStableFunc(merged, func(a, b taint) int { return strings.Compare(a.Key, b.Key) })
	return merged, changed
}

// lostTaints are the taints, but the hub's own, that a cluster would lose to those
// that are wanted.
func lostTaints(live, wanted []taint) []crud.Difference {
	merged, _ := mergeTaints(live, wanted, nil)
	var lost []crud.Difference
	for _, t := range live {
		if !has(merged, t) {
			lost = append(lost, crud.Difference{Path: fmt.Sprintf("spec.taints[%s]", t.Key), There: string(t.Effect)})
		}
	}
	return lost
}

// taintsIn are the taints that a plan or a state sets; nil when it manages none.
func taintsIn(values attribute.Values) []taint {
	if values == nil || !values.IsSet("taints") {
		return nil
	}
	scratch := &clusterv1.ManagedCluster{}
	attribute.Table[managedCluster]{taintsField()}.Write(values, scratch)
	return append([]taint{}, scratch.Spec.Taints...)
}

// writeTaints writes the taints of a plan when the rest was written. Those that could not
// be written stay as they were in the state, so that the next apply writes them.
func writeTaints(ctx context.Context, c *change) bool {
	problems := len(*c.Diagnostics)
	applyTaints(ctx, c.Client, c.Object, taintsIn(c.Plan), taintsIn(c.Prior), c.Diagnostics)
	if len(*c.Diagnostics) > problems && c.Prior != nil {
		c.Plan["taints"] = c.Prior["taints"]
	}
	return true
}

// applyTaints writes taints under the resource version of object. The list is
// one value to server-side apply and the hub writes it too, so that applying it
// would drop the hub's taints.
func applyTaints(
	ctx context.Context, client *kube.Client, object managedCluster, wanted, before []taint, diags *diag.Diagnostics,
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
