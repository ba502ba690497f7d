package placement

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

func scored(name string, value int32) clusterv1alpha1.AddOnPlacementScoreItem {
	return clusterv1alpha1.AddOnPlacementScoreItem{Name: name, Value: value}
}

// An import takes over what the configuration owns, and without that everything.
func TestWhichScoresAreImported(t *testing.T) {
	object := &clusterv1alpha1.AddOnPlacementScore{}
	object.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{scored("mine", 1), scored("theirs", 2)}
	object.Status.ValidUntil = &metav1.Time{}
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		f := &metav1.FieldsV1{}
		f.SetRawBytes([]byte(fields))
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: f}
	}
	all := types.MapValueMust(types.NumberType, scoresValue(object.Status.Scores, func(string) bool { return true }).Elements())
	if got := importPlacementScore(object); !got.Scores.Equal(all) || got.ValidUntil.IsNull() {
		t.Errorf("of nobody's, %s until %s are imported", got.Scores, got.ValidUntil)
	}
	object.ManagedFields = []metav1.ManagedFieldsEntry{
		entry("an-addon", "status", `{"f:status":{"f:scores":{"k:{\"name\":\"theirs\"}":{}},"f:validUntil":{}}}`),
		entry(hub.FieldManager, "", `{"f:metadata":{}}`),
		entry(hub.FieldManager, "status", `{"f:status":{"f:scores":{"k:{\"name\":\"mine\"}":{"f:value":{}}}}}`),
	}
	got := importPlacementScore(object)
	if len(got.Scores.Elements()) != 1 || got.Scores.Elements()["mine"] == nil || !got.ValidUntil.IsNull() {
		t.Errorf("%s until %s are imported, want mine alone", got.Scores, got.ValidUntil)
	}
}
