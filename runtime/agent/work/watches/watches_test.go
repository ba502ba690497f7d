package watches_test

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/report"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/watches"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
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
	case <-time.After(testkit.Timeout):
		t.Error("the kind was listed without the object, and the work was not woken")
	}
}

func configMap(name string) *manifest.Manifest {
	return &manifest.Manifest{
		GVR:  schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Meta: workv1.ManifestResourceMeta{Version: "v1", Resource: "configmaps", Namespace: "n", Name: name},
	}
}

func TestWhatIsWatched(t *testing.T) {
	hidden, homeless := configMap("hidden"), configMap("homeless")
	manifests := []*manifest.Manifest{configMap("a"), hidden, homeless, {Err: errors.New("no"), UnknownKind: true}}
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n")
	last := map[manifest.Key]decide.Result{
		hidden.Key():   {Observed: report.Observed{Hidden: true}},
		homeless.Key(): {Applied: decide.Applied{Err: missing}},
	}
	made := []workv1.AppliedManifestResourceMeta{decide.ResourceMeta(configMap("left"), "0")}
	var got []string
	for key := range watches.Concerning(manifests, last, made) {
		got = append(got, key.Resource+" "+key.Name)
	}
	slices.Sort(got)
	want := []string{
		"configmaps a", "configmaps homeless", "configmaps left", "customresourcedefinitions ", "namespaces n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
