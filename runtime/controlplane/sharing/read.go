package sharing

import (
	"bytes"
	"errors"
	"hash/maphash"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// object is one that was read: its parts are shared, but for itself and its metadata. It
// has a shape for each of its fields, and one for their names.
type object struct {
	*unstructured.Unstructured
	shapes []uint64
}

// roomKept is how many fields or items a table keeps room for from one object to the next.
const roomKept = 512

// read reads an object in JSON. The caller holds the lock.
func (s *Table) read(data []byte) (object, error) {
	r := reader{table: s, fields: s.fields[:0], items: s.items[:0]}
	r.json.Reset(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true)) // they are found below
	defer func() {
		if cap(r.fields) > roomKept || cap(r.items) > roomKept {
			s.fields, s.items = nil, nil
			return
		}
		clear(r.fields[:cap(r.fields)])
		clear(r.items[:cap(r.items)])
		s.fields, s.items = r.fields, r.items
	}()
	if r.json.PeekKind() != '{' {
		return object{}, errNoObject
	}
	if err := r.readFields(); err != nil {
		return object{}, err
	}
	root, err := asMap(r.fields)
	if err != nil {
		return object{}, err
	}
	if _, err := r.json.ReadToken(); !errors.Is(err, io.EOF) {
		return object{}, errTrailing
	}
	o := object{&unstructured.Unstructured{Object: root}, make([]uint64, 0, len(r.fields)+1)}
	kind := s.both(maphash.String(s.seed, o.GetAPIVersion()), maphash.String(s.seed, o.GetKind()))
	names := kind
	for _, f := range r.fields {
		o.shapes = append(o.shapes, s.both(kind, s.both(f.of, f.shape)))
		names = s.both(names, f.of)
	}
	o.shapes = append(o.shapes, names)
	return o, nil
}

var (
	errNoObject = errors.New("not an object")
	errTwice    = errors.New("a field is there twice")
	errTrailing = errors.New("something follows the object")
)

// reader reads one object. Known parts are found by the hash of what they have in them, so
// nothing is allocated for them.
type reader struct {
	table  *Table
	json   jsontext.Decoder
	fields []field // of the objects that are being read, the innermost last
	items  []part  // and of the lists
	buffer []byte
	nested bool // it reads a part of the object
}

// part is a value that was read, shared, with its hash.
type part struct {
	value any
	sum   uint64
	// shape is a hash of the kinds of the values in it, and of the names of its fields.
	shape uint64
}

// field is one of an object, with the hash of its name.
type field struct {
	name string
	of   uint64
	part
}

// The shapes of values that have none in them. 0 is one of its own: a schema can tell a
// generation that is missing by it.
const (
	shapeString = iota + 1
	shapeBool
	shapeNull
	shapeInteger
	shapeZero
	shapeFloat
	shapeList
	shapeObject
	wholes // has the hash of a JSON differ from that of a string
)

func (r *reader) value() (part, error) {
	switch kind := r.json.PeekKind(); kind {
	case '{':
		return r.object()
	case '[':
		return r.list()
	case '"':
		return r.text()
	}
	raw, err := r.json.ReadValue()
	if err != nil {
		return part{}, err
	}
	v, shape := any(nil), uint64(shapeNull)
	switch raw.Kind() {
	case 't', 'f':
		v, shape = raw.Kind() == 't', shapeBool
	case '0':
		if v, shape, err = number(string(raw)); err != nil {
			return part{}, err
		}
	}
	return part{v, maphash.Comparable(r.table.seed, v), shape}, nil
}

// number is an int64 if it can be one, as everywhere in Kubernetes.
func number(text string) (any, uint64, error) {
	if !strings.ContainsAny(text, ".eE") {
		switch i, err := strconv.ParseInt(text, 10, 64); {
		case err != nil:
		case i == 0:
			return i, shapeZero, nil
		default:
			return i, shapeInteger, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, shapeFloat, err
}

func (r *reader) text() (part, error) {
	raw, err := r.json.ReadValue()
	if err != nil {
		return part{}, err
	}
	b := []byte(raw[1 : len(raw)-1])
	if bytes.IndexByte(b, '\\') >= 0 {
		if r.buffer, err = jsontext.AppendUnquote(r.buffer[:0], raw); err != nil {
			return part{}, err
		}
		b = r.buffer
	}
	sum := maphash.Bytes(r.table.seed, b)
	if had, ok := r.table.find(sum).(string); ok && had == string(b) {
		return part{r.table.young[sum], sum, shapeString}, nil
	}
	v := any(string(b))
	r.table.add(sum, v)
	return part{v, sum, shapeString}, nil
}

func (r *reader) list() (part, error) {
	from := len(r.items)
	if _, err := r.json.ReadToken(); err != nil {
		return part{}, err
	}
	for r.json.PeekKind() != ']' {
		e, err := r.value()
		if err != nil {
			return part{}, err
		}
		r.items = append(r.items, e)
	}
	if _, err := r.json.ReadToken(); err != nil {
		return part{}, err
	}
	items := r.items[from:]
	p := part{sum: uint64(len(items)) + 2, shape: shapeList}
	last := uint64(0)
	for _, e := range items {
		p.sum = r.table.both(p.sum, e.sum)
		if e.shape != last { // how many are alike says nothing
			p.shape, last = r.table.both(p.shape, e.shape), e.shape
		}
	}
	had, ok := r.table.find(p.sum).([]any)
	ok = ok && len(had) == len(items)
	for i := 0; ok && i < len(items); i++ {
		ok = identical(had[i], items[i].value)
	}
	if ok {
		p.value = r.table.young[p.sum]
	} else {
		v := make([]any, len(items))
		for i, e := range items {
			v[i] = e.value
		}
		p.value = v
		r.table.add(p.sum, v)
	}
	r.items = r.items[:from]
	return p, nil
}

func (r *reader) object() (part, error) {
	from := len(r.fields)
	if err := r.readFields(); err != nil {
		return part{}, err
	}
	fields := r.fields[from:]
	p := part{sum: uint64(len(fields)) + 1, shape: r.shape(fields)}
	for _, f := range fields {
		p.sum += r.table.both(f.of, f.sum)
	}
	had, ok := r.table.find(p.sum).(map[string]any)
	ok = ok && len(had) == len(fields)
	for i := 0; ok && i < len(fields); i++ {
		v, has := had[fields[i].name]
		ok = has && identical(v, fields[i].value)
	}
	p.value = had
	if !ok {
		v, err := asMap(fields)
		if err != nil {
			return part{}, err
		}
		p.value = v
		r.table.add(p.sum, v)
	}
	r.fields = r.fields[:from]
	return p, nil
}

// metadata reads the metadata of the object itself, which are not shared.
func (r *reader) metadata() (part, error) {
	from := len(r.fields)
	if r.json.PeekKind() != '{' {
		return part{}, errNoObject
	}
	if err := r.readFields(); err != nil {
		return part{}, err
	}
	v, err := asMap(r.fields[from:])
	p := part{value: v, shape: r.shape(r.fields[from:])}
	r.fields = r.fields[:from]
	return p, err
}

// whole is a part that is known by its JSON.
type whole struct {
	part
	json []byte
}

// whole reads a value that others often have, too: it is found by its JSON, and not looked
// into. There are none in a whole one, so nothing is read more than twice.
func (r *reader) whole() (part, error) {
	raw, err := r.json.ReadValue()
	if err != nil {
		return part{}, err
	}
	sum := r.table.both(wholes, maphash.Bytes(r.table.seed, raw))
	if had, ok := r.table.find(sum).(*whole); ok && bytes.Equal(had.json, raw) {
		return had.part, nil
	}
	inner := reader{table: r.table, nested: true}
	inner.json.Reset(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true))
	p, err := inner.value()
	if err != nil {
		return part{}, err
	}
	r.table.add(sum, &whole{p, bytes.Clone(raw)})
	return p, nil
}

// readFields reads the fields of an object.
func (r *reader) readFields() error {
	if _, err := r.json.ReadToken(); err != nil {
		return err
	}
	root := !r.nested && r.json.StackDepth() == 1
	for r.json.PeekKind() != '}' {
		k, err := r.text()
		if err != nil {
			return err
		}
		f := field{name: k.value.(string), of: k.sum}
		switch {
		case root && f.name == "metadata":
			f.part, err = r.metadata()
		case root && f.name == "spec", !r.nested && f.name == "fieldsV1":
			f.part, err = r.whole()
		default:
			f.part, err = r.value()
		}
		if err != nil {
			return err
		}
		r.fields = append(r.fields, f)
	}
	_, err := r.json.ReadToken()
	return err
}

// shape is that of an object with these fields. Its kind is part of it.
func (r *reader) shape(fields []field) uint64 {
	shape := uint64(shapeObject)
	for _, f := range fields {
		of := f.of
		if f.name == "apiVersion" || f.name == "kind" {
			of = r.table.both(of, f.sum)
		}
		shape += r.table.both(of, f.shape)
	}
	return shape
}

func asMap(fields []field) (map[string]any, error) {
	m := make(map[string]any, len(fields))
	for _, f := range fields {
		m[f.name] = f.value
	}
	if len(m) != len(fields) {
		return nil, errTwice
	}
	return m, nil
}
