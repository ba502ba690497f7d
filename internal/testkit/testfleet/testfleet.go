// Package testfleet makes the identities of a fleet for tests, on any hub: real
// bootstrap tokens, certificates and service accounts, not impersonation.
package testfleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// Hub is a hub as its administrator reaches it.
type Hub struct{ Admin *rest.Config }

// As is a client configuration for another identity, in which change sets the
// credentials.
func (h Hub) As(change func(*rest.Config)) *rest.Config {
	c := rest.AnonymousClientConfig(h.Admin)
	c.QPS = -1
	change(c)
	return c
}

// WithToken is somebody who comes with a bearer token.
func (h Hub) WithToken(token string) *rest.Config {
	return h.As(func(c *rest.Config) { c.BearerToken = token })
}

// WithCertificate is somebody who comes with a client certificate.
func (h Hub) WithCertificate(cert, key []byte) *rest.Config {
	return h.As(func(c *rest.Config) { c.CertData, c.KeyData = cert, key })
}

// Client is a client of the wire's kinds with the credentials of c.
func Client(t testing.TB, c *rest.Config) client.Client {
	t.Helper()
	k, err := client.New(c, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Clientset is a client of Kubernetes' own kinds with the credentials of c.
func Clientset(t testing.TB, c *rest.Config) kubernetes.Interface {
	t.Helper()
	k, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// BootstrapToken makes a bootstrap token with a group, and annotations on its
// Secret. It works once this returns, and goes with the test.
func (h Hub) BootstrapToken(t testing.TB, group string, annotations map[string]string) (_ *corev1.Secret, token string) {
	t.Helper()
	random := make([]byte, 11)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	id, secret := hex.EncodeToString(random[:3]), hex.EncodeToString(random[3:])
	c := Client(t, h.Admin)
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id, Annotations: annotations},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "auth-extra-groups": group,
		},
	}
	if err := c.Create(context.Background(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), object) })
	token = id + "." + secret
	LogsIn(t, h.WithToken(token))
	return object, token
}

// LogsIn waits until a server takes a token that was made a moment ago: its
// authenticator learns of the Secret by a watch.
func LogsIn(t testing.TB, c *rest.Config) {
	t.Helper()
	testkit.Eventually(t, func() error {
		_, err := Clientset(t, c).Discovery().ServerVersion()
		return err
	})
}

// CertificateRequest is a request of the form that agents make, and its key.
func CertificateRequest(t testing.TB, name, agent string) (r *certificatesv1.CertificateSigningRequest, key []byte) {
	t.Helper()
	key, request := testkit.CertificateRequest(t, cluster.CommonName(name, agent), cluster.Group(name), cluster.ManagedClustersGroup)
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Labels: map[string]string{cluster.NameLabel: name}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
		},
	}, key
}

// Approve does what "kubectl certificate approve" does.
func Approve(ctx context.Context, k kubernetes.Interface, r *certificatesv1.CertificateSigningRequest) error {
	r = r.DeepCopy()
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "approved",
	})
	_, err := k.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{})
	return err
}

// Certificate waits until a request is signed.
func (h Hub) Certificate(t testing.TB, request string) []byte {
	t.Helper()
	var cert []byte
	testkit.Eventually(t, func() error {
		r, err := Clientset(t, h.Admin).CertificatesV1().CertificateSigningRequests().Get(context.Background(), request, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if cert = r.Status.Certificate; len(cert) == 0 {
			return fmt.Errorf("the request %s has no certificate; its conditions: %v", request, r.Status.Conditions)
		}
		return nil
	})
	return cert
}

// AgentCertificate is a certificate for an agent of a cluster, whatever state the
// cluster is in: the administrator asks for it and approves it.
func (h Hub) AgentCertificate(t testing.TB, name, agent string) *rest.Config {
	t.Helper()
	r, key := CertificateRequest(t, name, agent)
	if err := Client(t, h.Admin).Create(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	if err := Approve(context.Background(), Clientset(t, h.Admin), r); err != nil {
		t.Fatal(err)
	}
	return h.WithCertificate(h.Certificate(t, r.Name), key)
}

// Joined makes an accepted cluster and returns the identity of its agent, which
// came by a bound bootstrap token.
func (h Hub) Joined(t testing.TB, name, agent string) *rest.Config {
	t.Helper()
	ctx := context.Background()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}}
	if err := Client(t, h.Admin).Create(ctx, mc); err != nil {
		t.Fatal(err)
	}
	_, token := h.BootstrapToken(t, cluster.BoundBootstrapGroup(name), nil)
	r, key := CertificateRequest(t, name, agent)
	if err := Client(t, h.WithToken(token)).Create(ctx, r); err != nil {
		t.Fatal(err)
	}
	cert := h.Certificate(t, r.Name)
	testkit.Eventually(t, func() error {
		if err := Client(t, h.Admin).Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionHubAccepted) {
			return fmt.Errorf("the cluster %s is not accepted yet: %+v", name, mc.Status.Conditions)
		}
		return nil
	})
	identity := h.WithCertificate(cert, key)
	// The authorizer learns of the acceptance by a watch.
	testkit.Eventually(t, func() error { return Client(t, identity).Get(ctx, client.ObjectKeyFromObject(mc), mc) })
	return identity
}

// Tenant makes a service account in a namespace, which is made when it is not
// there, gives it the rules in that namespace, and returns its identity. The
// rules apply once this returns.
func (h Hub) Tenant(t testing.TB, namespace, name string, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	ctx, k := context.Background(), Clientset(t, h.Admin)
	_, err := k.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	_, accountErr := k.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	_, roleErr := k.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	_, bindingErr := k.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}, metav1.CreateOptions{})
	if err := errors.Join(accountErr, roleErr, bindingErr); err != nil {
		t.Fatal(err)
	}
	token, err := k.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(time.Hour / time.Second))},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tenant := h.WithToken(token.Status.Token)
	AwaitRules(t, tenant, namespace, rules...)
	return tenant
}

// AwaitRules waits until the API server knows an identity, and that it has rules in a
// namespace: authenticator and authorizer learn of both by watches. Rules of one role
// come together, so the first one stands for all.
func AwaitRules(t testing.TB, who *rest.Config, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	asked := &authorizationv1.ResourceAttributes{Namespace: namespace}
	if len(rules) > 0 {
		r := rules[0]
		asked.Group, asked.Verb = r.APIGroups[0], r.Verbs[0]
		asked.Resource, asked.Subresource, _ = strings.Cut(r.Resources[0], "/")
		if len(r.ResourceNames) > 0 {
			asked.Name = r.ResourceNames[0]
		}
	}
	reviews := Clientset(t, who).AuthorizationV1().SelfSubjectAccessReviews()
	testkit.Eventually(t, func() error {
		review, err := reviews.Create(context.Background(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: asked},
		}, metav1.CreateOptions{})
		if err == nil && len(rules) > 0 && !review.Status.Allowed {
			err = fmt.Errorf("%+v is not allowed yet: %s", *asked, review.Status.Reason)
		}
		return err
	})
}
