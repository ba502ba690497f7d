package registration

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/watch"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestRevokes(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*corev1.Secret)
		want   bool
	}{
		"a token that never expires":     {func(*corev1.Secret) {}, true},
		"one that is still good":         {func(s *corev1.Secret) { s.Data = expires(noon.Add(time.Second)) }, true},
		"one that expires now":           {func(s *corev1.Secret) { s.Data = expires(noon) }, false},
		"one that has expired":           {func(s *corev1.Secret) { s.Data = expires(noon.Add(-time.Hour)) }, false},
		"an expiration that is no time":  {func(s *corev1.Secret) { s.Data = map[string][]byte{"expiration": []byte("soon")} }, true},
		"requests that outlive it":       {func(s *corev1.Secret) { s.Annotations = nil }, false},
		"another policy":                 {func(s *corev1.Secret) { s.Annotations[cluster.TokenRevocationAnnotation] = "Keep" }, false},
		"a secret that is no such token": {func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, false},
	} {
		s := &corev1.Secret{Type: corev1.SecretTypeBootstrapToken}
		s.Annotations = map[string]string{cluster.TokenRevocationAnnotation: cluster.RevokeRequests}
		x.change(s)
		if got := revokes(s, noon); got != x.want {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

func expires(at time.Time) map[string][]byte {
	return map[string][]byte{"expiration": []byte(at.Format(time.RFC3339))}
}

func TestGoesWithToken(t *testing.T) {
	type request = certificatesv1.CertificateSigningRequest
	for name, x := range map[string]struct {
		change func(*request)
		want   bool
	}{
		"a request that waits": {func(*request) {}, true},
		"of a token that is still good": {func(r *request) {
			r.Annotations[cluster.RequestExpiryAnnotation] = noon.Add(time.Second).Format(time.RFC3339)
		}, true},
		"of a token that has expired": {func(r *request) {
			r.Annotations[cluster.RequestExpiryAnnotation] = noon.Format(time.RFC3339)
		}, false},
		"of a token whose requests outlive it": {func(r *request) { r.Annotations = nil }, false},
		"one that was decided": {func(r *request) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		}, false},
		"of somebody without a token": {func(r *request) { r.Spec.Username = "alice" }, false},
	} {
		r := &request{}
		r.Annotations = map[string]string{cluster.RequestTokenAnnotation: "uid"}
		r.Spec.Username = cluster.TokenUser("abcdef")
		x.change(r)
		if got := goesWithToken(r, noon); got != x.want {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
	pending := watch.When(func(r *request) bool { return goesWithToken(r, noon) })
	if pending.Create(event.CreateEvent{Object: &corev1.Secret{}}) {
		t.Error("a secret counts as a certificate request")
	}
}
