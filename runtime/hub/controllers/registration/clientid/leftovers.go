package clientid

import (
	"context"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// KeepUnused is how long a cluster stays that was created for a registration after
// which nothing came. Kubernetes removes undecided certificate requests after a
// day, and an agent that lives makes another one at once.
const KeepUnused = 36 * time.Hour

// Leftovers removes clusters that were created for a registration which never came
// further: the agent has asked for no certificate, and nobody has done anything
// about the cluster.
type Leftovers struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
}

// NewLeftovers makes the controller. live reads past the cache.
func NewLeftovers(c client.Client, live client.Reader, clk clock.PassiveClock) *Leftovers {
	return &Leftovers{client: c, live: live, clock: clk}
}

// Reconcile looks at a cluster that was created for a registration. Once one of
// its certificate requests is approved it has come further, and the label goes
// that says otherwise.
func (l *Leftovers) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := l.client.Get(ctx, r.NamespacedName, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !isRegistered(mc) || !mc.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := l.client.List(ctx, requests, client.MatchingLabels{cluster.NameLabel: mc.Name}); err != nil {
		return reconcile.Result{}, fmt.Errorf("look for certificate requests of the cluster %s: %w", mc.Name, err)
	}
	for i := range requests.Items {
		if isApproved(&requests.Items[i]) {
			return reconcile.Result{}, l.keep(ctx, mc)
		}
	}
	if left := KeepUnused - l.clock.Since(mc.CreationTimestamp.Time); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if len(requests.Items) > 0 || mc.Spec.AcceptsClient() || mc.HasAgent() {
		return reconcile.Result{RequeueAfter: KeepUnused}, nil
	}
	return reconcile.Result{RequeueAfter: KeepUnused}, l.remove(ctx, mc)
}

// keep takes the label away by which the cluster may be removed.
func (l *Leftovers) keep(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	mc = mc.DeepCopy()
	_, err := patch.Object(ctx, l.client, mc, func() bool {
		delete(mc.Labels, muster.RegistrationLabel)
		return true
	})
	return patch.Explain(err, "note that the cluster %s is in use", mc.Name)
}

// remove deletes a cluster unless a person has changed it.
func (l *Leftovers) remove(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	now := &clusterv1.ManagedCluster{} // the cache has no managed fields
	if err := l.live.Get(ctx, client.ObjectKeyFromObject(mc), now); err != nil {
		return client.IgnoreNotFound(err)
	}
	if now.ResourceVersion != mc.ResourceVersion || !isUntouched(now.ManagedFields) {
		return nil
	}
	err := l.client.Delete(ctx, now, client.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the cluster %s, whose agent never came: %w", now.Name, err)
	}
	log.FromContext(ctx).Info("deleted a cluster that was created for a registration, as no agent came", "cluster", now.Name,
		"clientID", now.Annotations[muster.ClientIDAnnotation])
	return nil
}

// isUntouched reports whether nobody but the hub, which set the label of the
// registration, has written anything but the status of an object.
func isUntouched(fields []metav1.ManagedFieldsEntry) bool {
	hub := ""
	for _, f := range fields {
		if f.FieldsV1 != nil && strings.Contains(string(f.FieldsV1.GetRawBytes()), `"f:`+muster.RegistrationLabel+`"`) {
			hub = f.Manager
		}
	}
	for _, f := range fields {
		if f.Subresource == "" && f.Manager != hub {
			return false
		}
	}
	return hub != ""
}

func isApproved(r *certificatesv1.CertificateSigningRequest) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved {
			return true
		}
	}
	return false
}
