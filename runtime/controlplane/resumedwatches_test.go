package controlplane_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
)

// A watch goes on where it was before the server was started again: agents need not read all
// of their works then.
func TestWatchesGoOnAfterARestart(t *testing.T) {
	path := t.TempDir()
	client := func() (dynamic.Interface, func()) {
		s, stop, err := start(t.Context(), path, controlplane.Options{Name: "test"})
		testkit.Must(t, err)
		c, err := dynamic.NewForConfig(s.RESTConfig("test"))
		testkit.Must(t, err)
		return c, stop
	}
	c, stop := client()
	createDefinition(t, c)
	versions := map[string]string{} // by the number of changes that there were
	changes := 0
	note := func(u *unstructured.Unstructured, err error) {
		t.Helper()
		testkit.Must(t, err)
		versions[fmt.Sprint(changes)] = u.GetResourceVersion()
		changes++
	}
	of := func(namespace string) dynamic.ResourceInterface { return c.Resource(widgets).Namespace(namespace) }
	create := func(namespace, name string, labels map[string]string) {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"old": "o"}}}
		u.SetGroupVersionKind(widgetKind)
		u.SetName(name)
		u.SetLabels(labels)
		var made *unstructured.Unstructured
		testkit.Eventually(t, func() (err error) {
			made, err = of(namespace).Create(t.Context(), u, metav1.CreateOptions{})
			return err
		})
		note(made, nil)
	}
	patch := func(name, patch string) {
		t.Helper()
		note(of("default").Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
	}
	create("default", "a", map[string]string{"x": "y"})
	create("kube-system", "other", nil)
	create("default", "b", nil)
	patch("a", `{"spec":{"size":1}}`)
	patch("a", `{"metadata":{"labels":null}}`)
	testkit.Must(t, of("default").Delete(t.Context(), "b", metav1.DeleteOptions{}))
	stop()

	c, stop = client()
	defer stop()
	patch("a", `{"metadata":{"labels":{"x":"z"}}}`)
	for name, tc := range map[string]struct {
		namespace, selector, from, want string
	}{
		"all":                 {"default", "", "0", "ADDED/b MODIFIED/a MODIFIED/a DELETED/b MODIFIED/a"},
		"from the middle":     {"default", "", "3", "MODIFIED/a DELETED/b MODIFIED/a"},
		"all namespaces":      {"", "", "0", "ADDED/other ADDED/b MODIFIED/a MODIFIED/a DELETED/b MODIFIED/a"},
		"selected by a label": {"default", "x", "0", "MODIFIED/a DELETED/a ADDED/a"},
		"after the restart":   {"default", "", "5", ""},
	} {
		w, err := of(tc.namespace).Watch(t.Context(), metav1.ListOptions{
			LabelSelector: tc.selector, ResourceVersion: versions[tc.from], AllowWatchBookmarks: true,
		})
		testkit.Must(t, err)
		var got []string
		for events := time.After(testkit.Timeout); len(got) < len(strings.Fields(tc.want)); {
			select {
			case e := <-w.ResultChan():
				u, ok := e.Object.(*unstructured.Unstructured)
				if !ok {
					t.Fatalf("%s: after %q came %s %v", name, got, e.Type, e.Object)
				}
				if e.Type != watch.Bookmark {
					got = append(got, string(e.Type)+"/"+u.GetName())
				}
			case <-events:
				t.Fatalf("%s: got only %q", name, got)
			}
		}
		w.Stop()
		if got := strings.Join(got, " "); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}

	// It does not stay in the store.
	defer controlplane.SetStoredFor(time.Millisecond)()
	inStore, err := of("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: versions["0"]})
	testkit.Must(t, err)
	for range inStore.ResultChan() { // until it ends
	}
	current, err := of("default").List(t.Context(), metav1.ListOptions{})
	testkit.Must(t, err)
	inCache, err := of("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: current.GetResourceVersion()})
	testkit.Must(t, err)
	defer inCache.Stop()
	time.AfterFunc(20*time.Millisecond, func() {
		change := []byte(`{"spec":{"size":2}}`)
		_, _ = of("default").Patch(t.Context(), "a", types.MergePatchType, change, metav1.PatchOptions{})
	})
	if e, ok := <-inCache.ResultChan(); !ok || e.Type != watch.Modified {
		t.Errorf("a watch in the cache goes on with %s %v", e.Type, e.Object)
	}
}
