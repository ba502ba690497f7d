package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// widget is a custom resource.
type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Old  string `json:"old,omitempty"`
		New  string `json:"new,omitempty"`
		Size int64  `json:"size,omitempty"`
	} `json:"spec"`
}

// DeepCopyObject implements runtime.Object.
func (w *widget) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

var (
	widgets     = schema.GroupVersionResource{Group: "held.example.org", Version: "v1", Resource: "widgets"}
	widgetKind  = widgets.GroupVersion().WithKind("Widget")
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
)

// widgetFields is the schema of a widget's spec.
func widgetFields(fields string) string {
	return fmt.Sprintf(`{"type":"object","properties":{"spec":{"type":"object","properties":{%s}}}}`, fields)
}

// defineWidgets has the shared server serve widgets.
func defineWidgets(t *testing.T, c dynamic.Interface) {
	t.Helper()
	createDefinition(t, c)
	t.Cleanup(func() {
		err := c.Resource(definitions).Delete(context.Background(), "widgets.held.example.org", metav1.DeleteOptions{})
		testkit.Must(t, err)
	})
}

// createDefinition has a server serve widgets.
func createDefinition(t *testing.T, c dynamic.Interface) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	definition := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
		"metadata":{"name":"widgets.held.example.org"},"spec":{"group":"held.example.org","scope":"Namespaced",
		"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%s}}]}}`,
		widgetFields(`"old":{"type":"string"},"size":{"type":"integer"}`))
	testkit.Must(t, crd.UnmarshalJSON([]byte(definition)))
	testkit.Eventually(t, func() error { // that of another test may be going
		_, err := c.Resource(definitions).Create(t.Context(), crd, metav1.CreateOptions{})
		return err
	})
}

// inMemory is an informer of widgets that reads the memory of the shared server.
func inMemory(t *testing.T, selector labels.Selector, without ...string) cache.SharedIndexInformer {
	t.Helper()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(widgetKind, &widget{})
	notYet := errors.New("not yet")
	informer := cache.NewSharedIndexInformer(shared.ListerWatcher(extension.Reads{
		Resource: widgets, Kind: widgetKind, Scheme: scheme, Labels: selector, Without: without,
		Transform: func(o any) (any, error) {
			o.(*widget).Annotations = nil
			return o, nil
		},
		// Requests are for as long as the server has no widgets.
		Requests: &cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return nil, notYet
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				return nil, notYet
			},
		},
	}), &widget{}, 0, cache.Indexers{})
	testkit.Must(t, informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}))
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.Run(stop)
	}()
	t.Cleanup(func() { close(stop); <-ended })
	return informer
}

// has waits until an informer has these widgets, as "name=old/new/size".
func has(t *testing.T, informer cache.SharedIndexInformer, want string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		var all []string
		for _, o := range informer.GetStore().List() {
			w := o.(*widget)
			if w.ManagedFields != nil || w.Annotations != nil || w.ResourceVersion == "" || w.UID == "" {
				return fmt.Errorf("a widget was read as %+v", w)
			}
			all = append(all, fmt.Sprintf("%s=%s/%s/%d", w.Name, w.Spec.Old, w.Spec.New, w.Spec.Size))
		}
		slices.Sort(all)
		if got := strings.Join(all, " "); got != want {
			return fmt.Errorf("the cache has %q, want %q", got, want)
		}
		return nil
	})
}

// A cache in the process of the server follows custom resources without requests: those that
// are there, those that change, and what a new schema makes of them.
func TestCustomResourcesAreReadFromMemory(t *testing.T) {
	c, err := dynamic.NewForConfig(shared.RESTConfig("test"))
	testkit.Must(t, err)
	early := inMemory(t, nil) // before there are widgets
	defineWidgets(t, c)
	namespace := c.Resource(widgets).Namespace(newNamespace(t, clientFor(t, shared.RESTConfig("test")), nil))
	create := func(name string, labels map[string]string, size int64) {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"old": "o", "size": size}}}
		u.SetGroupVersionKind(widgetKind)
		u.SetName(name)
		u.SetLabels(labels)
		u.SetAnnotations(map[string]string{"a": "b"})
		testkit.Eventually(t, func() error { // the definition is served in a moment
			_, err := namespace.Create(t.Context(), u, metav1.CreateOptions{})
			return err
		})
	}
	create("a", nil, 1)
	create("b", map[string]string{"large": "yes"}, 1<<40)
	all, lean := inMemory(t, nil), inMemory(t, nil, "spec.size", "status.x")
	large := inMemory(t, labels.SelectorFromSet(labels.Set{"large": "yes"}))
	has(t, early, "a=o//1 b=o//1099511627776")
	has(t, all, "a=o//1 b=o//1099511627776")
	has(t, large, "b=o//1099511627776")
	has(t, lean, "a=o//0 b=o//0")

	create("c", nil, 3)
	patch := func(name, patch string) {
		t.Helper()
		_, err := namespace.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		testkit.Must(t, err)
	}
	patch("a", `{"metadata":{"labels":{"large":"yes"}},"spec":{"size":2}}`)
	patch("b", `{"metadata":{"labels":{"large":null}}}`)
	has(t, all, "a=o//2 b=o//1099511627776 c=o//3")
	has(t, large, "a=o//2")
	testkit.Must(t, namespace.Delete(t.Context(), "b", metav1.DeleteOptions{}))
	has(t, all, "a=o//2 c=o//3")
	has(t, lean, "a=o//0 c=o//0")

	_, err = c.Resource(definitions).Patch(t.Context(), "widgets.held.example.org", types.JSONPatchType,
		fmt.Appendf(nil, `[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema","value":%s}]`,
			widgetFields(`"new":{"type":"string","default":"n"},"size":{"type":"integer"}`)), metav1.PatchOptions{})
	testkit.Must(t, err)
	fresh := inMemory(t, nil)
	has(t, fresh, "a=/n/2 c=/n/3")
	patch("a", `{"spec":{"size":5,"new":"m"}}`)
	has(t, fresh, "a=/m/5 c=/n/3")
}

// What a watch gets is the cache's own, so that nobody changes what the server holds.
func TestWhatIsReadFromMemoryIsACopy(t *testing.T) {
	c, err := dynamic.NewForConfig(shared.RESTConfig("test"))
	testkit.Must(t, err)
	defineWidgets(t, c)
	namespace := c.Resource(widgets).Namespace(newNamespace(t, clientFor(t, shared.RESTConfig("test")), nil))
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"old": "o"}}}
	u.SetGroupVersionKind(widgetKind)
	u.SetName("a")
	u.SetLabels(map[string]string{"x": "y"})
	testkit.Eventually(t, func() error {
		_, err := namespace.Create(t.Context(), u, metav1.CreateOptions{})
		return err
	})
	for range 2 {
		informer := inMemory(t, nil)
		has(t, informer, "a=o//0")
		for _, o := range informer.GetStore().List() {
			w := o.(*widget)
			if !maps.Equal(w.Labels, map[string]string{"x": "y"}) {
				t.Errorf("the labels are %v", w.Labels)
			}
			w.Labels["x"] = "changed"
		}
	}
}

// The garbage collector reads custom resources from memory, too.
func TestAnOwnedCustomResourceGoesWithItsOwner(t *testing.T) {
	c, err := dynamic.NewForConfig(shared.RESTConfig("test"))
	testkit.Must(t, err)
	defineWidgets(t, c)
	namespace := c.Resource(widgets).Namespace(newNamespace(t, clientFor(t, shared.RESTConfig("test")), nil))
	create := func(name string, owners ...metav1.OwnerReference) (made *unstructured.Unstructured) {
		t.Helper()
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(widgetKind)
		u.SetName(name)
		u.SetOwnerReferences(owners)
		testkit.Eventually(t, func() (err error) {
			made, err = namespace.Create(t.Context(), u, metav1.CreateOptions{})
			return err
		})
		return made
	}
	owner := create("owner")
	reference := metav1.OwnerReference{
		APIVersion: "held.example.org/v1", Kind: "Widget", Name: "owner", UID: owner.GetUID(),
	}
	create("owned", reference)
	create("free")
	testkit.Must(t, namespace.Delete(t.Context(), "owner", metav1.DeleteOptions{}))
	testkit.Eventually(t, func() error { // the collector looks for new kinds twice a minute
		_, err := namespace.Get(t.Context(), "owned", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the owned widget is there: %v", err)
		}
		return nil
	})
	if _, err := namespace.Get(t.Context(), "free", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// A watch ends when it is told to, or when its time is over.
func TestAWatchOfMemoryEnds(t *testing.T) {
	c, err := dynamic.NewForConfig(shared.RESTConfig("test"))
	testkit.Must(t, err)
	defineWidgets(t, c)
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(widgetKind, &widget{})
	reader := cache.ToListerWatcherWithContext(shared.ListerWatcher(extension.Reads{
		Resource: widgets, Kind: widgetKind, Scheme: scheme,
		Requests: &cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return nil, errors.New("not yet")
			},
		},
	}))
	var list runtime.Object
	testkit.Eventually(t, func() (err error) {
		list, err = reader.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		return err
	})
	version := list.(metav1.ListInterface).GetResourceVersion()
	second := int64(1)
	for name, timeout := range map[string]*int64{"stopped": nil, "its time is over": &second} {
		var w watch.Interface
		testkit.Eventually(t, func() (err error) { // the server opens another store when the definition changes
			w, err = reader.WatchWithContext(t.Context(), metav1.ListOptions{
				ResourceVersion: version, TimeoutSeconds: timeout,
			})
			return err
		})
		if timeout == nil {
			w.Stop()
		}
		ended := time.After(20 * time.Second)
	events:
		for {
			select {
			case _, open := <-w.ResultChan():
				if !open {
					break events
				}
			case <-ended:
				t.Fatalf("%s: the watch has not ended", name)
			}
		}
		w.Stop()
	}
}
