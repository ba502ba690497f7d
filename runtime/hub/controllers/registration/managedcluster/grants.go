package managedcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// grants are the objects that give a cluster's agents their rights, as they are
// wanted.
type grants struct {
	namespace *corev1.Namespace
	// clusterRole is what the agents may do outside their namespace.
	clusterRole         *rbacv1.ClusterRole
	clusterRoleBinding  *rbacv1.ClusterRoleBinding
	registrationBinding *rbacv1.RoleBinding
	// workBinding has a finalizer, so that the agents keep their access to works
	// until they have cleaned up behind the last of them.
	workBinding *rbacv1.RoleBinding
}

// newGrants are the grants of the cluster of this name. extra labels are on every
// object.
func newGrants(name string, accepted bool, extra map[string]string) grants {
	labels := map[string]string{}
	maps.Copy(labels, extra)
	labels[cluster.NameLabel] = name
	agents := subjects(name)
	g := grants{
		namespace:   &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}},
		clusterRole: &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName(name), Labels: labels}, Rules: Rules(name, accepted)},
		clusterRoleBinding: &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: cluster.RoleName(name), Labels: labels},
			RoleRef:    clusterRoleRef(cluster.RoleName(name)),
			Subjects:   agents,
		},
		registrationBinding: &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.RegistrationBindingName(name), Labels: labels},
			RoleRef:    clusterRoleRef(cluster.RegistrationRole),
			Subjects:   agents,
		},
		workBinding: &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.WorkBindingName(name), Labels: labels},
			RoleRef:    clusterRoleRef(cluster.WorkRole),
			Subjects:   agents,
		},
	}
	g.workBinding.Finalizers = []string{work.ManifestWorkFinalizer}
	return g
}

// Rules are what a cluster's agents may do outside their namespace. Those of a
// denied cluster may only see that they were denied.
func Rules(name string, accepted bool) []rbacv1.PolicyRule {
	if !accepted {
		return []rbacv1.PolicyRule{
			rule(cluster.GroupName, "managedclusters", name, "get", "list", "watch"),
		}
	}
	return []rbacv1.PolicyRule{
		rule(certificatesv1.GroupName, "certificatesigningrequests", "", "create", "get", "list", "watch"),
		rule(cluster.RegisterGroupName, "managedclusters/clientcertificates", "", "renew"),
		rule(cluster.GroupName, "managedclusters", name, "get", "list", "update", "watch"),
		rule(cluster.GroupName, "managedclusters/status", name, "patch", "update"),
	}
}

func rule(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	if name != "" {
		r.ResourceNames = []string{name}
	}
	return r
}

func clusterRoleRef(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

// subjects are a cluster's agents. The second group is for identity providers
// that forbid names with the prefix "system:".
func subjects(name string) []rbacv1.Subject {
	return []rbacv1.Subject{
		{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster.Group(name)},
		{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster.GroupWithoutPrefix(name)},
	}
}

// What upstream's controller calls a change of the acceptance in its log.
const (
	eventAccepted = "ManagedClusterAccepted"
	eventDenied   = "ManagedClusterDenied"
)

// accepted is the status of the condition HubAcceptedManagedCluster, "" when
// the cluster has none.
func accepted(mc *clusterv1.ManagedCluster) metav1.ConditionStatus {
	if have := meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionHubAccepted); have != nil {
		return have.Status
	}
	return ""
}

// acceptsNow reports whether a cluster is new and accepted for that.
func (c *Controller) acceptsNow(mc *clusterv1.ManagedCluster) bool {
	return c.options.AcceptNew && mc.Annotations[cluster.AutoAcceptedAnnotation] == ""
}

// acceptOnce accepts a new cluster and notes it, so that one that is denied
// later stays denied. It reports whether the cluster is still there.
func (c *Controller) acceptOnce(ctx context.Context, mc *clusterv1.ManagedCluster) (bool, error) {
	written, err := patch.Object(ctx, c.client, mc, func() bool {
		metav1.SetMetaDataAnnotation(&mc.ObjectMeta, cluster.AutoAcceptedAnnotation, c.clock.Now().UTC().Format(time.RFC3339))
		mc.Spec.HubAcceptsClient = ptr.To(true)
		return true
	})
	if err != nil {
		return false, fmt.Errorf("accept the cluster %s: %w", mc.Name, err)
	}
	return written, nil
}

// admit gives an accepted cluster its namespace and its rights.
func (c *Controller) admit(ctx context.Context, mc *clusterv1.ManagedCluster, g grants) error {
	there, err := c.addFinalizer(ctx, mc)
	if err == nil && there {
		err = c.grant(ctx, mc, g)
	}
	switch {
	case err != nil:
		return errors.Join(err, c.setAccepted(ctx, mc, metav1.ConditionFalse, cluster.ReasonError, err.Error()))
	case !there:
		return nil
	}
	return c.setAccepted(ctx, mc, metav1.ConditionTrue, cluster.ReasonHubAccepted, cluster.MessageHubAccepted)
}

// addFinalizer gives the finalizer to a cluster that has none: one from before
// admission added it together with the acceptance, or from an upstream hub's
// backup. It reports whether the cluster is still there.
func (c *Controller) addFinalizer(ctx context.Context, mc *clusterv1.ManagedCluster) (bool, error) {
	if controllerutil.ContainsFinalizer(mc, cluster.APIResourceCleanupFinalizer) {
		return true, nil
	}
	written, err := patch.Object(ctx, c.client, mc, func() bool {
		return controllerutil.AddFinalizer(mc, cluster.APIResourceCleanupFinalizer)
	})
	if err != nil {
		return false, fmt.Errorf("add the finalizer to the cluster %s: %w", mc.Name, err)
	}
	return written, nil
}

func (c *Controller) grant(ctx context.Context, mc *clusterv1.ManagedCluster, g grants) error {
	if err := c.namespace(ctx, mc, g.namespace); err != nil {
		return err
	}
	for _, o := range []client.Object{g.clusterRole, g.clusterRoleBinding, g.registrationBinding} {
		if err := c.apply.Apply(ctx, o); err != nil {
			return err
		}
	}
	// A binding that is still being deleted after a denial has to go before it can
	// be created again. Its deletion is an event that leads here.
	have := &rbacv1.RoleBinding{}
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(g.workBinding), have); err == nil && !have.DeletionTimestamp.IsZero() {
		return c.releaseWorkBinding(ctx, g)
	}
	return c.apply.Apply(ctx, g.workBinding)
}

// namespace makes the cluster's namespace. One that existed before the cluster
// had any rights and is not a cluster's stays what it is: it was created between
// the acceptance, which admission checked, and now.
func (c *Controller) namespace(ctx context.Context, mc *clusterv1.ManagedCluster, want *corev1.Namespace) error {
	if accepted(mc) == metav1.ConditionTrue {
		return c.apply.Apply(ctx, want)
	}
	have := &corev1.Namespace{}
	err := c.client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) { // or it has no label, and the cache does not hold it
		if err = c.client.Create(ctx, want.DeepCopy()); err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the namespace %s: %w", mc.Name, err)
		}
		err = c.apply.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
	}
	if err != nil {
		return fmt.Errorf("read the namespace %s: %w", mc.Name, err)
	}
	if err := cluster.NamespaceOf(mc.Name, have.Labels); err != nil {
		return err
	}
	return c.apply.Apply(ctx, want)
}

func (c *Controller) setAccepted(ctx context.Context, mc *clusterv1.ManagedCluster, status metav1.ConditionStatus, reason, message string) error {
	written, err := patch.Status(ctx, c.client, mc, func() bool {
		return meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
			Type: cluster.ConditionHubAccepted, Status: status, Reason: reason, Message: message,
		})
	})
	if err != nil {
		return fmt.Errorf("report the acceptance of the cluster %s: %w", mc.Name, err)
	}
	if written {
		event := map[string]string{cluster.ReasonHubAccepted: eventAccepted, cluster.ReasonHubDenied: eventDenied}[reason]
		log.FromContext(ctx).Info("acceptance changed", "event", event, "cluster", mc.Name, "accepted", status, "reason", reason)
	}
	return nil
}
