package hub

import (
	"context"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

// clusterSets are the names of the hub's cluster sets, which a plan lists once.
type clusterSets struct {
	mu     sync.Mutex
	listed bool
	names  map[string]bool // nil where they can't be listed
}

// LacksSet reports whether the hub is known not to have a cluster set.
func (h *Hub) LacksSet(ctx context.Context, name string) bool {
	c := &h.sets
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.listed {
		c.listed = true
		var diags diag.Diagnostics
		client := h.ReadClient(&diags)
		if client == nil {
			return false
		}
		list := &clusterv1beta2.ManagedClusterSetList{}
		if err := client.List(ctx, list, kube.ListOptions{}); err != nil {
			return false // What needs the hub will tell.
		}
		c.names = map[string]bool{}
		for i := range list.Items {
			c.names[list.Items[i].Name] = true
		}
	}
	return c.names != nil && !c.names[name]
}
