package sharing

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shapesKept is how many shapes a codec remembers.
const shapesKept = 16 << 10

// Codec is the codec of a store of custom resources, which reads for a watch cache what has
// been written much faster than the codec that it calls for the rest.
//
// A codec of custom resources decodes an object in many steps: it converts it, drops what
// its schema does not have, adds defaults, and copies it on the way. An object that was
// stored by the same schema stays what it is in all of them. Whether it does depends on its
// shape: the names of its fields, and the kinds of its values. So the codec asks the other
// one about each shape once, and compares. Of a shape that stays what it is objects are read
// at once, and parts that others have, too, are not even allocated.
//
// What is read into no object shares its parts: a store reads like that for a watch. It reads
// into an object what somebody may change, and that is a copy.
type Codec struct {
	runtime.Codec
	table *Table
	// watched and changed are the shapes of what is read into no object, and into one.
	watched, changed shapes
}

// NewCodec makes a codec that shares parts by a table.
func NewCodec(c runtime.Codec, t *Table) *Codec { return &Codec{Codec: c, table: t} }

// Decode implements runtime.Decoder.
func (c *Codec) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	target, ok := into.(*unstructured.Unstructured)
	if defaults != nil || into != nil && !ok {
		return c.Codec.Decode(data, defaults, into)
	}
	kept := &c.watched
	if target != nil {
		kept = &c.changed
	}
	read, known := c.read(data, kept)
	if known && (target == nil || target.GroupVersionKind() == read.GroupVersionKind()) {
		gvk := read.GroupVersionKind()
		if target == nil {
			return read.Unstructured, &gvk, nil
		}
		target.Object = runtime.DeepCopyJSON(read.Object)
		return target, &gvk, nil
	}
	o, gvk, err := c.Codec.Decode(data, nil, into)
	if u, ok := o.(*unstructured.Unstructured); ok && err == nil {
		c.learn(read, u, kept)
		if target == nil {
			c.table.Object(u)
		}
	}
	return o, gvk, err
}

// read reads an object, and reports whether all of its shapes are known to stay.
func (c *Codec) read(data []byte, kept *shapes) (read object, known bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	read, err := c.table.read(data)
	if err != nil || read.GetGeneration() == 0 { // which the other codec makes 1
		return object{}, false // the other codec says what is wrong with it
	}
	return read, kept.has(read.shapes)
}

// learn remembers the shapes of those parts that the other codec has left as they were.
func (c *Codec) learn(read object, decoded *unstructured.Unstructured, kept *shapes) {
	if read.Unstructured == nil || !reflect.DeepEqual(read.Object, decoded.Object) {
		return
	}
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	kept.add(read.shapes)
}

// shapes are those of parts that stay what they are.
type shapes struct{ known map[uint64]struct{} }

func (s *shapes) has(shapes []uint64) bool {
	for _, shape := range shapes {
		if _, ok := s.known[shape]; !ok {
			return false
		}
	}
	return true
}

func (s *shapes) add(shapes []uint64) {
	if len(s.known) > shapesKept || s.known == nil {
		s.known = map[uint64]struct{}{} // all are learnt again
	}
	for _, shape := range shapes {
		s.known[shape] = struct{}{}
	}
}
