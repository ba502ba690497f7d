package engine

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
)

// newInformer makes an informer whose watches last for retry.WatchSeconds.
func newInformer(
	requests toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	long := longWatches{toolscache.ToListerWatcherWithContext(requests)}
	return toolscache.NewSharedIndexInformer(long, kind, resync, indexers)
}

// longWatches are requests for the objects of a kind. Its watches last for
// retry.WatchSeconds.
type longWatches struct {
	toolscache.ListerWatcherWithContext
}

// List implements toolscache.Lister.
func (w longWatches) List(o metav1.ListOptions) (runtime.Object, error) {
	return w.ListWithContext(context.Background(), o)
}

// Watch implements toolscache.Watcher.
func (w longWatches) Watch(o metav1.ListOptions) (apiwatch.Interface, error) {
	return w.WatchWithContext(context.Background(), o)
}

// WatchWithContext implements toolscache.WatcherWithContext.
func (w longWatches) WatchWithContext(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	o.TimeoutSeconds = retry.WatchSeconds()
	return w.ListerWatcherWithContext.WatchWithContext(ctx, o)
}
