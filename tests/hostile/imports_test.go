package hostile

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// importing hands a kubeconfig in, and has the hub import the cluster.
func (w *world) importing(t testing.TB, name string, content []byte) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: muster.ImportNamespace, Name: name}, Data: map[string][]byte{"kubeconfig": content}}
	imp := &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterImportSpec{KubeconfigSecret: name, Accept: true}}
	testkit.Must(t, w.admin(t).Create(t.Context(), secret))
	testkit.Must(t, w.admin(t).Create(t.Context(), imp))
}

// ends waits until a condition of an import has a reason and says some words.
func (w *world) ends(t testing.TB, name, condition, reason, words string) {
	t.Helper()
	harmless(t, name, testkit.Poll(90*time.Second, func() error {
		imp := &v1alpha1.ClusterImport{}
		if err := w.admin(t).Get(t.Context(), client.ObjectKey{Name: name}, imp); err != nil {
			return err
		}
		is := meta.FindStatusCondition(imp.Status.Conditions, condition)
		if is == nil || is.Reason != reason || !strings.Contains(is.Message, words) {
			return fmt.Errorf("the conditions are %+v, want %s with %q", imp.Status.Conditions, reason, words)
		}
		return nil
	}))
}

// leadingTo is a kubeconfig with a server, changed.
func leadingTo(t testing.TB, server string, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	to, user := &clientcmdapi.Cluster{Server: server}, &clientcmdapi.AuthInfo{Token: "s3cret"}
	if change != nil {
		change(to, user)
	}
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": to}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": user},
		Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	})
	testkit.Must(t, err)
	return content
}

// trap listens on the hub's machine, and counts who comes.
func trap(t testing.TB) (port string, came *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", ":0")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	came = &atomic.Int32{}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			_ = connection.Close()
		}
	}()
	_, port, err = net.SplitHostPort(listener.Addr().String())
	testkit.Must(t, err)
	return port, came
}

// A kubeconfig that somebody hands to a hub runs nothing there, reads nothing there,
// and reaches neither the hub's machine nor its cloud.
func TestKubeconfigsDoNothingOnTheHub(t *testing.T) {
	w := ownWorld(t, "--feature-gates", "ClusterImport=true")
	port, came := trap(t)
	marker := filepath.Join(t.TempDir(), "ran")
	const address, secret = "it is", "names a file"
	attempts := map[string]struct {
		content []byte
		words   string
	}{
		"exec": {leadingTo(t, "https://192.0.2.1:6443", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Token, u.Exec = "", &clientcmdapi.ExecConfig{Command: "touch", Args: []string{marker}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		}), "gets credentials from a program"},
		"auth-provider": {leadingTo(t, "https://192.0.2.1:6443", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "gcp", Config: map[string]string{"cmd-path": "touch", "cmd-args": marker}}
		}), "gets credentials from a program"},
		"token-file": {leadingTo(t, "https://192.0.2.1:6443", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.TokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
		}), secret},
		"key-file": {leadingTo(t, "https://192.0.2.1:6443", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.ClientCertificate, u.ClientKey = "/etc/hostname", "/etc/hostname"
		}), secret},
		"ca-file":  {leadingTo(t, "https://192.0.2.1:6443", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthority = "/etc/hostname" }), secret},
		"insecure": {leadingTo(t, "https://192.0.2.1:6443", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.InsecureSkipTLSVerify = true }), "insecure-skip-tls-verify"},
		"clear":    {leadingTo(t, "http://192.0.2.1:6443", nil), "in clear"},
		"proxy": {leadingTo(t, "https://192.0.2.1:6443", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.ProxyURL = "http://127.0.0.1:" + port }),
			"hub's own machine"},
		"socks": {leadingTo(t, "https://192.0.2.1:6443", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.ProxyURL = "socks5://localhost:" + port }),
			"hub's own machine"},
	}
	hosts := map[string]string{
		"loopback": "127.0.0.1", "localhost": "localhost.", "elsewhere-in-127": "127.9.9.9", "unspecified": "0.0.0.0", "loopback6": "[::1]",
		"mapped": "[::ffff:127.0.0.1]", "nat64": "[64:ff9b::7f00:1]", "metadata": "169.254.169.254", "metadata6": "[fd00:ec2::254]", "link-local": "[fe80::1]",
	}
	addresses, err := net.InterfaceAddrs()
	testkit.Must(t, err)
	for i, address := range addresses {
		if ip, _, err := net.ParseCIDR(address.String()); err == nil && ip.To4() != nil {
			hosts[fmt.Sprintf("own-%d", i)] = ip.String()
		}
	}
	if name, err := os.Hostname(); err == nil {
		if found, err := net.LookupHost(name); err == nil && len(found) > 0 {
			hosts["own-name"] = name // which is only known once it is looked up
		}
	}
	for name, host := range hosts {
		attempts[name] = struct {
			content []byte
			words   string
		}{leadingTo(t, "https://"+host+":"+port, nil), address}
	}
	for name, x := range attempts {
		w.importing(t, name, x.content)
	}
	for name, x := range attempts {
		w.ends(t, name, muster.ConditionKubeconfigUsable, muster.ReasonKubeconfigRefused, x.words)
	}
	if came.Load() > 0 {
		t.Errorf("%d connections came to the hub's machine", came.Load())
	}
	if _, err := os.Stat(marker); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program ran on the hub: %v", err)
	}
}

// Clusters that hang, that answer without end, or that send the hub elsewhere hold up
// no other, and nobody gets more out of an import than what is theirs.
func TestHostileClustersHoldUpNoOther(t *testing.T) {
	w := ownWorld(t, "--feature-gates", "ClusterImport=true", "--cluster-import-allow-loopback")
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer hung.Close()
	port, came := trap(t)
	endless := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"`))
		for r.Context().Err() == nil {
			if _, err := rw.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	elsewhere := httptest.NewTLSServer(http.RedirectHandler("https://127.0.0.1:"+port, http.StatusTemporaryRedirect))
	defer elsewhere.Close()
	trusting := func(s *httptest.Server) []byte {
		return leadingTo(t, s.URL, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		})
	}
	for i := range 40 { // more than the hub works on side by side
		w.importing(t, fmt.Sprintf("hung-%d", i), leadingTo(t, "https://"+hung.Addr().String(), nil))
	}
	w.importing(t, "endless", trusting(endless))
	w.importing(t, "elsewhere", trusting(elsewhere))
	managed, err := testhub.StartCluster(program, filepath.Join(t.TempDir(), "good"))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = managed.Kill() })
	content, err := os.ReadFile(managed.Kubeconfig)
	testkit.Must(t, err)
	w.importing(t, "good", content)
	w.ends(t, "good", muster.ConditionJoined, muster.ReasonClusterJoined, "")
	w.ends(t, "endless", muster.ConditionKubeconfigUsable, muster.ReasonUnreachable, "more than 4194304 bytes")
	w.ends(t, "elsewhere", muster.ConditionKubeconfigUsable, muster.ReasonUnreachable, "answers with a redirect")
	w.ends(t, "hung-0", muster.ConditionKubeconfigUsable, muster.ReasonUnreachable, "did not answer in time")
	if came.Load() > 0 {
		t.Error("the hub followed a redirect")
	}
	othersClusters(t, w, content)
}

// othersClusters tries to get at clusters and kubeconfigs of others, with the right to
// make imports. mine is the attacker's kubeconfig.
func othersClusters(t *testing.T, w *world, mine []byte) {
	t.Helper()
	ctx, admin := context.Background(), w.admin(t)
	attacker := testfleet.Client(t, w.Tenant(t, "attackers", "a"))
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "attacker"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{muster.GroupName}, Resources: []string{"clusterimports"}, Verbs: []string{"*"}},
		{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclusters", "managedclustersets/join"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"mine"}, Verbs: []string{"get", "update", "delete"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "attacker"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "attacker"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "attackers", Name: "a"}},
	}
	testkit.Must(t, admin.Create(ctx, role))
	testkit.Must(t, admin.Create(ctx, binding))
	w.Joined(t, "victim", "a")
	imp := func(name, secret string) *v1alpha1.ClusterImport {
		return &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterImportSpec{KubeconfigSecret: secret}}
	}
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: muster.ImportNamespace, Name: "hung-1"}}
	claimed := imp("claimed", "mine")
	testkit.Eventually(t, func() error { return client.IgnoreAlreadyExists(attacker.Create(ctx, claimed)) })
	refusedFor(t, "imports as a cluster of somebody else's", attacker.Create(ctx, imp("victim", "mine")), `cannot update the ManagedCluster "victim"`)
	refusedFor(t, "uses another's kubeconfig", attacker.Create(ctx, imp("fresh", theirs.Name)), "cannot use the Secret")
	refused(t, "reads another's kubeconfig", attacker.Get(ctx, client.ObjectKeyFromObject(theirs), theirs.DeepCopy()))
	refused(t, "lists kubeconfigs", attacker.List(ctx, &corev1.SecretList{}, client.InNamespace(muster.ImportNamespace)))
	refusedFor(t, "has another's import lead its agent elsewhere",
		attacker.Patch(ctx, imp("hung-1", ""), mergePatchf(`{"spec":{"endpoint":{"server":"https://evil.example.com"}}}`)), "cannot use the Secret")
	refusedFor(t, "points another's import at its own kubeconfig and claims the cluster",
		attacker.Patch(ctx, imp("good", ""), mergePatchf(`{"spec":{"kubeconfigSecret":"mine","clusterUID":"x"}}`)), "cannot update the HubAcceptsClient field")

	// The name was claimed before the cluster came that has joined with it.
	agent := testfleet.Client(t, w.Joined(t, "claimed", "a"))
	testkit.Must(t, agent.Status().Patch(ctx, clusterNamed("claimed", false),
		mergePatchf(`{"status":{"conditions":[{"type":"ManagedClusterJoined","status":"True","reason":"ManagedClusterJoined","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: muster.ImportNamespace, Name: "mine"}, Data: map[string][]byte{"kubeconfig": mine}}
	managed, err := clientcmd.RESTConfigFromKubeConfig(mine)
	testkit.Must(t, err)
	for _, o := range []client.Object{ // as in a cluster that never had an agent
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.AgentNamespace, Name: klusterlet.Name}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: klusterlet.RegistrationRole}},
	} {
		testkit.Must(t, testfleet.Client(t, managed).Delete(ctx, o))
		testkit.Eventually(t, func() error {
			err := testfleet.Client(t, managed).Get(ctx, client.ObjectKeyFromObject(o), o)
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is still there: %v", o.GetName(), err)
			}
			return nil
		})
	}
	testkit.Must(t, admin.Create(ctx, secret))
	w.ends(t, "claimed", muster.ConditionKubeconfigUsable, muster.ReasonAnotherCluster, "clusterAuthority")
	tokens := &corev1.SecretList{}
	testkit.Must(t, admin.List(ctx, tokens, client.InNamespace(metav1.NamespaceSystem)))
	for _, token := range tokens.Items {
		if token.Annotations["muster-fleet.io/cluster-import"] == string(claimed.UID) {
			t.Error("the hub made a token for a name that another cluster has joined with")
		}
	}
}
