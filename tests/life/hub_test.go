package life

import (
	"context"
	"crypto"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/controller/certificates/authority"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

// fleetHub is a hub in this process that goes by the test's clock.
type fleetHub struct {
	t     testing.TB
	clock clock.WithTicker
	dir   string
	port  int

	url    string
	config *rest.Config
	client client.Client
	kube   kubernetes.Interface
	stop   func()
}

func newHub(t testing.TB, clk clock.WithTicker) *fleetHub {
	t.Helper()
	h := &fleetHub{t: t, clock: clk, dir: t.TempDir()}
	h.start()
	t.Cleanup(func() { h.halt() })
	// What every hub has is there a moment after it is ready.
	testkit.Eventually(t, func() error {
		for _, set := range []string{cluster.DefaultSet, cluster.GlobalSet} {
			if err := h.client.Get(context.Background(), client.ObjectKey{Name: set}, &clusterv1beta2.ManagedClusterSet{}); err != nil {
				return err
			}
		}
		return nil
	})
	return h
}

// start runs the hub, at the address that it had before.
func (h *fleetHub) start() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan hub.Ready, 1), make(chan error, 1)
	go func() {
		done <- hub.Run(ctx, hub.Options{DataDir: h.dir, SecurePort: h.port, Clock: h.clock, ExternalSigner: true, Log: logr.Discard()}, func(r hub.Ready) { ready <- r })
	}()
	select {
	case r := <-ready:
		h.connect(r)
	case err := <-done:
		cancel()
		h.t.Fatalf("the hub did not start: %v", err)
	}
	signed := make(chan struct{})
	go func() { defer close(signed); h.sign(ctx) }()
	h.stop = func() {
		cancel()
		<-signed
		if err := <-done; err != nil {
			h.t.Errorf("the hub ended with %v", err)
		}
	}
}

func (h *fleetHub) halt() {
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

func (h *fleetHub) connect(r hub.Ready) {
	h.t.Helper()
	u, err := url.Parse(r.URL)
	testkit.Must(h.t, err)
	h.port, err = strconv.Atoi(u.Port())
	testkit.Must(h.t, err)
	h.url = r.URL
	h.config, err = clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	testkit.Must(h.t, err)
	h.config.QPS = -1
	h.client, err = client.New(h.config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	testkit.Must(h.t, err)
	h.kube, err = kubernetes.NewForConfig(h.config)
	testkit.Must(h.t, err)
}

// sign is the hub's signer. Kubernetes' own goes by the real clock, so this one
// takes its place: with the same authority, policy and lifetimes.
func (h *fleetHub) sign(ctx context.Context) {
	ca := h.authority()
	requests := h.kube.CertificatesV1().CertificateSigningRequests()
	for ctx.Err() == nil {
		w, err := requests.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for e := range w.ResultChan() {
			r, ok := e.Object.(*certificatesv1.CertificateSigningRequest)
			if !ok || e.Type == watch.Deleted || len(r.Status.Certificate) > 0 || !approved(r) {
				continue
			}
			block, _ := pem.Decode(r.Spec.Request)
			der, err := ca.Sign(block.Bytes, authority.PermissiveSigningPolicy{
				TTL: time.Duration(*r.Spec.ExpirationSeconds) * time.Second, Usages: r.Spec.Usages,
				Backdate: 5 * time.Minute, Short: 8 * time.Hour, Now: h.clock.Now,
			})
			if err != nil {
				h.t.Errorf("sign %s: %v", r.Name, err)
				continue
			}
			r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
			// Another writer's event brings it here again.
			if _, err := requests.UpdateStatus(ctx, r, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil {
				h.t.Errorf("store the certificate of %s: %v", r.Name, err)
			}
		}
	}
}

func (h *fleetHub) authority() *authority.CertificateAuthority {
	h.t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(h.dir, "pki", "ca.crt"), filepath.Join(h.dir, "pki", "ca.key"))
	testkit.Must(h.t, err)
	return &authority.CertificateAuthority{RawCert: pair.Certificate[0], Certificate: pair.Leaf, PrivateKey: pair.PrivateKey.(crypto.Signer)}
}

func approved(r *certificatesv1.CertificateSigningRequest) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved {
			return true
		}
	}
	return false
}

// token makes a bootstrap token in a group.
func (h *fleetHub) token(group string) *corev1.Secret {
	h.t.Helper()
	id, secret := utilrand.String(6), utilrand.String(16)
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte(id), "token-secret": []byte(secret), "usage-bootstrap-authentication": []byte("true"), "auth-extra-groups": []byte(group),
		},
	}
	testkit.Must(h.t, h.client.Create(context.Background(), s))
	return s
}

// refuses returns an error unless the hub refuses a token, or takes it.
func (h *fleetHub) refuses(token *corev1.Secret, want bool) error {
	h.t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{
		Host: h.url, TLSClientConfig: rest.TLSClientConfig{CAData: h.config.CAData}, BearerToken: credentials(token),
	})
	testkit.Must(h.t, err)
	_, err = c.AuthenticationV1().SelfSubjectReviews().Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if got := apierrors.IsUnauthorized(err); got != want || err != nil && !got {
		return fmt.Errorf("the hub refuses the token: %t, want %t (%w)", got, want, err)
	}
	return nil
}

func credentials(token *corev1.Secret) string {
	return fmt.Sprintf("%s.%s", token.Data["token-id"], token.Data["token-secret"])
}

// kubeconfig is a bootstrap kubeconfig with a token.
func (h *fleetHub) kubeconfig(token *corev1.Secret) []byte {
	h.t.Helper()
	content, err := kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Context: "bootstrap", Server: "https://" + h.agentHost(), CAData: h.config.CAData,
		Token: credentials(token),
	}.YAML()
	testkit.Must(h.t, err)
	return content
}
