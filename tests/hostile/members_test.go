package hostile

import (
	"context"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// leftAddOn is the add-on of the clusters whose leftovers are looked at.
const leftAddOn = "left"

// belongings are the identities of a cluster, by what they are, each with the rights of an
// administrator by some forgotten binding, but for the bootstrap tokens.
func belongings(t testing.TB, name string) map[string]*rest.Config {
	t.Helper()
	ctx, admin := context.Background(), hub.admin(t)
	agent := hub.Joined(t, name, "a")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "forgotten:" + name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	for _, group := range []string{cluster.Group(name), registration.ClusterAddOnGroup(name, leftAddOn), "system:serviceaccounts:" + name} {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
	}
	testkit.Must(t, admin.Create(ctx, binding))
	t.Cleanup(func() { _ = admin.Delete(ctx, binding) })
	_, unbound := hub.BootstrapToken(t, cluster.BootstrapGroup, nil)
	_, bound := hub.BootstrapToken(t, cluster.BoundBootstrapGroup(name), nil)
	all := map[string]*rest.Config{
		"agent": agent, "add-on's certificate": addOnCertificate(t, name, leftAddOn), "add-on's token": hub.WithToken(addOnToken(t, agent, name)),
		"service account": hub.Tenant(t, name, "helper"), "unbound token": hub.WithToken(unbound), "bound token": hub.WithToken(bound),
	}
	for who, config := range all {
		if isForJoining(who) {
			continue
		}
		testkit.Eventually(t, func() error { // the authorizer learns of the binding by a watch
			return testfleet.Client(t, config).List(ctx, &corev1.SecretList{})
		})
	}
	return all
}

// isForJoining distinguishes bootstrap tokens from the identities of those who have joined.
func isForJoining(who string) bool { return who == "unbound token" || who == "bound token" }

// gone waits until a deleted cluster is not there any more.
func gone(t testing.TB, name string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		err := hub.admin(t).Get(context.Background(), client.ObjectKey{Name: name}, &clusterv1.ManagedCluster{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the cluster %s is still there (%w)", name, err)
		}
		return nil
	})
}

// addOnCertificate is the certificate of an add-on's agent.
func addOnCertificate(t testing.TB, name, addOn string) *rest.Config {
	t.Helper()
	key, request := testkit.CertificateRequest(t, registration.User(name, addOn, addOn), registration.Groups(name, addOn)...)
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: registration.RequestPrefix(name, addOn)},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientSignerName, Request: request, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}
	testkit.Must(t, hub.admin(t).Create(context.Background(), r))
	testkit.Must(t, testfleet.Approve(context.Background(), testfleet.Clientset(t, hub.Admin), r))
	return hub.WithCertificate(hub.Certificate(t, r.Name), key)
}

// addOnToken has the cluster's agent choose tokens for an add-on, and get one for as long
// as it likes.
func addOnToken(t testing.TB, agent *rest.Config, name string) string {
	t.Helper()
	ctx := context.Background()
	a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: leftAddOn}}
	testkit.Must(t, hub.admin(t).Create(ctx, a))
	testkit.Must(t, hub.admin(t).Status().Patch(ctx, a, mergePatchf(`{"status":{"kubeClientDriver":"token","registrations":[{"signerName":%q}]}}`, addon.KubeClientSigner)))
	testkit.Eventually(t, func() error {
		err := hub.admin(t).Get(ctx, client.ObjectKeyFromObject(a), a)
		if err == nil && !meta.IsStatusConditionTrue(a.Status.Conditions, registration.ConditionTokenInfrastructureReady) {
			err = fmt.Errorf("the add-on has no service account: %+v", a.Status.Conditions)
		}
		return err
	})
	var token string
	testkit.Eventually(t, func() error {
		request, err := testfleet.Clientset(t, agent).CoreV1().ServiceAccounts(name).CreateToken(ctx, registration.ServiceAccount(leftAddOn),
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(10 * 365 * 24 * 3600))}}, metav1.CreateOptions{})
		if err == nil {
			token = request.Status.Token
			var problem error
			if lives := time.Until(request.Status.ExpirationTimestamp.Time); lives > 24*time.Hour+time.Minute {
				problem = fmt.Errorf("it lives for %s", lives)
			}
			harmless(t, "a token for ten years", problem)
		}
		return err
	})
	return token
}

// takenOver lets another agent, b, into a cluster by "muster rejoin", and returns its
// identity.
func takenOver(t testing.TB, name string) *rest.Config {
	t.Helper()
	ctx, admin := context.Background(), hub.admin(t)
	mc := clusterNamed(name, true)
	joined := `{"status":{"conditions":[{"type":"ManagedClusterJoined","status":"True","reason":"ManagedClusterJoined","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	testkit.Must(t, admin.Status().Patch(ctx, mc, mergePatchf("%s", joined)))
	_, token := hub.BootstrapToken(t, cluster.BoundBootstrapGroup(name), map[string]string{cluster.RejoinAnnotation: name})
	r, key := testfleet.CertificateRequest(t, name, "b")
	testkit.Must(t, testfleet.Client(t, hub.WithToken(token)).Create(ctx, r))
	current := hub.WithCertificate(hub.Certificate(t, r.Name), key)
	testkit.Eventually(t, func() error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil || mc.Annotations[cluster.AgentAnnotation] != "b" {
			return fmt.Errorf("the agent b has not taken over: %v (%w)", mc.Annotations, err)
		}
		return nil
	})
	return current
}

// watchesOf opens a watch of each identity that can have one. Each channel is closed when
// the watch has ended.
func watchesOf(t testing.TB, name string, all map[string]*rest.Config) map[string]chan struct{} {
	t.Helper()
	ended := map[string]chan struct{}{}
	for who, config := range all {
		if isForJoining(who) {
			continue
		}
		// One of what those keep nothing of who belong to a cluster that is being deleted.
		w, err := testfleet.Clientset(t, config).CoreV1().Secrets("kube-system").Watch(context.Background(), metav1.ListOptions{})
		testkit.Must(t, err)
		t.Cleanup(w.Stop)
		done := make(chan struct{})
		ended[who] = done
		go func() {
			defer close(done)
			for range w.ResultChan() { // until it ends
			}
		}()
	}
	return ended
}

func mustEnd(t testing.TB, what string, ended chan struct{}) {
	t.Helper()
	harmless(t, what+" goes on watching", testkit.Poll(testkit.Timeout, func() error {
		select {
		case <-ended:
			return nil
		default:
			return fmt.Errorf("the watch is open")
		}
	}))
}

// hasNothing waits until an identity has lost its rights.
func hasNothing(t testing.TB, what string, config *rest.Config) {
	t.Helper()
	c := testfleet.Client(t, config)
	soonRefused(t, what+" reads Secrets", func() error { return c.List(context.Background(), &corev1.SecretList{}) })
}

// The agent that has taken over works, and its add-ons get credentials of their own, also
// in the second of the take-over.
func TestTheNewAgentsAddOnsWork(t *testing.T) {
	ctx, admin := context.Background(), hub.admin(t)
	const name = "left-taken"
	former := belongings(t, name)
	current := takenOver(t, name)
	for _, who := range []string{"add-on's certificate", "add-on's token", "service account"} {
		hasNothing(t, "the former "+who, former[who])
	}
	certificate := addOnCertificate(t, name, leftAddOn)
	testkit.Must(t, testfleet.Client(t, certificate).List(ctx, &corev1.SecretList{}))
	var token string
	testkit.Eventually(t, func() error {
		request, err := testfleet.Clientset(t, current).CoreV1().ServiceAccounts(name).CreateToken(ctx, registration.ServiceAccount(leftAddOn), &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err == nil {
			token = request.Status.Token
		}
		return err
	})
	testkit.Must(t, testfleet.Client(t, hub.WithToken(token)).List(ctx, &corev1.SecretList{}))

	// A request that the former agent has made is not approved by anybody any more.
	r, _ := testfleet.CertificateRequest(t, name, "a")
	impersonating := rest.CopyConfig(hub.Admin)
	impersonating.Impersonate = rest.ImpersonationConfig{UserName: cluster.CommonName(name, "b"), Groups: []string{cluster.Group(name), "system:authenticated"}}
	replaced := testfleet.Client(t, impersonating)
	testkit.Must(t, replaced.Create(ctx, r))
	testkit.Must(t, admin.Patch(ctx, clusterNamed(name, true), mergePatchf(`{"metadata":{"annotations":{%q:"c"}}}`, cluster.AgentAnnotation)))
	// The hub learns of it by a watch, and an approval before that moment would be one.
	soonRefused(t, "the agent that was replaced reads its cluster", func() error {
		return replaced.Get(ctx, client.ObjectKey{Name: name}, &clusterv1.ManagedCluster{})
	})
	refused(t, "an administrator approves the request of an agent that was replaced", testfleet.Approve(ctx, testfleet.Clientset(t, hub.Admin), r))
}

// The next cluster of a name is not that of the one before: neither before its agent has
// joined, when the one before was denied, nor afterwards. It gets in, also in the second in
// which the one before was denied and went.
func TestTheNextClusterOfAName(t *testing.T) {
	ctx, admin := context.Background(), hub.admin(t)
	others := []string{"agent", "add-on's certificate", "service account"}
	for name, of := range map[string]struct{ denied, atOnce bool }{
		"left-denied-again": {denied: true}, "left-denied-at-once": {denied: true, atOnce: true}, "left-again": {},
	} {
		former := belongings(t, name)
		made := time.Now().Unix()
		testkit.Eventually(t, func() error { // times on the wire are in seconds
			if time.Now().Unix() <= made {
				return fmt.Errorf("it is the second in which the cluster was made")
			}
			return nil
		})
		if of.denied {
			testkit.Must(t, admin.Patch(ctx, clusterNamed(name, false), mergePatchf(`{"spec":{"hubAcceptsClient":false}}`)))
			testkit.Eventually(t, func() error {
				mc := &clusterv1.ManagedCluster{}
				err := admin.Get(ctx, client.ObjectKey{Name: name}, mc)
				if err == nil && !meta.IsStatusConditionFalse(mc.Status.Conditions, cluster.ConditionHubAccepted) {
					err = fmt.Errorf("the cluster is not denied: %+v", mc.Status.Conditions)
				}
				return err
			})
		}
		testkit.Must(t, admin.Delete(ctx, clusterNamed(name, false)))
		gone(t, name)
		if of.denied && !of.atOnce {
			testkit.Must(t, admin.Create(ctx, clusterNamed(name, true)))
			for _, who := range others {
				hasNothing(t, "the denied cluster's "+who, former[who])
			}
			testkit.Must(t, admin.Delete(ctx, clusterNamed(name, true)))
			gone(t, name)
		}
		hub.Joined(t, name, "next")
		for _, who := range others {
			hasNothing(t, "the earlier cluster's "+who, former[who])
		}
	}
}
