package incremental

import (
	"math"
	"slices"
	"strings"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// cluster is all that is known under a cluster's name. It may be known by a
// decision or a score only, or still.
type cluster struct {
	name string
	// slot is the cluster's number while anything is known of it.
	slot uint32
	// view is the cluster itself; nil when there is none.
	view *scheduling.View
	// sets are those that it belongs to; none when it is being deleted.
	sets []*set
	// free is how much it has of each resource that is ranked by; not a number
	// when it does not say.
	free [resources]float64
	// decisions counts in how many decisions it is.
	decisions int
	// scores are the AddOnPlacementScores of it by name; nil when there are none.
	// The map is never changed, but replaced: a judgement may be reading it.
	scores map[string]*clusterv1alpha1.AddOnPlacementScore
	// changes counts what expressions may see of the cluster differently.
	changes uint64
}

// The resources that clusters are ranked by.
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

// freeOf reads what a cluster has to give.
func freeOf(o *clusterv1.ManagedCluster) (out [resources]float64) {
	for i, name := range []clusterv1.ResourceName{cpu: clusterv1.ResourceCPU, memory: clusterv1.ResourceMemory} {
		var ok bool
		if out[i], ok = scheduling.Free(o, name); !ok {
			out[i] = math.NaN()
		}
	}
	return out
}

// sameFree compares what a cluster had to give with what it has; saying nothing
// is like saying nothing.
func sameFree(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// there reports whether the cluster can be chosen: it is, and stays.
func (c *cluster) there() bool { return c.view != nil && c.view.DeletionTimestamp.IsZero() }

// fleet numbers the clusters, so that sets of them are bits.
type fleet struct {
	byName map[string]*cluster
	slots  []*cluster
	unused []uint32
	// ordered are those that are clusters, by name.
	ordered []*cluster
}

// record is what is known under a name, from now on.
func (f *fleet) record(name string) *cluster {
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

// release forgets a cluster of which nothing is known any more. Its number goes
// to the next one; what placements still remember under it is on their lists of
// what to look at anew.
func (f *fleet) release(c *cluster) {
	if c.view != nil || c.decisions > 0 || len(c.scores) > 0 {
		return
	}
	delete(f.byName, c.name)
	f.slots[c.slot] = nil
	f.unused = append(f.unused, c.slot)
}

func byName(c *cluster, name string) int { return strings.Compare(c.name, name) }

// enlist puts a cluster in its place among the others.
func (f *fleet) enlist(c *cluster) {
	if n := len(f.ordered); n == 0 || f.ordered[n-1].name < c.name {
		f.ordered = append(f.ordered, c)
		return
	}
	at, _ := slices.BinarySearchFunc(f.ordered, c.name, byName)
	f.ordered = slices.Insert(f.ordered, at, c)
}

// strike takes a cluster out of the others.
func (f *fleet) strike(c *cluster) {
	if at, ok := slices.BinarySearchFunc(f.ordered, c.name, byName); ok {
		f.ordered = slices.Delete(f.ordered, at, at+1)
	}
}

// few is how many times more clusters there have to be than are marked, for it
// to be cheaper to sort those that are.
const few = 16

// inOrder returns the clusters that are marked, by name.
func (f *fleet) inOrder(marked *bitset) []*cluster {
	out := make([]*cluster, 0, marked.n)
	if marked.n*few < len(f.ordered) {
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
