package placement

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

type (
	score       = *clusterv1alpha1.AddOnPlacementScore
	scoreItem   = clusterv1alpha1.AddOnPlacementScoreItem
	scoreChange = crud.Change[score]
)

// Score is muster_addon_placement_score. Scores are the status of an object without a
// spec; what the configuration sets of them is owned by its field manager, item by item,
// as a spec would be.
func Score() crud.Declared {
	return &crud.Kind[score]{
		Type: "addon_placement_score", Noun: "placement score", Empty: &clusterv1alpha1.AddOnPlacementScore{},
		Description: "Scores of one managed cluster, such as its cost or latency, for placements to rank clusters " +
			"by: `add_on` in `prioritizer_policy` of `muster_placement`, or `managedCluster.scores(\"<name>\")` in " +
			"its `cel_expressions`.\n\n" +
			"It is an AddOnPlacementScore in the cluster's namespace on the hub. Scores of other names in the same " +
			"object may have other writers, such as an add-on: they are left alone, and as long as there are any, " +
			"destroying the resource removes its own scores and leaves the object.",
		Keys: []crud.Key{
			{
				Name:        "managed_cluster",
				Description: "Managed cluster that the scores are about. Changing it replaces the object.",
				Valid:       attribute.ValidClusterName(),
			},
			{
				Name: "name",
				Description: "Name of the object, by which placements refer to it (`resource_name`): give it the " +
					"same name in every cluster. Changing it replaces the object.",
				Valid: attribute.ValidObjectName("score object name"),
			},
		},
		Table:   scoreTable(),
		Foreign: crud.ForeignAnnotations,
		Hooks: crud.Hooks[score]{
			Own: ownScores,
			BeforeWrite: func(_ context.Context, c *scoreChange) bool {
				c.Object.Status = clusterv1alpha1.AddOnPlacementScoreStatus{} // writeScores writes it.
				return true
			},
			Explain:    explainScore,
			AfterWrite: writeScores,
			Reading: func(_ context.Context, c *scoreChange) {
				if !c.Prior.IsSet("valid_until") && shared(c.Prior, c.Object) {
					c.Object.Status.ValidUntil = nil // Somebody else's.
				}
			},
			BeforeDelete: releaseShared,
		},
		List: &crud.List[score]{
			Plural: "placement scores", Objects: &clusterv1alpha1.AddOnPlacementScoreList{},
			About:     "Scores that anything but kubectl has written count as kept by a controller.",
			Generated: writtenByAddOn,
			Cluster:   score.GetNamespace,
		},
	}
}

func scoreTable() attribute.Table[score] {
	return attribute.Table[score]{
		attribute.LabelsField[score]("Labels of the object."),
		attribute.Code("scores",
			schema.MapAttribute{
				MarkdownDescription: "Scores by name, from -100 (worst) to 100 (best). A cluster without a score " +
					"counts as 0.",
				Required:    true,
				ElementType: types.NumberType,
				Validators: []validator.Map{
					mapvalidator.SizeAtLeast(1), mapvalidator.KeysAre(stringvalidator.LengthAtLeast(1)),
					mapvalidator.ValueNumbersAre(attribute.WholeBetween(-100, 100)),
				},
			},
			func(scores types.Map, to score) {
				for name, element := range scores.Elements() {
					if value, ok := attribute.Whole(element); ok {
						item := scoreItem{Name: name, Value: int32(value)} //nolint:gosec // validated
						to.Status.Scores = append(to.Status.Scores, item)
					}
				}
				slices.SortFunc(to.Status.Scores, func(a, b scoreItem) int { return strings.Compare(a.Name, b.Name) })
			},
			func(from score) types.Map { return scoresOf(from, func(string) bool { return true }) }).
			At("status.scores").BesideOthers().
			Taking(func(_ attribute.Owned, from score) attr.Value {
				own, _ := ownedScores(from)
				return scoresOf(from, func(name string) bool { return len(own) == 0 || slices.Contains(own, name) })
			}),
		attribute.Code("valid_until",
			attribute.Optional("When the scores expire, in RFC 3339 and whole seconds, such as "+
				"`2027-01-31T00:00:00Z`. From then on each counts as 0. If omitted, they never expire, unless "+
				"another writer of scores in the same object sets a time for all.", attribute.ValidTime()),
			func(text types.String, to score) {
				if moment, err := time.Parse(time.RFC3339, text.ValueString()); err == nil {
					to.Status.ValidUntil = &metav1.Time{Time: moment}
				}
			}, validUntil).
			At("status.validUntil").KeepsWording().
			Taking(func(_ attribute.Owned, from score) attr.Value {
				if own, until := ownedScores(from); len(own) > 0 && !until {
					return types.StringNull()
				}
				return validUntil(from)
			}),
	}
}

func scoresOf(object score, keep func(name string) bool) types.Map {
	elements := map[string]attr.Value{}
	for _, item := range object.Status.Scores {
		if keep(item.Name) {
			elements[item.Name] = attribute.WholeValue(int64(item.Value))
		}
	}
	return types.MapValueMust(types.NumberType, elements)
}

func validUntil(object score) types.String {
	if object.Status.ValidUntil == nil {
		return types.StringNull()
	}
	return types.StringValue(object.Status.ValidUntil.UTC().Format(time.RFC3339))
}

// scored is an object with nothing but its status.
func scored(v values, namespace, name string) score {
	object := &clusterv1alpha1.AddOnPlacementScore{}
	scoreTable().Write(values{"scores": v["scores"], "valid_until": v["valid_until"]}, object)
	object.Namespace, object.Name = namespace, name
	return object
}

// shared reports whether others have scores in an object.
func shared(v values, object score) bool {
	own, _ := v["scores"].(types.Map)
	return slices.ContainsFunc(object.Status.Scores, func(item scoreItem) bool {
		return own.Elements()[item.Name] == nil
	})
}

// ownScores has the scores compared that are there. Those that are added beside another
// writer's are nobody's loss.
func ownScores(v values, o *crud.Owned) {
	object, _ := o.Write.Object.(score)
	object.Status = clusterv1alpha1.AddOnPlacementScoreStatus{}
	o.Write.Status = scored(v, object.Namespace, object.Name)
	o.Write.Harmless = func(d crud.Difference) bool {
		return d.Added() && (strings.HasPrefix(d.Path, "status.scores") || strings.HasPrefix(d.Path, "metadata.labels"))
	}
}

// writeScores writes the status of an object that was written. The API takes them only
// one after the other.
func writeScores(ctx context.Context, c *scoreChange) bool {
	force := !c.Plan.IsSet("force_conflicts") || c.Plan.Bool("force_conflicts")
	object := scored(c.Plan, c.Keys[0], c.Keys[1])
	err := c.Client.ApplyStatus(ctx, object, kube.ApplyOptions{Manager: hub.FieldManager, Force: force})
	// A time that somebody set who has no scores of their own in the object.
	if err == nil && !c.Plan.IsSet("valid_until") && object.Status.ValidUntil != nil && !shared(c.Plan, object) {
		err = c.Client.MergePatchStatus(ctx, object, hub.FieldManager, map[string]any{
			"metadata": map[string]any{"resourceVersion": object.ResourceVersion},
			"status":   map[string]any{"validUntil": nil},
		})
	}
	if err != nil {
		hub.AddAPIError(c.Diagnostics, c.Client, "write the scores of "+c.What, err)
	}
	return err == nil
}

// explainScore says what it means that there is no namespace.
func explainScore(c *scoreChange, doing string, err error) error {
	if !kube.IsMissingNamespace(err) {
		return err
	}
	return &hub.RefusalError{Err: err, Summary: "Cannot " + doing, Detail: fmt.Sprintf("The hub %s has no namespace "+
		"%q: there is no managed cluster of this name, or the hub has not made its namespace yet. Refer to the name "+
		"of a muster_managed_cluster, or correct it.", c.Client.Host(), c.Keys[0])}
}

// releaseShared takes the resource's scores out of an object that has others' scores, too.
// It returns true for one that has none.
func releaseShared(ctx context.Context, c *scoreChange) bool {
	live := &clusterv1alpha1.AddOnPlacementScore{}
	found, ok := c.Find(ctx, live, c.Keys[0], c.Keys[1], "delete "+c.What, c.Diagnostics)
	if !ok || !found || !shared(c.Prior, live) {
		return ok && found
	}
	bare := scored(nil, c.Keys[0], c.Keys[1])
	err := crud.Release(ctx, c.Client, bare, hub.FieldManager, crud.ClaimOf(ctx, c.Private, c.Diagnostics))
	if err == nil && bare.UID != "" {
		none := scored(nil, c.Keys[0], c.Keys[1])
		err = c.Client.ApplyStatus(ctx, none, kube.ApplyOptions{Manager: hub.FieldManager})
	}
	if err = crud.Left(c.Client, c.What, err, c.Diagnostics); err != nil {
		hub.AddAPIError(c.Diagnostics, c.Client, "remove the scores of "+c.What, err)
	}
	return false
}

// ownedScores are the names of the scores that the configuration owns, and
// whether it owns the time until which they hold.
func ownedScores(object metav1.Object) (names []string, until bool) {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != hub.FieldManager || entry.Subresource != "status" || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Status struct {
				Scores map[string]json.RawMessage `json:"f:scores"`
				Until  json.RawMessage            `json:"f:validUntil"`
			} `json:"f:status"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue // written by a later version of the API: as good as nothing
		}
		until = until || len(fields.Status.Until) > 0
		for key := range fields.Status.Scores {
			var item struct {
				Name string `json:"name"`
			}
			if text, ok := strings.CutPrefix(key, "k:"); ok && json.Unmarshal([]byte(text), &item) == nil {
				names = append(names, item.Name)
			}
		}
	}
	return attribute.Sorted(names), until
}

// writtenByAddOn reports whether anything but a person has written the scores. People do
// so with kubectl.
func writtenByAddOn(object score) bool {
	names, _ := ownedScores(object)
	byOthers := func(entry metav1.ManagedFieldsEntry) bool {
		return len(names) == 0 && entry.Subresource == "status" && !strings.HasPrefix(entry.Manager, "kubectl")
	}
	return len(object.OwnerReferences) > 0 || slices.ContainsFunc(object.GetManagedFields(), byOthers)
}
