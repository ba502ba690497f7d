package managedcluster

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// What somebody has written is taken over, even where it is what the hub would fill
// in, and what the hub has filled in is not.
func TestImportDistinguishesChoicesFromDefaults(t *testing.T) {
	const lease = `{"f:spec":{"f:leaseDurationSeconds":{}}}`
	for name, test := range map[string]struct {
		manager, fields string
		seconds         int32
		want            types.Int64
	}{
		"a manifest of another state": {"", "", 60, types.Int64Value(60)},
		"a manifest without it":       {"", "", 0, types.Int64Null()},
		"the hub's default":           {"kubectl", `{"f:spec":{"f:hubAcceptsClient":{}}}`, 60, types.Int64Null()},
		"written by kubectl":          {"kubectl", lease, 60, types.Int64Value(60)},
		"another value":               {"kubectl", `{"f:spec":{}}`, 30, types.Int64Value(30)},
		"the provider's own":          {hub.FieldManager, lease, 60, types.Int64Value(60)},
		"left out by the provider":    {hub.FieldManager, `{"f:metadata":{}}`, 30, types.Int64Null()},
	} {
		object := &clusterv1.ManagedCluster{}
		object.Name, object.Spec.LeaseDurationSeconds = "paris", test.seconds
		if test.manager != "" {
			fields := &metav1.FieldsV1{}
			fields.SetRawBytes([]byte(test.fields))
			object.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: test.manager, FieldsV1: fields}}
		}
		if got := imported(object)["lease_duration_seconds"]; !got.Equal(test.want) {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
	object := &clusterv1.ManagedCluster{}
	object.Labels = map[string]string{cluster.ClusterSetLabel: cluster.DefaultSet}
	if got := imported(object).Text("cluster_set"); got != cluster.DefaultSet {
		t.Errorf("the set in a manifest of another state is %s", got)
	}
}

// imported are the attributes of an object that is imported.
func imported(object *clusterv1.ManagedCluster) attribute.Values {
	return clusterTable().Import(crud.FieldsOf(object, hub.FieldManager), object)
}
