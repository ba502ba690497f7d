package incremental

import "math/bits"

// bitset is a set of clusters by their slots, with their number.
type bitset struct {
	words []uint64
	n     int
}

func (b *bitset) has(slot uint32) bool {
	word := int(slot / 64)
	return word < len(b.words) && b.words[word]&(1<<(slot%64)) != 0
}

// set adds or removes a slot.
func (b *bitset) set(slot uint32, mark bool) {
	if b.has(slot) == mark {
		return
	}
	word := int(slot / 64)
	for word >= len(b.words) {
		b.words = append(b.words, 0)
	}
	b.words[word] ^= 1 << (slot % 64)
	if mark {
		b.n++
	} else {
		b.n--
	}
}

// each calls a function with every slot in the set.
func (b *bitset) each(f func(slot uint32)) {
	for i, w := range b.words {
		for ; w != 0; w &= w - 1 {
			f(uint32(i*64 + bits.TrailingZeros64(w)))
		}
	}
}

// clear removes all slots and keeps the memory for new ones.
func (b *bitset) clear() {
	clear(b.words)
	b.n = 0
}

// add adds all slots of another set.
func (b *bitset) add(o *bitset) {
	for len(b.words) < len(o.words) {
		b.words = append(b.words, 0)
	}
	b.n = 0
	for i := range b.words {
		if i < len(o.words) {
			b.words[i] |= o.words[i]
		}
		b.n += bits.OnesCount64(b.words[i])
	}
}

// without calls a function with the slots that are in this set and not in
// another one, until it returns false, and reports whether there were any.
func (b *bitset) without(o *bitset, f func(slot uint32) bool) bool {
	found := false
	for i, w := range b.words {
		if i < len(o.words) {
			w &^= o.words[i]
		}
		for ; w != 0; w &= w - 1 {
			found = true
			if !f(uint32(i*64 + bits.TrailingZeros64(w))) {
				return true
			}
		}
	}
	return found
}
