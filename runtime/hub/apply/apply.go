// Package apply brings single objects of the hub to a wanted state, reading
// from a controller's cache and writing only what differs.
package apply

import (
	"context"
	"fmt"
	"maps"

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

// Namespace makes sure that a namespace exists with the wanted labels; other
// labels stay.
func (a Applier) Namespace(ctx context.Context, want *corev1.Namespace) error {
	return ensure(ctx, a, want, &corev1.Namespace{}, func(have *corev1.Namespace) bool {
		return addLabels(have, want)
	})
}

// ClusterRole makes sure that a cluster role exists with the wanted rules.
func (a Applier) ClusterRole(ctx context.Context, want *rbacv1.ClusterRole) error {
	return ensure(ctx, a, want, &rbacv1.ClusterRole{}, func(have *rbacv1.ClusterRole) bool {
		changed := addLabels(have, want)
		if !apiequality.Semantic.DeepEqual(have.Rules, want.Rules) {
			have.Rules, changed = want.Rules, true
		}
		return changed
	})
}

// ClusterRoleBinding makes sure that a binding exists with the wanted subjects.
func (a Applier) ClusterRoleBinding(ctx context.Context, want *rbacv1.ClusterRoleBinding) error {
	return ensure(ctx, a, want, &rbacv1.ClusterRoleBinding{}, func(have *rbacv1.ClusterRoleBinding) bool {
		changed := addLabels(have, want)
		if !apiequality.Semantic.DeepEqual(have.Subjects, want.Subjects) {
			have.Subjects, changed = want.Subjects, true
		}
		return changed
	})
}

// RoleBinding makes sure that a binding exists with the wanted subjects. Its
// finalizers are only set at creation.
func (a Applier) RoleBinding(ctx context.Context, want *rbacv1.RoleBinding) error {
	return ensure(ctx, a, want, &rbacv1.RoleBinding{}, func(have *rbacv1.RoleBinding) bool {
		changed := addLabels(have, want)
		if !apiequality.Semantic.DeepEqual(have.Subjects, want.Subjects) {
			have.Subjects, changed = want.Subjects, true
		}
		return changed
	})
}

// ServiceAccount makes sure that a service account exists.
func (a Applier) ServiceAccount(ctx context.Context, want *corev1.ServiceAccount) error {
	return ensure(ctx, a, want, &corev1.ServiceAccount{}, func(have *corev1.ServiceAccount) bool {
		return addLabels(have, want)
	})
}

// Role makes sure that a role exists with the wanted rules.
func (a Applier) Role(ctx context.Context, want *rbacv1.Role) error {
	return ensure(ctx, a, want, &rbacv1.Role{}, func(have *rbacv1.Role) bool {
		changed := addLabels(have, want)
		if !apiequality.Semantic.DeepEqual(have.Rules, want.Rules) {
			have.Rules, changed = want.Rules, true
		}
		return changed
	})
}

// ConfigMap makes sure that a config map exists with the wanted entries; other
// entries stay.
func (a Applier) ConfigMap(ctx context.Context, want *corev1.ConfigMap) error {
	return ensure(ctx, a, want, &corev1.ConfigMap{}, func(have *corev1.ConfigMap) bool {
		changed := addLabels(have, want)
		for k, v := range want.Data {
			if have.Data[k] != v {
				if have.Data == nil {
					have.Data = map[string]string{}
				}
				have.Data[k], changed = v, true
			}
		}
		return changed
	})
}

func addLabels(have, want client.Object) bool {
	merged := maps.Clone(have.GetLabels())
	changed := false
	for k, v := range want.GetLabels() {
		if old, ok := merged[k]; !ok || old != v {
			if merged == nil {
				merged = map[string]string{}
			}
			merged[k], changed = v, true
		}
	}
	if changed {
		have.SetLabels(merged)
	}
	return changed
}

// ensure creates an object or, when change says that it differs, updates it.
func ensure[T client.Object](ctx context.Context, a Applier, want, have T, change func(have T) bool) error {
	describe := func(verb string, err error) error {
		return fmt.Errorf("%s the %T %s: %w", verb, want, client.ObjectKeyFromObject(want), err)
	}
	key := client.ObjectKeyFromObject(want)
	err := a.Client.Get(ctx, key, have)
	if apierrors.IsNotFound(err) {
		err = a.Client.Create(ctx, want.DeepCopyObject().(T))
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
	if change(have.DeepCopyObject().(T)) {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := a.Live.Get(ctx, key, have); err != nil {
				return err
			}
			if !change(have) {
				return nil
			}
			return a.Client.Update(ctx, have)
		})
		if err != nil {
			return describe("update", err)
		}
	}
	return nil
}

// Delete deletes an object that may be gone already.
func Delete(ctx context.Context, c client.Client, object client.Object) error {
	if err := c.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}
