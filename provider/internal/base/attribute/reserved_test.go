package attribute

import (
	"maps"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// What hub and provider note on objects is neither a configuration's nor shown as such.
func TestReservedAnnotations(t *testing.T) {
	all := map[string]string{"owner": "bank"}
	for _, key := range []string{
		cluster.TerraformOwnerAnnotation, AcceptanceOwnerAnnotation, muster.ClusterUIDAnnotation,
		muster.AddOnsAnnotation, muster.PreviewsAskedAnnotation, muster.ClientIDAnnotation,
		muster.RolloutApprovalsAnnotation, muster.ApproveRolloutAnnotation,
	} {
		if ReservedAnnotation(key) == "" {
			t.Errorf("a configuration may set %s", key)
		}
		all[key] = "true"
	}
	if why := ReservedAnnotation("owner"); why != "" {
		t.Errorf("a configuration may not set an annotation of its own: %s", why)
	}
	if got := WithoutMark(all); !maps.Equal(got, map[string]string{"owner": "bank"}) {
		t.Errorf("shown are %v", got)
	}
}
