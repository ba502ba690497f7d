package clusterimport

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/rolloutstatus"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// job is one attempt at an import.
type job struct {
	imp    *v1alpha1.ClusterImport
	status *v1alpha1.ClusterImportStatus
	// cluster is the ManagedCluster; nil when there is none yet.
	cluster *clusterv1.ManagedCluster
	// The rest is known once the cluster has answered.
	secret  *corev1.Secret
	server  *kubeconfig.Contained
	managed *connection
	uid     string
	// pinned is who vouched for the cluster before this attempt; empty when that is
	// not known.
	pinned string
	// rejoins says that the cluster has a token to join again with.
	rejoins bool
	// done says that the kubeconfig is not needed any more.
	done bool
}

// install makes the agent what the import says.
func (c *Controller) install(ctx context.Context, j *job) (reconcile.Result, error) {
	imp, status := j.imp, j.status
	namespace := options(imp, nil).Namespace
	seen, err := j.managed.look(ctx, namespace)
	if err == nil {
		if why := seen.foreign(imp.Name); why != "" {
			c.set(j, muster.ConditionAgentInstalled, no, muster.ReasonInstalledByOther, "Nothing is changed in the cluster: "+why+".")
			return reconcile.Result{RequeueAfter: c.options.Look}, nil
		}
		if why := unproven(j, c.certified(seen.identity, imp.Name, j.cluster)); why != "" {
			c.set(j, muster.ConditionKubeconfigUsable, no, muster.ReasonAnotherCluster, why)
			return reconcile.Result{RequeueAfter: c.options.Look}, nil
		}
		err = c.ensureCluster(ctx, j)
	}
	var hash string
	if err == nil {
		hash, err = c.write(ctx, j, seen)
	}
	if err != nil {
		c.set(j, muster.ConditionAgentInstalled, no, muster.ReasonInstallFailed, explainInstall(err))
		return reconcile.Result{}, fmt.Errorf("install the agent in the cluster %s: %w", imp.Name, logged(err))
	}
	status.AppliedHash, status.Redeployed = hash, imp.Spec.Redeploy
	status.ClusterUID, status.ClusterAuthority = j.uid, j.managed.authority.is()
	if seen, err = j.managed.look(ctx, namespace); err != nil {
		return reconcile.Result{}, logged(err)
	}
	running := seen.deployment != nil && rolledOut(seen.deployment)
	if running {
		c.set(j, muster.ConditionAgentInstalled, yes, muster.ReasonInstalled, "The agent is installed as asked, and runs.")
	} else {
		c.set(j, muster.ConditionAgentInstalled, no, muster.ReasonRollingOut, c.describeRollout(ctx, j, namespace))
	}
	return c.conclude(ctx, j, running, c.certified(seen.identity, imp.Name, j.cluster))
}

// describeRollout says how far an agent is that does not run as asked yet.
func (c *Controller) describeRollout(ctx context.Context, j *job, namespace string) string {
	why, err := j.managed.whyNotRunning(ctx, options(j.imp, nil))
	if err != nil {
		log.FromContext(ctx).Info("the agent's pods can't be read", "cluster", j.imp.Name, "err", printable(err))
	}
	if why == "" {
		why = "it is being started"
	}
	return fmt.Sprintf("The agent's objects are written, and its pod does not run yet: %s. "+
		"If that stays so: kubectl -n %s describe pods -l app=klusterlet-agent, in the cluster.", why, namespace)
}

// unproven says why a cluster may not come in under a name that a cluster has joined
// with. What the server says of itself, such as its UID, is no proof that it is that
// cluster. What counts is the authority that vouched for that one, or that somebody
// with the rights to it names, and the key of the certificate with which it has joined.
func unproven(j *job, certified bool) string {
	if j.cluster == nil || !j.cluster.HasAgent() || certified || j.pinned != "" {
		return ""
	}
	return fmt.Sprintf("A cluster has joined as %s, and nothing proves that it is the one that the kubeconfig leads to: that holds no "+
		"certificate of this name with its key, and the hub does not know who vouches for the one that has joined. If it is, or is to "+
		"replace it, somebody who may update and accept the ManagedCluster says so: %s", j.imp.Name,
		patchCommand(j.imp.Name, `"clusterUID":%q,"clusterAuthority":%q`, j.uid, j.managed.authority.is()))
}

// conclude says whether the cluster has joined, and cleans up when it has.
func (c *Controller) conclude(ctx context.Context, j *job, running, certified bool) (reconcile.Result, error) {
	imp, status := j.imp, j.status
	switch {
	case isJoined(j.cluster) && certified:
		status.Rejoined = imp.Spec.Rejoin // a permission that is not needed is none for later
	case !j.cluster.Spec.AcceptsClient():
		c.set(j, muster.ConditionJoined, no, muster.ReasonWaitingForApproval,
			fmt.Sprintf("The hub does not accept the cluster. Accept it, or set spec.accept: muster_cluster_acceptance, "+
				"or kubectl patch managedcluster %s --type=merge -p '{\"spec\":{\"hubAcceptsClient\":true}}'.", imp.Name))
		return c.pause(false), nil
	case j.cluster.HasAgent() && !j.rejoins && !certified:
		c.set(j, muster.ConditionJoined, no, muster.ReasonRejoinNeeded, explainRejoin(imp, status))
		return c.pause(true), c.revoke(ctx, imp)
	default:
		c.set(j, muster.ConditionJoined, no, muster.ReasonWaitingForAgent,
			"The agent has not registered yet. Its log in the cluster says why, if that stays so.")
		return c.pause(false), nil
	}
	if err := c.revoke(ctx, imp); err != nil {
		return reconcile.Result{}, err
	}
	if j.done = running && forgets(imp); j.done {
		return reconcile.Result{}, nil // that it has joined is said when the kubeconfig is gone
	}
	c.set(j, muster.ConditionJoined, yes, muster.ReasonClusterJoined, "The cluster has joined.")
	return c.pause(running), nil
}

// explainRejoin says how a cluster joins again whose agent has lost its identity.
func explainRejoin(imp *v1alpha1.ClusterImport, status *v1alpha1.ClusterImportStatus) string {
	return fmt.Sprintf("The cluster has joined before, and its agent has no identity any more that the hub serves. Nobody joins again by "+
		"an import alone. Somebody who may create Secrets in the namespace %s lets it join again, once: muster rejoin %s, or %s",
		metav1.NamespaceSystem, imp.Name, patchCommand(imp.Name, `"rejoin":%d`, max(imp.Spec.Rejoin, status.Rejoined)+1))
}

// write applies the agent's objects, and returns the hash of what was applied.
func (c *Controller) write(ctx context.Context, j *job, seen observation) (string, error) {
	to, err := c.endpointOf(ctx, j.imp)
	if err != nil {
		return "", &hubError{err}
	}
	var changed []string
	var bootstrap []byte
	if c.certified(seen.identity, j.imp.Name, j.cluster) {
		moved, err := j.managed.redirect(ctx, seen, to)
		if err != nil {
			return "", err
		}
		if moved {
			changed = append(changed, "the hub's address")
		}
	} else if bootstrap, err = c.credential(ctx, j, to, seen.bootstrap != nil); err != nil {
		return "", &hubError{err}
	}
	objects, hash, err := render(j.imp, to, bootstrap)
	if err != nil {
		return "", &hubError{err}
	}
	for _, object := range objects {
		added, err := j.managed.restore(ctx, object)
		if err != nil {
			return "", err
		}
		changed = append(changed, added...)
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

// account reports whether what was changed is something new to do, or was undone by
// somebody else.
func (c *Controller) account(j *job, hash string, changed []string) {
	list := strings.Join(changed, ", ")
	switch {
	case hash == j.status.AppliedHash && len(changed) > 0:
		c.record(j.imp, corev1.EventTypeWarning, "AgentRepaired", "somebody had changed or removed: %s", list)
		c.set(j, muster.ConditionDrifted, no, muster.ReasonRepaired,
			fmt.Sprintf("At %s the hub restored what somebody had changed or removed: %s.", c.clock.Now().UTC().Format(time.RFC3339), list))
	case len(changed) > 0:
		c.record(j.imp, corev1.EventTypeNormal, "AgentWritten", "in the cluster %s: %s", j.uid, list)
		c.set(j, muster.ConditionDrifted, no, muster.ReasonAsInstalled, "The agent's objects are as the hub has written them.")
	case !hasCondition(j.status, muster.ConditionDrifted, muster.ReasonRepaired):
		c.set(j, muster.ConditionDrifted, no, muster.ReasonAsInstalled, "The agent's objects are as the hub has written them.")
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
	mark := map[string]string{muster.ClusterUIDAnnotation: j.uid, muster.ClusterAuthorityAnnotation: j.managed.authority.is()}
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
			return &hubError{fmt.Errorf("make the ManagedCluster: %w", err)}
		}
		j.cluster = mc
	}
	if !j.cluster.DeletionTimestamp.IsZero() {
		return &hubError{fmt.Errorf("the ManagedCluster %s is being deleted: delete the import, too, or wait until it is gone", imp.Name)}
	}
	j.cluster = j.cluster.DeepCopy()
	_, err := patch.Object(ctx, c.client, j.cluster, func() bool {
		before := j.cluster.Annotations
		accept := imp.Spec.Accept && before[muster.AcceptedByImportAnnotation] != string(imp.UID)
		published := j.publish()
		if !accept && !published && before[muster.ClusterUIDAnnotation] == j.uid &&
			before[muster.ClusterAuthorityAnnotation] == mark[muster.ClusterAuthorityAnnotation] {
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
		return &hubError{fmt.Errorf("change the ManagedCluster: %w", err)}
	}
	j.status.PublishedServer = ""
	if imp.Spec.PublishServer {
		j.status.PublishedServer = j.server.Server.String()
	}
	return nil
}

// An import may say where users reach the cluster: at the server of the kubeconfig.

// unpublishable says why users could not reach a cluster as the hub does; empty when
// they can, or nobody asked.
func unpublishable(imp *v1alpha1.ClusterImport, to *kubeconfig.Contained) string {
	if name := to.Config.TLSClientConfig.ServerName; imp.Spec.PublishServer && name != "" {
		return fmt.Sprintf("spec.publishServer is set, and users can't verify its server %s by the name %q of "+
			"tls-server-name: "+
			"give a server whose host is in its certificate, or set spec.publishServer to false", to.Server.Host, name)
	}
	return ""
}

// published are the addresses of a cluster with the one that an import publishes, which
// is nil when it publishes none, first, and without the former one.
func published(
	before []clusterv1.ClientConfig, former string, wanted *clusterv1.ClientConfig,
) []clusterv1.ClientConfig {
	after := slices.DeleteFunc(slices.Clone(before), func(is clusterv1.ClientConfig) bool {
		return former != "" && is.URL == former || wanted != nil && is.URL == wanted.URL
	})
	if wanted != nil {
		after = slices.Insert(after, 0, *wanted)
	}
	return after
}

// publish puts the server and the authority of the kubeconfig among the addresses of the
// cluster, and reports whether that changed them.
func (j *job) publish() (changed bool) {
	var wanted *clusterv1.ClientConfig
	if j.imp.Spec.PublishServer {
		ca := j.server.Config.TLSClientConfig.CAData
		wanted = &clusterv1.ClientConfig{URL: j.server.Server.String(), CABundle: ca}
	}
	before := j.cluster.Spec.ManagedClusterClientConfigs
	return setAddresses(j.cluster, published(before, j.status.PublishedServer, wanted))
}

func setAddresses(mc *clusterv1.ManagedCluster, after []clusterv1.ClientConfig) (changed bool) {
	if len(after) == 0 {
		after = nil
	}
	if equality.Semantic.DeepEqual(mc.Spec.ManagedClusterClientConfigs, after) {
		return false
	}
	mc.Spec.ManagedClusterClientConfigs = after
	return true
}

// withdraw takes a published address away when the import publishes none any more.
func (c *Controller) withdraw(ctx context.Context, j *job) error {
	if j.imp.Spec.PublishServer || j.status.PublishedServer == "" {
		return nil
	}
	if j.cluster != nil {
		mc := j.cluster.DeepCopy()
		_, err := patch.Object(ctx, c.client, mc, func() bool {
			return setAddresses(mc, published(mc.Spec.ManagedClusterClientConfigs, j.status.PublishedServer, nil))
		})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("change the ManagedCluster: %w", err)
		}
	}
	j.status.PublishedServer = ""
	return nil
}

// maxPods is how many pods of an agent are looked at.
const maxPods = 50

// reasonWord is the form of Kubernetes' reasons.
var reasonWord = regexp.MustCompile(`^[A-Z][A-Za-z]{1,63}$`)

// whyNotRunning says which pod of the agent does not run, with which image, and
// Kubernetes' word for it; empty when that is not known. The pods are what the cluster
// says they are: the image is the one that the hub has asked for, and no text of a pod
// is repeated.
func (c *connection) whyNotRunning(ctx context.Context, o klusterlet.Options) (string, error) {
	pods := &corev1.PodList{}
	own := client.MatchingLabels{klusterlet.AppLabel: klusterlet.Name}
	err := c.List(ctx, pods, client.InNamespace(o.Namespace), own, client.Limit(maxPods))
	if err != nil {
		return "", err
	}
	return describeProblem(rolloutstatus.ProblemOf(pods.Items), cmp.Or(o.Image, klusterlet.DefaultImage())), nil
}

func describeProblem(p *rolloutstatus.Problem, image string) string {
	if p == nil || !reasonWord.MatchString(p.Reason) || len(validation.IsDNS1123Subdomain(p.Pod)) > 0 {
		return ""
	}
	text := fmt.Sprintf("pod %s, image %s: %s", p.Pod, image, p.Reason)
	if p.Ended != nil {
		text += fmt.Sprintf(" (it ended with code %d)", p.Ended.ExitCode)
	}
	return text
}
