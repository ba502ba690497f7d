package replicaset

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

func TestStanding(t *testing.T) {
	from := choice{labels.SelectorFromSet(labels.Set{"set": "blue"}), labels.SelectorFromSet(labels.Set{"set": "green"})}
	mc := func(name, set string, accepted bool) *clusterv1.ManagedCluster {
		return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"set": set}}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(accepted)}}
	}
	leaving := mc("paris", "blue", true)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, x := range map[string]struct {
		from choice
		mc   *clusterv1.ManagedCluster
		want standing
	}{
		"a member":                 {from, mc("paris", "blue", true), eligible},
		"of another set":           {from, mc("paris", "green", true), eligible},
		"of no bound set":          {from, mc("paris", "red", true), stranger},
		"with no set bound":        {nil, mc("paris", "blue", true), stranger},
		"no cluster":               {from, nil, stranger},
		"one that is leaving":      {from, leaving, stranger},
		"one that is denied":       {from, mc("paris", "blue", false), unaccepted},
		"one that was never it":    {from, mc("paris", "red", false), stranger},
		"one with a reserved name": {from, mc("kube-system", "blue", true), stranger},
	} {
		if got := x.from.standing(x.mc); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
}
