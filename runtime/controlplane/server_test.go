package controlplane_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

// shared is one generic control plane with its controllers, for all tests that
// can live beside others.
var shared *controlplane.Server

func TestMain(m *testing.M) {
	logging.Setup(context.Background(), io.Discard, 0, false)
	os.Exit(func() int {
		path, err := os.MkdirTemp("", "muster-controlplane-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(path)
		ctx, cancel := context.WithCancel(context.Background())
		var stop func()
		shared, stop, err = start(ctx, path, controlplane.Options{Name: "test"})
		if err != nil {
			panic(err)
		}
		defer stop()
		defer cancel()
		return m.Run()
	}())
}

// start runs a control plane with its controllers below path.
func start(ctx context.Context, path string, o controlplane.Options) (*controlplane.Server, func(), error) {
	dir, err := datadir.Open(path, "test")
	if err != nil {
		return nil, nil, err
	}
	o.Dir = dir
	s, err := controlplane.Start(ctx, o)
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	controllers := make(chan error, 1)
	go func() {
		controllers <- s.RunControllers(ctx, controlplane.ControllerOptions{PlainNamespaces: "!example.org/bare"})
	}()
	stop := func() {
		cancel()
		if err := <-controllers; err != nil {
			panic(err)
		}
		if err := s.Stop(); err != nil {
			panic(err)
		}
		dir.Close()
	}
	if err := s.WaitReady(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	return s, stop, nil
}

// admin is a client by the kubeconfig that a user gets, over the network.
func admin(t *testing.T, s *controlplane.Server) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return clientFor(t, config)
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// withToken is a client configuration that knows the server but not who it is.
func withToken(s *controlplane.Server, token string) *rest.Config {
	return &rest.Config{Host: s.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: s.CAData}}
}

func TestVersionIsThatOfTheKubernetesInside(t *testing.T) {
	v, err := admin(t, shared).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if v.Major != "1" || v.Minor == "" || !strings.HasPrefix(v.GitVersion, "v1."+v.Minor+".") || !strings.HasSuffix(v.GitVersion, "+muster") {
		t.Errorf("got %+v", v)
	}
}

func TestDataAndIdentitySurviveRestart(t *testing.T) {
	path := t.TempDir()
	var ca string
	for i := range 2 {
		s, stop, err := start(t.Context(), path, controlplane.Options{Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		client := admin(t, s)
		if i == 0 {
			ca = string(s.CAData)
			_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
		} else {
			if ca != string(s.CAData) {
				t.Error("the certificate authority changed")
			}
			_, err = client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
		}
		if err != nil {
			t.Error(err)
		}
		stop()
	}
}

func TestStartRefusesInOneLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for _, tc := range []struct {
		name string
		o    controlplane.Options
		want []string
	}{
		{"a port in use", controlplane.Options{SecurePort: port}, []string{fmt.Sprintf("127.0.0.1:%d", port), "another process uses the port", "--secure-port"}},
		{"no port", controlplane.Options{SecurePort: 70000}, []string{"70000", "--secure-port"}},
		{"an address of another machine", controlplane.Options{BindAddress: net.IPv4(192, 0, 2, 1)}, []string{"192.0.2.1", "--bind-address"}},
		{"an external URL without https", controlplane.Options{ExternalURL: "hub.example.org"}, []string{"hub.example.org", "--external-url", "https://"}},
		{"an etcd server that is not a URL", controlplane.Options{EtcdServers: []string{"etcd:2379"}}, []string{"etcd:2379", "--etcd-servers"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.o.Name = "test"
			_, _, err := start(t.Context(), t.TempDir(), tc.o)
			if err == nil {
				t.Fatal("started")
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func TestHalfWrittenAuthorityIsNotReplaced(t *testing.T) {
	path := t.TempDir()
	if err := os.MkdirAll(filepath.Join(path, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "pki", "ca.crt"), []byte("lost its key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := start(t.Context(), path, controlplane.Options{Name: "test"}); err == nil || !strings.Contains(err.Error(), "ca.key") {
		t.Errorf("got %v, want an error that names the missing file", err)
	}
}

func TestExternalURLIsServedAndHandedOut(t *testing.T) {
	s, stop, err := start(t.Context(), t.TempDir(), controlplane.Options{Name: "test", ExternalURL: "https://hub.example.org:6443"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil || config.Host != "https://hub.example.org:6443" {
		t.Fatalf("admin kubeconfig: got %v, %v", config, err)
	}
	certPEM, err := os.ReadFile(filepath.Join(filepath.Dir(s.Kubeconfig), "pki", "serving.crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"hub.example.org", "127.0.0.1", "localhost"} {
		if err := cert.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}

func TestStrangersGetNothing(t *testing.T) {
	for name, token := range map[string]string{"nobody": "", "an unknown token": "abcdef.0123456789abcdef"} {
		_, err := clientFor(t, withToken(shared, token)).CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			t.Errorf("%s lists secrets: got %v", name, err)
		}
	}
}

func TestBootstrapTokenLogsInUntilItExpires(t *testing.T) {
	client := admin(t, shared)
	secret := func(id string, expires time.Time) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id, Namespace: "kube-system"},
			Type:       corev1.SecretTypeBootstrapToken,
			StringData: map[string]string{
				"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
				"auth-extra-groups": "system:bootstrappers:test", "expiration": expires.UTC().Format(time.RFC3339),
			},
		}
	}
	for id, expires := range map[string]time.Time{"aaaaaa": time.Now().Add(time.Hour), "bbbbbb": time.Now().Add(-time.Hour)} {
		if _, err := client.CoreV1().Secrets("kube-system").Create(t.Context(), secret(id, expires), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	good := clientFor(t, withToken(shared, "aaaaaa.0123456789abcdef"))
	testkit.EventuallyThat(t, "log in with the token", func() error {
		review, err := good.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if user := review.Status.UserInfo; user.Username != "system:bootstrap:aaaaaa" || !strings.Contains(strings.Join(user.Groups, " "), "system:bootstrappers:test") {
			return fmt.Errorf("logged in as %+v", user)
		}
		return nil
	})
	testkit.EventuallyThat(t, "the expired token's secret is cleaned away", func() error {
		_, err := client.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-bbbbbb", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
	if _, err := clientFor(t, withToken(shared, "bbbbbb.0123456789abcdef")).Discovery().ServerGroups(); !apierrors.IsUnauthorized(err) {
		t.Errorf("log in with the expired token: got %v", err)
	}
}

func TestApprovedRequestBecomesACertificateThatLogsIn(t *testing.T) {
	client := admin(t, shared)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"readers"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "jane-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "Approved by a test."})
	if _, err := client.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.EventuallyThat(t, "the certificate is signed", func() error {
		csr, err = client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), csr.Name, metav1.GetOptions{})
		if err == nil && len(csr.Status.Certificate) == 0 {
			err = fmt.Errorf("no certificate, conditions %+v", csr.Status.Conditions)
		}
		return err
	})
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	jane := &rest.Config{Host: shared.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: shared.CAData, CertData: csr.Status.Certificate,
		KeyData: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}}
	review, err := clientFor(t, jane).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username != "jane" {
		t.Errorf("logged in as %+v, %v", review.Status.UserInfo, err)
	}
}

func TestServiceAccountTokensLogInAndAreHeldByRBAC(t *testing.T) {
	client, ctx := admin(t, shared), t.Context()
	namespace := newNamespace(t, client, nil)
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "robot", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var legacy string
	testkit.EventuallyThat(t, "the token secret is filled", func() error {
		secret, err := client.CoreV1().Secrets(namespace).Get(ctx, "robot", metav1.GetOptions{})
		if err == nil && len(secret.Data["token"]) == 0 {
			err = fmt.Errorf("no token in it")
		}
		if err == nil {
			legacy = string(secret.Data["token"])
		}
		return err
	})
	for name, token := range map[string]string{"requested": request.Status.Token, "legacy": legacy} {
		robot := clientFor(t, withToken(shared, token))
		if _, err := robot.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s token without a role: got %v", name, err)
		}
	}
	if _, err := client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "robot"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "robot", Namespace: namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	robot := clientFor(t, withToken(shared, request.Status.Token))
	testkit.EventuallyThat(t, "the aggregated role edit lets it in", func() error {
		_, err := robot.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		return err
	})
	// What it may not do itself, it may not give to others.
	_, err = robot.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "more"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("escalation: got %v", err)
	}
}

func TestNamespaceWaitsForFinalizersAndOwnedObjectsGo(t *testing.T) {
	client, ctx := admin(t, shared), t.Context()
	namespace := newNamespace(t, client, nil)
	owner, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.org/hold"}}}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}}}
	for _, cm := range []*corev1.ConfigMap{held, owned} {
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.CoreV1().ConfigMaps(namespace).Delete(ctx, "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.EventuallyThat(t, "the owned object goes with its owner", func() error {
		_, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "owned", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
	if err := client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.EventuallyThat(t, "the namespace says what holds it", func() error {
		ns, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range ns.Status.Conditions {
			if c.Type == corev1.NamespaceFinalizersRemaining && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, "example.org/hold") {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", ns.Status.Conditions)
	})
	if _, err := client.CoreV1().ConfigMaps(namespace).Patch(ctx, "held", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.EventuallyThat(t, "the namespace goes", func() error {
		_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
}

func TestBareNamespacesStayEmpty(t *testing.T) {
	client, ctx := admin(t, shared), t.Context()
	bare := newNamespace(t, client, map[string]string{"example.org/bare": ""})
	plain := newNamespace(t, client, nil) // made later: once it is filled, the bare one has been passed by
	testkit.EventuallyThat(t, "the plain namespace is filled", func() error {
		if _, err := client.CoreV1().ServiceAccounts(plain).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err
		}
		_, err := client.CoreV1().ConfigMaps(plain).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	accounts, err := client.CoreV1().ServiceAccounts(bare).List(ctx, metav1.ListOptions{})
	if err != nil || len(accounts.Items) > 0 {
		t.Errorf("service accounts in the bare namespace: %v, %v", accounts.Items, err)
	}
	maps, err := client.CoreV1().ConfigMaps(bare).List(ctx, metav1.ListOptions{})
	if err != nil || len(maps.Items) > 0 {
		t.Errorf("config maps in the bare namespace: %v, %v", maps.Items, err)
	}
}

func newNamespace(t *testing.T, client kubernetes.Interface, labels map[string]string) string {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}
