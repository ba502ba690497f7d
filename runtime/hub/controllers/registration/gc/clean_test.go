package gc

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// A work that was created just before its cluster was deleted may not have
// reached the cache yet. The cluster must not go without it.
func TestCleanFindsWhatTheCacheHasNotHeardOf(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mw := &metav1.PartialObjectMetadata{}
	mw.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWork"))
	mw.Namespace, mw.Name = "c", "w"
	hub := fake.NewSimpleMetadataClient(scheme, mw)
	c := cleaner{client: emptyCache{}, live: hub}
	works := workv1.GroupVersion.WithResource("manifestworks")
	left, err := c.clean(context.Background(), "c", works, nil)
	if err != nil || left.total != 1 {
		t.Fatalf("%d works left, %v, want 1", left.total, err)
	}
	if left, err := c.clean(context.Background(), "c", works, nil); err != nil || left.total != 0 {
		t.Errorf("%d works left after it was deleted, %v, want none", left.total, err)
	}
	if left, err := c.clean(context.Background(), "other", works, nil); err != nil || left.total != 0 {
		t.Errorf("%d works left in another namespace, %v, want none", left.total, err)
	}
}

type emptyCache struct{ client.Client }

func (emptyCache) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }
