package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	musterapi "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

// registering is a hub at which clusters register by their client IDs.
type registering struct {
	*testing.T
	hub side
	// kubeconfig is its administrator's, a file.
	kubeconfig string
}

func newRegistering(t *testing.T, flags ...string) registering {
	t.Helper()
	hub, err := testhub.StartHub(muster, filepath.Join(t.TempDir(), "hub"), flags...)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = hub.Kill() })
	return registering{t, admin(t, fleet.Member{Kubeconfig: hub.Kubeconfig}), hub.Kubeconfig}
}

// newCluster is a cluster without an agent, and its administrator's kubeconfig.
func (w registering) newCluster() (side, string) {
	w.Helper()
	c, err := testhub.StartCluster(muster, filepath.Join(w.TempDir(), "cluster"))
	testkit.Must(w.T, err)
	w.Cleanup(func() { _ = c.Kill() })
	return admin(w.T, fleet.Member{Kubeconfig: c.Kubeconfig}), c.Kubeconfig
}

// prepare makes a ManagedCluster as an administrator does who expects an agent.
func (w registering) prepare(name, clientID string) {
	w.Helper()
	create(w.T, w.hub, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{musterapi.ClientIDAnnotation: clientID}},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)},
	})
}

// command is what a command of muster prints that administers the hub.
func (w registering) command(args ...string) []byte {
	w.Helper()
	out, errOut, err := run(w.T, append(args, "--kubeconfig", w.kubeconfig)...)
	if err != nil {
		w.Fatalf("muster %s: %v\n%s", strings.Join(args, " "), err, errOut)
	}
	return []byte(out)
}

// apply creates the objects of a manifest.
func (w registering) apply(managed side, manifest []byte) {
	w.Helper()
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		testkit.Must(w.T, err)
		create(w.T, managed, o)
	}
}

// putBootstrap puts a bootstrap kubeconfig in the place of the one that is there.
func (w registering) putBootstrap(managed side, content []byte) {
	w.Helper()
	secret := bootstrapSecret()
	testkit.Must(w.T, client.IgnoreNotFound(managed.Delete(w.Context(), secret)))
	secret = bootstrapSecret()
	secret.Data = map[string][]byte{cluster.KubeconfigKey: content}
	create(w.T, managed, secret)
}

func bootstrapSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.AgentNamespace, Name: cluster.BootstrapSecret}}
}

func (w registering) managedCluster(name string) *clusterv1.ManagedCluster {
	w.Helper()
	mc := &clusterv1.ManagedCluster{}
	testkit.Must(w.T, w.hub.Get(w.Context(), client.ObjectKey{Name: name}, mc))
	return mc
}

// joined waits until a cluster is available whose namespace kube-system has the UID
// of a managed cluster's.
func (w registering) joined(name string, managed side) {
	w.Helper()
	uid := w.uid(managed)
	testkit.EventuallyThat(w.T, name+" is available", func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := w.hub.Get(w.Context(), client.ObjectKey{Name: name}, mc); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionAvailable) || mc.Annotations[musterapi.ClusterUIDAnnotation] != uid {
			return fmt.Errorf("its annotations are %v, and its conditions %+v", mc.Annotations, mc.Status.Conditions)
		}
		return nil
	})
}

func (w registering) uid(managed side) string {
	w.Helper()
	system := &corev1.Namespace{}
	testkit.Must(w.T, managed.Get(w.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	return string(system.UID)
}

// requests are the certificate requests of a cluster.
func (w registering) requests(name string) []certificatesv1.CertificateSigningRequest {
	w.Helper()
	list := &certificatesv1.CertificateSigningRequestList{}
	testkit.Must(w.T, w.hub.List(w.Context(), list, client.MatchingLabels{cluster.NameLabel: name}))
	return list.Items
}

// refusedFor waits until a registration of a cluster is refused for a reason.
func (w registering) refusedFor(managed side, reason string) {
	w.Helper()
	uid := w.uid(managed)
	testkit.EventuallyThat(w.T, "the registration is refused", func() error {
		list := &v1alpha1.ClusterRegistrationList{}
		testkit.Must(w.T, w.hub.List(w.Context(), list))
		for _, r := range list.Items {
			c := meta.FindStatusCondition(r.Status.Conditions, musterapi.ConditionRegistered)
			if r.Spec.ClusterUID == uid && c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("no registration of %s is refused for %s: %+v", uid, reason, list.Items)
	})
}

// heard waits for an event of a ManagedCluster.
func (w registering) heard(name, reason string) {
	w.Helper()
	testkit.EventuallyThat(w.T, "the cluster's administrator hears of it", func() error {
		list := &eventsv1.EventList{}
		testkit.Must(w.T, w.hub.List(w.Context(), list))
		if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.Name == name && e.Reason == reason }) {
			return fmt.Errorf("none of %d events is %s of %s", len(list.Items), reason, name)
		}
		return nil
	})
}

// agent runs an agent that reads its bootstrap kubeconfig from the Secret alone.
func (w registering) agent(kubeconfig string, flags ...string) *testhub.Process {
	w.Helper()
	p, err := testhub.StartAgent(muster, "", "", kubeconfig, flags...)
	testkit.Must(w.T, err)
	w.Cleanup(func() {
		_ = p.Kill()
		if w.Failed() {
			w.Logf("the agent's log:\n%s", p.Log())
		}
	})
	return p
}

// logs waits for an agent to log something.
func (w registering) logs(p *testhub.Process, part string) {
	w.Helper()
	testkit.EventuallyThat(w.T, "the agent says it", func() error {
		if log := p.Log(); !strings.Contains(log, part) {
			return fmt.Errorf("%q is not in\n%s", part, log)
		}
		return nil
	})
}

// inNamespace makes the agent's namespace, which is there before its Secret.
func (w registering) inNamespace(managed side) {
	w.Helper()
	create(w.T, managed, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.AgentNamespace}})
}

// token makes a bootstrap token with annotations, and returns its Secret and a
// bootstrap kubeconfig with it that leads to a server.
func (w registering) token(id, server string, ca []byte, annotations map[string]string) (*corev1.Secret, []byte) {
	w.Helper()
	const secret = "0123456789abcdef"
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: cluster.TokenSecretPrefix + id, Annotations: annotations},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "auth-extra-groups": cluster.BootstrapGroup,
			"expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		},
	}
	create(w.T, w.hub, object)
	content, err := kubeconfig.Config{Cluster: "hub", User: "bootstrap", Server: server, CAData: ca, Token: id + "." + secret}.YAML()
	testkit.Must(w.T, err)
	return object, content
}

// expire ends a token now.
func (w registering) expire(token *corev1.Secret) {
	w.Helper()
	past := time.Now().Add(-time.Second).UTC().Format(time.RFC3339)
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"stringData":{"expiration":%q}}`, past))
	testkit.Must(w.T, w.hub.Patch(w.Context(), token, patch))
}

// approve does what "kubectl certificate approve" does.
func (w registering) approve(name string) {
	w.Helper()
	content, err := os.ReadFile(w.kubeconfig)
	testkit.Must(w.T, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	testkit.Must(w.T, err)
	k, err := kubernetes.NewForConfig(config)
	testkit.Must(w.T, err)
	testkit.EventuallyThat(w.T, "a request is approved", func() error {
		r, err := k.CertificatesV1().CertificateSigningRequests().Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "approved",
		})
		_, err = k.CertificatesV1().CertificateSigningRequests().UpdateApproval(context.Background(), name, r, metav1.UpdateOptions{})
		return err
	})
}

// A cluster comes into its prepared place with the manifest that one command prints. Its
// twin with the same client ID does not, until it is said that it is the cluster
// from now on.
func TestClusterComesIntoItsPlaceByAClientID(t *testing.T) {
	w := newRegistering(t)
	store, _ := w.newCluster()
	twin, _ := w.newCluster()
	w.prepare("paris-17", "store-17")
	manifest := w.command("join-manifest", "--client-id", "store-17", "--delete-bootstrap-secret", "--registration-label", "site=17")
	w.apply(store, manifest)
	w.joined("paris-17", store)
	testkit.EventuallyThat(t, "the bootstrap Secret goes", func() error {
		if err := store.Get(t.Context(), client.ObjectKeyFromObject(bootstrapSecret()), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%v)", err)
		}
		return nil
	})
	if mc := w.managedCluster("paris-17"); mc.Labels["site"] != "" {
		t.Errorf("the agent has labelled a cluster that somebody else has prepared: %v", mc.Labels)
	}

	before := w.managedCluster("paris-17")
	w.apply(twin, w.command("join-manifest", "--client-id", "store-17"))
	w.refusedFor(twin, musterapi.ReasonAnotherCluster)
	w.heard("paris-17", musterapi.ReasonAnotherCluster)
	after := w.managedCluster("paris-17")
	if uid := after.Annotations[musterapi.ClusterUIDAnnotation]; uid != w.uid(store) || after.Annotations[cluster.AgentAnnotation] != before.Annotations[cluster.AgentAnnotation] {
		t.Errorf("the twin was merged into it: %v", after.Annotations)
	}
	if n := len(w.requests("paris-17")); n != 1 {
		t.Errorf("%d certificate requests, want that of the first cluster alone", n)
	}

	// The twin is the first one, rebuilt. One command brings it back; the first one,
	// should it still be there, is nobody any more.
	w.putBootstrap(twin, w.command("rejoin", "paris-17"))
	w.joined("paris-17", twin)
	w.outside(store, "paris-17")
	if list := (&clusterv1.ManagedClusterList{}); w.hub.List(t.Context(), list) != nil || len(list.Items) != 1 {
		t.Errorf("the hub has %d clusters, want one", len(list.Items))
	}
	// What is left of the registrations goes with the cluster.
	testkit.Must(t, w.hub.Delete(t.Context(), w.managedCluster("paris-17")))
	testkit.EventuallyThat(t, "the answered registrations go", func() error {
		list := &v1alpha1.ClusterRegistrationList{}
		testkit.Must(t, w.hub.List(t.Context(), list))
		for _, r := range list.Items {
			if r.Status.ClusterName != "" {
				return fmt.Errorf("%s is left, for the cluster %s", r.Name, r.Status.ClusterName)
			}
		}
		return nil
	})
}

// outside waits until what an agent has stored is worth nothing on the hub.
func (w registering) outside(managed side, name string) {
	w.Helper()
	stored := &corev1.Secret{}
	testkit.Must(w.T, managed.Get(w.Context(), client.ObjectKey{Namespace: cluster.AgentNamespace, Name: cluster.HubKubeconfigSecret}, stored))
	c, err := client.New(&rest.Config{Host: w.hub.server, TLSClientConfig: rest.TLSClientConfig{
		CAData: w.hub.ca, CertData: stored.Data[cluster.TLSCertKey], KeyData: stored.Data[cluster.TLSKeyKey],
	}}, client.Options{Scheme: api.Scheme()})
	testkit.Must(w.T, err)
	testkit.EventuallyThat(w.T, "the former agent has lost its rights", func() error {
		if err := c.Get(w.Context(), client.ObjectKey{Name: name}, &clusterv1.ManagedCluster{}); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("got %w, want a refusal", err)
		}
		return nil
	})
}
