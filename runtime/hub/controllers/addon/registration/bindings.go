package registration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// binding is a role binding that is wanted.
type binding struct {
	permission
	subjects []rbacv1.Subject
	// owner is the ManagedClusterAddOn that has the binding for itself, nil for one
	// that clusters share.
	owner *v1alpha1.ManagedClusterAddOn
	// as is who makes it.
	as client.Client
}

// bindings are the role bindings of an add-on, of all its clusters or, with a
// namespace, there.
func bindings(ctx context.Context, r client.Reader, addOn string, options ...client.ListOption) ([]rbacv1.RoleBinding, error) {
	list := &rbacv1.RoleBindingList{}
	err := r.List(ctx, list, append(options, client.MatchingLabels{cluster.AddOnNameLabel: addOn}, client.HasLabels{addon.TemplateLabel})...)
	if err != nil {
		return nil, fmt.Errorf("list the role bindings of the add-on %s: %w", addOn, err)
	}
	return slices.DeleteFunc(list.Items, func(b rbacv1.RoleBinding) bool { return !isOf(&b, addOn) }), nil
}

// isOf reports whether a role binding is one that was made for an add-on, by its labels
// and name. Others are never touched.
func isOf(b *rbacv1.RoleBinding, addOn string) bool {
	_, ours := b.Labels[addon.TemplateLabel]
	return ours && b.Labels[cluster.AddOnNameLabel] == addOn &&
		strings.HasPrefix(b.Name, addon.PermissionBindingName(addOn, b.RoleRef.Kind))
}

// isOwned reports whether a binding is one that a single cluster has for itself.
func isOwned(b *rbacv1.RoleBinding) bool {
	return slices.ContainsFunc(b.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "ManagedClusterAddOn" && strings.HasPrefix(o.APIVersion, addon.GroupName+"/") && o.Name == b.Labels[cluster.AddOnNameLabel]
	})
}

// bind brings the bindings of an add-on that there are to those that are wanted. It
// goes on after an error.
func (c *Controller) bind(ctx context.Context, addOn string, have []rbacv1.RoleBinding, want []binding) error {
	var problems []error
	taken := make([]bool, len(have))
	at := make([]int, len(want))
	for i, w := range want {
		at[i] = slices.IndexFunc(have, func(b rbacv1.RoleBinding) bool { return b.Namespace == w.namespace && b.RoleRef == w.role })
		if at[i] >= 0 {
			taken[at[i]] = true
		}
	}
	for i := range have {
		if !taken[i] { // first: it may have the name of one that is wanted
			problems = append(problems, c.unbind(ctx, &have[i]))
		}
	}
	for i, w := range want {
		var existing *rbacv1.RoleBinding
		if at[i] >= 0 {
			existing = &have[at[i]]
		}
		problems = append(problems, c.bindOne(ctx, addOn, w, existing))
	}
	return errors.Join(problems...)
}

func (c *Controller) unbind(ctx context.Context, b *rbacv1.RoleBinding) error {
	err := c.client.Delete(ctx, b, client.Preconditions{UID: &b.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the role binding %s/%s: %w", b.Namespace, b.Name, err)
	}
	return nil
}

// bindOne makes or changes one binding. Of several roles of one kind in a namespace,
// the first has the name that upstream gives them all, and the others add the role's.
func (c *Controller) bindOne(ctx context.Context, addOn string, w binding, existing *rbacv1.RoleBinding) error {
	if existing != nil {
		return explain(w, change(ctx, w, addOn, existing))
	}
	name := addon.PermissionBindingName(addOn, w.role.Kind)
	var foreign []string
	for _, name := range []string{name, name + ":" + w.role.Name} {
		b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, RoleRef: w.role}
		w.fill(b, addOn)
		err := w.as.Create(ctx, b)
		if err == nil || !apierrors.IsAlreadyExists(err) {
			return explain(w, err)
		}
		there := &rbacv1.RoleBinding{}
		if err := c.live.Get(ctx, client.ObjectKeyFromObject(b), there); err != nil {
			return explain(w, err)
		}
		if isOf(there, addOn) && isOwned(there) == (w.owner != nil) && there.RoleRef == w.role {
			return explain(w, change(ctx, w, addOn, there))
		}
		foreign = append(foreign, name)
	}
	return fmt.Errorf("the role bindings %q in the namespace %s are not the add-on's, and have the names of its binding to the %s %s: rename or delete one of them",
		foreign, w.namespace, w.role.Kind, w.role.Name)
}

// change makes an existing binding what is wanted.
func change(ctx context.Context, w binding, addOn string, b *rbacv1.RoleBinding) error {
	before := b.DeepCopy()
	b = b.DeepCopy()
	w.fill(b, addOn)
	if apiequality.Semantic.DeepEqual(before, b) {
		return nil
	}
	return w.as.Update(ctx, b)
}

// fill sets what is wanted of a binding. Labels and owners that others added stay.
func (w binding) fill(b *rbacv1.RoleBinding, addOn string) {
	if b.Labels == nil {
		b.Labels = map[string]string{}
	}
	b.Labels[cluster.AddOnNameLabel], b.Labels[addon.TemplateLabel] = addOn, ""
	b.Subjects = w.subjects
	if w.owner == nil {
		return
	}
	owner := metav1.OwnerReference{
		APIVersion: v1beta1.GroupVersion.String(), Kind: "ManagedClusterAddOn", Name: w.owner.Name, UID: w.owner.UID,
	}
	at := slices.IndexFunc(b.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == owner.Kind && o.Name == owner.Name })
	if at < 0 {
		b.OwnerReferences = append(b.OwnerReferences, owner)
		return
	}
	b.OwnerReferences[at] = owner
}

// explain says what to do about a binding that could not be made.
func explain(w binding, err error) error {
	role := fmt.Sprintf("the %s %s in the namespace %s", w.role.Kind, w.role.Name, w.namespace)
	switch {
	case err == nil || apierrors.IsConflict(err):
		return err
	case apierrors.IsForbidden(err):
		return fmt.Errorf("bind its agent to %s: %w; an administrator can allow it by binding the service account %s of the namespace %s to the same role there, or by giving it the verb bind on the role",
			role, err, addon.ManagerServiceAccount, cluster.HubNamespace)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("bind its agent to %s: %w: the role and the namespace have to exist", role, err)
	}
	return fmt.Errorf("bind its agent to %s: %w", role, err)
}
