package incremental

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// source is where a term's key comes from.
type source byte

const (
	label source = iota
	claimed
)

// aspect is what a selector reads of a key.
type aspect byte

const (
	// value is whether the key has one particular value. A missing key counts
	// as a different value.
	value aspect = iota
	// presence is whether the key exists.
	presence
	// anything is any change of the value.
	anything
)

// term is something about a cluster that a selector reads.
type term struct {
	source source
	aspect aspect
	key    string
	value  string
}

// index finds the readers of a term.
type index[T comparable] map[term]sets.Set[T]

func (x index[T]) add(terms []term, who T) {
	for _, t := range terms {
		g := x[t]
		if g == nil {
			g = sets.Set[T]{}
			x[t] = g
		}
		g.Insert(who)
	}
}

func (x index[T]) remove(terms []term, who T) {
	for _, t := range terms {
		delete(x[t], who)
		if len(x[t]) == 0 {
			delete(x, t)
		}
	}
}

// changed calls a function with every reader of something that differs between
// two maps, more than once for readers of several differences.
func (x index[T]) changed(s source, was, is map[string]string, f func(T)) {
	for key, old := range was {
		now, still := is[key]
		if still && now == old {
			continue
		}
		x.read(term{source: s, aspect: value, key: key, value: old}, f)
		x.read(term{source: s, aspect: anything, key: key}, f)
		if still {
			x.read(term{source: s, aspect: value, key: key, value: now}, f)
		} else {
			x.read(term{source: s, aspect: presence, key: key}, f)
		}
	}
	for key, now := range is {
		if _, before := was[key]; before {
			continue
		}
		x.read(term{source: s, aspect: value, key: key, value: now}, f)
		x.read(term{source: s, aspect: presence, key: key}, f)
		x.read(term{source: s, aspect: anything, key: key}, f)
	}
}

func (x index[T]) read(t term, f func(T)) {
	for who := range x[t] {
		f(who)
	}
}

// termsOf are the terms that a selector reads. An invalid selector may have
// any: it selects nothing, whatever the labels are.
func termsOf(s source, selector *metav1.LabelSelector) []term {
	if selector == nil {
		return nil
	}
	var out []term
	for key, v := range selector.MatchLabels {
		out = append(out, term{source: s, aspect: value, key: key, value: v})
	}
	for _, r := range selector.MatchExpressions {
		switch r.Operator {
		case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
			for _, v := range r.Values {
				out = append(out, term{source: s, aspect: value, key: r.Key, value: v})
			}
		default:
			out = append(out, term{source: s, aspect: presence, key: r.Key})
		}
	}
	return out
}
