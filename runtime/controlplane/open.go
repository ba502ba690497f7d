package controlplane

import (
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
)

// healthPaths are answered before a server is open, with what is below them.
var healthPaths = []string{"/readyz", "/livez", "/healthz", "/version"}

// whenOpen answers requests with 503 until open says yes, but for those that bear
// this process's own token and those about its health.
func whenOpen(h http.Handler, open func() bool, token string) http.Handler {
	own := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health := slices.ContainsFunc(healthPaths, func(p string) bool { return r.URL.Path == p || strings.HasPrefix(r.URL.Path, p+"/") })
		if health || open() || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), own) == 1 {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the server is starting: try again in a second", http.StatusServiceUnavailable)
	})
}
