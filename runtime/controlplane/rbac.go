package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	clientretry "k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
)

// rbacWorkers is how many of Kubernetes' default roles and bindings are
// reconciled side by side.
const rbacWorkers = 16

// rbacProvider serves the RBAC group with a quicker start: Kubernetes' own
// hook waits a second and then reconciles some 130 objects one by one, and
// nothing is ready before it is done.
type rbacProvider struct {
	rbacrest.RESTStorageProvider
}

// PostStartHook reconciles the default policy at once and in parallel.
func (rbacProvider) PostStartHook() (string, genericapiserver.PostStartHookFunc, error) {
	return rbacrest.PostStartHookName, reconcileDefaultPolicy, nil
}

// reconcileDefaultPolicy makes or completes the roles and bindings that
// Kubernetes brings. It is tried again until it works or the server stops:
// without it nobody but the administrator can do anything.
func reconcileDefaultPolicy(hook genericapiserver.PostStartHookContext) error {
	client, err := kubernetes.NewForConfig(hook.LoopbackClientConfig)
	if err != nil {
		return fmt.Errorf("reconcile the default RBAC policy: %w", err)
	}
	var last error // why the server stops before it has worked
	err = retry.Until(hook, clock.RealClock{}, retry.Quick(time.Second), func(ctx context.Context) error {
		last = reconcilePolicy(ctx, client)
		return last
	})
	if err != nil {
		return fmt.Errorf("reconcile the default RBAC policy: %w", cmp.Or(last, err))
	}
	return nil
}

func reconcilePolicy(ctx context.Context, client kubernetes.Interface) error {
	// Old data may hold roles that have since become aggregated, and bindings
	// that have since been split; both are carried over first.
	if err := carryOverOldPolicy(ctx, client); err != nil {
		return err
	}
	known, err := listPolicy(ctx, client)
	if err != nil {
		return err
	}
	rbac, namespaces := client.RbacV1(), client.CoreV1().Namespaces()
	var jobs []func() error
	addRole := func(role reconciliation.RuleOwner, writer reconciliation.RuleOwnerModifier) {
		stored := known.roles[key(role)]
		jobs = append(jobs, func() error {
			client := &roleClient{RuleOwnerModifier: writer, stored: stored}
			return retryTransient(func() error {
				_, err := (&reconciliation.ReconcileRoleOptions{Role: role, Client: client, Confirm: true}).Run()
				return err
			})
		})
	}
	addBinding := func(binding reconciliation.RoleBinding, writer reconciliation.RoleBindingModifier) {
		stored := known.bindings[key(binding)]
		jobs = append(jobs, func() error {
			client := &bindingClient{RoleBindingModifier: writer, stored: stored}
			return retryTransient(func() error {
				_, err := (&reconciliation.ReconcileRoleBindingOptions{RoleBinding: binding, Client: client, Confirm: true}).Run()
				return err
			})
		})
	}
	for _, r := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		addRole(reconciliation.ClusterRoleRuleOwner{ClusterRole: &r}, reconciliation.ClusterRoleModifier{Client: rbac.ClusterRoles()})
	}
	for _, b := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		addBinding(reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &b}, reconciliation.ClusterRoleBindingClientAdapter{Client: rbac.ClusterRoleBindings()})
	}
	for _, roles := range bootstrappolicy.NamespaceRoles() {
		for _, r := range roles {
			addRole(reconciliation.RoleRuleOwner{Role: &r}, reconciliation.RoleModifier{Client: rbac, NamespaceClient: namespaces})
		}
	}
	for _, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range bindings {
			addBinding(reconciliation.RoleBindingAdapter{RoleBinding: &b}, reconciliation.RoleBindingClientAdapter{Client: rbac, NamespaceClient: namespaces})
		}
	}
	return inParallel(rbacWorkers, jobs)
}

// policy is what is stored already. Four lists take the place of a read for
// each of the objects. Nearly all are unchanged at every start but the first.
type policy struct {
	roles    map[string]reconciliation.RuleOwner
	bindings map[string]reconciliation.RoleBinding
}

func listPolicy(ctx context.Context, client kubernetes.Interface) (policy, error) {
	p := policy{roles: map[string]reconciliation.RuleOwner{}, bindings: map[string]reconciliation.RoleBinding{}}
	// Only the default policy carries this label.
	list := metav1.ListOptions{LabelSelector: "kubernetes.io/bootstrapping=rbac-defaults"}
	rbac := client.RbacV1()
	clusterRoles, err := rbac.ClusterRoles().List(ctx, list)
	if err != nil {
		return p, err
	}
	for _, r := range clusterRoles.Items {
		owner := reconciliation.ClusterRoleRuleOwner{ClusterRole: &r}
		p.roles[key(owner)] = owner
	}
	clusterRoleBindings, err := rbac.ClusterRoleBindings().List(ctx, list)
	if err != nil {
		return p, err
	}
	for _, b := range clusterRoleBindings.Items {
		adapter := reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &b}
		p.bindings[key(adapter)] = adapter
	}
	roles, err := rbac.Roles("").List(ctx, list)
	if err != nil {
		return p, err
	}
	for _, r := range roles.Items {
		owner := reconciliation.RoleRuleOwner{Role: &r}
		p.roles[key(owner)] = owner
	}
	roleBindings, err := rbac.RoleBindings("").List(ctx, list)
	if err != nil {
		return p, err
	}
	for _, b := range roleBindings.Items {
		adapter := reconciliation.RoleBindingAdapter{RoleBinding: &b}
		p.bindings[key(adapter)] = adapter
	}
	return p, nil
}

func key(o interface {
	GetNamespace() string
	GetName() string
}) string {
	return o.GetNamespace() + "/" + o.GetName()
}

// roleClient answers the first read from the list, and later ones, which come
// after a failed write, from the API server.
type roleClient struct {
	reconciliation.RuleOwnerModifier
	stored reconciliation.RuleOwner
	read   bool
}

func (c *roleClient) Get(namespace, name string) (reconciliation.RuleOwner, error) {
	if c.read {
		return c.RuleOwnerModifier.Get(namespace, name)
	}
	c.read = true
	if c.stored == nil {
		return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), name)
	}
	return c.stored, nil
}

// bindingClient does the same for bindings.
type bindingClient struct {
	reconciliation.RoleBindingModifier
	stored reconciliation.RoleBinding
	read   bool
}

func (c *bindingClient) Get(namespace, name string) (reconciliation.RoleBinding, error) {
	if c.read {
		return c.RoleBindingModifier.Get(namespace, name)
	}
	c.read = true
	if c.stored == nil {
		return nil, apierrors.NewNotFound(rbacv1.Resource("rolebindings"), name)
	}
	return c.stored, nil
}

func retryTransient(fn func() error) error {
	return clientretry.OnError(clientretry.DefaultBackoff, func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsAlreadyExists(err)
	}, fn)
}

func carryOverOldPolicy(ctx context.Context, client kubernetes.Interface) error {
	for oldName, newName := range bootstrappolicy.ClusterRolesToAggregate() {
		if _, err := client.RbacV1().ClusterRoles().Get(ctx, newName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			if err != nil {
				return err
			}
			continue
		}
		role, err := client.RbacV1().ClusterRoles().Get(ctx, oldName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && role.AggregationRule != nil {
			continue
		}
		if err != nil {
			return err
		}
		moved := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: newName, Labels: role.Labels, Annotations: role.Annotations},
			Rules:      role.Rules,
		}
		if _, err := client.RbacV1().ClusterRoles().Create(ctx, moved, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	for oldName, target := range bootstrappolicy.ClusterRoleBindingsToSplit() {
		old, err := client.RbacV1().ClusterRoleBindings().Get(ctx, oldName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		target.Subjects, target.Labels, target.Annotations = old.Subjects, old.Labels, old.Annotations
		if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &target, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// inParallel runs jobs, workers at a time, and returns all their errors.
func inParallel(workers int, jobs []func() error) error {
	errs := make([]error, len(jobs))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, job := range jobs {
		group.Go(func() error {
			errs[i] = job()
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}
