package status

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

// proberOf asks a server that answers each path with a code.
func proberOf(t *testing.T, codes map[string]int) (p *prober, asked *[]string, clk *clocktesting.FakePassiveClock) {
	t.Helper()
	asked = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Path)
		w.WriteHeader(codes[r.URL.Path])
		_, _ = w.Write([]byte("answer of " + r.URL.Path))
	}))
	t.Cleanup(server.Close)
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{}, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	clk = clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	return &prober{client: client, clock: clk}, asked, clk
}

func TestProbe(t *testing.T) {
	for _, tc := range []struct {
		name  string
		codes map[string]int
		want  health
		asked []string
	}{
		{"well", map[string]int{"/livez": 200}, health{200, "answer of /livez"}, []string{"/livez"}},
		{"an old server", map[string]int{"/livez": 404, "/healthz": 200}, health{200, "answer of /healthz"}, []string{"/livez", "/healthz"}},
		{"a server that hides it", map[string]int{"/livez": 403, "/healthz": 200}, health{200, "answer of /healthz"}, []string{"/livez", "/healthz"}},
		{"unwell", map[string]int{"/livez": 500}, health{500, "answer of /livez"}, []string{"/livez"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, asked, _ := proberOf(t, tc.codes)
			if got := p.probe(t.Context()); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if !slices.Equal(*asked, tc.asked) {
				t.Errorf("asked %q, want %q", *asked, tc.asked)
			}
		})
	}
}

func TestFailureLastsFromItsBeginning(t *testing.T) {
	codes := map[string]int{"/livez": 500}
	p, _, clk := proberOf(t, codes)
	p.probe(t.Context())
	clk.SetTime(clk.Now().Add(15 * time.Second))
	p.probe(t.Context())
	if got := clk.Since(p.failing); got != 15*time.Second {
		t.Errorf("failing for %s, want 15s", got)
	}
	codes["/livez"] = 200
	p.probe(t.Context())
	if !p.failing.IsZero() {
		t.Error("still counted as failing after a good answer")
	}
}
