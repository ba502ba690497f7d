// Package apply reads and writes objects of the hub: single ones, brought to a wanted state
// by writing only what differs from a controller's cache, and many clusters' at a time. It
// also creates works, so that their agents have little to write.
package apply

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	goruntime "runtime"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Kind is the kind of an object with a Go type.
func Kind(o client.Object) string {
	_, kind, _ := strings.Cut(fmt.Sprintf("%T", o), ".")
	return kind
}

// Read reads an object into o; nil when there is none.
func Read[T client.Object](
	ctx context.Context, r client.Reader, key client.ObjectKey, o T, options ...client.GetOption,
) (T, error) {
	var none T
	if err := r.Get(ctx, key, o, options...); err != nil {
		return none, patch.Explain(client.IgnoreNotFound(err), "read the %s %s", Kind(o), key)
	}
	return o, nil
}

// Applier applies objects.
type Applier struct {
	// Client reads from the cache. The cache may hold only labelled objects.
	Client client.Client
	// Live reads from the server, for objects that exist without our labels.
	Live client.Reader
}

// Apply makes sure that an object exists with the wanted labels, rules, subjects
// and entries. Labels and entries that others added stay. Finalizers and role
// references are set only when the object is created.
func (a Applier) Apply(ctx context.Context, want client.Object) error {
	describe := func(verb string, err error) error {
		return fmt.Errorf("%s the %s %s: %w", verb, Kind(want), client.ObjectKeyFromObject(want), err)
	}
	key := client.ObjectKeyFromObject(want)
	have := reflect.New(reflect.TypeOf(want).Elem()).Interface().(client.Object)
	err := a.Client.Get(ctx, key, have)
	if apierrors.IsNotFound(err) {
		err = a.Client.Create(ctx, want.DeepCopyObject().(client.Object))
		if err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return describe("create", err)
		}
		err = a.Live.Get(ctx, key, have)
	}
	if err != nil {
		return describe("read", err)
	}
	if !change(have.DeepCopyObject().(client.Object), want) {
		return nil
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := a.Live.Get(ctx, key, have); err != nil || !change(have, want) {
			return err
		}
		return a.Client.Update(ctx, have)
	})
	if err != nil {
		return describe("update", err)
	}
	return nil
}

// change makes an object what is wanted, and reports whether it was not.
func change(have, want client.Object) bool {
	changed := addLabels(have, want)
	switch want := want.(type) {
	case *rbacv1.ClusterRole:
		have := have.(*rbacv1.ClusterRole)
		if want.AggregationRule != nil { // the rules are those of other roles
			return replace(&have.AggregationRule, want.AggregationRule) || changed
		}
		return replace(&have.Rules, want.Rules) || changed
	case *rbacv1.Role:
		return replace(&have.(*rbacv1.Role).Rules, want.Rules) || changed
	case *rbacv1.ClusterRoleBinding:
		return replace(&have.(*rbacv1.ClusterRoleBinding).Subjects, want.Subjects) || changed
	case *rbacv1.RoleBinding:
		return replace(&have.(*rbacv1.RoleBinding).Subjects, want.Subjects) || changed
	case *corev1.ConfigMap:
		return add(&have.(*corev1.ConfigMap).Data, want.Data) || changed
	}
	return changed
}

func addLabels(have, want client.Object) bool {
	labels := have.GetLabels()
	changed := add(&labels, want.GetLabels())
	have.SetLabels(labels)
	return changed
}

func replace[T any](have *T, want T) bool {
	if apiequality.Semantic.DeepEqual(*have, want) {
		return false
	}
	*have = want
	return true
}

func add(have *map[string]string, want map[string]string) (changed bool) {
	for k, v := range want {
		if old, ok := (*have)[k]; ok && old == v {
			continue
		}
		if *have == nil {
			*have = map[string]string{}
		}
		(*have)[k], changed = v, true
	}
	return changed
}

// Delete deletes an object that may be gone already.
func Delete(ctx context.Context, c client.Client, object client.Object) error {
	if err := c.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the %s %s: %w", Kind(object), client.ObjectKeyFromObject(object), err)
	}
	return nil
}

const (
	// atOnce is how many calls of one Parallel there are at a time.
	atOnce = 10
	// shownErrors is how many errors are reported: those of a large fleet are mostly
	// the same.
	shownErrors = 3
)

// CreateWork creates a work. An agent adds its finalizer to a work before it applies
// anything, which is a third of all writes until the work is reported. So a work for
// a cluster that is available with an agent of muster has it from the start. Other clusters
// may have no agent that would take it off.
func CreateWork(ctx context.Context, c client.Client, w *workv1.ManifestWork) error {
	key := client.ObjectKey{Name: w.Namespace}
	mc, err := Read(ctx, c, key, &clusterv1.ManagedCluster{}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return err
	}
	if mc != nil && mc.DeletionTimestamp.IsZero() && mc.Annotations[muster.WorkPreviewsAnnotation] == "true" &&
		meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionAvailable) {
		controllerutil.AddFinalizer(w, work.ManifestWorkFinalizer)
	}
	return c.Create(ctx, w)
}

// writers limits the calls of every Parallel in this process together. More than the
// processors can carry out would delay the agents, which report what the calls have written.
var writers = semaphore.NewWeighted(4 * int64(goruntime.GOMAXPROCS(0)))

// Parallel calls do for 0 to n-1, some at a time, and joins the first errors in that
// order. A panic of do is the error of that call. do must not call Parallel, as each call
// counts for writers.
func Parallel(n int, do func(i int) error) error {
	errs := make([]error, n)
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error {
			_ = writers.Acquire(context.Background(), 1) // a call ends with its request
			defer writers.Release(1)
			errs[i] = recovery.Call(func() error { return do(i) })
			return nil
		})
	}
	_ = group.Wait()
	var shown []error
	count := 0
	for _, err := range errs {
		if err == nil {
			continue
		}
		if count++; count <= shownErrors {
			shown = append(shown, err)
		}
	}
	if count > shownErrors {
		shown = append(shown, fmt.Errorf("and %d more of the kind", count-shownErrors))
	}
	return errors.Join(shown...)
}
