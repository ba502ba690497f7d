// Package inprocess carries HTTP requests to a handler in the same process
// without a socket: no TLS, no HTTP framing, no copy through the kernel.
//
// The hub's controllers talk to the hub's API server this way. The request
// passes the same authentication, authorization and admission as any other.
package inprocess

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Transport is an http.RoundTripper in front of a Handler.
type Transport struct {
	Handler http.Handler
}

// RoundTrip serves the request and returns as soon as the handler has sent the
// header, so that watches stream. When the request's context ends first, it
// returns the context's error and leaves the answer to the handler: the header
// belongs to the handler until it is sent. The request's body is closed in any
// case, as http.RoundTripper has it.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	// A client that closes the body has hung up, which the handler of a watch
	// learns from its context.
	ctx, hangUp := context.WithCancel(ownValues{req.Context()})
	if err := ctx.Err(); err != nil {
		hangUp()
		closeBody(req)
		return nil, err
	}
	server := req.Clone(ctx)
	server.RequestURI = req.URL.RequestURI()
	server.RemoteAddr = "127.0.0.1:0" // the address that the API server's audit and logs show
	server.Proto, server.ProtoMajor, server.ProtoMinor = "HTTP/2.0", 2, 0
	if server.Host == "" {
		server.Host = req.URL.Host
	}
	if server.Body == nil {
		server.Body = http.NoBody
	}
	w := newResponseWriter(req, hangUp)
	// A writer that waits for its reader learns, too, that nobody reads any more.
	forget := context.AfterFunc(ctx, func() { w.body.end(context.Cause(ctx)) })
	go func() {
		defer hangUp()
		defer forget()
		defer closeBody(req)
		defer func() {
			// http.ErrAbortHandler is how the API server ends a response that
			// it can no longer finish; other panics are its own to report.
			if r := recover(); r != nil {
				w.abort(errors.New("the API server aborted the request"))
				return
			}
			w.finish()
		}()
		t.Handler.ServeHTTP(w, server)
	}()
	select {
	case <-w.headerSent:
	case <-req.Context().Done():
	}
	// A handler that gives up with the context leaves an empty answer, not one to read.
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return w.response, nil
}

// ownValues is a context whose values stay behind, as they do on a socket. A caller that
// answers a request has that request's user and audit event in its context, and the
// handler is to have its own.
type ownValues struct{ context.Context }

// Value implements context.Context.
func (ownValues) Value(any) any { return nil }

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// responseWriter is the handler's end of the exchange. What it writes is kept in a
// buffer, and waits when that is full, as with a socket: a watcher that stops
// reading is cut off by the API server's watch cache.
type responseWriter struct {
	header     http.Header
	response   *http.Response
	headerSent chan struct{}
	body       *body
	once       sync.Once
}

func newResponseWriter(req *http.Request, hangUp func()) *responseWriter {
	b := &body{hangUp: hangUp}
	b.ready.L = &b.mu
	return &responseWriter{
		header:     http.Header{},
		headerSent: make(chan struct{}),
		body:       b,
		response:   &http.Response{Request: req, Proto: "HTTP/2.0", ProtoMajor: 2, Body: b, ContentLength: -1},
	}
}

func (w *responseWriter) Header() http.Header { return w.header }

// WriteHeader sends the header. As it reads what the handler writes without a
// lock, it is for the handler's goroutine alone.
func (w *responseWriter) WriteHeader(code int) {
	if code >= 100 && code < 200 {
		return // informational; the real header follows
	}
	w.once.Do(func() {
		w.response.StatusCode = code
		w.response.Status = strconv.Itoa(code) + " " + http.StatusText(code)
		w.response.Header = w.header.Clone()
		if n, err := strconv.ParseInt(w.header.Get("Content-Length"), 10, 64); err == nil {
			w.response.ContentLength = n
		}
		close(w.headerSent)
	})
}

func (w *responseWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.write(p)
}

// Flush sends the header; the body needs no pushing.
func (w *responseWriter) Flush() { w.WriteHeader(http.StatusOK) }

// CloseNotify is asked for by the API server's response writers. The request's
// context ends when the client goes away, so this never fires.
func (w *responseWriter) CloseNotify() <-chan bool { return nil }

func (w *responseWriter) finish() {
	w.WriteHeader(http.StatusOK)
	w.body.end(io.EOF)
}

func (w *responseWriter) abort(err error) {
	w.WriteHeader(http.StatusInternalServerError)
	w.body.end(err)
}

// maxBuffered is how much of a body is kept for its reader before the writer waits,
// in bytes; more by what is written at once.
const maxBuffered = 8 << 20

// body is a pipe whose writer waits only for a reader that is far behind.
type body struct {
	mu     sync.Mutex
	ready  sync.Cond
	buf    []byte
	err    error // what a reader gets when buf is empty
	closed bool  // by the reader
	hangUp func()
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.buf) == 0 && b.err == nil && !b.closed {
		b.ready.Wait()
	}
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case len(b.buf) > 0:
		n := copy(p, b.buf)
		full := len(b.buf) >= maxBuffered
		if b.buf = b.buf[n:]; full {
			b.ready.Broadcast()
		}
		if len(b.buf) == 0 {
			b.buf = nil // lets a large list's memory go
		}
		return n, nil
	default:
		return 0, b.err
	}
}

func (b *body) Close() error {
	defer b.hangUp()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.buf = true, nil
	b.ready.Broadcast()
	return nil
}

func (b *body) write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.buf) >= maxBuffered && !b.closed && b.err == nil {
		b.ready.Wait()
	}
	if b.closed || b.err != nil {
		return 0, io.ErrClosedPipe
	}
	b.buf = append(b.buf, p...)
	b.ready.Broadcast()
	return len(p), nil
}

func (b *body) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	b.ready.Broadcast()
}

const (
	// retryInterval is how soon a request is made again that came too early.
	retryInterval = 10 * time.Millisecond
	// maxRetries is how often, which is for a second altogether.
	maxRetries = 100
)

// Eager is a Transport that does not take the server at its word when that asks
// to come back in a second, as it does while it prepares to serve a kind for the
// first time. For a kind without objects that takes milliseconds, and at a start
// a dozen controllers wait for it.
type Eager struct{ Transport }

// RoundTrip makes a read again while the server is not prepared for it.
func (t Eager) RoundTrip(req *http.Request) (*http.Response, error) {
	for i := 0; ; i++ {
		resp, err := t.Transport.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || req.Method != http.MethodGet || i == maxRetries {
			return resp, err
		}
		_ = resp.Body.Close()
		select {
		case <-time.After(retryInterval):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
}
