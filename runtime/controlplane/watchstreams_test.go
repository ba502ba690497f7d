package controlplane_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// watched is a control plane that knows which watches are in its handlers and which last.
type watched struct {
	*controlplane.Server
	objects           dynamic.Interface
	http              *http.Client
	config            *rest.Config
	handling, lasting atomic.Int32
	end               atomic.Pointer[func()] // ends the newest watch
}

func startWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{}
	s, stop, err := start(t.Context(), t.TempDir(), controlplane.Options{
		Name: "test",
		Guard: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
				info, _ := request.RequestInfoFrom(r.Context())
				if info.Verb != "watch" || !strings.HasPrefix(r.UserAgent(), "test-watch") {
					next.ServeHTTP(answer, r)
					return
				}
				_, lasting := extension.LastingOf(r.Context())
				end := lasting.End
				w.end.Store(&end)
				w.handling.Add(1)
				w.lasting.Add(1)
				defer lasting.AtEnd(func() { w.lasting.Add(-1) })
				defer w.handling.Add(-1)
				next.ServeHTTP(answer, r)
			})
		},
	})
	testkit.Must(t, err)
	t.Cleanup(stop)
	w.Server = s
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	testkit.Must(t, err)
	config.QPS, config.UserAgent = -1, "test-watch"
	w.config = config
	w.http, err = rest.HTTPClientFor(config)
	testkit.Must(t, err)
	w.objects, err = dynamic.NewForConfig(s.RESTConfig("test"))
	testkit.Must(t, err)
	return w
}

// count waits until so many watches are in the handlers, and so many last.
func (w *watched) count(t *testing.T, handling, lasting int32) {
	t.Helper()
	testkit.Eventually(t, func() error {
		if h, l := w.handling.Load(), w.lasting.Load(); h != handling || l != lasting {
			return fmt.Errorf("%d watches are in the handlers and %d last, want %d and %d", h, l, handling, lasting)
		}
		return nil
	})
}

// lines are those of a watch.
type lines struct {
	*bufio.Scanner
	header http.Header
	close  func()
}

func (w *watched) open(t *testing.T, path, accept string) lines {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL+path, nil)
	testkit.Must(t, err)
	r.Header.Set("Accept", accept)
	answer, err := w.http.Do(r)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", path, answer.Status)
	}
	return lines{bufio.NewScanner(answer.Body), answer.Header, cancel}
}

// next is what the next event says, as TYPE/name.
func (l lines) next(t *testing.T) string {
	t.Helper()
	if !l.Scan() {
		return fmt.Sprint("end ", l.Err())
	}
	e := struct {
		Type   string
		Object map[string]any
	}{}
	if err := json.Unmarshal(l.Bytes(), &e); err != nil {
		t.Fatalf("event %s: %v", l.Bytes(), err)
	}
	u := unstructured.Unstructured{Object: e.Object}
	return e.Type + "/" + u.GetAPIVersion() + "/" + u.GetKind() + "/" + u.GetName()
}

// A watch leaves the handlers that have let it in once its beginning is written, goes on as
// before, and is counted until it has ended.
func TestWatchesGoOnOutsideOfTheHandlers(t *testing.T) {
	w := startWatched(t)
	createDefinition(t, w.objects)
	create := func(name string) string {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"old": "<&>\n"}}}
		u.SetGroupVersionKind(widgetKind)
		u.SetName(name)
		var made *unstructured.Unstructured
		testkit.Eventually(t, func() (err error) {
			made, err = w.objects.Resource(widgets).Namespace("default").Create(t.Context(), u, metav1.CreateOptions{})
			return err
		})
		return made.GetResourceVersion()
	}
	version := create("a")
	path := fmt.Sprintf(
		"/apis/%s/%s/namespaces/default/%s?watch=true", widgets.Group, widgets.Version, widgets.Resource)
	event := func(kind, name string) string {
		return kind + "/" + widgetKind.GroupVersion().String() + "/" + widgetKind.Kind + "/" + name
	}
	expect := func(l lines, want string) {
		t.Helper()
		if got := l.next(t); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}

	all := w.open(t, path, "application/json")
	expect(all, event("ADDED", "a"))
	since := w.open(t, path+"&resourceVersion="+version, "application/json, */*")
	listed := w.open(
		t, path+"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "*/*")
	expect(listed, event("ADDED", "a"))
	expect(listed, event("BOOKMARK", ""))
	named := w.open(t, path+"&fieldSelector=metadata.name%3Db", "")
	w.count(t, 0, 4)
	table := w.open(t, path+"&resourceVersion="+version, "application/json;as=Table;g=meta.k8s.io;v=v1")
	w.count(t, 1, 5)
	create("b")
	for _, l := range []lines{all, since, listed, named} {
		expect(l, event("ADDED", "b"))
		if l.header.Get("Content-Type") != "application/json" {
			t.Errorf("the answer is %s", l.header.Get("Content-Type"))
		}
	}
	expect(table, "ADDED/meta.k8s.io/v1/Table/")
	testkit.Must(t, w.objects.Resource(widgets).Namespace("default").Delete(t.Context(), "b", metav1.DeleteOptions{}))
	expect(since, event("DELETED", "b"))

	named.close()
	w.count(t, 1, 4)
	short := w.open(t, path+"&timeoutSeconds=1&resourceVersion="+version, "application/json")
	expect(short, event("ADDED", "b"))
	expect(short, event("DELETED", "b"))
	expect(short, "end <nil>")
	ending := w.open(t, path+"&resourceVersion="+create("c"), "application/json")
	w.count(t, 1, 5)
	(*w.end.Load())()
	expect(ending, "end <nil>")
	w.count(t, 1, 4)
}
