package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

var eventBuffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// writeEvent writes an event as the API server does. One that several watches get is encoded
// once for all of them.
func writeEvent(w io.Writer, e watch.Event) error {
	write := func(o runtime.Object, w io.Writer) error {
		b, ok := eventBuffers.Get().(*bytes.Buffer)
		if !ok {
			return errors.New("no buffer for an event")
		}
		defer eventBuffers.Put(b)
		b.Reset()
		if err := encodeEvent(b, e.Type, o); err != nil {
			return fmt.Errorf("encode an event of a watch: %w", err)
		}
		_, err := w.Write(b.Bytes())
		return err
	}
	if o, ok := e.Object.(runtime.CacheableObject); ok {
		return o.CacheEncode(runtime.Identifier("muster "+string(e.Type)), write, w)
	}
	return write(e.Object, w)
}

// statuses encodes why a watch ends.
var statuses = legacyscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)

// encodeEvent writes an event as a line of JSON.
func encodeEvent(b *bytes.Buffer, kind watch.EventType, o runtime.Object) error {
	encoder := statuses
	if _, ok := o.(runtime.Unstructured); ok {
		encoder = unstructured.UnstructuredJSONScheme
	}
	fmt.Fprintf(b, `{"type":%q,"object":`, kind)
	if err := encoder.Encode(o, b); err != nil {
		return err
	}
	b.Truncate(len(bytes.TrimRight(b.Bytes(), "\n")))
	b.WriteString("}\n")
	return nil
}
