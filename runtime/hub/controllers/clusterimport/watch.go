package clusterimport

import (
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
)

// clusterChanged reports whether an import has to look at a change of its cluster.
func clusterChanged(was, is *clusterv1.ManagedCluster) bool {
	return was.Spec.AcceptsClient() != is.Spec.AcceptsClient() || isJoined(was) != isJoined(is) ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
}

func isJoined(mc *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionJoined)
}

// isKubeconfig reports whether a Secret may be an import's.
func isKubeconfig(secret *corev1.Secret) bool { return secret.Namespace == muster.ImportNamespace }

// importsOfSecret are the imports that name a Secret.
func (c *Controller) importsOfSecret(ctx context.Context, o client.Object) []reconcile.Request {
	return watch.Matching(ctx, c.client, &v1alpha1.ClusterImportList{}, func(imp *v1alpha1.ClusterImport) bool {
		return imp.Spec.KubeconfigSecret == o.GetName()
	})
}

// backoff is the pause after a failed attempt: it doubles, and is up to a quarter
// longer by chance, so that clusters that failed together are not tried together.
type backoff struct {
	workqueue.TypedRateLimiter[reconcile.Request]
}

func newBackoff(first, last time.Duration) backoff {
	return backoff{workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, last)}
}

// When implements workqueue.TypedRateLimiter.
func (b backoff) When(r reconcile.Request) time.Duration {
	pause := b.TypedRateLimiter.When(r)
	return pause + rand.N(pause/4+1)
}
