package incremental

// counts holds in how many decisions the clusters are, for the prioritizer
// Balance.
type counts struct {
	// levels[n] is the number of clusters in n decisions; the last one is not
	// 0.
	levels []int
	// log is the slots of the clusters whose counts have changed recently, the
	// latest last, so that a placement need not look at the others. The number
	// of the first one is since.
	log   []uint32
	since uint64
	// spare is reusable memory.
	spare []int
}

// remembered is how many changes of counts the log holds at least. A placement
// that missed more ranks all of its clusters again.
const remembered = 2048

// change adds to the count of a cluster.
func (k *counts) change(c *cluster, by int) {
	if c.decisions > 0 {
		k.levels[c.decisions]--
	}
	c.decisions += by
	for len(k.levels) <= c.decisions {
		k.levels = append(k.levels, 0)
	}
	if c.decisions > 0 {
		k.levels[c.decisions]++
	}
	for n := len(k.levels); n > 0 && k.levels[n-1] == 0; n = len(k.levels) {
		k.levels = k.levels[:n-1]
	}
	if len(k.log) == 2*remembered {
		k.since += remembered
		copy(k.log, k.log[remembered:])
		k.log = k.log[:remembered]
	}
	k.log = append(k.log, c.slot)
}

// now is the number of the next change.
func (k *counts) now() uint64 { return k.since + uint64(len(k.log)) }

// after returns the slots whose counts have changed since a change with this
// number, possibly several times; false means that the log no longer reaches
// that far.
func (k *counts) after(seen uint64) ([]uint32, bool) {
	if seen < k.since {
		return nil, false
	}
	return k.log[seen-k.since:], true
}

// most is the highest count of decisions of other placements that any cluster
// is in.
func (k *counts) most(f *fleet, p *placement) int {
	top := max(0, len(k.levels)-1)
	if p.selected.n == 0 {
		return top
	}
	k.spare = append(k.spare[:0], k.levels...)
	p.selected.each(func(slot uint32) {
		c := f.slots[slot]
		k.spare[c.decisions]--
		k.spare[p.elsewhere(c)]++
	})
	for top > 0 && k.spare[top] == 0 {
		top--
	}
	return top
}
