package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

var eventBuffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// writeEvent writes an event as the API server does. One that several watches get is encoded
// once for all of them.
func writeEvent(w io.Writer, in string, e watch.Event) error {
	write := func(o runtime.Object, w io.Writer) error {
		b, ok := eventBuffers.Get().(*bytes.Buffer)
		if !ok {
			return errors.New("no buffer for an event")
		}
		defer eventBuffers.Put(b)
		b.Reset()
		encode := encodeJSON
		if in == protobufStream {
			encode = encodeProtobuf
		}
		if err := encode(b, e.Type, o); err != nil {
			return fmt.Errorf("encode an event of a watch: %w", err)
		}
		_, err := w.Write(b.Bytes())
		return err
	}
	if o, ok := e.Object.(runtime.CacheableObject); ok {
		return o.CacheEncode(runtime.Identifier("muster "+in+" "+string(e.Type)), write, w)
	}
	return write(e.Object, w)
}

// builtIn encodes objects of the core group, which the server has in a form of its own, and
// the statuses of errors.
var builtIn = legacyscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)

// encodeJSON writes an event as a line.
func encodeJSON(b *bytes.Buffer, kind watch.EventType, o runtime.Object) error {
	encoder := builtIn
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

// protobufStream is the media type of a watch in protobuf, and protobuf how it is written.
const protobufStream = runtime.ContentTypeProtobuf + ";stream=watch"

var protobuf, _ = runtime.SerializerInfoForMediaType(
	legacyscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)

// encodeProtobuf writes an event of the core group as a frame.
func encodeProtobuf(b *bytes.Buffer, kind watch.EventType, o runtime.Object) error {
	object, err := runtime.Encode(
		legacyscheme.Codecs.EncoderForVersion(protobuf.Serializer, corev1.SchemeGroupVersion), o)
	if err != nil {
		return err
	}
	event := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}
	return legacyscheme.Codecs.EncoderForVersion(protobuf.StreamSerializer.Serializer, corev1.SchemeGroupVersion).
		Encode(event, protobuf.StreamSerializer.Framer.NewFrameWriter(b))
}
