package controlplane

import (
	"bytes"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/kubernetes/pkg/apis/core"
)

func TestEventsAreLinesOfJSON(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old").ErrStatus
	for name, tc := range map[string]struct {
		kind   watch.EventType
		object runtime.Object
		want   string
	}{
		"a custom resource": {
			watch.Added,
			&unstructured.Unstructured{Object: map[string]any{"apiVersion": "e/v1", "kind": "E", "s": "<\n>"}},
			`{"type":"ADDED","object":{"apiVersion":"e/v1","kind":"E","s":"\u003c\n\u003e"}}`,
		},
		"a built-in kind, which the server knows in a form of its own": {
			watch.Bookmark, &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}},
			`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}`,
		},
		"an error": {
			watch.Error, &expired,
			`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
				`"message":"too old","reason":"Expired","code":410}}`,
		},
	} {
		var b bytes.Buffer
		if err := writeEvent(&b, runtime.ContentTypeJSON, watch.Event{Type: tc.kind, Object: tc.object}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := b.String(); got != tc.want+"\n" {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tc.want)
		}
	}
}
