package controlplane

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/tools/cache"
)

// ownedInformers are what the garbage collector knows objects by. It knows every object
// that there is, and reads of each which it is, whose it is, and what its deletion waits for.
// Custom resources are read from the memory of the server.
type ownedInformers struct {
	server  *Server
	typed   informers.SharedInformerFactory
	objects metadata.Interface

	mu      sync.Mutex
	made    map[schema.GroupVersionResource]ownedInformer
	started map[schema.GroupVersionResource]bool
}

// ForResource implements informerfactory.InformerFactory.
func (f *ownedInformers) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if i, err := f.typed.ForResource(resource); err == nil {
		return i, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := f.made[resource]; ok {
		return i, nil
	}
	requests := f.objects.Resource(resource)
	reader := &memoryReader{
		server: f.server, resource: resource, labels: labels.Everything(), typed: ownedOf,
		requests: cache.ToListerWatcherWithContext(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return requests.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return requests.Watch(ctx, o)
			},
		}),
	}
	informer := cache.NewSharedIndexInformer(reader, &metav1.PartialObjectMetadata{}, informerResync, cache.Indexers{})
	if err := informer.SetTransform(owned); err != nil {
		return nil, err
	}
	i := ownedInformer{informer, resource}
	f.made[resource] = i
	return i, nil
}

// Start implements informerfactory.InformerFactory.
func (f *ownedInformers) Start(stop <-chan struct{}) {
	f.typed.Start(stop)
	f.mu.Lock()
	defer f.mu.Unlock()
	for resource, i := range f.made {
		if !f.started[resource] {
			f.started[resource] = true
			go i.informer.Run(stop)
		}
	}
}

// ownedInformer implements informers.GenericInformer.
type ownedInformer struct {
	informer cache.SharedIndexInformer
	resource schema.GroupVersionResource
}

// Informer implements informers.GenericInformer.
func (i ownedInformer) Informer() cache.SharedIndexInformer { return i.informer }

// Lister implements informers.GenericInformer.
func (i ownedInformer) Lister() cache.GenericLister {
	return metadatalister.NewRuntimeObjectShim(metadatalister.New(i.informer.GetIndexer(), i.resource))
}

// ownedOf makes of a custom resource what owned leaves.
func ownedOf(u *unstructured.Unstructured) (runtime.Object, error) {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
		Generation:        u.GetGeneration(),
		CreationTimestamp: u.GetCreationTimestamp(), DeletionTimestamp: u.GetDeletionTimestamp(),
		OwnerReferences: u.GetOwnerReferences(), Finalizers: u.GetFinalizers(),
	}}, nil
}

// owned leaves of an object what the garbage collector reads.
func owned(object any) (any, error) {
	if o, ok := object.(*metav1.PartialObjectMetadata); ok {
		o.GenerateName, o.Labels, o.Annotations, o.ManagedFields = "", nil, nil, nil
	}
	return object, nil
}
