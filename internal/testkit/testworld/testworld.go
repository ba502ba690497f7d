// Package testworld gives a test its objects on an API server: made, changed,
// read and removed with it. It works with any client, so it links no control
// plane; package testenv starts one.
package testworld

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// World is a test with a client. Packages embed it in a type of their own,
// which adds the words of what they test.
type World struct {
	testing.TB
	client.Client
}

// New is a world for one test.
func New(t testing.TB, c client.Client) *World { return &World{TB: t, Client: c} }

// Must fails the test at once when err is not nil.
func (w *World) Must(err error) {
	w.Helper()
	testkit.Must(w, err)
}

// Eventually calls check until it returns nil.
func (w *World) Eventually(check func() error) {
	w.Helper()
	testkit.Eventually(w, check)
}

// Make creates an object. It is deleted with the test, its finalizers too.
func (w *World) Make(o client.Object) {
	w.Helper()
	w.Must(w.Create(context.Background(), o))
	w.Cleanup(func() {
		w.Must(client.IgnoreNotFound(w.Delete(context.Background(), o)))
		w.Release(o)
	})
}

// Namespace makes a namespace and returns its name.
func (w *World) Namespace() string {
	w.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	w.Make(ns)
	return ns.Name
}

// Remove deletes an object, removes its finalizers and waits until it is gone.
// An object that is gone already is fine.
func (w *World) Remove(o client.Object) {
	w.Helper()
	w.Must(client.IgnoreNotFound(w.Delete(context.Background(), o)))
	w.Eventually(func() error {
		if err := w.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
			return client.IgnoreNotFound(err)
		}
		if err := w.release(o); err != nil {
			return err
		}
		return fmt.Errorf("%T %s is still there", o, o.GetName())
	})
}

// Release removes the finalizers of an object.
func (w *World) Release(o client.Object) {
	w.Helper()
	w.Must(w.release(o))
}

func (w *World) release(o client.Object) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	return client.IgnoreNotFound(w.Patch(context.Background(), o, patch))
}

// Merge changes an object's spec or metadata by a JSON merge patch.
func (w *World) Merge(o client.Object, patch string, args ...any) {
	w.Helper()
	w.Must(w.Patch(context.Background(), o, merge(patch, args)))
}

// Report changes an object's status by a JSON merge patch.
func (w *World) Report(o client.Object, patch string, args ...any) {
	w.Helper()
	w.Must(w.Status().Patch(context.Background(), o, merge(patch, args)))
}

// ReportOn reads an object and changes its status. When a controller writes the object
// between the two, it is read and changed again.
func (w *World) ReportOn(o client.Object, change func()) {
	w.Helper()
	ctx := context.Background()
	w.Must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := w.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change()
		return w.Status().Update(ctx, o)
	}))
}

func merge(patch string, args []any) client.Patch {
	if len(args) == 0 {
		return client.RawPatch(types.MergePatchType, []byte(patch))
	}
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, patch, args...))
}

// Reconcile has a controller look at an object once.
func (w *World) Reconcile(r reconcile.Reconciler, key types.NamespacedName) reconcile.Result {
	w.Helper()
	result, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: key})
	w.Must(err)
	return result
}
