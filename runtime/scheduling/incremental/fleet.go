package incremental

import (
	"math"
	"slices"
	"strings"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// cluster is everything that is known under a cluster's name. Its object may be
// missing when only a decision or a score names it.
type cluster struct {
	name string
	// slot is the cluster's number as long as anything is known of it.
	slot uint32
	// view is the cluster itself, or nil when there is none.
	view *scheduling.View
	// sets are the sets that it belongs to; none when it is being deleted.
	sets []*set
	// free is the free share of each resource that placements rank by; NaN when
	// the cluster does not report it.
	free [resources]float64
	// decisions is the number of decisions that it is in.
	decisions int
	// scores are the AddOnPlacementScores of it by name, or nil. The map is
	// never changed, only replaced, because a judgement may be reading it.
	scores map[string]*clusterv1alpha1.AddOnPlacementScore
	// changes counts the changes that expressions may see.
	changes uint64
}

// The resources that placements can rank by.
const (
	cpu = iota
	memory
	resources
)

// resourceOf is the number of a resource.
func resourceOf(name clusterv1.ResourceName) int {
	if name == clusterv1.ResourceCPU {
		return cpu
	}
	return memory
}

// freeOf reads the free shares of a cluster's resources.
func freeOf(o *clusterv1.ManagedCluster) (out [resources]float64) {
	for i, name := range []clusterv1.ResourceName{cpu: clusterv1.ResourceCPU, memory: clusterv1.ResourceMemory} {
		var ok bool
		if out[i], ok = scheduling.Free(o, name); !ok {
			out[i] = math.NaN()
		}
	}
	return out
}

// sameFree reports whether two lists of free shares are equal, where NaN equals
// NaN.
func sameFree(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// there reports whether the cluster can be chosen: it exists and is not being
// deleted.
func (c *cluster) there() bool { return c.view != nil && c.view.DeletionTimestamp.IsZero() }

// fleet numbers the clusters, so that sets of them are bits.
type fleet struct {
	byName map[string]*cluster
	slots  []*cluster
	unused []uint32
	// ordered are the existing clusters by name.
	ordered []*cluster
}

// getOrCreate returns the entry of a name, and creates it when there is none.
func (f *fleet) getOrCreate(name string) *cluster {
	if c := f.byName[name]; c != nil {
		return c
	}
	c := &cluster{name: name}
	if n := len(f.unused); n > 0 {
		c.slot, f.unused = f.unused[n-1], f.unused[:n-1]
		f.slots[c.slot] = c
	} else {
		c.slot = uint32(len(f.slots))
		f.slots = append(f.slots, c)
	}
	f.byName[name] = c
	return c
}

// release removes a cluster that nothing is known of any more. Its slot is
// reused; entries that placements still have for it are on their lists of what
// to evaluate again.
func (f *fleet) release(c *cluster) {
	if c.view != nil || c.decisions > 0 || len(c.scores) > 0 {
		return
	}
	delete(f.byName, c.name)
	f.slots[c.slot] = nil
	f.unused = append(f.unused, c.slot)
}

func byName(c *cluster, name string) int { return strings.Compare(c.name, name) }

// insert adds a cluster to the ordered ones.
func (f *fleet) insert(c *cluster) {
	if n := len(f.ordered); n == 0 || f.ordered[n-1].name < c.name {
		f.ordered = append(f.ordered, c)
		return
	}
	at, _ := slices.BinarySearchFunc(f.ordered, c.name, byName)
	f.ordered = slices.Insert(f.ordered, at, c)
}

// remove removes a cluster from the ordered ones.
func (f *fleet) remove(c *cluster) {
	if at, ok := slices.BinarySearchFunc(f.ordered, c.name, byName); ok {
		f.ordered = slices.Delete(f.ordered, at, at+1)
	}
}

// sortRatio is how many times more clusters than marked ones there have to be
// for sorting the marked ones to be cheaper.
const sortRatio = 16

// inOrder returns the marked clusters by name.
func (f *fleet) inOrder(marked *bitset) []*cluster {
	out := make([]*cluster, 0, marked.n)
	if marked.n*sortRatio < len(f.ordered) {
		marked.each(func(slot uint32) {
			if c := f.slots[slot]; c != nil {
				out = append(out, c)
			}
		})
		slices.SortFunc(out, func(a, b *cluster) int { return strings.Compare(a.name, b.name) })
		return out
	}
	for _, c := range f.ordered {
		if marked.has(c.slot) {
			out = append(out, c)
		}
	}
	return out
}
