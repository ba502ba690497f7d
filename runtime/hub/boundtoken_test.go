package hub_test

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestBoundTokenJoinsItsClusterWithoutAHuman(t *testing.T) {
	ctx := context.Background()
	name := clusterName(t, "bound")
	bootstrap := clientFor(t, withToken(bootstrapToken(t, cluster.BoundBootstrapGroup(name))))

	// The agent may be there before anybody has heard of the cluster.
	testkit.Must(t, bootstrap.Create(ctx, newCluster(name)))
	r, key := certificateRequest(t, name, "a")
	testkit.Must(t, bootstrap.Create(ctx, r))
	mustNotBeApproved(t, "an unaccepted cluster's", r.Name, "is not accepted")

	// Acceptance is the only human act.
	accept(t, name, true)
	agent := clientFor(t, withCertificate(certificate(t, r.Name), key))
	waitForCluster(t, name, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionTrue, cluster.ReasonHubAccepted))
	// The authorizer has a watch of its own.
	testkit.Eventually(t, func() error { return agent.Get(ctx, types.NamespacedName{Name: name}, newCluster(name)) })

	// Once the cluster has joined, a leaked token makes no second agent.
	testkit.Must(t, agent.Status().Patch(ctx, newCluster(name), client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"ManagedClusterJoined","status":"True","reason":"ManagedClusterJoined","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))))
	second, _ := certificateRequest(t, name, "b")
	testkit.Must(t, bootstrap.Create(ctx, second))
	mustNotBeApproved(t, "a joined cluster's second", second.Name, "has joined before")
}

func TestBoundTokenReachesItsClusterOnly(t *testing.T) {
	ctx := context.Background()
	name, other := clusterName(t, "mine"), clusterName(t, "theirs")
	testkit.Must(t, clientFor(t, admin).Create(ctx, newCluster(other)))
	config := withToken(bootstrapToken(t, cluster.BoundBootstrapGroup(name)))
	c, k := clientFor(t, config), clientsetFor(t, config)

	mustBeForbidden(t, "creating another cluster", c.Create(ctx, newCluster(clusterName(t, "third"))))
	testkit.Must(t, c.Create(ctx, newCluster(name)))

	allowed := map[string]error{
		"reading its cluster": c.Get(ctx, types.NamespacedName{Name: name}, newCluster(name)),
		"listing its cluster": c.List(ctx, &clusterv1.ManagedClusterList{}, client.MatchingFields{"metadata.name": name}),
		"listing its requests": func() error {
			_, err := k.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{LabelSelector: cluster.NameLabel + "=" + name})
			return err
		}(),
		"reading the cluster-info": c.Get(ctx, types.NamespacedName{Namespace: "kube-public", Name: "cluster-info"}, &corev1.ConfigMap{}),
	}
	for what, err := range allowed {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	wrong := func(change func(*certificatesv1.CertificateSigningRequest)) error {
		r, _ := certificateRequest(t, name, "a")
		change(r)
		return c.Create(ctx, r)
	}
	theirs, _ := certificateRequest(t, other, "a")
	refused := map[string]error{
		"reading another cluster":      c.Get(ctx, types.NamespacedName{Name: other}, newCluster(other)),
		"listing all clusters":         c.List(ctx, &clusterv1.ManagedClusterList{}),
		"listing another cluster":      c.List(ctx, &clusterv1.ManagedClusterList{}, client.MatchingFields{"metadata.name": other}),
		"updating its cluster":         c.Update(ctx, newCluster(name)),
		"deleting its cluster":         c.Delete(ctx, newCluster(name)),
		"reading secrets":              c.List(ctx, &corev1.SecretList{}, client.InNamespace("kube-system")),
		"reading config maps anywhere": c.List(ctx, &corev1.ConfigMapList{}, client.InNamespace("kube-system")),
		"listing all requests": func() error {
			_, err := k.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
			return err
		}(),
		"listing another's requests": func() error {
			_, err := k.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{LabelSelector: cluster.NameLabel + "=" + other})
			return err
		}(),
		"a request for another cluster": c.Create(ctx, theirs),
		"a request without a label":     wrong(func(r *certificatesv1.CertificateSigningRequest) { r.Labels = nil }),
		"a request with another's label": wrong(func(r *certificatesv1.CertificateSigningRequest) {
			r.Labels[cluster.NameLabel] = other
		}),
		"a request for another signer": wrong(func(r *certificatesv1.CertificateSigningRequest) { r.Spec.SignerName = "example.org/mine" }),
		"a request by another's name":  wrong(func(r *certificatesv1.CertificateSigningRequest) { r.GenerateName = other + "-" }),
		"a request of another subject": wrong(func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = theirs.Spec.Request }),
	}
	for what, err := range refused {
		mustBeForbidden(t, what, err)
	}

	mine, _ := certificateRequest(t, name, "a")
	testkit.Must(t, c.Create(ctx, mine))
	mustBeForbidden(t, "approving its own request", approve(ctx, k, mine))
}

func TestDeniedClusterLosesItsRightsAndGetsThemBack(t *testing.T) {
	ctx := context.Background()
	name := clusterName(t, "denied")
	config := joined(t, name, "a")
	agent := clientFor(t, config)
	testkit.Must(t, agent.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(name)))

	accept(t, name, false)
	waitForCluster(t, name, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionFalse, cluster.ReasonHubDenied))
	list := func() error { return agent.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(name)) }
	testForbiddenEventually(t, "listing works when denied", list)
	mustBeForbidden(t, "reporting when denied", agent.Status().Patch(ctx, newCluster(name), client.RawPatch(types.MergePatchType, []byte(`{"status":{"version":{"kubernetes":"v1"}}}`))))
	testkit.Must(t, agent.Get(ctx, types.NamespacedName{Name: name}, newCluster(name))) // it may see that it was denied

	accept(t, name, true)
	waitForCluster(t, name, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionTrue, cluster.ReasonHubAccepted))
	testkit.Eventually(t, list)
}

func TestDeletedClusterGoesOnceItsWorksAreGone(t *testing.T) {
	ctx := context.Background()
	name := clusterName(t, "deleted")
	agent := clientFor(t, joined(t, name, "a"))
	hub := clientFor(t, admin)
	mw := &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "w", Finalizers: []string{work.ManifestWorkFinalizer}},
		Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{configMapManifest("a")}}},
	}
	testkit.Must(t, hub.Create(ctx, mw))
	testkit.Must(t, hub.Delete(ctx, newCluster(name)))
	waitForCluster(t, name, hasCondition(cluster.ConditionDeleting, metav1.ConditionFalse, cluster.ReasonResourceRemaining))

	// The agent can still finish with the work, and does no more than that. It may
	// see what goes on, also when it starts now.
	testkit.Must(t, agent.Get(ctx, types.NamespacedName{Name: name}, newCluster(name)))
	testForbiddenEventually(t, "reading a deleted cluster's leases", func() error {
		return agent.List(ctx, &coordinationv1.LeaseList{}, client.InNamespace(name))
	})
	testkit.Must(t, agent.Get(ctx, client.ObjectKeyFromObject(mw), mw))
	mw.Finalizers = nil
	testkit.Must(t, agent.Update(ctx, mw))
	waitGone(t, newCluster(name))
	testkit.Must(t, hub.Get(ctx, types.NamespacedName{Name: name}, &corev1.Namespace{})) // stays
	testForbiddenEventually(t, "listing works when gone", func() error { return agent.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(name)) })
}

func TestUnknownUsersRequestsAreLeftToTheAdministrator(t *testing.T) {
	name := clusterName(t, "human")
	mc := newCluster(name)
	mc.Spec.HubAcceptsClient = ptr.To(true)
	testkit.Must(t, clientFor(t, admin).Create(context.Background(), mc))
	bootstrap := clientFor(t, withToken(bootstrapToken(t, cluster.BootstrapGroup)))
	r, _ := certificateRequest(t, name, "a")
	testkit.Must(t, bootstrap.Create(context.Background(), r))
	waitForCluster(t, name, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionTrue, cluster.ReasonHubAccepted))
	got, err := clientsetFor(t, admin).CertificatesV1().CertificateSigningRequests().Get(context.Background(), r.Name, metav1.GetOptions{})
	testkit.Must(t, err)
	if len(got.Status.Conditions) != 0 {
		t.Errorf("the request was decided: %v", got.Status.Conditions)
	}
}
