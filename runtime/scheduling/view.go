package scheduling

import (
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// View is a cluster with what selectors read of it, computed once when first
// needed. It is safe for concurrent use as long as nobody changes the cluster.
type View struct {
	*clusterv1.ManagedCluster

	claimsOnce sync.Once
	claims     labels.Set

	objectMu sync.Mutex
	object   weak.Pointer[map[string]any]
}

// NewView makes the view of a cluster.
func NewView(c *clusterv1.ManagedCluster) *View { return &View{ManagedCluster: c} }

// Claims are the values of the cluster's claims by their names.
func (v *View) Claims() labels.Set {
	v.claimsOnce.Do(func() {
		v.claims = make(labels.Set, len(v.Status.ClusterClaims))
		for _, c := range v.Status.ClusterClaims {
			v.claims[c.Name] = c.Value
		}
	})
	return v.claims
}

// asObject is the cluster as expressions see it: as its JSON. That is large and
// slow to make, so all expressions that are evaluated on the cluster share it
// until it is garbage.
func (v *View) asObject() (map[string]any, error) {
	v.objectMu.Lock()
	defer v.objectMu.Unlock()
	if o := v.object.Value(); o != nil {
		return *o, nil
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v.ManagedCluster)
	if err != nil {
		return nil, err
	}
	v.object = weak.Make(&object)
	return object, nil
}

// views makes the views of clusters, in their order.
func views(clusters []*clusterv1.ManagedCluster) []*View {
	all := make([]View, len(clusters))
	out := make([]*View, len(clusters))
	for i, c := range clusters {
		all[i].ManagedCluster = c
		out[i] = &all[i]
	}
	return out
}
