package registration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	wire "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
)

// permission is a role that agents of an add-on get in a namespace of the hub.
type permission struct {
	namespace string
	role      rbacv1.RoleRef
}

// permissions are the roles that a template asks for: own are those of the agent of a
// cluster in the cluster's namespace, shared those that the agents of all clusters have
// in one namespace. What the template says wrong is left out and in the error.
func permissions(t *v1alpha1.AddOnTemplate, clusterName string) (own, shared []permission, problem error) {
	var problems []error
	for i, r := range t.Spec.Registration {
		if r.Type != v1alpha1.RegistrationTypeKubeClient || r.KubeClient == nil {
			continue
		}
		for j, p := range r.KubeClient.HubPermissions {
			at := fmt.Sprintf("spec.registration[%d].kubeClient.hubPermissions[%d] of the AddOnTemplate %s", i, j, t.Name)
			switch {
			case p.Type == v1alpha1.HubPermissionsBindingCurrentCluster && p.CurrentCluster == nil:
				problems = append(problems, fmt.Errorf("%s is of the type CurrentCluster and lacks currentCluster.clusterRoleName", at))
			case p.Type == v1alpha1.HubPermissionsBindingSingleNamespace && p.SingleNamespace == nil:
				problems = append(problems, fmt.Errorf("%s is of the type SingleNamespace and lacks singleNamespace with namespace and roleRef", at))
			case p.Type == v1alpha1.HubPermissionsBindingCurrentCluster:
				role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.CurrentCluster.ClusterRoleName}
				own = add(own, permission{namespace: clusterName, role: role})
			case p.Type == v1alpha1.HubPermissionsBindingSingleNamespace:
				s := p.SingleNamespace
				role := rbacv1.RoleRef{APIGroup: s.RoleRef.APIGroup, Kind: s.RoleRef.Kind, Name: s.RoleRef.Name}
				shared = add(shared, permission{namespace: s.Namespace, role: role})
			}
		}
	}
	return own, shared, errors.Join(problems...)
}

func add(to []permission, p permission) []permission {
	if slices.Contains(to, p) {
		return to
	}
	return append(to, p)
}

// subjects are who the agent of an add-on in a cluster is on the hub, and nobody else:
// the group of the agents of all clusters, which upstream binds as well, would give
// each of them rights in the namespaces of all others. There are none as long as that
// is not known.
func subjects(a *v1alpha1.ManagedClusterAddOn) []rbacv1.Subject {
	group, account := sharedSubjects(a.Namespace, a.Name)
	switch {
	case a.Status.KubeClientDriver != wire.DriverToken:
		user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: wire.User(a.Namespace, a.Name, wire.TemplateAgent(a.Name))}
		return []rbacv1.Subject{user, group}
	case meta.IsStatusConditionTrue(a.Status.Conditions, wire.ConditionTokenInfrastructureReady):
		return []rbacv1.Subject{account}
	}
	return nil // a service account of that name may be somebody else's
}

// sharedSubjects are how the agent in a cluster is named in a binding that the agents
// of all clusters share: one of the two, by the driver. Such a binding has to hold a
// fleet.
func sharedSubjects(clusterName, addOn string) (group, account rbacv1.Subject) {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: wire.ClusterAddOnGroup(clusterName, addOn)},
		rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: wire.ServiceAccountUser(clusterName, addOn)}
}

// grant gives the agent of an add-on in a cluster the roles that the template asks
// for, and takes those away that it no longer asks for.
func (c *Controller) grant(ctx context.Context, a *v1alpha1.ManagedClusterAddOn, t *v1alpha1.AddOnTemplate) error {
	own, shared, problem := permissions(t, a.Namespace)
	who := subjects(a)
	if len(who) == 0 && len(own)+len(shared) > 0 {
		return errPending // what it has, it keeps
	}
	want := make([]binding, 0, len(own))
	for _, p := range own {
		want = append(want, binding{permission: p, subjects: who, owner: a, as: c.as.Usual})
	}
	problem = errors.Join(problem, c.bindOwn(ctx, client.ObjectKeyFromObject(a), want))
	has, err := bindings(ctx, c.bindings, a.Name)
	if err != nil {
		return errors.Join(problem, err)
	}
	if !isShared(has, a, shared) {
		problem = errors.Join(problem, c.share(ctx, a.Name))
	}
	return problem
}

// bindOwn brings the bindings that a cluster has for itself to those that are wanted.
func (c *Controller) bindOwn(ctx context.Context, a types.NamespacedName, want []binding) error {
	have, err := bindings(ctx, c.bindings, a.Name, client.InNamespace(a.Namespace))
	if err != nil {
		return err
	}
	return c.bind(ctx, a.Name, slices.DeleteFunc(have, func(b rbacv1.RoleBinding) bool { return !isOwned(&b) }), want)
}

// isShared reports whether the agent of a cluster has just these of the roles that
// agents share.
func isShared(have []rbacv1.RoleBinding, a *v1alpha1.ManagedClusterAddOn, want []permission) bool {
	group, account := sharedSubjects(a.Namespace, a.Name)
	who := subjects(a)
	found := 0
	for i := range have {
		b := &have[i]
		if isOwned(b) {
			continue
		}
		named := slices.Contains(b.Subjects, group) || slices.Contains(b.Subjects, account)
		switch wanted := slices.Contains(want, permission{namespace: b.Namespace, role: b.RoleRef}); {
		case wanted && slices.Contains(b.Subjects, who[len(who)-1]):
			found++
		case named || wanted:
			return false
		}
	}
	return found == len(want)
}

// revoke takes its roles from the agent of a cluster that no longer has the add-on, or not
// from a template.
func (c *Controller) revoke(ctx context.Context, a types.NamespacedName) error {
	problem := c.bindOwn(ctx, a, nil) // sooner than the garbage collector
	has, err := bindings(ctx, c.bindings, a.Name)
	if err != nil {
		return errors.Join(problem, err)
	}
	group, account := sharedSubjects(a.Namespace, a.Name)
	for i := range has {
		if b := &has[i]; !isOwned(b) && (slices.Contains(b.Subjects, group) || slices.Contains(b.Subjects, account)) {
			return errors.Join(problem, c.share(ctx, a.Name))
		}
	}
	return problem
}

// share brings the bindings that the agents of an add-on share to what is wanted in
// all clusters together. An agent of a cluster that a rollout has not reached, or that
// is not known, keeps what it has; one of a cluster without the add-on has nothing.
func (c *Controller) share(ctx context.Context, addOn string) error {
	c.sharing.Lock()
	defer c.sharing.Unlock()
	have, err := bindings(ctx, c.live, addOn)
	if err != nil {
		return err
	}
	have = slices.DeleteFunc(have, func(b rbacv1.RoleBinding) bool { return isOwned(&b) })
	named, err := c.sharers(ctx, addOn, have)
	if err != nil {
		return err
	}
	want := make([]binding, 0, len(named))
	for p, who := range named {
		as, err := c.whoShares(ctx, p.namespace)
		if err != nil {
			return err
		}
		slices.SortFunc(who, func(a, b rbacv1.Subject) int {
			return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
		})
		want = append(want, binding{permission: p, subjects: slices.Compact(who), as: as})
	}
	slices.SortFunc(want, func(a, b binding) int {
		return strings.Compare(a.namespace+"/"+a.role.Name, b.namespace+"/"+b.role.Name)
	})
	return c.bind(ctx, addOn, have, want)
}

// sharers are the subjects that shared bindings are to have.
func (c *Controller) sharers(ctx context.Context, addOn string, have []rbacv1.RoleBinding) (map[permission][]rbacv1.Subject, error) {
	out := map[permission][]rbacv1.Subject{}
	definition, err := addons.Definition(ctx, c.client, addOn)
	if err != nil || definition != nil && !configs.FromTemplate(definition) {
		return out, err
	}
	all, err := addons.InClusters(ctx, c.client, addOn)
	if err != nil {
		return nil, err
	}
	sources := addons.NewSources(c.objects)
	for _, a := range all {
		accepted, err := c.isAccepted(ctx, a.Namespace)
		if err != nil {
			return nil, err
		}
		if !accepted {
			continue
		}
		source, _, err := sources.Of(ctx, a)
		if err != nil {
			return nil, err
		}
		who := subjects(a)
		if source == nil || source.Outdated != "" || len(who) == 0 || definition == nil {
			keep(out, a, have)
			continue
		}
		_, shared, _ := permissions(source.Template, a.Namespace) // its own pass reports the error
		for _, p := range shared {
			out[p] = append(out[p], who[len(who)-1])
		}
	}
	return out, nil
}

// keep adds what the agent of a cluster has.
func keep(to map[permission][]rbacv1.Subject, a *v1alpha1.ManagedClusterAddOn, have []rbacv1.RoleBinding) {
	group, account := sharedSubjects(a.Namespace, a.Name)
	for i := range have {
		p := permission{namespace: have[i].Namespace, role: have[i].RoleRef}
		for _, s := range []rbacv1.Subject{group, account} {
			if slices.Contains(have[i].Subjects, s) {
				to[p] = append(to[p], s)
			}
		}
	}
}

// isHubs reports whether a namespace is Kubernetes' or the hub's own.
func isHubs(namespace string) bool {
	return strings.HasPrefix(namespace, "kube-") || namespace != metav1.NamespaceDefault && cluster.IsReserved(namespace) ||
		namespace == muster.AccessKeyNamespace
}

// whoShares is who binds agents of all clusters in a namespace. In the hub's own
// namespaces, and in those of clusters, only what an administrator has granted there
// counts: their objects decide about others.
func (c *Controller) whoShares(ctx context.Context, namespace string) (client.Client, error) {
	if isHubs(namespace) {
		return c.as.Plain, nil
	}
	mc, err := apply.Read(ctx, c.client, types.NamespacedName{Name: namespace}, &clusterv1.ManagedCluster{}, client.UnsafeDisableDeepCopy)
	if err != nil || mc != nil {
		return c.as.Plain, err
	}
	return c.as.Usual, nil
}
