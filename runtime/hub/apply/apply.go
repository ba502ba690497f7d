// Package apply writes objects of the hub: single ones, brought to a wanted state by writing
// only what differs from a controller's cache, and many clusters' at a time.
package apply

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
		return fmt.Errorf("%s the %T %s: %w", verb, want, client.ObjectKeyFromObject(want), err)
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
		return fmt.Errorf("delete the %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}
