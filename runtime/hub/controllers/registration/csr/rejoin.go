package csr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// mayRejoin reports whether a token's Secret lets a cluster join again by a
// request: it says so, and has not been used for that, or for this very request.
func mayRejoin(secret *corev1.Secret, name string, request types.UID) bool {
	return secret.Annotations[cluster.RejoinAnnotation] == name ||
		request != "" && secret.Annotations[cluster.RejoinedAnnotation] == name+"/"+string(request)
}

// tokenOf is the Secret of the bootstrap token that a request was made with; nil
// when there is none any more.
func (c *Controller) tokenOf(ctx context.Context, request *certificatesv1.CertificateSigningRequest) (*corev1.Secret, error) {
	id, ok := cluster.TokenOfUser(request.Spec.Username)
	if !ok {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := c.tokens.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: cluster.TokenSecretPrefix + id}, secret)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return secret, nil
}

// boundClusters are the clusters that the requester's bootstrap token is bound to:
// by its groups, or because it names the client ID by which the cluster of the
// request has registered with it.
func (c *Controller) boundClusters(ctx context.Context, request *certificatesv1.CertificateSigningRequest, name string) ([]string, error) {
	if bound := cluster.BoundClusters(request.Spec.Groups); len(bound) > 0 {
		return bound, nil
	}
	secret, err := c.tokenOf(ctx, request)
	if secret == nil || err != nil {
		return nil, err
	}
	scope, err := cluster.ParseTokenScope(secret.Annotations)
	if err != nil || len(scope.ClientIDs) == 0 || !slices.Contains(scope.UsedBy, name) {
		return nil, nil //nolint:nilerr // a token that can't be used binds nobody
	}
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: name}, mc); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !slices.Contains(scope.ClientIDs, mc.Annotations[muster.ClientIDAnnotation]) {
		return nil, nil
	}
	return []string{name}, nil
}

// spend takes a token's permission to join again for one request, before that
// is approved, so that no second one is by the same token.
func (c *Controller) spend(ctx context.Context, secret *corev1.Secret, name string, request types.UID) error {
	used := name + "/" + string(request)
	if secret.Annotations[cluster.RejoinedAnnotation] == used {
		return nil
	}
	// The cache may lag behind another request's approval: then this is a conflict.
	secret = secret.DeepCopy()
	written, err := patch.Object(ctx, c.client, secret, func() bool {
		delete(secret.Annotations, cluster.RejoinAnnotation)
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, cluster.RejoinedAnnotation, used)
		return true
	})
	if err == nil && !written {
		err = errors.New("it is gone")
	}
	return patch.Explain(err, "note that the bootstrap token in the Secret %s/%s was used to join again", secret.Namespace, secret.Name)
}

// replaceEarlier makes the first agent of a cluster the only one when there was a cluster
// of its name before, whose agents may still have certificates. The namespace shows it, as it
// outlives its cluster.
func (c *Controller) replaceEarlier(ctx context.Context, mc *clusterv1.ManagedCluster,
	request *certificatesv1.CertificateSigningRequest, agent string, approved time.Time,
) error {
	if request.CreationTimestamp.Before(&mc.CreationTimestamp) {
		return nil // it may be one of the earlier cluster's
	}
	namespace := &corev1.Namespace{}
	if err := c.live.Get(ctx, types.NamespacedName{Name: mc.Name}, namespace); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !namespace.CreationTimestamp.Before(&mc.CreationTimestamp) {
		return nil
	}
	return c.install(ctx, mc, agent, request.CreationTimestamp.Time, approved)
}

// install makes an agent the only one of its cluster that the hub serves.
func (c *Controller) install(ctx context.Context, mc *clusterv1.ManagedCluster, agent string, made, approved time.Time) error {
	set, changed := cluster.TakeOver(mc.Annotations, agent, made, approved)
	if !changed {
		return nil
	}
	before := mc.Annotations[cluster.AgentAnnotation]
	mc = mc.DeepCopy()
	written, err := patch.Object(ctx, c.client, mc, func() bool {
		for k, v := range set {
			metav1.SetMetaDataAnnotation(&mc.ObjectMeta, k, v)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("note that the agent %q has taken over the cluster %q: %w", agent, mc.Name, err)
	}
	if !written {
		return nil
	}
	log.FromContext(ctx).Info("another agent serves the cluster from now on", "cluster", mc.Name, "agent", agent, "before", before)
	return nil
}

// letIn is when an administrator, and not this controller, approved a request
// that was made with a bootstrap credential. ok is false for all other requests.
func letIn(r *certificatesv1.CertificateSigningRequest) (at time.Time, ok bool) {
	if !isBootstrap(r.Spec.Username, r.Spec.Groups) {
		return time.Time{}, false
	}
	i := slices.IndexFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	})
	if i < 0 || r.Status.Conditions[i].Reason == cluster.ReasonCSRAutoApproved {
		return time.Time{}, false
	}
	return r.Status.Conditions[i].LastUpdateTime.Time, true
}

// isBootstrap reports whether a user is one of those that agents introduce
// themselves as.
func isBootstrap(name string, groups []string) bool {
	if name == cluster.BootstrapUser {
		return true
	}
	_, token := cluster.TokenOfUser(name)
	return token && slices.ContainsFunc(groups, func(g string) bool {
		return g == cluster.BootstrapGroup || strings.HasPrefix(g, cluster.BootstrapGroup+":")
	})
}

// follow installs the agent whose request an administrator has approved.
func (c *Controller) follow(ctx context.Context, request *certificatesv1.CertificateSigningRequest, at time.Time) error {
	identity, err := cluster.ParseRequest(request.Labels, request.Spec.SignerName, request.Spec.Request)
	if err != nil {
		return nil //nolint:nilerr // an administrator may approve what is no agent's
	}
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: identity.Cluster}, mc); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !mc.HasAgent() {
		return c.replaceEarlier(ctx, mc, request, identity.Agent, at)
	}
	return c.install(ctx, mc, identity.Agent, request.CreationTimestamp.Time, at)
}
