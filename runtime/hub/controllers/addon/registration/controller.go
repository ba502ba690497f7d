// Package registration is the manager's part in the registration of add-ons from
// templates: it says which credentials the agent of such an add-on gets, and in which
// namespace of the managed cluster, and gives the agent the rights on the hub that the
// template asks for.
//
// Add-ons with managers of their own are left to these.
package registration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	wire "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// errPending is that it is not known yet who an add-on's agent is on the hub.
var errPending = errors.New(wire.MessagePermissionConfigPending)

// retryAfter is when to try again to bind an agent to a role. It may be there by then,
// or an administrator may have allowed it: roles are not watched.
const retryAfter = 30 * time.Second

// Controller reconciles the registrations of ManagedClusterAddOns.
type Controller struct {
	client client.Client
	// objects reads configuration objects as they are on the wire, live past the
	// cache, and bindings the role bindings of add-ons from templates.
	objects, live, bindings client.Reader
	// as is who binds agents to roles.
	as    addons.Manager
	clock clock.PassiveClock
	// sharing is held while the bindings are written that several clusters share.
	sharing sync.Mutex
}

// NewController makes the controller. objects reads objects without Go types, live past
// the cache.
func NewController(c client.Client, objects, live client.Reader, as addons.Manager, clk clock.PassiveClock) *Controller {
	return &Controller{client: c, objects: objects, live: live, bindings: live, as: as, clock: clk}
}

// Reconcile says what the agent of one ManagedClusterAddOn gets, and gives it its roles
// on the hub. As upstream, nothing is said before the add-on has its owner, and a
// template whose content is known. While a rollout has not reached the cluster, and
// while the add-on is being deleted, it keeps what it has. A denied cluster's add-ons lose
// their roles, and have them again when the cluster is accepted.
//
// A request without a namespace is for the bindings that an add-on's agents share.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	if r.Namespace == "" {
		return reconcile.Result{}, c.share(ctx, r.Name)
	}
	a := &v1alpha1.ManagedClusterAddOn{}
	if err := c.client.Get(ctx, r.NamespacedName, a); err != nil {
		if apierrors.IsNotFound(err) {
			err = c.revoke(ctx, r.NamespacedName)
		}
		return reconcile.Result{}, err
	}
	definition, err := addons.Definition(ctx, c.client, a.Name)
	switch {
	case err != nil || definition == nil || !a.DeletionTimestamp.IsZero():
		return reconcile.Result{}, err
	case !configs.FromTemplate(definition):
		return reconcile.Result{}, c.revoke(ctx, r.NamespacedName)
	case !ownedByDefinition(a):
		return reconcile.Result{}, nil
	}
	if accepted, err := c.isAccepted(ctx, a.Namespace); err != nil || !accepted {
		if err == nil {
			err = errors.Join(c.revoke(ctx, r.NamespacedName), c.report(ctx, a, wire.MessageClusterNotAccepted))
		}
		return reconcile.Result{}, err
	}
	source, missing, err := addons.SourceOf(ctx, c.objects, a)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case source == nil:
		return reconcile.Result{}, c.report(ctx, a, missing)
	case source.Outdated != "":
		return reconcile.Result{}, nil
	}
	return c.register(ctx, a, source)
}

// isAccepted reports whether a namespace is that of an accepted cluster: nobody else has
// rights on the hub.
func (c *Controller) isAccepted(ctx context.Context, namespace string) (bool, error) {
	mc := &clusterv1.ManagedCluster{}
	err := c.client.Get(ctx, types.NamespacedName{Name: namespace}, mc, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read the ManagedCluster %s: %w", namespace, err)
	}
	return err == nil && mc.Spec.AcceptsClient(), nil
}

// register writes what an add-on's agent gets.
func (c *Controller) register(ctx context.Context, a *v1alpha1.ManagedClusterAddOn, source *addons.Source) (reconcile.Result, error) {
	want, wrong := registrations(source.Template, a)
	refused := c.grant(ctx, a, source.Template)
	if apierrors.IsConflict(refused) {
		return reconcile.Result{}, refused
	}
	var again time.Duration
	if refused != nil && refused != errPending { //nolint:errorlint // it is never wrapped
		again = retryAfter
	}
	problem := refused
	if wrong != nil {
		problem = errors.Join(wrong, refused)
	}
	namespace := template.InstallNamespace(source.Template, source.Config, a.Namespace)
	return reconcile.Result{RequeueAfter: again}, c.write(ctx, a, func(status *v1alpha1.ManagedClusterAddOnStatus) {
		status.Registrations = want
		status.Namespace = namespace
		c.set(status, applied(problem))
	})
}

// report says in the condition, where there is one, what the add-on waits for. There is
// none before the add-on has been registered: deploying waits for the condition, and
// so does upstream's.
func (c *Controller) report(ctx context.Context, a *v1alpha1.ManagedClusterAddOn, missing string) error {
	return c.write(ctx, a, func(status *v1alpha1.ManagedClusterAddOnStatus) {
		if have := meta.FindStatusCondition(status.Conditions, wire.ConditionRegistrationApplied); have != nil {
			extended := *have
			extended.Message = fmt.Sprintf("%s as before: %s", wire.MessageRegistrationApplied, missing)
			c.set(status, extended)
		}
	})
}

func (c *Controller) set(status *v1alpha1.ManagedClusterAddOnStatus, condition metav1.Condition) {
	condition.LastTransitionTime = metav1.NewTime(c.clock.Now())
	meta.SetStatusCondition(&status.Conditions, condition)
}

func (c *Controller) write(ctx context.Context, a *v1alpha1.ManagedClusterAddOn, change func(*v1alpha1.ManagedClusterAddOnStatus)) error {
	_, err := patch.Status(ctx, c.client, a, func() bool {
		before := a.Status.DeepCopy()
		change(&a.Status)
		return !apiequality.Semantic.DeepEqual(*before, a.Status)
	})
	if err != nil {
		return fmt.Errorf("register the add-on %s of the cluster %s: %w", a.Name, a.Namespace, err)
	}
	return nil
}
