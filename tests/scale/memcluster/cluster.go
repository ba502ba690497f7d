// Package memcluster has managed clusters in memory: API servers that serve what the
// agent asks, so that thousands of agents run in one process and what they cost is the
// hub's alone. Nothing is checked (no schema, no admission, everybody may do everything),
// nothing runs (a workload is complete as soon as it is written, and a certificate signed as
// soon as its request is approved), and a server-side apply is a merge that forgets who owns
// what.
package memcluster

import (
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/inprocess"
)

// history is how many changes a cluster remembers for watches that begin in the past.
const history = 128

var errChanged = errors.New("it is not what it was when it was read")

// Cluster is an API server in memory. It is safe for concurrent use.
type Cluster struct {
	mu        sync.Mutex
	version   int64
	resources map[schema.GroupVersionResource]resource
	objects   map[key]stored
	changes   []change      // the last ones, oldest first
	changed   chan struct{} // closed at the next change
}

type key struct {
	schema.GroupResource
	namespace, name string
}

// stored is an object as JSON, which nobody changes.
type stored struct {
	json    []byte
	version int64
}

type change struct {
	key
	kind    watch.EventType
	version int64
	json    []byte
	before  []byte // nil for what is new
}

// New makes a cluster that has namespaces kube-system, with the UID that identifies the
// cluster, and default.
func New() *Cluster {
	c := &Cluster{
		resources: builtIn(), objects: map[key]stored{}, changed: make(chan struct{}),
	}
	for _, name := range []string{"kube-system", "default"} {
		namespace := object("v1", "Namespace", "", name)
		if err := c.Create(namespace); err != nil {
			panic(err) // there is nothing yet that it could meet
		}
	}
	return c
}

// Copy makes another cluster with the same objects, which it shares until one of them
// changes. Only the namespaces have other UIDs.
func (c *Cluster) Copy() *Cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	other := &Cluster{
		version: c.version, resources: maps.Clone(c.resources), objects: maps.Clone(c.objects),
		changed: make(chan struct{}),
	}
	for k, s := range other.objects {
		if k.Resource == "namespaces" && k.Group == "" {
			namespace := decode(s.json)
			namespace.SetUID(newUID())
			s.json = encode(namespace)
			other.objects[k] = s
		}
	}
	return other
}

// Config is the access to the cluster.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{
		Host:      "http://managed-cluster.invalid",
		Transport: inprocess.Transport{Handler: c},
		QPS:       -1,
		ContentConfig: rest.ContentConfig{
			ContentType: "application/json", AcceptContentTypes: "application/json",
		},
	}
}

// Create stores an object. It fails when there is one of its name, or when the cluster
// does not serve the kind.
func (c *Cluster) Create(o *unstructured.Unstructured) error {
	gvr, ok := c.resourceOf(o.GroupVersionKind())
	if !ok {
		return apierrors.NewBadRequest("the cluster does not serve " + o.GroupVersionKind().String())
	}
	_, err := c.create(gvr, o.DeepCopy())
	return err
}

func (c *Cluster) create(gvr schema.GroupVersionResource, o *unstructured.Unstructured) (stored, error) {
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(o.GetGenerateName() + string(newUID()[:5]))
	}
	k := key{gvr.GroupResource(), o.GetNamespace(), o.GetName()}
	if k.name == "" {
		return stored{}, apierrors.NewBadRequest("metadata.name is missing")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.objects[k]; taken {
		return stored{}, apierrors.NewAlreadyExists(k.GroupResource, k.name)
	}
	o.SetUID(newUID())
	o.SetGeneration(1)
	o.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	complete(o)
	s := c.write(k, o, watch.Added, nil)
	c.define(o)
	return s, nil
}

// modify writes what change makes of an object.
func (c *Cluster) modify(
	gvr schema.GroupVersionResource, namespace, name string,
	change func(*unstructured.Unstructured) (*unstructured.Unstructured, error),
) (stored, error) {
	k := key{gvr.GroupResource(), namespace, name}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, ok := c.objects[k]
	if !ok {
		return stored{}, apierrors.NewNotFound(k.GroupResource, name)
	}
	old := decode(before.json)
	o, err := change(old.DeepCopy())
	if err != nil {
		return stored{}, err
	}
	if v := o.GetResourceVersion(); v != "" && v != strconv.FormatInt(before.version, 10) {
		return stored{}, apierrors.NewConflict(k.GroupResource, name, errChanged)
	}
	o.SetUID(old.GetUID())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	o.SetGeneration(old.GetGeneration())
	o.SetResourceVersion(old.GetResourceVersion())
	if !sameBody(old, o) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
	complete(o)
	if string(encode(o)) == string(before.json) {
		return before, nil
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		return c.remove(k, o, before), nil
	}
	s := c.write(k, o, watch.Modified, before.json)
	c.define(o)
	return s, nil
}

// delete removes an object, or marks it while it has finalizers.
func (c *Cluster) delete(
	gvr schema.GroupVersionResource, namespace, name string, options metav1.DeleteOptions,
) (stored, error) {
	k := key{gvr.GroupResource(), namespace, name}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, ok := c.objects[k]
	if !ok {
		return stored{}, apierrors.NewNotFound(k.GroupResource, name)
	}
	o := decode(before.json)
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != o.GetUID() {
		return stored{}, apierrors.NewConflict(k.GroupResource, name, errChanged)
	}
	if len(o.GetFinalizers()) == 0 {
		return c.remove(k, o, before), nil
	}
	if o.GetDeletionTimestamp() != nil {
		return before, nil
	}
	o.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	return c.write(k, o, watch.Modified, before.json), nil
}

func (c *Cluster) remove(k key, o *unstructured.Unstructured, before stored) stored {
	s := c.write(k, o, watch.Deleted, before.json)
	delete(c.objects, k)
	return s
}

// write stores an object under the next version, and wakes the watches.
func (c *Cluster) write(k key, o *unstructured.Unstructured, kind watch.EventType, before []byte) stored {
	c.version++
	o.SetResourceVersion(strconv.FormatInt(c.version, 10))
	s := stored{encode(o), c.version}
	c.objects[k] = s
	if len(c.changes) == 2*history {
		c.changes = append([]change(nil), c.changes[history:]...)
	}
	c.changes = append(c.changes, change{k, kind, c.version, s.json, before})
	close(c.changed)
	c.changed = make(chan struct{})
	return s
}

// newUID makes a random UID (RFC 9562).
func newUID() types.UID {
	return uuid.NewUUID()
}

func encode(o *unstructured.Unstructured) []byte {
	data, err := json.Marshal(o.Object)
	if err != nil {
		panic(err) // it has been JSON before
	}
	return data
}
