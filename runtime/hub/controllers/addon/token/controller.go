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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	wire "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
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
	if err != nil {
		return fmt.Errorf("report on the service account of the add-on %s of the cluster %s: %w", a.Name, a.Namespace, err)
	}
	return nil
}
