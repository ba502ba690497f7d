// Package token makes the service accounts whose tokens the agents of add-ons get with
// the driver "token", and the right to ask for them. It does so for all add-ons, also
// for those with managers of their own.
package token

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	wire "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Controller reconciles the service accounts of ManagedClusterAddOns.
type Controller struct {
	client client.Client
	// made reads the objects that the controller has made, live past the cache.
	made, live client.Reader
	clock      clock.PassiveClock
}

// NewController makes the controller. live reads past the cache.
func NewController(c client.Client, live client.Reader, clk clock.PassiveClock) *Controller {
	return &Controller{client: c, made: live, live: live, clock: clk}
}

// Reconcile makes or removes the service account of one ManagedClusterAddOn. Unlike
// upstream's, it stays until the add-on is gone: what runs before the deletion may need
// the hub.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	a := &v1alpha1.ManagedClusterAddOn{}
	err := c.client.Get(ctx, r.NamespacedName, a)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return reconcile.Result{}, err
	case err != nil:
		return reconcile.Result{}, c.removeAll(ctx, r.NamespacedName)
	}
	wanted, again := wantsToken(a), time.Duration(0)
	if wanted {
		if wanted, again, err = c.mayHave(ctx, r.NamespacedName); err != nil {
			return reconcile.Result{}, err
		}
	}
	if !wanted {
		// The condition goes last: it is what shows that there may be something to remove.
		if err := c.removeAll(ctx, r.NamespacedName); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: again}, c.report(ctx, a, nil)
	}
	condition := metav1.Condition{
		Type: wire.ConditionTokenInfrastructureReady, Status: metav1.ConditionTrue, Reason: wire.ReasonTokenInfrastructureReady,
	}
	uid, problem := c.applyAll(ctx, r.NamespacedName)
	if problem == nil {
		condition.Message = wire.TokenInfrastructureMessage(a.Namespace, wire.ServiceAccount(a.Name), uid)
	} else {
		condition.Status, condition.Reason = metav1.ConditionFalse, wire.ReasonTokenInfrastructureApplyFailed
		condition.Message = fmt.Sprintf(wire.FormatTokenInfrastructureApplyFailed, problem)
	}
	return reconcile.Result{}, errors.Join(problem, c.report(ctx, a, &condition))
}

// mayHave reports whether an add-on may have a service account now, and when to look again.
// Only add-ons of accepted clusters do: one in another namespace, such as a tenant's, gets
// nothing of the hub. When another agent has taken over the cluster, the service account
// that there was goes, and all tokens with it; the next one is made when its tokens can't
// be taken for older ones.
func (c *Controller) mayHave(ctx context.Context, a types.NamespacedName) (ok bool, again time.Duration, err error) {
	mc := &clusterv1.ManagedCluster{}
	err = c.client.Get(ctx, client.ObjectKey{Name: a.Namespace}, mc, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, 0, fmt.Errorf("read the ManagedCluster %s: %w", a.Namespace, err)
	}
	if apierrors.IsNotFound(err) || !mc.Spec.AcceptsClient() {
		return false, 0, nil
	}
	void := cluster.VoidUntil(mc.Annotations)
	if wait := void.Add(time.Second).Sub(c.clock.Now()); wait > 0 {
		return false, wait, nil
	}
	account := &corev1.ServiceAccount{}
	err = c.made.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: wire.ServiceAccount(a.Name)}, account)
	if client.IgnoreNotFound(err) != nil {
		return false, 0, fmt.Errorf("read the service account of the add-on %s: %w", a, err)
	}
	if owner, ours := of(account); err == nil && ours && owner == a && !account.CreationTimestamp.After(void) {
		return false, time.Second, nil
	}
	return true, 0, nil
}

// wantsToken reports whether the agent of an add-on gets tokens for the hub.
func wantsToken(a *v1alpha1.ManagedClusterAddOn) bool {
	return a.Status.KubeClientDriver == wire.DriverToken && slices.ContainsFunc(a.Status.Registrations, func(r v1alpha1.RegistrationConfig) bool {
		return r.SignerName == addon.KubeClientSigner
	})
}

// applyAll makes all objects, and returns the UID of the service account.
func (c *Controller) applyAll(ctx context.Context, a types.NamespacedName) (account types.UID, err error) {
	for i, o := range objects(a) {
		uid, err := c.apply(ctx, a, o)
		if err != nil {
			return "", err
		}
		if i == 0 {
			account = uid
		}
	}
	return account, nil
}

func (c *Controller) removeAll(ctx context.Context, a types.NamespacedName) error {
	var problems []error
	for _, o := range objects(a) {
		problems = append(problems, c.remove(ctx, a, o))
	}
	return errors.Join(problems...)
}

// report writes the condition, or removes it.
func (c *Controller) report(ctx context.Context, a *v1alpha1.ManagedClusterAddOn, condition *metav1.Condition) error {
	_, err := patch.Status(ctx, c.client, a, func() bool {
		if condition == nil {
			return meta.RemoveStatusCondition(&a.Status.Conditions, wire.ConditionTokenInfrastructureReady)
		}
		condition.LastTransitionTime = metav1.NewTime(c.clock.Now())
		return meta.SetStatusCondition(&a.Status.Conditions, *condition)
	})
	return patch.Explain(err, "report on the service account of the add-on %s of the cluster %s", a.Name, a.Namespace)
}

// workers is how many add-ons are reconciled at a time.
const workers = 5

// Register adds the controller to a manager.
func (c *Controller) Register(m manager.Manager) error {
	kinds := []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}}
	made, err := addons.NewCache(m, addon.TokenInfrastructureLabel, kinds...)
	if err != nil {
		return err
	}
	c.made = made
	b := builder.ControllerManagedBy(m).
		Named("addon-token").
		For(&v1alpha1.ManagedClusterAddOn{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return concerned(e.Object) },
			UpdateFunc: func(e event.UpdateEvent) bool { return concerned(e.ObjectOld) || concerned(e.ObjectNew) },
			DeleteFunc: func(e event.DeleteEvent) bool { return concerned(e.Object) },
		}, watch.Changed(addOnChanged))).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster),
			builder.WithPredicates(watch.Changed(clusterChanged)))
	for _, kind := range kinds {
		// What others change or delete, and what has outlived its add-on.
		b = b.WatchesRawSource(source.Kind(made, kind, handler.EnqueueRequestsFromMapFunc(ofObject)))
	}
	return b.WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(patch.RetryConflicts(c))
}

// concerned selects add-ons with tokens, and those that have had them.
func concerned(o client.Object) bool {
	a, ok := o.(*v1alpha1.ManagedClusterAddOn)
	return ok && (wantsToken(a) || meta.FindStatusCondition(a.Status.Conditions, wire.ConditionTokenInfrastructureReady) != nil)
}

func addOnChanged(was, is *v1alpha1.ManagedClusterAddOn) bool {
	const ready = wire.ConditionTokenInfrastructureReady
	return was.UID != is.UID || wantsToken(was) != wantsToken(is) ||
		!apiequality.Semantic.DeepEqual(meta.FindStatusCondition(was.Status.Conditions, ready), meta.FindStatusCondition(is.Status.Conditions, ready))
}

func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	return was.Spec.AcceptsClient() != is.Spec.AcceptsClient() ||
		!cluster.VoidUntil(was.Annotations).Equal(cluster.VoidUntil(is.Annotations))
}

func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return watch.Matching(ctx, c.client, &v1alpha1.ManagedClusterAddOnList{}, func(a *v1alpha1.ManagedClusterAddOn) bool { return concerned(a) }, client.InNamespace(o.GetName()))
}

func ofObject(_ context.Context, o client.Object) []reconcile.Request {
	if a, ok := of(o); ok {
		return []reconcile.Request{{NamespacedName: a}}
	}
	return nil
}

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
	kind := fmt.Sprintf("the %s %s", apply.Kind(want), key)
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
	return patch.Explain(client.IgnoreNotFound(c.client.Delete(ctx, o, client.Preconditions{UID: &uid})), "delete the %s %s", apply.Kind(o), key)
}
