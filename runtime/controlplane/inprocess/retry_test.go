package inprocess_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/inprocess"
)

func TestEagerReadsComeBackAtOnce(t *testing.T) {
	for method, want := range map[string]int{http.MethodGet: http.StatusOK, http.MethodPost: http.StatusTooManyRequests} {
		calls := 0
		handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls < 3 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		})
		client := &http.Client{Transport: inprocess.Eager{Transport: inprocess.Transport{Handler: handler}}}
		req, err := http.NewRequestWithContext(context.Background(), method, "https://server/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: status %d after %d calls, want %d", method, resp.StatusCode, calls, want)
		}
	}
}
