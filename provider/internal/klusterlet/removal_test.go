package klusterlet

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// The agent goes only after it has reported to the hub that it has cleaned up: a work that
// keeps its finalizer keeps its cluster from being deleted.
func TestWaitForFinalizers(t *testing.T) {
	deleted := metav1.NewTime(time.Unix(1, 0))
	cleaning := workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Namespace: "paris", DeletionTimestamp: &deleted, Finalizers: []string{work.ManifestWorkFinalizer},
	}}
	other, kept := *cleaning.DeepCopy(), *cleaning.DeepCopy()
	other.Finalizers = []string{"example.com/audit"}
	kept.DeletionTimestamp = nil
	for name, test := range map[string]struct {
		work  workv1.ManifestWork
		reads int32
	}{
		"one that the agent is cleaning up": {cleaning, 2},
		"one that waits for somebody else":  {other, 1},
		"one that nobody deletes":           {kept, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var reads atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Query().Get("watch") != "" {
					_ = json.NewEncoder(w).Encode(map[string]any{"type": "DELETED", "object": test.work})
					return
				}
				list := workv1.ManifestWorkList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
				if reads.Add(1) == 1 {
					list.Items = append(list.Items, test.work)
				}
				_ = json.NewEncoder(w).Encode(list)
			}))
			defer server.Close()
			client, err := hub.NewClient(kube.Connection{Host: server.URL}, "test", kube.DefaultRetryBudget)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			(&joining{client: client, name: "paris"}).waitForFinalizers(ctx)
			if got := reads.Load(); got != test.reads || ctx.Err() != nil {
				t.Errorf("%d reads, want %d: %v", got, test.reads, ctx.Err())
			}
		})
	}
}
