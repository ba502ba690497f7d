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
	"slices"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	wire "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
)

// errPending is that it is not known yet who an add-on's agent is on the hub.
var errPending = errors.New(wire.MessagePermissionConfigPending)

// retryAfter is when to try again to bind an agent to a role. It may be there by then,
// or an administrator may have allowed it: roles are not watched.
const retryAfter = 30 * time.Second

// Controller is the stage that registers the agents of ManagedClusterAddOns.
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

// Pass says what the agent of one ManagedClusterAddOn gets, and gives it its roles
// on the hub. As upstream, nothing is said before the add-on has its owner, and a
// template whose content is known. While a rollout has not reached the cluster, and
// while the add-on is being deleted, it keeps what it has. A denied cluster's add-ons lose
// their roles, and have them again when the cluster is accepted.
//
// A key without a namespace is for the bindings that an add-on's agents share.
func (c *Controller) Pass(
	ctx context.Context, key types.NamespacedName, a *v1alpha1.ManagedClusterAddOn,
) (time.Duration, error) {
	switch {
	case key.Namespace == "":
		return 0, c.share(ctx, key.Name)
	case a == nil:
		return 0, c.revoke(ctx, key)
	}
	definition, err := addons.Definition(ctx, c.client, a.Name)
	switch {
	case err != nil || definition == nil || !a.DeletionTimestamp.IsZero():
		return 0, err
	case !configs.FromTemplate(definition):
		return 0, c.revoke(ctx, key)
	case !ownedByDefinition(a):
		return 0, nil
	}
	if accepted, err := c.isAccepted(ctx, a.Namespace); err != nil || !accepted {
		if err == nil {
			c.report(a, wire.MessageClusterNotAccepted)
			err = c.revoke(ctx, key)
		}
		return 0, err
	}
	source, missing, err := addons.SourceOf(ctx, c.objects, a)
	switch {
	case err != nil:
		return 0, err
	case source == nil:
		c.report(a, missing)
		return 0, nil
	case source.Outdated != "":
		return 0, nil
	}
	if own, shared, _ := permissions(source.Template, a.Namespace); a.UID == "" && len(own)+len(shared) > 0 {
		return 0, nil // it is registered once it has them
	}
	return c.register(ctx, a, source)
}

// isAccepted reports whether a namespace is that of an accepted cluster: nobody else has
// rights on the hub.
func (c *Controller) isAccepted(ctx context.Context, namespace string) (bool, error) {
	mc, err := apply.Read(ctx, c.client, types.NamespacedName{Name: namespace},
		&clusterv1.ManagedCluster{}, client.UnsafeDisableDeepCopy)
	return mc != nil && mc.Spec.AcceptsClient(), err
}

// register says what an add-on's agent gets.
func (c *Controller) register(
	ctx context.Context, a *v1alpha1.ManagedClusterAddOn, source *addons.Source,
) (again time.Duration, err error) {
	want, wrong := registrations(source.Template, a)
	var refused error
	if a.UID != "" {
		refused = c.grant(ctx, a, source.Template)
	}
	if apierrors.IsConflict(refused) {
		return 0, refused
	}
	if refused != nil && refused != errPending { //nolint:errorlint // it is never wrapped
		again = retryAfter
	}
	problem := refused
	if wrong != nil {
		problem = errors.Join(wrong, refused)
	}
	a.Status.Registrations = want
	a.Status.Namespace = template.InstallNamespace(source.Template, source.Config, a.Namespace)
	c.set(&a.Status, applied(problem))
	return again, nil
}

// report says in the condition, where there is one, what the add-on waits for. There is
// none before the add-on has been registered: deploying waits for the condition, and
// so does upstream's.
func (c *Controller) report(a *v1alpha1.ManagedClusterAddOn, missing string) {
	if have := meta.FindStatusCondition(a.Status.Conditions, wire.ConditionRegistrationApplied); have != nil {
		extended := *have
		extended.Message = fmt.Sprintf("%s as before: %s", wire.MessageRegistrationApplied, missing)
		c.set(&a.Status, extended)
	}
}

func (c *Controller) set(status *v1alpha1.ManagedClusterAddOnStatus, condition metav1.Condition) {
	condition.LastTransitionTime = metav1.NewTime(c.clock.Now())
	meta.SetStatusCondition(&status.Conditions, condition)
}

// Watch has a controller of ManagedClusterAddOns follow clusters and role bindings.
func (c *Controller) Watch(m manager.Manager, b *builder.Builder) (*builder.Builder, error) {
	labelled, err := addons.NewCache(m, addon.TemplateLabel, &rbacv1.RoleBinding{})
	if err != nil {
		return nil, err
	}
	c.bindings = labelled
	return b.
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster),
			builder.WithPredicates(watch.Changed(acceptanceChanged))).
		// What others change or delete, and what has outlived its add-on.
		WatchesRawSource(source.Kind[client.Object](labelled, &rbacv1.RoleBinding{},
			handler.EnqueueRequestsFromMapFunc(ofBinding))), nil
}

// Changed selects changes of all that a registration depends on, and of what is written
// of it.
func (c *Controller) Changed(was, is *v1alpha1.ManagedClusterAddOn) bool {
	before, after := was.Status, is.Status
	return was.UID != is.UID || !apiequality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences) ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
		before.Namespace != after.Namespace || before.KubeClientDriver != after.KubeClientDriver ||
		!apiequality.Semantic.DeepEqual(before.Registrations, after.Registrations) ||
		!apiequality.Semantic.DeepEqual(before.ConfigReferences, after.ConfigReferences) ||
		conditionChanged(was, is, wire.ConditionRegistrationApplied) || conditionChanged(was, is, wire.ConditionTokenInfrastructureReady)
}

func conditionChanged(was, is *v1alpha1.ManagedClusterAddOn, which string) bool {
	return !apiequality.Semantic.DeepEqual(meta.FindStatusCondition(was.Status.Conditions, which), meta.FindStatusCondition(is.Status.Conditions, which))
}

// ofBinding is the add-on of a binding: in one cluster, or in all that share it.
func ofBinding(_ context.Context, o client.Object) []reconcile.Request {
	b, ok := o.(*rbacv1.RoleBinding)
	if !ok || !isOf(b, b.Labels[cluster.AddOnNameLabel]) {
		return nil
	}
	key := types.NamespacedName{Name: b.Labels[cluster.AddOnNameLabel]}
	if isOwned(b) {
		key.Namespace = b.Namespace
	}
	return []reconcile.Request{{NamespacedName: key}}
}

func acceptanceChanged(was, is *clusterv1.ManagedCluster) bool {
	return was.Spec.AcceptsClient() != is.Spec.AcceptsClient()
}

func (c *Controller) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return watch.Matching[client.Object](ctx, c.client, &v1alpha1.ManagedClusterAddOnList{}, nil, client.InNamespace(o.GetName()))
}

// registrations are the credentials that a template asks for, for its agent in the
// cluster of a ManagedClusterAddOn. Those that can't be had are left out, and the
// error says why.
func registrations(t *v1alpha1.AddOnTemplate, a *v1alpha1.ManagedClusterAddOn) (out []v1alpha1.RegistrationConfig, problem error) {
	agent := v1alpha1.Subject{
		User:   wire.User(a.Namespace, a.Name, wire.TemplateAgent(a.Name)),
		Groups: wire.Groups(a.Namespace, a.Name),
	}
	for i, r := range t.Spec.Registration {
		switch {
		case r.Type == v1alpha1.RegistrationTypeKubeClient && a.Status.KubeClientDriver == wire.DriverToken:
			// What the agent writes with this driver.
			account := v1alpha1.Subject{User: wire.ServiceAccountUser(a.Namespace, a.Name)}
			out = append(out, v1alpha1.RegistrationConfig{SignerName: addon.KubeClientSigner, Subject: account})
		case r.Type == v1alpha1.RegistrationTypeKubeClient:
			out = append(out, v1alpha1.RegistrationConfig{SignerName: addon.KubeClientSigner, Subject: *agent.DeepCopy()})
		case r.CustomSigner == nil:
			// As upstream: there is nothing to ask for.
		case wire.ReservedSigner(r.CustomSigner.SignerName):
			problem = fmt.Errorf("spec.registration[%d].customSigner.signerName of the AddOnTemplate %s is %q, which is a signer of Kubernetes' own: use a domain of yours, or the type KubeClient for access to the hub",
				i, t.Name, r.CustomSigner.SignerName)
		default:
			subject := *agent.DeepCopy()
			if s := r.CustomSigner.Subject; s != nil {
				subject = *s.DeepCopy()
			}
			out = append(out, v1alpha1.RegistrationConfig{SignerName: r.CustomSigner.SignerName, Subject: subject})
		}
	}
	return out, problem
}

// applied is the condition of an add-on whose agent has got its rights on the hub, or
// could not get them.
func applied(problem error) metav1.Condition {
	c := metav1.Condition{
		Type: wire.ConditionRegistrationApplied, Status: metav1.ConditionTrue,
		Reason: wire.ReasonSetPermissionApplied, Message: wire.MessageRegistrationApplied,
	}
	switch {
	case problem == nil:
	case errors.Is(problem, errPending):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, wire.ReasonPermissionConfigPending, wire.MessagePermissionConfigPending
	default:
		c.Status, c.Reason = metav1.ConditionFalse, wire.ReasonSetPermissionFailed
		c.Message = text.Cut(fmt.Sprintf(wire.FormatSetPermissionFailed, problem), limits.ConditionMessage)
	}
	return c
}

// ownedByDefinition reports whether a ManagedClusterAddOn belongs to its
// ClusterManagementAddOn. As upstream, what group the owner is of is not looked at.
func ownedByDefinition(a *v1alpha1.ManagedClusterAddOn) bool {
	return slices.ContainsFunc(a.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "ClusterManagementAddOn" && o.Name == a.Name
	})
}
