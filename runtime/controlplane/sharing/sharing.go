// Package sharing keeps equal parts of objects in memory once. A custom resource is decoded
// into a tree of maps. Each map takes 340 bytes or more. The hundred works of a replica set
// have the same content, and almost the same records of field managers.
//
// It is for watch caches, whose objects nobody changes.
package sharing

import (
	"hash/maphash"
	"maps"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// remembered is how many bytes of parts a table remembers at least, roughly, and half of
// what it remembers at most: parts of objects that are gone may be among them.
const remembered = 16 << 20

// Table remembers parts of objects. It forgets those that no new object has had for long,
// which changes nothing for the objects that have them. It is safe for concurrent use.
type Table struct {
	mu         sync.Mutex
	seed       maphash.Seed
	young, old map[uint64]any
	size       int // of what is in young, without the parts of parts

	fields []field // what a reader needs, to be used again
	items  []part
}

// NewTable makes a table that knows no parts.
func NewTable() *Table {
	return &Table{seed: maphash.MakeSeed(), young: map[uint64]any{}, old: map[uint64]any{}}
}

// Object puts shared parts in the place of those of an object that nobody else has yet.
func (s *Table) Object(o runtime.Object) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts(u.Object)
	if metadata, ok := u.Object["metadata"].(map[string]any); ok {
		s.parts(metadata)
	}
}

// parts shares the values of a map that no other object has.
func (s *Table) parts(m map[string]any) {
	for k, v := range m {
		if k != "metadata" {
			v, _ = s.value(v)
		}
		key, _ := s.known(k)
		m[key] = v
	}
}

// Labels returns the labels that others have, too.
func (s *Table) Labels(l labels.Set) labels.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := uint64(len(l))
	for k, v := range l {
		sum += maphash.Comparable(s.seed, [2]string{k, v})
	}
	if had, ok := s.find(sum).(labels.Set); ok && maps.Equal(had, l) {
		return had
	}
	s.add(sum, l)
	return l
}

// value returns the value that others have, too, and its hash. The values in it are
// shared first, so two are equal if they have the same ones in them.
func (s *Table) value(v any) (any, uint64) {
	var sum uint64
	switch v := v.(type) {
	case map[string]any:
		sum = uint64(len(v)) + 1
		for k, e := range v {
			key, of := s.known(k)
			e, h := s.value(e)
			v[key] = e
			sum += s.both(of, h)
		}
	case []any:
		sum = uint64(len(v)) + 2
		for i, e := range v {
			e, h := s.value(e)
			v[i] = e
			sum = s.both(sum, h)
		}
	case string:
		sum = maphash.String(s.seed, v)
	default:
		return v, maphash.Comparable(s.seed, v)
	}
	if had := s.find(sum); had != nil && same(had, v) {
		return had, sum
	}
	s.add(sum, v)
	return v, sum
}

// both is the hash of two hashes in this order.
func (s *Table) both(a, b uint64) uint64 { return maphash.Comparable(s.seed, [2]uint64{a, b}) }

// known returns the string that others have, too, and its hash.
func (s *Table) known(key string) (string, uint64) {
	v, sum := s.value(key)
	return v.(string), sum
}

func (s *Table) find(sum uint64) any {
	if v, ok := s.young[sum]; ok {
		return v
	}
	if v, ok := s.old[sum]; ok {
		s.add(sum, v)
		return v
	}
	return nil
}

func (s *Table) add(sum uint64, v any) {
	size := sizeOf(v)
	if s.size+size > remembered {
		s.old, s.young, s.size = s.young, map[uint64]any{}, 0
	}
	s.young[sum] = v
	s.size += size
}

// sizeOf is how many bytes a value and its entry take, roughly.
func sizeOf(v any) int {
	const entry, group = 50, 340
	switch v := v.(type) {
	case string:
		return entry + len(v)
	case []any:
		return entry + 16*cap(v)
	case *whole:
		return entry + 100 + len(v.json)
	case map[string]any:
		return entry + group*(1+len(v)/8)
	case labels.Set:
		size := entry + group*(1+len(v)/8)
		for k, value := range v {
			size += len(k) + len(value)
		}
		return size
	}
	return entry
}

// same reports whether two values have the same values in them.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !identical(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !identical(a[i], b[i]) {
				return false
			}
		}
		return true
	case string:
		return a == b
	}
	return false
}

// identical reports whether two values are one.
func identical(a, b any) bool {
	switch a.(type) {
	case map[string]any, []any:
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		return x.Kind() == y.Kind() && x.Pointer() == y.Pointer() && x.Len() == y.Len()
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
