package placement

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

// Scores of a cluster between Terraform and the API.

type placementScoreModel struct {
	ManagedCluster types.String `tfsdk:"managed_cluster"`
	Name           types.String `tfsdk:"name"`
	Labels         types.Map    `tfsdk:"labels"`
	Scores         types.Map    `tfsdk:"scores"`
	ValidUntil     types.String `tfsdk:"valid_until"`
	Adopt          types.Bool   `tfsdk:"adopt"`
	ForceConflicts types.Bool   `tfsdk:"force_conflicts"`
}

// What implements crud.Model.
func (m *placementScoreModel) What() string {
	return fmt.Sprintf("placement score %q", m.ManagedCluster.ValueString()+"/"+m.Name.ValueString())
}

// Identity implements crud.Model.
func (m *placementScoreModel) Identity() any {
	return placementScoreIdentity{ManagedCluster: m.ManagedCluster, Name: m.Name}
}

// owned is the object, whose scores count when it is compared. Those that are
// added beside another writer's are nobody's loss.
func (m *placementScoreModel) owned() crud.Owned {
	o := crud.Own(m.object(), m.What(), m.ManagedCluster.ValueString()+"/"+m.Name.ValueString(), m.Adopt, m.ForceConflicts)
	o.Write.Status = m.scored()
	o.Write.Foreign = crud.ForeignAnnotations
	o.Write.Harmless = func(d crud.Difference) bool {
		return d.Added() && (strings.HasPrefix(d.Path, "status.scores") || strings.HasPrefix(d.Path, "metadata.labels"))
	}
	return o
}

// object is the object without its status.
func (m *placementScoreModel) object() *clusterv1alpha1.AddOnPlacementScore {
	object := &clusterv1alpha1.AddOnPlacementScore{}
	object.Namespace, object.Name = m.ManagedCluster.ValueString(), m.Name.ValueString()
	object.Labels = attribute.StringMap(m.Labels)
	return object
}

// scored is the object with nothing but its status.
func (m *placementScoreModel) scored() *clusterv1alpha1.AddOnPlacementScore {
	object := &clusterv1alpha1.AddOnPlacementScore{}
	object.Namespace, object.Name = m.ManagedCluster.ValueString(), m.Name.ValueString()
	for name, element := range m.Scores.Elements() {
		if value, ok := attribute.Whole(element); ok {
			object.Status.Scores = append(object.Status.Scores, clusterv1alpha1.AddOnPlacementScoreItem{Name: name, Value: int32(value)}) //nolint:gosec // validated
		}
	}
	slices.SortFunc(object.Status.Scores, func(a, b clusterv1alpha1.AddOnPlacementScoreItem) int { return strings.Compare(a.Name, b.Name) })
	if moment, err := time.Parse(time.RFC3339, m.ValidUntil.ValueString()); err == nil {
		object.Status.ValidUntil = &metav1.Time{Time: moment}
	}
	return object
}

// observe brings up to date what the model owns. Scores that are gone are left
// out, which Terraform shows as a difference.
func (m *placementScoreModel) observe(object *clusterv1alpha1.AddOnPlacementScore) {
	m.Labels = attribute.ObservedMap(m.Labels, object.Labels)
	m.Scores = scoresValue(object.Status.Scores, func(name string) bool {
		_, ok := m.Scores.Elements()[name]
		return ok
	})
	live := validUntil(object)
	if m.expiresWithout(object) || !m.ValidUntil.IsNull() && !sameMoment(m.ValidUntil.ValueString(), live.ValueString()) {
		m.ValidUntil = live
	}
}

// isShared reports whether others have scores in the object.
func (m *placementScoreModel) isShared(object *clusterv1alpha1.AddOnPlacementScore) bool {
	return slices.ContainsFunc(object.Status.Scores, func(item clusterv1alpha1.AddOnPlacementScoreItem) bool {
		_, own := m.Scores.Elements()[item.Name]
		return !own
	})
}

// expiresWithout reports whether the scores expire although the configuration names
// no time: one that somebody has set who has no scores of their own in the object.
func (m *placementScoreModel) expiresWithout(object *clusterv1alpha1.AddOnPlacementScore) bool {
	return m.ValidUntil.IsNull() && object.Status.ValidUntil != nil && !m.isShared(object)
}

// importPlacementScore takes over the scores that the configuration owns or,
// where it owns none, all.
func importPlacementScore(object *clusterv1alpha1.AddOnPlacementScore) placementScoreModel {
	owned := crud.FieldsOf(object, hub.FieldManager)
	scores, until := ownedScores(object)
	return placementScoreModel{
		ManagedCluster: types.StringValue(object.Namespace),
		Name:           types.StringValue(object.Name),
		Labels:         attribute.ImportedMap(owned.Keys("metadata", "labels"), owned.None(), object.Labels, func(string) bool { return true }),
		Scores:         scoresValue(object.Status.Scores, func(name string) bool { return len(scores) == 0 || slices.Contains(scores, name) }),
		ValidUntil: func() types.String {
			if len(scores) > 0 && !until {
				return types.StringNull()
			}
			return validUntil(object)
		}(),
	}
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

func scoresValue(items []clusterv1alpha1.AddOnPlacementScoreItem, keep func(name string) bool) types.Map {
	elements := map[string]attr.Value{}
	for _, item := range items {
		if keep(item.Name) {
			elements[item.Name] = attribute.WholeValue(int64(item.Value))
		}
	}
	return types.MapValueMust(types.NumberType, elements)
}

func validUntil(object *clusterv1alpha1.AddOnPlacementScore) types.String {
	if object.Status.ValidUntil == nil {
		return types.StringNull()
	}
	return types.StringValue(object.Status.ValidUntil.UTC().Format(time.RFC3339))
}

// sameMoment reports whether two texts are the same time.
func sameMoment(a, b string) bool {
	x, errX := time.Parse(time.RFC3339, a)
	y, errY := time.Parse(time.RFC3339, b)
	return errX == nil && errY == nil && x.Equal(y)
}

// Key implements crud.Model.
func (m *placementScoreModel) Key() (namespace, name string) {
	return m.ManagedCluster.ValueString(), m.Name.ValueString()
}
