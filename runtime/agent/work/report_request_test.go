package work_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// A report holds the status of a work alone, however large the work is, and the hub keeps the
// rest of the work as it was.
func TestReportHoldsTheStatusAlone(t *testing.T) {
	f := newFixture(t)
	f.stop()
	var mu sync.Mutex
	var reports []string
	f.wrapHub = func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/status") {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return nil, err
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				mu.Lock()
				reports = append(reports, r.Method+" "+string(body))
				mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	}
	f.start(work.Options{})
	content := strings.Repeat("content", 2000)
	mw := f.createHeld("x", f.configMap("a", content))
	f.wait(mw, apiwork.ConditionApplied, metav1.ConditionTrue)
	got := &workv1.ManifestWork{}
	f.must(f.client.Get(context.Background(), client.ObjectKeyFromObject(mw), got))
	if !apiequality.Semantic.DeepEqual(got.Spec, mw.Spec) || len(got.Finalizers) != len(mw.Finalizers) ||
		got.Generation != mw.Generation {
		t.Errorf("the hub has the work as %+v", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(reports) == 0 {
		t.Error("no report was seen")
	}
	for _, report := range reports {
		if !strings.HasPrefix(report, "PUT ") || strings.Contains(report, "content") || len(report) > len(content)/2 {
			t.Errorf("a report of %d bytes: %s", len(report), report)
		}
	}
}
