package watches_test

import (
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/watches"
)

// An object that is deleted after it was read, and before its kind is listed,
// causes no event.
func TestWorkIsWokenWhenTheFirstListLacksItsObject(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	woken := make(chan string, 10)
	w := watches.New(metadatafake.NewSimpleMetadataClient(scheme), clock.RealClock{}, slog.New(slog.DiscardHandler),
		func(work string) { woken <- work })
	defer w.Stop()
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	w.Set("w", map[manifest.Key]schema.GroupVersionResource{manifest.KeyOf(gvr, "default", "a"): gvr})
	select {
	case work := <-woken:
		if work != "w" {
			t.Errorf("woke %q", work)
		}
	case <-time.After(30 * time.Second):
		t.Error("the kind was listed without the object, and the work was not woken")
	}
}
