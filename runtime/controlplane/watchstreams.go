package controlplane

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// streamWatches answers watches outside of the handlers that let them in. A watch lasts for
// most of an hour and mostly waits, and in the handlers of an API server its goroutine
// waits below some forty of them: with all that they have made for the request, several
// times the memory of the watch itself. So the handlers admit a watch, begin its answer,
// and write what there is at its beginning. Then they return, and the rest is written here.
//
// Only the watches of whole objects in streamed stores go on here: those of agents. All
// others are answered in the handlers.
func streamWatches(next http.Handler, c *genericapiserver.Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mayStream(r) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		s := &stream{ctx: ctx, cancel: cancel, header: w.Header()}
		defer s.end()
		ctx = context.WithValue(extension.WithLasting(ctx, s), streamKey{}, s)
		next.ServeHTTP(w, r.WithContext(ctx))
		if !s.goesOn() || c.WatchRequestWaitGroup.Add(1) != nil {
			return // it has ended, or the server is about to stop
		}
		defer c.WatchRequestWaitGroup.Done()
		metrics.RecordLongRunning(r, s.info, metrics.APIServerComponent, func() { s.write(w) })
	})
}

// mayStream reports whether a request can be a watch that goes on in streamWatches. A
// client that wants something else than whole objects says so by a parameter of the media
// type (as=Table). The server keeps a body for as long as the request lasts.
func mayStream(r *http.Request) bool {
	if r.Method != http.MethodGet || r.ContentLength != 0 || r.Header.Get("Upgrade") != "" ||
		strings.Contains(strings.Join(r.Header.Values("Accept"), ","), ";") {
		return false
	}
	watches, err := strconv.ParseBool(r.URL.Query().Get("watch"))
	return err == nil && watches
}

type streamKey struct{}

// stream is a watch and who waits for it. It implements extension.Lasting.
type stream struct {
	ctx    context.Context // ends with the client, and by cancel
	cancel context.CancelFunc
	header http.Header // of the answer

	// These are set when it is opened.
	watch    watch.Interface
	info     *apirequest.RequestInfo
	over     <-chan struct{} // closed when its time is over, or ctx
	stopping <-chan struct{} // closed when the server is about to stop

	mu    sync.Mutex
	state streamState
	atEnd []func()
}

// streamState is where a stream is.
type streamState int

const (
	// admitted is a request in the handlers.
	admitted streamState = iota
	// opened is one that has opened a watch.
	opened
	// streaming is one that goes on when the handlers have returned.
	streaming
	// ended is one whose watch the handlers have closed.
	ended
)

// move moves the stream from one state to the next, and reports whether it was there.
func (s *stream) move(from, to streamState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != from {
		return false
	}
	s.state = to
	return true
}

func (s *stream) goesOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == streaming
}

// End implements extension.Lasting.
func (s *stream) End() { s.cancel() }

// AtEnd implements extension.Lasting.
func (s *stream) AtEnd(f func()) {
	s.mu.Lock()
	goesOn := s.state == streaming
	if goesOn {
		s.atEnd = append(s.atEnd, f)
	}
	s.mu.Unlock()
	if !goesOn {
		f()
	}
}

// end frees what the stream has.
func (s *stream) end() {
	s.cancel()
	if s.goesOn() {
		s.watch.Stop()
	}
	for _, f := range s.atEnd {
		f()
	}
}

// write writes the events until the client goes, the time is over or the server stops.
func (s *stream) write(w http.ResponseWriter) {
	flusher, ok := w.(http.Flusher)
	if !ok {
		return
	}
	events, written := s.watch.ResultChan(), &counter{Writer: w}
	kind := []string{s.info.APIGroup, s.info.APIVersion, s.info.Resource}
	count, sizes := metrics.WatchEvents.WithLabelValues(kind...), metrics.WatchEventsSizes.WithLabelValues(kind...)
	for {
		select {
		case <-s.stopping:
			return
		case <-s.over:
			return
		case e, ok := <-events:
			written.bytes = 0
			if !ok {
				return
			}
			if err := writeEvent(written, e); err != nil {
				if s.ctx.Err() == nil { // the client is there
					utilruntime.HandleErrorWithContext(s.ctx, err, "Failed to write an event of a watch")
				}
				return
			}
			count.Inc()
			sizes.Observe(float64(written.bytes))
			if len(events) == 0 {
				flusher.Flush()
			}
		}
	}
}

// counter counts what is written.
type counter struct {
	io.Writer
	bytes int
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return c.Writer.Write(p)
}

// streamed is a store of custom resources whose watches go on in streamWatches.
type streamed struct{ storage.Interface }

// Watch implements storage.Interface.
func (s streamed) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	st, ok := ctx.Value(streamKey{}).(*stream)
	info, known := apirequest.RequestInfoFrom(ctx)
	if !ok || !known || !st.move(admitted, opened) {
		return s.Interface.Watch(ctx, key, o)
	}
	st.info = info
	if signals := apirequest.ServerShutdownSignalFrom(ctx); signals != nil {
		st.stopping = signals.ShuttingDown()
	}
	// The watch's context outlives that of the handlers, and has of its values only those
	// that a store asks for.
	lasting := st.ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		lasting, cancel = context.WithDeadline(lasting, deadline)
		st.atEnd = append(st.atEnd, cancel)
	}
	st.over = lasting.Done()
	if namespace, ok := apirequest.NamespaceFrom(ctx); ok {
		lasting = apirequest.WithNamespace(lasting, namespace)
	}
	lasting = apirequest.WithRequestInfo(lasting, info)
	begun := &beginning{done: make(chan struct{}), handlers: ctx}
	w, err := s.Interface.Watch(flowcontrol.WithInitializationSignal(lasting, begun), key, o)
	if err != nil {
		return nil, err
	}
	st.watch = w
	return &openedWatch{Interface: w, stream: st, begun: begun.done, closed: make(chan struct{})}, nil
}

// beginning is the signal that a watch has read what there is at its beginning. It tells
// the handlers, too.
type beginning struct {
	once     sync.Once
	done     chan struct{}
	handlers context.Context
}

// Signal implements flowcontrol.InitializationSignal.
func (b *beginning) Signal() {
	b.once.Do(func() {
		close(b.done)
		flowcontrol.WatchInitialized(b.handlers)
		b.handlers = nil // and all that they have made
	})
}

// Wait implements flowcontrol.InitializationSignal.
func (b *beginning) Wait() { <-b.done }

// openedWatch is what the handlers get of a watch: its beginning.
type openedWatch struct {
	watch.Interface
	stream *stream
	begun  <-chan struct{}
	closed chan struct{}
}

// ResultChan implements watch.Interface. The handlers ask for it when they have begun the
// answer.
func (w *openedWatch) ResultChan() <-chan watch.Event {
	if w.stream.header.Get("Content-Type") != runtime.ContentTypeJSON {
		return w.Interface.ResultChan()
	}
	beginning := make(chan watch.Event)
	go func() {
		defer close(beginning)
		for {
			select {
			case <-w.closed:
				return
			case <-w.begun:
				w.stream.move(opened, streaming)
				return
			case e, ok := <-w.Interface.ResultChan():
				if !ok {
					return
				}
				select {
				case beginning <- e:
				case <-w.closed:
					return
				}
			}
		}
	}()
	return beginning
}

// Stop implements watch.Interface.
func (w *openedWatch) Stop() {
	if w.stream.move(opened, ended) {
		close(w.closed)
		w.Interface.Stop()
	}
}
