package controlplane

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// holder serves requests of users as hold does, each with a share of 2 watches and
// 100 bytes.
type holder struct {
	*fairness
	handler http.Handler
}

func newHolder(serve http.HandlerFunc) holder {
	f := newFairness(func(u user.Info) extension.Flow {
		if u.GetName() == "" {
			return extension.Flow{}
		}
		return extension.Flow{Name: u.GetName(), Reads: 1, Writes: 1, Watches: 2, Bytes: 100}
	})
	return holder{f, f.hold(serve)}
}

func (h holder) send(ctx context.Context, name, verb, body string) *httptest.ResponseRecorder {
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: name})
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Verb: verb, IsResourceRequest: true})
	answer := httptest.NewRecorder()
	h.handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body)))
	return answer
}

func TestWatchesOfAFlowAreCounted(t *testing.T) {
	open, end := make(chan struct{}), make(chan struct{})
	h := newHolder(func(http.ResponseWriter, *http.Request) { open <- struct{}{}; <-end })
	ctx, ended := context.Background(), make(chan struct{})
	watch := func(name string) {
		go func() { h.send(ctx, name, "watch", ""); ended <- struct{}{} }()
		<-open
	}
	watch("a")
	watch("a")
	if got := h.send(ctx, "a", "watch", ""); got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") == "" || !strings.Contains(got.Body.String(), "a has 2 watches open") {
		t.Errorf("a third watch: %d %s", got.Code, got.Body)
	}
	watch("b")
	for range 3 {
		watch("") // who is in no flow
	}
	for range 6 {
		end <- struct{}{}
		<-ended
	}
	watch("a")
	end <- struct{}{}
	<-ended
	if len(h.flows) != 0 {
		t.Errorf("%d flows are left", len(h.flows))
	}
}

// goingOn is a request that goes on when its handlers have returned.
type goingOn struct{ atEnd []func() }

func (*goingOn) End()             {}
func (g *goingOn) AtEnd(f func()) { g.atEnd = append(g.atEnd, f) }

func TestWatchesThatGoOnAreCounted(t *testing.T) {
	h := newHolder(func(http.ResponseWriter, *http.Request) {})
	g := &goingOn{}
	watch := func() int {
		return h.send(extension.WithLasting(context.Background(), g), "a", "watch", "").Code
	}
	watch()
	watch()
	if got := watch(); got != http.StatusTooManyRequests {
		t.Errorf("a third watch: %d", got)
	}
	for _, f := range g.atEnd {
		f()
	}
	if len(h.flows) != 0 {
		t.Errorf("%d flows are left", len(h.flows))
	}
	if got := watch(); got != http.StatusOK {
		t.Errorf("a watch after the others: %d", got)
	}
}

func TestBodiesOfAFlowWaitForEachOther(t *testing.T) {
	running, end := make(chan string, 10), make(chan struct{})
	h := newHolder(func(_ http.ResponseWriter, r *http.Request) {
		u, _ := request.UserFrom(r.Context())
		running <- u.GetName()
		<-end
	})
	done := make(chan struct{}, 10)
	send := func(name string, bytes int) {
		go func() {
			h.send(context.Background(), name, "create", strings.Repeat("x", bytes))
			done <- struct{}{}
		}()
	}
	send("a", 60)
	<-running
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if h.send(ctx, "a", "create", strings.Repeat("x", 60)); len(running) != 0 {
		t.Error("a second body is read beside the first one")
	}
	send("a", 40)  // fits beside it
	send("b", 900) // more than the whole share, alone
	send("", 900)
	for range 3 {
		<-running
	}
	for range 4 {
		end <- struct{}{}
		<-done
	}
	send("a", 60)
	<-running
	end <- struct{}{}
	<-done
}

func TestProbesNeverWait(t *testing.T) {
	for path, want := range map[string]bool{"/readyz": true, "/livez": true, "/healthz": true, "/version": false, "/readyz/x": false} {
		if got := isProbe(&request.RequestInfo{Path: path}); got != want {
			t.Errorf("%s is a probe: %v, want %v", path, got, want)
		}
	}
}
