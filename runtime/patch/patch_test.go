package patch

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestWrite(t *testing.T) {
	things := schema.GroupResource{Resource: "things"}
	conflict := apierrors.NewConflict(things, "x", errors.New("changed"))
	for name, c := range map[string]struct {
		change  bool
		options []Option
		answer  error
		sent    string
		written bool
		err     error
	}{
		"a change":                 {change: true, written: true, sent: `{"metadata":{"labels":{"a":"b"},"resourceVersion":"7"}}`},
		"a change by the only one": {change: true, options: []Option{SoleWriter()}, written: true, sent: `{"metadata":{"labels":{"a":"b"}}}`},
		"no change":                {},
		"a conflict":               {change: true, answer: conflict, sent: `{"metadata":{"labels":{"a":"b"},"resourceVersion":"7"}}`, err: conflict},
		"an object that is gone": {
			change: true, answer: apierrors.NewNotFound(things, "x"), sent: `{"metadata":{"labels":{"a":"b"},"resourceVersion":"7"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &corev1.ConfigMap{}
			o.Name, o.ResourceVersion = "x", "7"
			change := func() bool {
				if c.change {
					o.Labels = map[string]string{"a": "b"}
				}
				return c.change
			}
			var sent string
			written, err := write(o, change, c.options, func(p client.Patch) error {
				data, err := p.Data(o)
				sent = string(data)
				return errors.Join(err, c.answer)
			})
			if written != c.written || !errors.Is(err, c.err) || sent != c.sent {
				t.Errorf("got written %v, error %v, patch %s; want %v, %v, %s", written, err, sent, c.written, c.err, c.sent)
			}
		})
	}
}

// A status that is written whole is subject to the same policy.
func TestWholeStatus(t *testing.T) {
	things := schema.GroupResource{Resource: "things"}
	conflict := apierrors.NewConflict(things, "x", errors.New("changed"))
	missing := apierrors.NewNotFound(things, "x")
	for name, c := range map[string]struct {
		answer, err error
		written     bool
	}{
		"a change":               {written: true},
		"a conflict":             {answer: conflict, err: conflict},
		"an object that is gone": {answer: missing},
	} {
		t.Run(name, func(t *testing.T) {
			server := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				SubResourceUpdate: func(
					context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption,
				) error {
					return c.answer
				},
			})
			written, err := WholeStatus(t.Context(), server, &corev1.ConfigMap{})
			if written != c.written || !errors.Is(err, c.err) {
				t.Errorf("got written %v, error %v; want %v, %v", written, err, c.written, c.err)
			}
		})
	}
}

func TestConflictsAreRetriedWithoutAnError(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("changed"))
	failure := errors.New("no")
	for name, c := range map[string]struct {
		err, want error
		again     bool
	}{
		"a conflict": {fmt.Errorf("write: %w", conflict), nil, true},
		"a failure":  {failure, failure, false},
		"none":       {nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := RetryConflicts(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, c.err }))
			result, err := r.Reconcile(context.Background(), reconcile.Request{})
			if !errors.Is(err, c.want) || result.IsZero() == c.again {
				t.Errorf("got %+v and %v", result, err)
			}
		})
	}
}
