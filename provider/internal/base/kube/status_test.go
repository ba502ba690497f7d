package kube

import (
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTheStatusIsAppliedInTheNameOfAManager(t *testing.T) {
	var got *http.Request
	var body string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got, body = r, string(text)
		answer(w, 200, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","resourceVersion":"7"},"status":{"phase":"Running"}}`)
	})
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.Status.Phase = "n", "p", corev1.PodPending
	if err := client.ApplyStatus(t.Context(), pod, ApplyOptions{Manager: "me", Force: true}); err != nil {
		t.Fatal(err)
	}
	if got.Method != http.MethodPatch || got.URL.Path != "/api/v1/namespaces/n/pods/p/status" || got.Header.Get("Content-Type") != "application/apply-patch+yaml" {
		t.Errorf("sent %s %s with %s", got.Method, got.URL.Path, got.Header.Get("Content-Type"))
	}
	if q := got.URL.Query(); q.Get("fieldManager") != "me" || q.Get("force") != "true" {
		t.Errorf("the query is %s", got.URL.RawQuery)
	}
	if !strings.Contains(body, `"kind":"Pod"`) || !strings.Contains(body, `"phase":"Pending"`) {
		t.Errorf("sent %s", body)
	}
	if pod.ResourceVersion != "7" || pod.Status.Phase != corev1.PodRunning {
		t.Error("the answer was not read")
	}
}
