package engine

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// A fleet at rest would open half as many watches as it renews leases, if each ended after
// the minutes that client-go asks for.
func TestWatchesLast(t *testing.T) {
	asked := make(chan metav1.ListOptions, 1)
	requests := &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			select {
			case asked <- o:
			default:
			}
			return apiwatch.NewFake(), nil
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		newInformer(requests, &corev1.ConfigMap{}, 0, toolscache.Indexers{}).RunWithContext(ctx)
	}()
	o := <-asked
	cancel()
	<-ended
	if o.TimeoutSeconds == nil {
		t.Fatal("the watch asks for no time at all")
	}
	if d := time.Duration(*o.TimeoutSeconds) * time.Second; d < 30*time.Minute || d > time.Hour {
		t.Errorf("the watch is to end after %s, want half an hour to an hour", d)
	}
	if !o.AllowWatchBookmarks {
		t.Error("what the informer asks for is lost")
	}
}
