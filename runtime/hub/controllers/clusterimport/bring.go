package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// kubeconfigKeys are the keys of a Secret under which a kubeconfig may be: Rancher
// Fleet's Secrets have it under value.
func kubeconfigKeys() []string { return []string{"kubeconfig", "value"} }

// Short names of conditions' statuses.
const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

// bring does for an import what can be done now, and says in the status how far it is.
// An error is tried again after a pause that grows.
func (c *Controller) bring(ctx context.Context, j *job) (reconcile.Result, error) {
	imp, mc := j.imp, &clusterv1.ManagedCluster{}
	err := c.client.Get(ctx, client.ObjectKey{Name: imp.Name}, mc)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	} else if err == nil {
		j.cluster = mc
	}
	secret, err := c.kubeconfigSecret(ctx, imp)
	if err != nil {
		return reconcile.Result{}, err
	}
	if secret == nil {
		return reconcile.Result{}, c.withoutKubeconfig(ctx, j)
	}
	j.status.KubeconfigVersion = secret.ResourceVersion
	to, err := contained(secret)
	if err == nil && unpublishable(imp, to) != "" {
		err = errors.New(unpublishable(imp, to))
	}
	if err != nil {
		c.set(j, muster.ConditionKubeconfigUsable, no, muster.ReasonKubeconfigRefused,
			fmt.Sprintf("The kubeconfig in the Secret %s/%s is refused: %s.", secret.Namespace, secret.Name, err))
		return reconcile.Result{}, nil // until the Secret changes
	}
	j.pinned = pinnedAuthority(j)
	managed, uid, err := c.reach(ctx, to, j.pinned)
	var another *authorityError
	if errors.As(err, &another) {
		c.set(j, muster.ConditionKubeconfigUsable, no, muster.ReasonAnotherAuthority, explainAuthority(imp, another))
		return reconcile.Result{RequeueAfter: c.options.Look}, nil
	}
	if err != nil {
		reason, message := explain(to, err)
		c.set(j, muster.ConditionKubeconfigUsable, no, reason, message)
		return reconcile.Result{}, fmt.Errorf("reach the cluster %s: %w", imp.Name, printable(err))
	}
	defer managed.close()
	j.secret, j.server, j.managed, j.uid = secret, to, managed, uid
	if why := c.another(ctx, j); why != "" {
		c.set(j, muster.ConditionKubeconfigUsable, no, muster.ReasonAnotherCluster, why)
		return reconcile.Result{RequeueAfter: c.options.Look}, nil
	}
	c.set(j, muster.ConditionKubeconfigUsable, yes, muster.ReasonUsable,
		fmt.Sprintf("The kubeconfig in the Secret %s/%s leads to the cluster %s.", secret.Namespace, secret.Name, uid))
	return c.install(ctx, j)
}

// pinnedAuthority is who has to vouch for the API server: whom the author names, or who
// did at the first import. It is empty where there was none.
func pinnedAuthority(j *job) string {
	switch {
	case j.imp.Spec.ClusterAuthority != "":
		return j.imp.Spec.ClusterAuthority
	case j.status.ClusterAuthority != "":
		return j.status.ClusterAuthority
	case j.cluster != nil:
		return j.cluster.Annotations[muster.ClusterAuthorityAnnotation]
	}
	return ""
}

// contained reads the kubeconfig in a Secret.
func contained(secret *corev1.Secret) (*kubeconfig.Contained, error) {
	for _, key := range kubeconfigKeys() {
		if content, ok := secret.Data[key]; ok {
			return kubeconfig.Contain(content)
		}
	}
	return nil, fmt.Errorf("the Secret has no key %s", strings.Join(kubeconfigKeys(), " or "))
}

// reach connects to a cluster that the pinned authority vouches for, and asks it who it
// is.
func (c *Controller) reach(
	ctx context.Context, to *kubeconfig.Contained, pinned string,
) (*connection, string, error) {
	managed, err := connect(to, pinned, c.options.AllowLoopback, c.options.Timeout)
	if err != nil {
		return nil, "", err
	}
	system := &corev1.Namespace{}
	if err := managed.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		managed.close()
		return nil, "", err
	}
	if !isUID(system.UID) {
		managed.close()
		return nil, "", errNotKubernetes
	}
	return managed, string(system.UID), nil
}

// another says why the cluster behind the kubeconfig is not the one that it should be;
// empty when it is.
func (c *Controller) another(ctx context.Context, j *job) string {
	own := &corev1.Namespace{}
	err := c.live.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, own)
	if err == nil && string(own.UID) == j.uid {
		return "The kubeconfig leads to the hub itself. Hand in the kubeconfig of the cluster that is to join."
	}
	wanted, before := j.imp.Spec.ClusterUID, j.status.ClusterUID
	if before == "" && j.cluster != nil {
		before = j.cluster.Annotations[muster.ClusterUIDAnnotation]
	}
	switch {
	case wanted != "" && wanted != j.uid:
		return fmt.Sprintf("The kubeconfig leads to the cluster %s by the UID of its namespace kube-system, "+
			"and spec.clusterUID is %s. Correct one of them.", j.uid, wanted)
	case wanted == "" && before != "" && before != j.uid:
		return fmt.Sprintf("The kubeconfig leads to the cluster %s by the UID of its namespace kube-system, "+
			"and %s has been %s so far. Two clusters can't share a name. If this one replaces the other, "+
			"set spec.clusterUID to %[1]s.", j.uid, j.imp.Name, before)
	}
	return ""
}

// withoutKubeconfig says how an import is that the hub can do nothing for.
func (c *Controller) withoutKubeconfig(ctx context.Context, j *job) error {
	imp, status := j.imp, j.status
	where := muster.ImportNamespace + "/" + imp.Spec.KubeconfigSecret
	if status.AppliedHash == "" {
		c.set(j, muster.ConditionKubeconfigUsable, no, muster.ReasonSecretMissing,
			fmt.Sprintf("There is no Secret %s. Create it, with the cluster's kubeconfig under the key kubeconfig.", where))
		return nil
	}
	c.set(j, muster.ConditionKubeconfigUsable, no, muster.ReasonForgotten,
		fmt.Sprintf("The hub has no kubeconfig of the cluster. Nothing is needed as long as the agent runs; "+
			"to change or repair it, create the Secret %s.", where))
	c.set(j, muster.ConditionDrifted, unknown, muster.ReasonNotLookedAt,
		"The hub has no kubeconfig to look at the agent's objects with.")
	if j.cluster != nil && isJoined(j.cluster) {
		c.set(j, muster.ConditionJoined, yes, muster.ReasonClusterJoined, "The cluster has joined.")
	}
	if err := c.withdraw(ctx, j); err != nil {
		return err
	}
	to, err := c.endpointOf(ctx, imp)
	if err != nil {
		return err
	}
	_, hash, err := render(imp, to, nil)
	if err != nil {
		return err
	}
	is := meta.FindStatusCondition(status.Conditions, muster.ConditionAgentInstalled)
	raised := imp.Spec.Redeploy > status.Redeployed || imp.Spec.Rejoin > status.Rejoined
	switch {
	case hash != status.AppliedHash || raised || imp.Spec.PublishServer && status.PublishedServer == "":
		c.set(j, muster.ConditionAgentInstalled, no, muster.ReasonKubeconfigNeeded,
			fmt.Sprintf("The agent's options, the hub's address, publishServer or one of the counters redeploy and "+
				"rejoin have changed, and the hub has no kubeconfig any more. Create the Secret %s with it.", where))
	case is != nil && is.Reason == muster.ReasonKubeconfigNeeded:
		c.set(j, muster.ConditionAgentInstalled, yes, muster.ReasonInstalled, "The agent is installed as asked.")
	}
	return nil
}

// pause is when to look again: soon while something is on its way.
func (c *Controller) pause(settled bool) reconcile.Result {
	if settled {
		return reconcile.Result{RequeueAfter: c.options.Look}
	}
	return reconcile.Result{RequeueAfter: max(c.options.Look/60, 100*time.Millisecond)}
}
