package selection_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
)

func TestStanding(t *testing.T) {
	from := selection.Choice{labels.SelectorFromSet(labels.Set{"set": "blue"}), labels.SelectorFromSet(labels.Set{"set": "green"})}
	mc := func(name, set string, accepted bool) *clusterv1.ManagedCluster {
		return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"set": set}}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(accepted)}}
	}
	leaving := mc("paris", "blue", true)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, x := range map[string]struct {
		from selection.Choice
		mc   *clusterv1.ManagedCluster
		want selection.Standing
	}{
		"a member":                 {from, mc("paris", "blue", true), selection.Eligible},
		"of another set":           {from, mc("paris", "green", true), selection.Eligible},
		"of no bound set":          {from, mc("paris", "red", true), selection.Stranger},
		"with no set bound":        {nil, mc("paris", "blue", true), selection.Stranger},
		"no cluster":               {from, nil, selection.Stranger},
		"one that is leaving":      {from, leaving, selection.Stranger},
		"one that is denied":       {from, mc("paris", "blue", false), selection.Unaccepted},
		"one that was never it":    {from, mc("paris", "red", false), selection.Stranger},
		"one with a reserved name": {from, mc("kube-system", "blue", true), selection.Stranger},
	} {
		if got := x.from.Standing(x.mc); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
}
