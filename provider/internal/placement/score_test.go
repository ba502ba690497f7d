package placement

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

// An import takes over what the configuration owns, and without that everything.
func TestWhichScoresAreImported(t *testing.T) {
	object := &clusterv1alpha1.AddOnPlacementScore{}
	object.Status.Scores = []scoreItem{{Name: "mine", Value: 1}, {Name: "theirs", Value: 2}}
	object.Status.ValidUntil = &metav1.Time{}
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		f := &metav1.FieldsV1{}
		f.SetRawBytes([]byte(fields))
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: f}
	}
	imported := func() (scores types.Map, until attr.Value) {
		got := scoreTable().Import(crud.FieldsOf(object, hub.FieldManager), object)
		scores, _ = got["scores"].(types.Map)
		return scores, got["valid_until"]
	}
	if scores, until := imported(); len(scores.Elements()) != 2 || until.IsNull() {
		t.Errorf("of nobody's, %s until %s are imported", scores, until)
	}
	object.ManagedFields = []metav1.ManagedFieldsEntry{
		entry("an-addon", "status", `{"f:status":{"f:scores":{"k:{\"name\":\"theirs\"}":{}},"f:validUntil":{}}}`),
		entry(hub.FieldManager, "", `{"f:metadata":{}}`),
		entry(hub.FieldManager, "status", `{"f:status":{"f:scores":{"k:{\"name\":\"mine\"}":{"f:value":{}}}}}`),
	}
	if scores, until := imported(); len(scores.Elements()) != 1 || scores.Elements()["mine"] == nil || !until.IsNull() {
		t.Errorf("%s until %s are imported, want mine alone", scores, until)
	}
}
