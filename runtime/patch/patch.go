// Package patch changes objects with one policy for all controllers of hub and agent.
//
//   - A change is written as a merge patch that names the resource version which
//     it was made from, so that it overwrites nothing. Nothing is written when
//     nothing changed.
//   - A status that one client alone writes, and often, is written whole (WholeStatus),
//     from a version, too.
//   - A conflict is an error that RetryConflicts turns into a retry: another client
//     was faster, and that is no failure.
//   - An object that is gone needs no change: no error, and nothing written.
//   - Conditions get no observedGeneration here. Those of upstream's controllers
//     have one on Placements and ManifestWorkReplicaSets only, whose controllers
//     set it.
package patch

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Object changes an object, apart from its status. change changes the object in
// place and reports whether it did; an object of the cache has to be copied
// before. written is false when there was nothing to write, or the object is
// gone.
func Object(ctx context.Context, c client.Client, o client.Object, change func() bool, options ...Option) (written bool, err error) {
	return write(o, change, options, func(p client.Patch) error { return c.Patch(ctx, o, p) })
}

// Status changes the status of an object as Object does the rest.
func Status(ctx context.Context, c client.Client, o client.Object, change func() bool, options ...Option) (written bool, err error) {
	return write(o, change, options, func(p client.Patch) error { return c.Status().Patch(ctx, o, p) })
}

// WholeStatus writes all of the status of an object, for a client that alone writes it. bare
// has the namespace, name, UID and resource version of what the status was made from, and the
// status. It becomes the object as the server has stored it. A server ignores the rest of an
// object in such a request, so nobody sends, compares or merges it.
func WholeStatus(ctx context.Context, c client.Client, bare client.Object) (written bool, err error) {
	err = c.Status().Update(ctx, bare)
	return err == nil, client.IgnoreNotFound(err)
}

// Explain says in the error of a write what was being done. nil stays nil.
func Explain(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), err)
}

// Option changes how a patch is written.
type Option func(*settings)

type settings struct{ unlocked bool }

// SoleWriter is for what nobody else writes: the patch applies to any version of
// the object.
func SoleWriter() Option { return func(s *settings) { s.unlocked = true } }

func write(o client.Object, change func() bool, options []Option, send func(client.Patch) error) (bool, error) {
	var s settings
	for _, option := range options {
		option(&s)
	}
	before := o.DeepCopyObject().(client.Object)
	if !change() {
		return false, nil
	}
	p := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if s.unlocked {
		p = client.MergeFrom(before)
	}
	err := send(p)
	return err == nil, client.IgnoreNotFound(err)
}

// RetryConflicts has a reconciler called again, after a pause that grows, when
// its error is a conflict: the object had changed since it was read.
func RetryConflicts(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, request)
		if apierrors.IsConflict(err) {
			return reconcile.Result{Requeue: true}, nil //nolint:staticcheck // RequeueAfter knows no growing pause
		}
		return result, err
	})
}

// RetryConflictsAfter is RetryConflicts with a pause that stays the same. It is for
// controllers whose growing pauses are meant for other failures, and are too long here.
func RetryConflictsAfter(pause time.Duration, r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, request)
		if apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: pause}, nil
		}
		return result, err
	})
}
