package extension

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// Reads says what the ListerWatcher of a server reads.
type Reads struct {
	// Resource is the name of the custom resources, and Kind their kind.
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// Labels select objects; nil selects all.
	Labels labels.Selector
	// Scheme makes objects of the kind.
	Scheme *runtime.Scheme
	// Without are fields of an object that are not read, such as "status" or
	// "status.conditions". The managed fields are never read.
	Without []string
	// Transform is called with each object before the next one is made; nil for none. It
	// may be called with the same object again, by the cache that reads.
	Transform cache.TransformFunc
	// Requests read by requests, as long as the server serves no such kind.
	Requests cache.ListerWatcher
}
