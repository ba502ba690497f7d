package hub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// bootstrapToken makes a bootstrap token with a group and returns it.
func bootstrapToken(t testing.TB, group string) string {
	t.Helper()
	_, token := annotatedToken(t, group, nil)
	return token
}

// annotatedToken makes a bootstrap token with a group, and annotations on its
// Secret.
func annotatedToken(t testing.TB, group string, annotations map[string]string) (_ *corev1.Secret, token string) {
	t.Helper()
	return testfleet.Hub{Admin: admin}.BootstrapToken(t, group, annotations)
}

// certificateRequest is a request of the form that agents make.
func certificateRequest(t testing.TB, name, agent string) (r *certificatesv1.CertificateSigningRequest, key []byte) {
	t.Helper()
	return testfleet.CertificateRequest(t, name, agent)
}

// approve does what "kubectl certificate approve" does.
func approve(ctx context.Context, k kubernetes.Interface, r *certificatesv1.CertificateSigningRequest) error {
	return testfleet.Approve(ctx, k, r)
}

// certificate waits until a request is signed.
func certificate(t testing.TB, name string) []byte {
	t.Helper()
	return testfleet.Hub{Admin: admin}.Certificate(t, name)
}

// mustBeForbidden fails the test unless err is a refusal by the API server.
func mustBeForbidden(t testing.TB, what string, err error) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("%s: got %v, want a refusal", what, err)
	}
}

func newCluster(name string) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func accept(t testing.TB, name string, accepts bool) {
	t.Helper()
	testkit.Must(t, clientFor(t, admin).Patch(context.Background(), newCluster(name),
		client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"hubAcceptsClient":%t}}`, accepts))))
}

func hasCondition(kind string, status metav1.ConditionStatus, reason string) func(*clusterv1.ManagedCluster) error {
	return func(mc *clusterv1.ManagedCluster) error {
		c := meta.FindStatusCondition(mc.Status.Conditions, kind)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("the condition %s is %+v, want %s/%s", kind, c, status, reason)
		}
		return nil
	}
}

// joined registers a cluster with a bound token and returns the identity of its
// agent.
func joined(t testing.TB, name, agent string) *rest.Config {
	t.Helper()
	return testfleet.Hub{Admin: admin}.Joined(t, name, agent)
}

// The join process of the cluster-join document, step by step, with an
// administrator in the role of the hub's and a bootstrap token in the agent's.
func TestClusterJoinsByHand(t *testing.T) {
	ctx := context.Background()
	name, other := clusterName(t, "join"), clusterName(t, "other")
	hub := clientFor(t, admin)
	testkit.Must(t, hub.Create(ctx, func() client.Object {
		mc := newCluster(other)
		mc.Spec.HubAcceptsClient = ptr.To(true)
		return mc
	}()))

	token := bootstrapToken(t, cluster.BootstrapGroup)
	bootstrap, bootstrapSet := clientFor(t, withToken(token)), clientsetFor(t, withToken(token))

	// 2. The agent creates its ManagedCluster, and cannot accept itself.
	accepting := newCluster(name)
	accepting.Spec.HubAcceptsClient = ptr.To(true)
	mustBeForbidden(t, "creating an accepted cluster with the bootstrap identity", bootstrap.Create(ctx, accepting))
	testkit.Must(t, bootstrap.Create(ctx, newCluster(name)))
	mustBeForbidden(t, "accepting itself with the bootstrap identity",
		bootstrap.Patch(ctx, newCluster(name), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hubAcceptsClient":true}}`))))

	// 3. It asks for a certificate, and cannot approve its own request.
	r, key := certificateRequest(t, name, "agent1")
	testkit.Must(t, bootstrap.Create(ctx, r))
	mustBeForbidden(t, "approving its own request", approve(ctx, bootstrapSet, r))

	// 4. The administrator approves it. The cluster is not accepted yet, so the
	// certificate authenticates and gives no rights.
	testkit.Must(t, approve(ctx, clientsetFor(t, admin), r))
	agent := withCertificate(certificate(t, r.Name), key)
	agentClient := clientFor(t, agent)
	mustBeForbidden(t, "reading its cluster before it is accepted", agentClient.Get(ctx, types.NamespacedName{Name: name}, newCluster(name)))
	if err := hub.Get(ctx, types.NamespacedName{Name: name}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("a cluster that was never accepted has a namespace (%v)", err)
	}

	// 5. to 9. The administrator accepts it, and the hub grants the rights.
	accept(t, name, true)
	waitForCluster(t, name, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionTrue, cluster.ReasonHubAccepted))
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "open-cluster-management:managedcluster:" + name}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "open-cluster-management:managedcluster:" + name}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "open-cluster-management:managedcluster:" + name + ":registration"}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "open-cluster-management:managedcluster:" + name + ":work"}},
	} {
		testkit.Must(t, hub.Get(ctx, client.ObjectKeyFromObject(o), o))
		if o.GetLabels()[cluster.NameLabel] != name {
			t.Errorf("%T %s lacks the cluster's label", o, o.GetName())
		}
	}

	// 10. to 12. The agent uses its certificate: status, lease, works of its own.
	testkit.Eventually(t, func() error { return agentClient.Get(ctx, types.NamespacedName{Name: name}, newCluster(name)) })
	testkit.Must(t, agentClient.Status().Patch(ctx, newCluster(name), client.RawPatch(types.MergePatchType, []byte(`{"status":{"version":{"kubernetes":"v1.2.3"}}}`))))
	lease := &coordinationv1.Lease{}
	testkit.Eventually(t, func() error {
		return agentClient.Get(ctx, types.NamespacedName{Namespace: name, Name: cluster.LeaseName}, lease)
	})
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	testkit.Must(t, agentClient.Update(ctx, lease))
	waitForCluster(t, name, hasCondition(cluster.ConditionClockSynced, metav1.ConditionTrue, cluster.ReasonClockSynced))
	testkit.Must(t, agentClient.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(name)))

	// What is another's is closed to it.
	mustBeForbidden(t, "listing another's works", agentClient.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(other)))
	mustBeForbidden(t, "reading another cluster", agentClient.Get(ctx, types.NamespacedName{Name: other}, newCluster(other)))
	mustBeForbidden(t, "listing all clusters", agentClient.List(ctx, &clusterv1.ManagedClusterList{}))
	mustBeForbidden(t, "reading another's lease", agentClient.Get(ctx, types.NamespacedName{Namespace: other, Name: cluster.LeaseName}, lease))
	mustBeForbidden(t, "reading secrets of its own namespace", agentClient.List(ctx, &corev1.SecretList{}, client.InNamespace(name)))
	mustBeForbidden(t, "creating works", agentClient.Create(ctx, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "w"}}))

	// Renewal: approved without a human, as the requester is the subject.
	renewal, renewedKey := certificateRequest(t, name, "agent1")
	testkit.Must(t, agentClient.Create(ctx, renewal))
	renewed := clientFor(t, withCertificate(certificate(t, renewal.Name), renewedKey))
	testkit.Must(t, renewed.Get(ctx, types.NamespacedName{Name: name}, newCluster(name)))

	// A certificate of another agent is not, and another cluster's cannot even be
	// asked for.
	another := first(certificateRequest(t, name, "agent2"))
	testkit.Must(t, agentClient.Create(ctx, another))
	mustNotBeApproved(t, "another agent's", another.Name, "agents renew only their own")
	mustBeForbidden(t, "asking for another cluster", agentClient.Create(ctx, first(certificateRequest(t, other, "agent1"))))
}

func first[A, B any](a A, _ B) A { return a }

// mustNotBeApproved waits for the event that says why a request is not
// approved, and checks that it is not.
func mustNotBeApproved(t testing.TB, what, request, why string) {
	t.Helper()
	ctx := context.Background()
	testkit.Eventually(t, func() error {
		events := &eventsv1.EventList{}
		if err := clientFor(t, admin).List(ctx, events, client.InNamespace("default")); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Regarding.Name == request && strings.Contains(e.Note, why) {
				return nil
			}
		}
		return fmt.Errorf("%s request %s has no event with %q", what, request, why)
	})
	r, err := clientsetFor(t, admin).CertificatesV1().CertificateSigningRequests().Get(ctx, request, metav1.GetOptions{})
	testkit.Must(t, err)
	if len(r.Status.Conditions) != 0 {
		t.Errorf("%s request was decided: %v", what, r.Status.Conditions)
	}
}
