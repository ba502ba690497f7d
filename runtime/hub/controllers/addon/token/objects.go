package token

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wire "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// objects are what an add-on's agent needs for tokens, the service account first.
func objects(a types.NamespacedName) []client.Object {
	made := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: a.Namespace, Name: name, Labels: map[string]string{
			addon.TokenAddOnLabel: a.Name, addon.TokenInfrastructureLabel: "true",
		}}
	}
	role := wire.TokenRole(a.Name)
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: made(wire.ServiceAccount(a.Name))},
		&rbacv1.Role{ObjectMeta: made(role), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{wire.ServiceAccount(a.Name)}, Verbs: []string{"create"}},
			// Asked of upstream's gRPC server only.
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"subscribe"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: made(role),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
			Subjects: []rbacv1.Subject{
				{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster.Group(a.Namespace)},
				{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster.GroupWithoutPrefix(a.Namespace)},
			},
		},
	}
}

// of is the add-on that an object was made for; ok is false for others'.
func of(o client.Object) (a types.NamespacedName, ok bool) {
	labels := o.GetLabels()
	a = types.NamespacedName{Namespace: o.GetNamespace(), Name: labels[addon.TokenAddOnLabel]}
	name := wire.TokenRole(a.Name)
	if _, account := o.(*corev1.ServiceAccount); account {
		name = wire.ServiceAccount(a.Name)
	}
	return a, a.Name != "" && labels[addon.TokenInfrastructureLabel] == "true" && o.GetName() == name
}

// apply makes an object what is wanted, and returns the UID of the one that is there
// then. Another one's of the same name is left alone.
func (c *Controller) apply(ctx context.Context, a types.NamespacedName, want client.Object) (types.UID, error) {
	key := client.ObjectKeyFromObject(want)
	have := want.DeepCopyObject().(client.Object)
	err := c.made.Get(ctx, key, have)
	if apierrors.IsNotFound(err) {
		err = c.client.Create(ctx, want)
		if err == nil {
			return want.GetUID(), nil
		}
		if apierrors.IsAlreadyExists(err) {
			err = c.live.Get(ctx, key, have)
		}
	}
	kind := fmt.Sprintf("the %s %s", kindOf(want), key)
	if err != nil {
		return "", fmt.Errorf("make %s: %w", kind, err)
	}
	if owner, ok := of(have); !ok || owner != a {
		return "", fmt.Errorf("%s exists and is not the add-on's, as it lacks the labels %s=%s and %s=true: delete it, or choose another name for the add-on",
			kind, addon.TokenAddOnLabel, a.Name, addon.TokenInfrastructureLabel)
	}
	if !change(have, want) {
		return have.GetUID(), nil
	}
	if err := c.client.Update(ctx, have); err != nil {
		return "", fmt.Errorf("update %s: %w", kind, err)
	}
	return have.GetUID(), nil
}

// change puts right what others have changed.
func change(have, want client.Object) bool {
	switch want := want.(type) {
	case *rbacv1.Role:
		have := have.(*rbacv1.Role)
		if !apiequality.Semantic.DeepEqual(have.Rules, want.Rules) {
			have.Rules = want.Rules
			return true
		}
	case *rbacv1.RoleBinding:
		have := have.(*rbacv1.RoleBinding)
		if !apiequality.Semantic.DeepEqual(have.Subjects, want.Subjects) {
			have.Subjects = want.Subjects
			return true
		}
	}
	return false
}

func kindOf(o client.Object) string {
	switch o.(type) {
	case *corev1.ServiceAccount:
		return "ServiceAccount"
	case *rbacv1.Role:
		return "Role"
	}
	return "RoleBinding"
}

// remove deletes an object, if it is the add-on's.
func (c *Controller) remove(ctx context.Context, a types.NamespacedName, o client.Object) error {
	key := client.ObjectKeyFromObject(o)
	if err := c.made.Get(ctx, key, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	if owner, ok := of(o); !ok || owner != a {
		return nil
	}
	uid := o.GetUID()
	if err := c.client.Delete(ctx, o, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the %s %s: %w", kindOf(o), key, err)
	}
	return nil
}
