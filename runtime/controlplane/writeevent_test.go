package controlplane

import (
	"bytes"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
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
		"an error": {
			watch.Error, &expired,
			`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
				`"message":"too old","reason":"Expired","code":410}}`,
		},
	} {
		var b bytes.Buffer
		if err := writeEvent(&b, watch.Event{Type: tc.kind, Object: tc.object}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := b.String(); got != tc.want+"\n" {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tc.want)
		}
	}
}
