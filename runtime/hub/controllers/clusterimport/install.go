package clusterimport

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/patch"
)

// job is one attempt at a cluster that answers.
type job struct {
	imp     *v1alpha1.ClusterImport
	status  *v1alpha1.ClusterImportStatus
	cluster *clusterv1.ManagedCluster
	secret  *corev1.Secret
	managed *connection
	uid     string
}

// install makes the agent what the import says.
func (c *Controller) install(ctx context.Context, j *job) (reconcile.Result, error) {
	imp, status := j.imp, j.status
	namespace := options(imp, nil).Namespace
	seen, err := j.managed.look(ctx, namespace)
	if err == nil {
		if why := seen.foreign(imp.Name); why != "" {
			c.set(imp, status, muster.ConditionAgentInstalled, no, muster.ReasonInstalledByOther, "Nothing is changed in the cluster: "+why+".")
			return reconcile.Result{RequeueAfter: c.options.Look}, nil
		}
		if why := unproven(j, c.certified(seen.identity, imp.Name)); why != "" {
			c.set(imp, status, muster.ConditionKubeconfigUsable, no, muster.ReasonAnotherCluster, why)
			return reconcile.Result{RequeueAfter: c.options.Look}, nil
		}
		err = c.ensureCluster(ctx, j)
	}
	certified := err == nil && c.certified(seen.identity, imp.Name)
	var hash string
	if err == nil {
		hash, err = c.write(ctx, j, seen, certified)
	}
	if err != nil {
		c.set(imp, status, muster.ConditionAgentInstalled, no, muster.ReasonInstallFailed, explainInstall(err))
		return reconcile.Result{}, fmt.Errorf("install the agent in the cluster %s: %w", imp.Name, err)
	}
	status.AppliedHash, status.Redeployed, status.ClusterUID = hash, imp.Spec.Redeploy, j.uid
	if seen, err = j.managed.look(ctx, namespace); err != nil {
		return reconcile.Result{}, err
	}
	running := seen.deployment != nil && rolledOut(seen.deployment)
	if running {
		c.set(imp, status, muster.ConditionAgentInstalled, yes, muster.ReasonInstalled, "The agent is installed as asked, and runs.")
	} else {
		c.set(imp, status, muster.ConditionAgentInstalled, no, muster.ReasonRollingOut, fmt.Sprintf(
			"The agent's objects are written, and its pod does not run yet. If that stays so: kubectl -n %s describe pods -l app=klusterlet-agent, in the cluster.", namespace))
	}
	return c.conclude(ctx, j, running, c.certified(seen.identity, imp.Name))
}

// unproven says why a cluster may not come in under a name: another one, or nobody
// knows which, has joined with it. It is empty where that is known, by the import, by
// a mark on the ManagedCluster, or by the certificate that is in the cluster.
func unproven(j *job, certified bool) string {
	mc := j.cluster
	if mc == nil || !isJoined(mc) || certified || j.imp.Spec.ClusterUID != "" || j.status.ClusterUID != "" || mc.Annotations[muster.ClusterUIDAnnotation] != "" {
		return ""
	}
	return fmt.Sprintf("A cluster has joined as %s, and nothing tells that it is the one that the kubeconfig leads to, whose namespace kube-system has the UID %s: "+
		"it has no certificate of that name. If it is, or is to replace it, set spec.clusterUID to this UID.", j.imp.Name, j.uid)
}

// conclude says whether the cluster has joined, and cleans up when it has.
func (c *Controller) conclude(ctx context.Context, j *job, running, certified bool) (reconcile.Result, error) {
	imp, status := j.imp, j.status
	switch {
	case j.cluster != nil && isJoined(j.cluster) && certified:
		c.set(imp, status, muster.ConditionJoined, yes, muster.ReasonClusterJoined, "The cluster has joined.")
	case j.cluster != nil && !j.cluster.Spec.AcceptsClient():
		c.set(imp, status, muster.ConditionJoined, no, muster.ReasonWaitingForApproval,
			fmt.Sprintf("The hub does not accept the cluster. Accept it, or set spec.accept: muster_cluster_acceptance, or kubectl patch managedcluster %s --type=merge -p '{\"spec\":{\"hubAcceptsClient\":true}}'.", imp.Name))
		return c.pause(false), nil
	default:
		c.set(imp, status, muster.ConditionJoined, no, muster.ReasonWaitingForAgent, "The agent has not registered yet. Its log in the cluster says why, if that stays so.")
		return c.pause(false), nil
	}
	if err := c.revoke(ctx, imp); err != nil {
		return reconcile.Result{}, err
	}
	if !running {
		return c.pause(false), nil
	}
	if !forgets(imp) {
		return c.pause(true), nil
	}
	if err := c.forget(ctx, imp, j.secret); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, c.withoutKubeconfig(ctx, imp, status, j.cluster)
}

// write applies the agent's objects, and returns the hash of what was applied.
func (c *Controller) write(ctx context.Context, j *job, seen sighting, certified bool) (string, error) {
	to, err := c.endpointOf(ctx, j.imp)
	if err != nil {
		return "", err
	}
	var changed []string
	var bootstrap []byte
	if certified {
		moved, err := j.managed.redirect(ctx, seen, to)
		if err != nil {
			return "", err
		}
		if moved {
			changed = append(changed, "the hub's address")
		}
	} else if j.cluster.Spec.AcceptsClient() || seen.bootstrap == nil {
		token, err := c.token(ctx, j.imp, isJoined(j.cluster))
		if err != nil {
			return "", err
		}
		if bootstrap, err = to.bootstrap(token); err != nil {
			return "", err
		}
	}
	objects, hash, err := render(j.imp, to, bootstrap)
	if err != nil {
		return "", err
	}
	for _, object := range objects {
		written, err := j.managed.apply(ctx, object)
		if err != nil {
			return "", err
		}
		if _, isSecret := object.(*corev1.Secret); written && !isSecret {
			changed = append(changed, describe(object))
		}
	}
	removed, err := j.managed.remove(ctx, options(j.imp, nil))
	if err != nil {
		return "", err
	}
	c.account(j, hash, append(changed, removed...))
	return hash, nil
}

// account tells whether what was changed is something new to do, or was undone by
// somebody else.
func (c *Controller) account(j *job, hash string, changed []string) {
	list := strings.Join(changed, ", ")
	switch {
	case hash == j.status.AppliedHash && len(changed) > 0:
		c.tell(j.imp, corev1.EventTypeWarning, "AgentRepaired", "somebody had changed or removed: %s", list)
		c.set(j.imp, j.status, muster.ConditionDrifted, no, muster.ReasonRepaired,
			fmt.Sprintf("At %s the hub restored what somebody had changed or removed: %s.", c.clock.Now().UTC().Format(time.RFC3339), list))
	case len(changed) > 0:
		c.tell(j.imp, corev1.EventTypeNormal, "AgentWritten", "in the cluster %s: %s", j.uid, list)
		c.set(j.imp, j.status, muster.ConditionDrifted, no, muster.ReasonAsInstalled, "The agent's objects are as the hub has written them.")
	case !hasCondition(j.status, muster.ConditionDrifted, muster.ReasonRepaired):
		c.set(j.imp, j.status, muster.ConditionDrifted, no, muster.ReasonAsInstalled, "The agent's objects are as the hub has written them.")
	}
}

func hasCondition(status *v1alpha1.ClusterImportStatus, condition, reason string) bool {
	for _, found := range status.Conditions {
		if found.Type == condition {
			return found.Reason == reason
		}
	}
	return false
}

// ensureCluster makes the ManagedCluster, accepts it once if the import says so, and
// notes which cluster it is.
func (c *Controller) ensureCluster(ctx context.Context, j *job) error {
	imp := j.imp
	mark := map[string]string{muster.ClusterUIDAnnotation: j.uid}
	if imp.Spec.Accept {
		mark[muster.AcceptedByImportAnnotation] = string(imp.UID)
	}
	if j.cluster == nil {
		labels := map[string]string{}
		maps.Copy(labels, imp.Spec.Labels)
		if imp.Spec.ClusterSet != "" {
			labels[cluster.ClusterSetLabel] = imp.Spec.ClusterSet
		}
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: imp.Name, Labels: labels, Annotations: mark}}
		mc.Spec.HubAcceptsClient = ptr.To(imp.Spec.Accept)
		err := c.client.Create(ctx, mc)
		if apierrors.IsAlreadyExists(err) {
			err = c.live.Get(ctx, client.ObjectKey{Name: imp.Name}, mc)
		}
		if err != nil {
			return fmt.Errorf("make the ManagedCluster: %w", err)
		}
		j.cluster = mc
	}
	if !j.cluster.DeletionTimestamp.IsZero() {
		return fmt.Errorf("the ManagedCluster %s is being deleted: delete the import, too, or wait until it is gone", imp.Name)
	}
	j.cluster = j.cluster.DeepCopy()
	_, err := patch.Object(ctx, c.client, j.cluster, func() bool {
		before := j.cluster.Annotations
		accept := imp.Spec.Accept && before[muster.AcceptedByImportAnnotation] != string(imp.UID)
		if !accept && before[muster.ClusterUIDAnnotation] == j.uid {
			return false
		}
		if accept {
			j.cluster.Spec.HubAcceptsClient = ptr.To(true)
		}
		for key, value := range mark {
			metav1.SetMetaDataAnnotation(&j.cluster.ObjectMeta, key, value)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("change the ManagedCluster: %w", err)
	}
	return nil
}

// explainInstall says why an agent could not be written.
func explainInstall(err error) string {
	text := "The agent could not be installed: " + short(err) + ". It is tried again by itself."
	if apierrors.IsForbidden(err) {
		text += " The kubeconfig's user needs the role cluster-admin: the agent gets rights of its own, and nobody can give more than he has."
	}
	return text
}
