package controlplane

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestServerThatStartsAnswersOnlyItself(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, tc := range []struct {
		name, path, authorization string
		open, want                bool
	}{
		{"an agent", "/apis/x", "Bearer other", false, false},
		{"nobody", "/apis/x", "", false, false},
		{"a token that begins alike", "/apis/x", "Bearer own-and-more", false, false},
		{"the process itself", "/apis/x", "Bearer own", false, true},
		{"a health check", "/readyz", "", false, true},
		{"one health check of several", "/readyz/etcd", "", false, true},
		{"what only looks like one", "/readyzzz", "", false, false},
		{"an agent, once open", "/apis/x", "Bearer other", true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, tc.path, nil)
			r.Header.Set("Authorization", tc.authorization)
			w := httptest.NewRecorder()
			whenOpen(served, func() bool { return tc.open }, "own").ServeHTTP(w, r)
			if got := w.Code == http.StatusTeapot; got != tc.want {
				t.Errorf("answered %d", w.Code)
			}
			if !tc.want && (w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1") {
				t.Errorf("got %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
			}
		})
	}
}
