package revocation

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

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
