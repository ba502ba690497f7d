package registration

import (
	"context"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// Revocation removes what a revoked bootstrap token has left behind.
type Revocation struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
}

// NewRevocation makes the controller. live reads past the cache.
func NewRevocation(c client.Client, live client.Reader, clk clock.PassiveClock) *Revocation {
	return &Revocation{client: c, live: live, clock: clk}
}

// Register adds the controller to a manager.
func (c *Revocation) Register(m manager.Manager) error {
	byToken := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{watch.Request(strings.TrimPrefix(o.GetName(), cluster.TokenSecretPrefix))}
	})
	revoked := watch.When(func(s *corev1.Secret) bool { return revokes(s, c.clock.Now()) })
	err := builder.ControllerManagedBy(m).
		Named("token-revocation").
		Watches(&corev1.Secret{}, byToken, builder.WithPredicates(watch.Only(watch.Deleted), revoked)).
		Complete(patch.RetryConflicts(c))
	if err != nil {
		return err
	}
	// At the start every request counts as new: the Secret may have been deleted
	// while no controller ran.
	pending := watch.When(func(r *certificatesv1.CertificateSigningRequest) bool { return goesWithToken(r, c.clock.Now()) })
	return builder.ControllerManagedBy(m).
		Named("token-revocation-requests").
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(watch.Only(watch.Created), pending)).
		Complete(patch.RetryConflicts(&leftovers{client: c.client, cached: m.GetCache(), live: c.live, clock: c.clock}))
}

// revokes reports whether the deletion of a token's Secret, at the time now, takes
// the token's requests along. The Secret of an expired token is deleted by the
// hub itself, and what was asked for in time may still be approved.
func revokes(secret *corev1.Secret, now time.Time) bool {
	if secret.Type != corev1.SecretTypeBootstrapToken || secret.Annotations[cluster.TokenRevocationAnnotation] != cluster.RevokeRequests {
		return false
	}
	expires, err := time.Parse(time.RFC3339, string(secret.Data["expiration"]))
	return err != nil || now.Before(expires)
}

// Reconcile deletes the undecided certificate requests that were made with a
// revoked token. r carries the public half of the token.
func (c *Revocation) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := c.live.List(ctx, requests, client.HasLabels{cluster.NameLabel}); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the certificate requests of the revoked token %s: %w", r.Name, err)
	}
	for i := range requests.Items {
		request := &requests.Items[i]
		if request.Spec.Username != cluster.TokenUser(r.Name) || len(request.Status.Conditions) > 0 {
			continue
		}
		if err := c.client.Delete(ctx, request, client.Preconditions{UID: &request.UID}); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("delete the certificate request %s of the revoked token %s: %w", request.Name, r.Name, err)
		}
		log.FromContext(ctx).Info("certificate request deleted, as its bootstrap token was revoked", "request", request.Name, "token", r.Name)
	}
	return reconcile.Result{}, nil
}

// leftovers removes certificate requests whose bootstrap token was revoked while
// no controller ran, in the time before a start or a change of the leader.
type leftovers struct {
	client       client.Client
	cached, live client.Reader
	clock        clock.PassiveClock
}

// goesWithToken reports whether a request, at the time now, goes when its token is
// revoked: nobody has decided about it, and its token would still be good.
func goesWithToken(r *certificatesv1.CertificateSigningRequest, now time.Time) bool {
	if r.Annotations[cluster.RequestTokenAnnotation] == "" || len(r.Status.Conditions) > 0 {
		return false
	}
	if _, token := cluster.TokenOfUser(r.Spec.Username); !token {
		return false
	}
	expires, err := time.Parse(time.RFC3339, r.Annotations[cluster.RequestExpiryAnnotation])
	return err != nil || now.Before(expires)
}

// Reconcile deletes a request when the token that it was made with is gone.
func (l *leftovers) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	request := &certificatesv1.CertificateSigningRequest{}
	if err := l.client.Get(ctx, r.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !goesWithToken(request, l.clock.Now()) {
		return reconcile.Result{}, nil
	}
	// The cache may lag behind, in either direction.
	for _, reader := range []client.Reader{l.cached, l.live} {
		there, err := isThere(ctx, reader, request)
		if err != nil || there {
			return reconcile.Result{}, err
		}
	}
	if err := l.client.Delete(ctx, request, client.Preconditions{UID: &request.UID}); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("delete the certificate request %s of a revoked token: %w", request.Name, err)
	}
	log.FromContext(ctx).Info("certificate request deleted, as its bootstrap token was revoked", "request", request.Name, "requester", request.Spec.Username)
	return reconcile.Result{}, nil
}

// isThere reports whether the very token is there that a request was made with.
func isThere(ctx context.Context, reader client.Reader, r *certificatesv1.CertificateSigningRequest) (bool, error) {
	id, _ := cluster.TokenOfUser(r.Spec.Username)
	secret := &corev1.Secret{}
	err := reader.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: cluster.TokenSecretPrefix + id}, secret)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up the token of the certificate request %s: %w", r.Name, err)
	}
	return string(secret.UID) == r.Annotations[cluster.RequestTokenAnnotation], nil
}
