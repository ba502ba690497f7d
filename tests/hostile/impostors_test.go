package hostile

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/install"
)

// peer is an API server that says which cluster it is, keeps what it is given, and says
// that everything runs. With an authority of its own it can say that it is any cluster.
type peer struct {
	*httptest.Server
	kubeconfig []byte
	uid        string

	mu       sync.Mutex
	objects  map[string]map[string]any // by path
	requests int
}

func newPeer(t testing.TB, uid string) *peer {
	t.Helper()
	ca, certificate := testkit.Serving(t)
	p := &peer{uid: uid, objects: map[string]map[string]any{}}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.StartTLS()
	t.Cleanup(p.Close)
	p.kubeconfig = leadingTo(t, p.URL, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = ca })
	return p
}

func (p *peer) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	w.Header().Set("Content-Type", "application/json")
	object := p.objects[r.URL.Path]
	switch {
	case r.URL.Path == "/api/v1/namespaces/kube-system":
		object = map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kube-system", "uid": p.uid}}
	case r.Method == http.MethodPatch || r.Method == http.MethodPut:
		sent := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if object = sent; strings.HasSuffix(r.URL.Path, "/deployments/"+klusterlet.Name) {
			object["status"] = map[string]any{"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
		}
		p.objects[r.URL.Path] = object
	}
	if object == nil {
		w.WriteHeader(http.StatusNotFound)
		object = map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
	}
	_ = json.NewEncoder(w).Encode(object)
}

func secretPath(name string) string {
	return "/api/v1/namespaces/" + cluster.AgentNamespace + "/secrets/" + name
}

// answers is the number of requests that the server has got.
func (p *peer) answers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// hold has the server answer with the identity of an agent.
func (p *peer) hold(t testing.TB, identity *rest.Config) {
	t.Helper()
	at := leadingTo(t, identity.Host, nil)
	if given := p.bootstrap(t); given != nil {
		at = given
	}
	raw, err := json.Marshal(&corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: cluster.AgentNamespace, Name: cluster.HubKubeconfigSecret},
		Data: map[string][]byte{
			cluster.KubeconfigKey: at, cluster.TLSCertKey: identity.CertData, cluster.TLSKeyKey: identity.KeyData,
		},
	})
	testkit.Must(t, err)
	object := map[string]any{}
	testkit.Must(t, json.Unmarshal(raw, &object))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects[secretPath(cluster.HubKubeconfigSecret)] = object
}

// lose has the server know nothing of an agent but what is kept.
func (p *peer) lose(kept ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.objects, func(path string, _ map[string]any) bool { return !slices.Contains(kept, path) })
}

// bootstrap is the bootstrap kubeconfig that the hub has handed to the server; nil for
// none.
func (p *peer) bootstrap(t testing.TB) []byte {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	object := p.objects[secretPath(cluster.BootstrapSecret)]
	if object == nil {
		return nil
	}
	raw, err := json.Marshal(object)
	testkit.Must(t, err)
	secret := &corev1.Secret{}
	testkit.Must(t, json.Unmarshal(raw, secret))
	return secret.Data[cluster.KubeconfigKey]
}

// token is the token in it; empty for none.
func (p *peer) token(t testing.TB) string {
	t.Helper()
	content := p.bootstrap(t)
	if content == nil {
		return ""
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	testkit.Must(t, err)
	return config.BearerToken
}

// registers has an agent of a cluster join with a token, as a bootstrap token's holder
// does.
func (w *world) registers(t testing.TB, token, name, agent string) *rest.Config {
	t.Helper()
	request, key := testfleet.CertificateRequest(t, name, agent)
	testkit.Must(t, testfleet.Client(t, w.WithToken(token)).Create(t.Context(), request))
	identity := w.WithCertificate(w.Certificate(t, request.Name), key)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	testkit.Eventually(t, func() error { // the authorizer learns of the acceptance by a watch
		return testfleet.Client(t, identity).Status().Patch(t.Context(), mc, mergePatchf(
			`{"status":{"conditions":[{"type":"ManagedClusterJoined","status":"True","reason":"ManagedClusterJoined","message":"",`+
				`"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))
	})
	return identity
}

// rejoiningTokens are the tokens of imports with which a cluster may join again.
func (w *world) rejoiningTokens(t testing.TB) (found []string) {
	t.Helper()
	tokens := &corev1.SecretList{}
	testkit.Must(t, w.admin(t).List(t.Context(), tokens, client.InNamespace(metav1.NamespaceSystem)))
	for _, s := range tokens.Items {
		if s.Annotations[cluster.RejoinAnnotation] != "" {
			found = append(found, s.Name)
		}
	}
	return found
}

func kubeconfigSecret(name string, content []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: muster.ImportNamespace, Name: name}, Data: map[string][]byte{"kubeconfig": content}}
}

func importNamed(name, secret string) *v1alpha1.ClusterImport {
	return &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterImportSpec{KubeconfigSecret: secret}}
}

// A server that says that it is a cluster that has joined gets nothing of it, no matter who
// hands its kubeconfig in.
func TestImpostorsTakeOverNoImportedCluster(t *testing.T) {
	w := ownWorld(t, "--feature-gates", "ClusterImport=true", "--cluster-import-allow-loopback")
	honest := newPeer(t, "0a1b2c3d-paris")
	w.importing(t, "paris", honest.kubeconfig)
	w.ends(t, "paris", muster.ConditionJoined, muster.ReasonWaitingForAgent, "")
	identity := w.registers(t, honest.token(t), "paris", "a")
	honest.hold(t, identity)
	w.ends(t, "paris", muster.ConditionKubeconfigUsable, muster.ReasonForgotten, "")
	imp := &v1alpha1.ClusterImport{}
	testkit.Must(t, w.admin(t).Get(t.Context(), client.ObjectKey{Name: "paris"}, imp))
	if imp.Status.ClusterUID != honest.uid || !strings.HasPrefix(imp.Status.ClusterAuthority, "sha256:") {
		t.Fatalf("the cluster is not pinned: %+v", imp.Status)
	}

	impostor := newPeer(t, honest.uid)
	impostor.hold(t, w.WithCertificate(identity.CertData, newKey(t)))
	attackersOfImports(t, w, impostor)
	impostorsByMistake(t, w, imp, impostor)
	if tokens := w.rejoiningTokens(t); len(tokens) > 0 {
		t.Errorf("the hub has made the tokens %v", tokens)
	}
	rejoinsWhenAsked(t, w, honest)
}

func newKey(t testing.TB) []byte {
	key, _ := testkit.CertificateRequest(t, "x")
	return key
}

// attackersOfImports try it with a few rights: mallory may hand kubeconfigs in, and ivan
// may make imports and has a Secret of his own.
func attackersOfImports(t *testing.T, w *world, impostor *peer) {
	t.Helper()
	ctx, admin := t.Context(), w.admin(t)
	mallory := testfleet.Client(t, w.Tenant(t, "strangers", "mallory"))
	ivan := testfleet.Client(t, w.Tenant(t, "strangers", "ivan"))
	account := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "strangers", Name: name}}
	}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclustersets/join"}, ResourceNames: []string{"default"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"ivans"}, Verbs: []string{"get", "update", "patch"}},
		{APIGroups: []string{muster.GroupName}, Resources: []string{"clusterimports/status"}, Verbs: []string{"*"}},
	}
	for _, o := range []client.Object{
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: muster.ImportNamespace, Name: "mallory"}, Subjects: account("mallory"),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: install.ImportKubeconfigsRole},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "ivan-imports"}, Subjects: account("ivan"),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: install.ImportAdminRole},
		},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "ivan"}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "ivan"}, Subjects: account("ivan"),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "ivan"},
		},
		kubeconfigSecret("ivans", impostor.kubeconfig),
		importNamed("fresh", "fresh"),
	} {
		testkit.Must(t, admin.Create(ctx, o))
	}
	testkit.Eventually(t, func() error { return ivan.Get(ctx, client.ObjectKey{Name: "paris"}, &v1alpha1.ClusterImport{}) })
	// What the role is for goes on: a cluster that has not joined is whose kubeconfig is
	// handed in.
	testkit.Eventually(t, func() error { return mallory.Create(ctx, kubeconfigSecret("fresh", newPeer(t, "fresh").kubeconfig)) })
	w.ends(t, "fresh", muster.ConditionJoined, muster.ReasonWaitingForApproval, "")

	refusedFor(t, "mallory hands in the kubeconfig of a cluster that has joined", mallory.Create(ctx, kubeconfigSecret("paris", impostor.kubeconfig)),
		"paris", "cannot update the ManagedCluster")
	patches := map[string]string{
		"points the import at his own Secret":         `{"spec":{"kubeconfigSecret":"ivans","accept":false}}`,
		"names the UID and his authority":             `{"spec":{"kubeconfigSecret":"ivans","accept":false,"clusterUID":"x","clusterAuthority":"dns:x"}}`,
		"lets the cluster join again":                 `{"spec":{"kubeconfigSecret":"ivans","accept":false,"rejoin":1}}`,
		"publishes his server as that of the cluster": `{"spec":{"kubeconfigSecret":"ivans","accept":false,"publishServer":true}}`,
	}
	for what, patch := range patches {
		refused(t, "ivan "+what, ivan.Patch(ctx, importNamed("paris", ""), mergePatchf("%s", patch)))
	}
	refusedFor(t, "ivan lets a cluster join again under a new name", ivan.Create(ctx, func() *v1alpha1.ClusterImport {
		imp := importNamed("rome", "ivans")
		imp.Spec.Rejoin = 1
		return imp
	}()), "cannot create Secrets in the namespace kube-system")
	refusedFor(t, "ivan presets what has joined", ivan.Status().Patch(ctx, importNamed("paris", ""),
		mergePatchf(`{"status":{"clusterUID":"x","clusterAuthority":"dns:x","rejoined":0}}`)), "by the hub only")
	// Another name with the same server is another cluster, and gets no token of this one.
	testkit.Must(t, ivan.Create(ctx, importNamed("lyon", "ivans")))
	w.ends(t, "lyon", muster.ConditionJoined, muster.ReasonWaitingForApproval, "")
	stranger := testfleet.Client(t, w.WithToken(impostor.token(t)))
	refused(t, "a token for lyon reads paris", stranger.Get(ctx, client.ObjectKey{Name: "paris"}, &clusterv1.ManagedCluster{}))
	testkit.Must(t, ivan.Delete(ctx, importNamed("lyon", "")))
	testkit.Eventually(t, func() error {
		if err := admin.Get(ctx, client.ObjectKey{Name: "lyon"}, &v1alpha1.ClusterImport{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the import is still there: %w", err)
		}
		return nil
	})
	impostor.lose(secretPath(cluster.HubKubeconfigSecret))
}

// impostorsByMistake have somebody with all rights hand their kubeconfig in.
func impostorsByMistake(t *testing.T, w *world, imp *v1alpha1.ClusterImport, impostor *peer) {
	t.Helper()
	ctx, admin := t.Context(), w.admin(t)
	before := impostor.answers()
	testkit.Must(t, admin.Create(ctx, kubeconfigSecret("paris", impostor.kubeconfig)))
	w.ends(t, "paris", muster.ConditionKubeconfigUsable, muster.ReasonAnotherAuthority, "spec.clusterAuthority")
	// The import goes, and comes back under its name.
	testkit.Must(t, admin.Delete(ctx, imp))
	testkit.Eventually(t, func() error { return admin.Create(ctx, importNamed("paris", "paris")) })
	secret := kubeconfigSecret("paris", impostor.kubeconfig)
	testkit.Eventually(t, func() error { return client.IgnoreAlreadyExists(admin.Create(ctx, secret.DeepCopy())) })
	w.ends(t, "paris", muster.ConditionKubeconfigUsable, muster.ReasonAnotherAuthority, "spec.clusterAuthority")
	if impostor.answers() != before {
		t.Error("the impostor has got a request, and with it credentials")
	}
	// Even where it is taken for the cluster's, and shows the certificate of the cluster's
	// agent, it gets no token.
	is := &v1alpha1.ClusterImport{}
	testkit.Must(t, admin.Get(ctx, client.ObjectKey{Name: "paris"}, is))
	words := is.Status.Conditions[0].Message
	found := words[strings.Index(words, "sha256:"):][:len("sha256:")+64]
	testkit.Must(t, admin.Patch(ctx, importNamed("paris", ""), mergePatchf(`{"spec":{"clusterAuthority":%q}}`, found)))
	w.ends(t, "paris", muster.ConditionJoined, muster.ReasonRejoinNeeded, "muster rejoin paris")
	if token := impostor.token(t); token != "" {
		t.Error("the impostor has got a token")
	}
}

// rejoinsWhenAsked lets a cluster join again that has lost its agent, once.
func rejoinsWhenAsked(t *testing.T, w *world, honest *peer) {
	t.Helper()
	ctx, admin := t.Context(), w.admin(t)
	honest.lose()
	mc := &clusterv1.ManagedCluster{}
	testkit.Must(t, admin.Patch(ctx, importNamed("paris", ""), mergePatchf(`{"spec":{"clusterAuthority":null}}`)))
	testkit.Must(t, admin.Get(ctx, client.ObjectKey{Name: "paris"}, mc))
	testkit.Must(t, admin.Delete(ctx, kubeconfigSecret("paris", nil)))
	testkit.Must(t, admin.Create(ctx, kubeconfigSecret("paris", honest.kubeconfig)))
	w.ends(t, "paris", muster.ConditionKubeconfigUsable, muster.ReasonAnotherAuthority, "")
	is := &v1alpha1.ClusterImport{}
	testkit.Must(t, admin.Get(ctx, client.ObjectKey{Name: "paris"}, is))
	words := is.Status.Conditions[0].Message
	found := words[strings.Index(words, "sha256:"):][:len("sha256:")+64]
	testkit.Must(t, admin.Patch(ctx, importNamed("paris", ""), mergePatchf(`{"spec":{"clusterAuthority":%q}}`, found)))
	w.ends(t, "paris", muster.ConditionJoined, muster.ReasonRejoinNeeded, `"rejoin":1`)
	if honest.token(t) != "" {
		t.Error("the cluster has got a token that nobody asked for")
	}
	testkit.Must(t, admin.Patch(ctx, importNamed("paris", ""), mergePatchf(`{"spec":{"rejoin":1}}`)))
	w.ends(t, "paris", muster.ConditionJoined, muster.ReasonWaitingForAgent, "")
	again := w.registers(t, honest.token(t), "paris", "b")
	// The permission is for one agent, also while the import is still there.
	second, _ := testfleet.CertificateRequest(t, "paris", "c")
	testkit.Must(t, testfleet.Client(t, w.WithToken(honest.token(t))).Create(ctx, second))
	honest.hold(t, again)
	w.ends(t, "paris", muster.ConditionKubeconfigUsable, muster.ReasonForgotten, "")
	testkit.Must(t, admin.Get(ctx, client.ObjectKey{Name: "paris"}, is))
	if is.Status.Rejoined != 1 || len(w.rejoiningTokens(t)) > 0 {
		t.Errorf("the permission to join again is not used up: %+v, tokens %v", is.Status, w.rejoiningTokens(t))
	}
	r := &certificatesv1.CertificateSigningRequest{}
	if err := admin.Get(ctx, client.ObjectKeyFromObject(second), r); err == nil && len(r.Status.Conditions) > 0 {
		t.Errorf("a second agent has joined with the same token: %+v", r.Status.Conditions)
	}
	// And it repeats nothing: the agent is lost once more.
	honest.lose()
	testkit.Must(t, admin.Create(ctx, kubeconfigSecret("paris", honest.kubeconfig)))
	w.ends(t, "paris", muster.ConditionJoined, muster.ReasonRejoinNeeded, `"rejoin":2`)
	harmless(t, "a permission that was used up", testkit.Poll(time.Second, func() error {
		if token := honest.token(t); token != "" {
			t.Error("it lets the cluster join again once more")
		}
		return nil
	}))
}
