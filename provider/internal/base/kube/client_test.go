package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
)

// serve is a client of a server that answers with handler.
func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client, err := New(&rest.Config{Host: server.URL, QPS: -1}, Options{Scheme: scheme, Mapper: restmapper.Static()})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprint(w, body)
}

const notFound = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"%s \"%s\" not found","details":{"name":"%[2]s","kind":"%[1]s"}}`

func TestOnlyTheObjectsOwnAbsenceIsNotFound(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		want bool
	}{
		"the object":            {fmt.Sprintf(notFound, "configmaps", "x"), true},
		"another object":        {fmt.Sprintf(notFound, "configmaps", "y"), false},
		"no such kind":          {"404 page not found", false},
		"a proxy's error page":  {"<html>not here</html>", false},
		"a status without name": {`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 404, test.body) })
			err := client.Get(t.Context(), &corev1.ConfigMap{}, "ns", "x")
			if got := IsNotFound(err, "x"); got != test.want {
				t.Errorf("got %v for %v, want %v", got, err, test.want)
			}
		})
	}
}

func TestApplySendsTheWholeIntentOnce(t *testing.T) {
	var requests []string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type"))
		answer(w, 200, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"ns","uid":"u1"},"data":{"a":"1"}}`)
	})
	object := &corev1.ConfigMap{Data: map[string]string{"old": "gone after the answer"}}
	object.Namespace, object.Name = "ns", "x"
	if err := client.Apply(t.Context(), object, ApplyOptions{Manager: "me", Force: true}); err != nil {
		t.Fatal(err)
	}
	want := "PATCH /api/v1/namespaces/ns/configmaps/x?fieldManager=me&force=true application/apply-patch+yaml"
	if len(requests) != 1 || requests[0] != want {
		t.Errorf("sent %q, want %q", requests, want)
	}
	if object.UID != "u1" || len(object.Data) != 1 {
		t.Errorf("got %+v, want the answer and nothing else", object)
	}
}

func TestRequestsSurviveARestartOfTheServer(t *testing.T) {
	var count atomic.Int32
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if count.Add(1) < 3 {
			answer(w, 503, "starting")
			return
		}
		body := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body["kind"] != "ConfigMap" {
			answer(w, 400, "the body was not sent again")
			return
		}
		answer(w, 200, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}`)
	})
	object := &corev1.ConfigMap{}
	object.Name = "x"
	if err := client.Apply(t.Context(), object, ApplyOptions{Manager: "me"}); err != nil || count.Load() != 3 {
		t.Errorf("got %v after %d requests", err, count.Load())
	}
}

func TestConflictsNameFieldAndOwner(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 409, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,"details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"kubectl\"","field":".spec.a"}]}}`)
	})
	object := &corev1.ConfigMap{}
	object.Name = "x"
	err := client.Apply(t.Context(), object, ApplyOptions{Manager: "me"})
	if got := Conflicts(err); len(got) != 1 || got[0].String() != `field .spec.a is owned by "kubectl"` {
		t.Errorf("got %q", got)
	}
}

func TestDeleteSaysWhetherTheObjectIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   Deletion
	}{
		"at once":      {200, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, Deletion{Gone: true}},
		"long gone":    {404, fmt.Sprintf(notFound, "configmaps", "x"), Deletion{Gone: true}},
		"with waiting": {200, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","uid":"u1"}}`, Deletion{UID: "u1"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, test.status, test.body) })
			got, err := client.Delete(t.Context(), &corev1.ConfigMap{}, "ns", "x", "")
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

// A watch that breaks is taken up again, and what happened meanwhile is seen.
func TestWaitOutlivesItsWatch(t *testing.T) {
	var gets atomic.Int32
	object := func(data string) string {
		return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"5"},"data":{"state":%q}}`, data)
	}
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("watch") == "" && gets.Add(1) == 1:
			answer(w, 200, object("begun"))
		case r.URL.Query().Get("watch") == "":
			answer(w, 200, object("done"))
		case r.URL.Query().Get("resourceVersion") != "5" || r.URL.Query().Get("fieldSelector") != "metadata.name=x":
			answer(w, 400, "the watch began at "+r.URL.String())
		default:
			answer(w, 200, `{"type":"MODIFIED","object":`+object("going on")+"}\n")
		}
	})
	var seen []string
	got := &corev1.ConfigMap{}
	err := client.Wait(t.Context(), got, "ns", "x", func(bool) (bool, error) {
		seen = append(seen, got.Data["state"])
		return got.Data["state"] == "done", nil
	})
	if err != nil || strings.Join(seen, ", ") != "begun, going on, done" {
		t.Errorf("got %v after seeing %q", err, seen)
	}
}

func TestWaitEndsWithItsContextAndKeepsWhatWasSeen(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			answer(w, 200, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"5"}}`)
			return
		}
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	got := &corev1.ConfigMap{}
	err := client.Wait(ctx, got, "ns", "x", func(bool) (bool, error) { return false, nil })
	if !errors.Is(err, context.DeadlineExceeded) || got.Name != "x" {
		t.Errorf("got %v with %q", err, got.Name)
	}
}

func TestWaitGoneIsNotFooledByANamesake(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","uid":"new"}}`)
	})
	if err := client.WaitGone(t.Context(), &corev1.ConfigMap{}, "ns", "x", "old"); err != nil {
		t.Error(err)
	}
}

func TestNamespaceMissing(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 404, fmt.Sprintf(notFound, "namespaces", "ns"))
	})
	object := &corev1.ConfigMap{}
	object.Namespace, object.Name = "ns", "x"
	err := client.Apply(t.Context(), object, ApplyOptions{Manager: "me"})
	if !IsNamespaceNotFound(err, "ns") || IsNotFound(err, "x") || !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}
