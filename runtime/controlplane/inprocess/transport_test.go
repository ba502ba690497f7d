package inprocess

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRequestAndResponseArriveWhole(t *testing.T) {
	client := &http.Client{Transport: Transport{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Answer", r.Header.Get("X-Question"))
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.RequestURI, r.Host, b)
	})}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://hub/apis/x?watch=1", strings.NewReader("payload"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Question", "42")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if want := "POST /apis/x?watch=1 hub payload"; err != nil || string(got) != want {
		t.Errorf("body: got %q, %v, want %q", got, err, want)
	}
	if resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Answer") != "42" {
		t.Errorf("got %s with header %v", resp.Status, resp.Header)
	}
}

// What a caller has in its context, such as the user whose request it answers, is not the
// handler's.
func TestValuesOfTheCallerStayBehind(t *testing.T) {
	type key struct{}
	resp, err := Transport{http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if v := r.Context().Value(key{}); v != nil {
			t.Errorf("the handler has the caller's value %v", v)
		}
	})}.RoundTrip(request(context.WithValue(t.Context(), key{}, "secret"), t))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
}

func TestEmptyAnswerIsOK(t *testing.T) {
	resp, err := Transport{http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}.RoundTrip(request(t.Context(), t))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || len(b) != 0 || err != nil {
		t.Errorf("got %s, %q, %v", resp.Status, b, err)
	}
}

func TestStreamArrivesLineByLineAndEndsWithTheClient(t *testing.T) {
	next, gone := make(chan string), make(chan error, 1)
	resp, err := Transport{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		for {
			select {
			case line := <-next:
				fmt.Fprintln(w, line)
			case <-r.Context().Done():
				_, err := io.WriteString(w, "too late")
				gone <- err
				return
			}
		}
	})}.RoundTrip(request(t.Context(), t))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(resp.Body)
	for _, want := range []string{"added", "modified"} {
		next <- want
		if got, err := lines.ReadString('\n'); err != nil || got != want+"\n" {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-gone; err == nil {
		t.Error("a write after the client has gone succeeded")
	}
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("read after close: %v", err)
	}
}

func TestAbortedHandlerIsAnError(t *testing.T) {
	resp, err := Transport{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "half a res")
		panic(http.ErrAbortHandler)
	})}.RoundTrip(request(t.Context(), t))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("got %q and no error, want one", b)
	}
}

func TestCancelledRequestReturns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	entered := make(chan struct{})
	go func() { <-entered; cancel() }()
	_, err := Transport{http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})}.RoundTrip(request(ctx, t)) //nolint:bodyclose // there is no response
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// Handlers go on for a moment after their client has given up, as the API server's
// do behind its time limit. The race detector sees if anybody else touches the header.
func TestHeaderIsTheHandlersAfterTheClientHasGivenUp(t *testing.T) {
	entered, ended := make(chan struct{}), make(chan struct{})
	transport := Transport{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		for i := 0; r.Context().Err() == nil || i < 100; i++ {
			w.Header().Set(fmt.Sprintf("X-Header-%d", i%100), "value")
		}
		w.WriteHeader(http.StatusOK)
		fmt.Fprint(w, "too late")
		ended <- struct{}{}
	})}
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-entered; cancel() }()
		resp, err := transport.RoundTrip(request(ctx, t))
		if err == nil {
			_ = resp.Body.Close() // the answer was quicker
		} else if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want %v", err, context.Canceled)
		}
		<-ended
	}
}

func TestRequestBodyIsClosed(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	tests := map[string]struct {
		ctx     context.Context
		handler http.HandlerFunc
	}{
		"after an answer":                {t.Context(), func(http.ResponseWriter, *http.Request) {}},
		"after a panic":                  {t.Context(), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"of a request that is given up":  {over, func(http.ResponseWriter, *http.Request) {}},
		"that the handler closes itself": {t.Context(), func(_ http.ResponseWriter, r *http.Request) { _ = r.Body.Close() }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := request(tt.ctx, t)
			closed := make(chan struct{})
			req.Body = &closer{Reader: strings.NewReader("payload"), close: sync.OnceFunc(func() { close(closed) })}
			if resp, err := (Transport{tt.handler}).RoundTrip(req); err == nil {
				_ = resp.Body.Close()
			}
			select {
			case <-closed:
			case <-time.After(time.Minute):
				t.Error("the request's body was not closed")
			}
		})
	}
}

// closer is a request's body that says when it is closed.
type closer struct {
	io.Reader
	close func()
}

func (c *closer) Close() error {
	c.close()
	return nil
}

func request(ctx context.Context, t *testing.T) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://hub/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// Who stops reading makes the writer wait, and lets it go by closing or giving up.
func TestWriterWaitsForItsReader(t *testing.T) {
	for _, closes := range []bool{true, false} {
		written, ended := make(chan int, 1000), make(chan error, 1)
		transport := Transport{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(written)
			piece := make([]byte, 1<<20)
			for range 100 {
				n, err := w.Write(piece)
				if err != nil {
					ended <- err
					return
				}
				written <- n
			}
		})}
		ctx, cancel := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hub/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if closes {
			_ = resp.Body.Close()
		} else {
			cancel()
		}
		if err := <-ended; err == nil {
			t.Error("it wrote on")
		}
		if total := len(written); total >= 100 {
			t.Errorf("%d MiB were kept for nobody", total)
		}
		cancel()
		_ = resp.Body.Close()
	}
}
