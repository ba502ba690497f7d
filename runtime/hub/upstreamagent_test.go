package hub_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// These tests send what upstream's registration agent sends, in its order and
// with real credentials.

// From the first request with the bootstrap identity to the certificate.
func TestUpstreamAgentBootstraps(t *testing.T) {
	boundTo := clusterName(t, "up-boot")
	for kind, x := range map[string]struct {
		token, name string
		approve     bool // by an administrator
	}{
		"with a bootstrap token":         {bootstrapToken(t, "system:bootstrappers:managedcluster"), clusterName(t, "up-boot-a"), true},
		"with a service account's token": {serviceAccountToken(t), clusterName(t, "up-boot-b"), true},
		"with a bound token":             {bootstrapToken(t, "system:bootstrappers:managedcluster:"+boundTo), boundTo, false},
	} {
		t.Run(kind, func(t *testing.T) { upstreamBootstrap(t, withToken(x.token), x.name, x.approve) })
	}
}

func upstreamBootstrap(t *testing.T, config *rest.Config, name string, approves bool) {
	ctx := t.Context()
	c, requests := clientFor(t, config), clientsetFor(t, config).CertificatesV1().CertificateSigningRequests()
	caches := informers(t, config, bootstrapWatches(name))

	// The cluster that is not there is not there, and not forbidden: else the
	// agent would not make it.
	mc := newCluster(name)
	if err := c.Get(ctx, client.ObjectKeyFromObject(mc), mc); !apierrors.IsNotFound(err) {
		t.Fatalf("before the cluster is announced: %v", err)
	}
	mc.Annotations = map[string]string{"agent.open-cluster-management.io/x": "y"}
	mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "https://example.org:6443", CABundle: []byte("ca")}}
	testkit.Must(t, c.Create(ctx, mc))
	sees(t, caches["managedclusters"], name, func(cached) error { return nil })
	// More addresses are an update, which the bootstrap role refuses; the agent
	// goes on when the refusal is one of these.
	mc.Spec.ManagedClusterClientConfigs = append(mc.Spec.ManagedClusterClientConfigs, clusterv1.ClientConfig{URL: "https://example.com:6443"})
	if err := c.Update(ctx, mc); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		t.Errorf("updating with the bootstrap identity: %v", err)
	}

	r, key := certificateRequest(t, name, "a")
	r.Spec.ExpirationSeconds = ptr.To(int32(3600))
	r, err := requests.Create(ctx, r, metav1.CreateOptions{})
	testkit.Must(t, err)
	if !strings.HasPrefix(r.Name, name+"-") { // or the agent does not know it again
		t.Errorf("the request is named %s", r.Name)
	}
	if approves {
		testkit.Must(t, approve(ctx, clientsetFor(t, admin), r))
	}
	accept(t, name, true)
	sees(t, caches["certificatesigningrequests"], r.Name, func(o cached) error {
		if o.text("status", "certificate") == "" {
			return fmt.Errorf("no certificate in %v", o.Object["status"])
		}
		return nil
	})
	cert := certificate(t, r.Name)
	checkAgentCertificate(t, cert, name, time.Hour)
	agent := clientFor(t, withCertificate(cert, key))
	testkit.Eventually(t, func() error { return agent.Get(ctx, client.ObjectKeyFromObject(mc), mc) })
	sees(t, caches["managedclusters"], name, func(o cached) error {
		return o.conditionIs("HubAcceptedManagedCluster", "True", "HubClusterAdminAccepted", "Accepted by hub cluster admin")
	})
}

// checkAgentCertificate checks what the agent compares its certificate with.
func checkAgentCertificate(t testing.TB, cert []byte, name string, lifetime time.Duration) {
	t.Helper()
	block, _ := pem.Decode(cert)
	parsed, err := x509.ParseCertificate(block.Bytes)
	testkit.Must(t, err)
	groups := []string{"system:open-cluster-management:" + name, "system:open-cluster-management:managed-clusters"}
	slices.Sort(groups)
	slices.Sort(parsed.Subject.Organization)
	if want := "system:open-cluster-management:" + name + ":a"; parsed.Subject.CommonName != want || !slices.Equal(parsed.Subject.Organization, groups) {
		t.Errorf("the certificate is %s's of %q, want %s of %q", parsed.Subject.CommonName, parsed.Subject.Organization, want, groups)
	}
	if left := time.Until(parsed.NotAfter); left > lifetime || left < lifetime-10*time.Minute {
		t.Errorf("the certificate is good for %s, want %s", left, lifetime)
	}
}

func TestUpstreamAgentKeepsItsLease(t *testing.T) {
	ctx := t.Context()
	name := clusterName(t, "up-lease")
	leases := clientsetFor(t, joined(t, name, "a")).CoordinationV1().Leases(name)
	var lease *coordinationv1.Lease
	testkit.Eventually(t, func() (err error) { // the hub makes it
		lease, err = leases.Get(ctx, "managed-cluster-lease", metav1.GetOptions{})
		return err
	})
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != "managed-cluster-lease" || lease.Labels[cluster.NameLabel] != name || lease.Spec.LeaseDurationSeconds != nil {
		t.Errorf("the lease is %+v", lease)
	}
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	_, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
	testkit.Must(t, err)
	waitForCluster(t, name, hasCondition("ManagedClusterConditionClockSynced", metav1.ConditionTrue, "ManagedClusterClockSynced"))
}

// upstreamPatch is the form of upstream's writes: a merge patch with the
// object's identity and version.
func upstreamPatch(t testing.TB, o client.Object, patch map[string]any) client.Patch {
	t.Helper()
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"], metadata["resourceVersion"] = o.GetUID(), o.GetResourceVersion()
	patch["metadata"] = metadata
	body, err := json.Marshal(patch)
	testkit.Must(t, err)
	return client.RawPatch(types.MergePatchType, body)
}

func TestUpstreamAgentReports(t *testing.T) {
	ctx := t.Context()
	name := clusterName(t, "up-report")
	config := joined(t, name, "a")
	agent, caches := clientFor(t, config), informers(t, config, agentWatches(name))
	status := map[string]any{
		"version": map[string]any{"kubernetes": "v1.35.4"}, "capacity": map[string]any{"cpu": "4"}, "allocatable": map[string]any{"cpu": "3"},
		"clusterClaims": []any{map[string]any{"name": "id.k8s.io", "value": "x"}},
		"conditions": []any{
			map[string]any{"type": "HubAcceptedManagedCluster", "status": "True", "reason": "HubClusterAdminAccepted", "message": "Accepted by hub cluster admin", "lastTransitionTime": "2026-01-01T00:00:00Z"},
			map[string]any{"type": "ManagedClusterJoined", "status": "True", "reason": "ManagedClusterJoined", "message": "Managed cluster joined", "lastTransitionTime": "2026-01-01T00:00:00Z"},
			map[string]any{"type": "ManagedClusterConditionAvailable", "status": "True", "reason": "ManagedClusterAvailable", "message": "Managed cluster is available", "lastTransitionTime": "2026-01-01T00:00:00Z"},
		},
	}
	var stale *clusterv1.ManagedCluster
	testkit.Eventually(t, func() error {
		stale = newCluster(name)
		testkit.Must(t, agent.Get(ctx, client.ObjectKeyFromObject(stale), stale))
		return agent.Status().Patch(ctx, newCluster(name), upstreamPatch(t, stale, map[string]any{"status": status}))
	})
	if err := agent.Status().Patch(ctx, newCluster(name), upstreamPatch(t, stale, map[string]any{"status": map[string]any{"version": map[string]any{"kubernetes": "v2"}}})); !apierrors.IsConflict(err) {
		t.Errorf("a report that is based on an old state: %v", err)
	}
	sees(t, caches["managedclusters"], name, func(o cached) error {
		if version := o.text("status", "version", "kubernetes"); version != "v1.35.4" {
			return fmt.Errorf("the version is %q", version)
		}
		return o.conditionIs("ManagedClusterConditionAvailable", "True", "ManagedClusterAvailable", "Managed cluster is available")
	})
	// The hub takes the cluster for reachable.
	waitForCluster(t, name, func(mc *clusterv1.ManagedCluster) error {
		if len(mc.Spec.Taints) > 0 {
			return fmt.Errorf("it has the taints %+v", mc.Spec.Taints)
		}
		return nil
	})
}

func TestUpstreamAgentReportsEvents(t *testing.T) {
	name := clusterName(t, "up-event")
	events := clientsetFor(t, joined(t, name, "a")).EventsV1().Events(name)
	for reason, note := range map[string]string{
		"Available":   "The " + name + " is successfully imported, and it is managed by the hub cluster. Its apieserver is available",
		"Unavailable": "The " + name + " is successfully imported. However, its Kube API server is unavailable",
	} {
		e := &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name + "." + strings.ToLower(reason)}, EventTime: metav1.NowMicro(),
			ReportingController: "klusterlet-agent", ReportingInstance: "klusterlet-agent-x", Action: reason, Reason: reason, Type: corev1.EventTypeNormal,
			Regarding: corev1.ObjectReference{APIVersion: "cluster.open-cluster-management.io/v1", Kind: "ManagedCluster", Name: name, Namespace: name},
			Note:      note,
		}
		testkit.Eventually(t, func() error { // the role in the namespace may be a moment late
			_, err := events.Create(t.Context(), e, metav1.CreateOptions{})
			return err
		})
	}
}

// An add-on reaches the agent in v1beta1, and the agent's word of its health
// reaches those who read v1alpha1.
func TestUpstreamAgentLooksAfterAddOns(t *testing.T) {
	ctx := t.Context()
	name := clusterName(t, "up-addon")
	config := joined(t, name, "a")
	addOns := informers(t, config, agentWatches(name))["managedclusteraddons"]
	a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "x"}, Spec: addonv1alpha1.ManagedClusterAddOnSpec{InstallNamespace: "my-ns"}}
	testkit.Must(t, clientFor(t, admin).Create(ctx, a))
	sees(t, addOns, name+"/x", func(o cached) error {
		if o.GetAPIVersion() != "addon.open-cluster-management.io/v1beta1" || o.GetAnnotations()["addon.open-cluster-management.io/v1alpha1-install-namespace"] != "my-ns" {
			return fmt.Errorf("the add-on is %v", o.Object)
		}
		return nil
	})
	patches := func(status map[string]any) {
		t.Helper()
		body, err := upstreamPatch(t, a, map[string]any{"status": status}).Data(a)
		testkit.Must(t, err)
		err = clientsetFor(t, config).CoreV1().RESTClient().Patch(types.MergePatchType).
			AbsPath("/apis/addon.open-cluster-management.io/v1beta1/namespaces", name, "managedclusteraddons/x/status").Body(body).Do(ctx).Error()
		testkit.Must(t, err)
		testkit.Must(t, clientFor(t, admin).Get(ctx, client.ObjectKeyFromObject(a), a))
	}

	// The add-on's manager says what credentials the agent needs.
	user, groups := "system:open-cluster-management:cluster:"+name+":addon:x:agent:x", []string{"system:open-cluster-management:addon:x"}
	a.Status.Registrations = []addonv1alpha1.RegistrationConfig{
		{SignerName: "kubernetes.io/kube-apiserver-client", Subject: addonv1alpha1.Subject{User: user, Groups: groups}},
		{SignerName: "example.com/signer", Subject: addonv1alpha1.Subject{User: "x", OrganizationUnits: []string{"unit"}}},
	}
	testkit.Must(t, clientFor(t, admin).Status().Update(ctx, a))
	wanted := a.Status.Registrations
	var registrations []any
	sees(t, addOns, name+"/x", func(o cached) error {
		registrations, _, _ = unstructured.NestedSlice(o.Object, "status", "registrations")
		want := []any{
			map[string]any{"type": "kubeClient", "kubeClient": map[string]any{"subject": map[string]any{"user": user, "groups": []any{groups[0]}}}},
			map[string]any{"type": "customSigner", "customSigner": map[string]any{"signerName": "example.com/signer", "subject": map[string]any{"user": "x", "organizationUnits": []any{"unit"}}}},
		}
		if !reflect.DeepEqual(registrations, want) {
			return fmt.Errorf("the registrations are %v, want %v", registrations, want)
		}
		return nil
	})
	// The agent begins with its driver, in the first registration for the hub's API.
	testkit.Must(t, unstructured.SetNestedField(registrations[0].(map[string]any), "csr", "kubeClient", "driver"))
	patches(map[string]any{"registrations": registrations})
	if a.Status.KubeClientDriver != "csr" || !reflect.DeepEqual(a.Status.Registrations, wanted) {
		t.Errorf("after the agent wrote its driver: %+v", a.Status)
	}
	// From then on it writes conditions.
	for _, kind := range []string{"ClusterCertificateRotated", "Available"} {
		conditions := []any{map[string]any{
			"type": kind, "status": "True", "reason": "ManagedClusterAddOnLeaseUpdated", "message": "x add-on is available.", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}
		patches(map[string]any{"conditions": conditions})
		if err := conditionIs(a.Status.Conditions, kind, metav1.ConditionTrue, "ManagedClusterAddOnLeaseUpdated", "x add-on is available."); err != nil {
			t.Error(err)
		}
	}
	if a.Status.KubeClientDriver != "csr" || !reflect.DeepEqual(a.Status.Registrations, wanted) || a.Spec.InstallNamespace != "my-ns" {
		t.Errorf("after the agent wrote conditions: %+v", a)
	}
}

// Renewal is a request with the certificate that is about to end, and nobody is
// asked.
func TestUpstreamAgentRenews(t *testing.T) {
	ctx := t.Context()
	name := clusterName(t, "up-renew")
	config := joined(t, name, "a")
	requests := clientsetFor(t, config).CertificatesV1().CertificateSigningRequests()
	r, key := certificateRequest(t, name, "a")
	r.Spec.ExpirationSeconds = ptr.To(int32(7200))
	r, err := requests.Create(ctx, r, metav1.CreateOptions{})
	testkit.Must(t, err)
	checkAgentCertificate(t, certificate(t, r.Name), name, 2*time.Hour)
	r, err = requests.Get(ctx, r.Name, metav1.GetOptions{})
	testkit.Must(t, err)
	if r.Spec.Username != "system:open-cluster-management:"+name+":a" {
		t.Errorf("the requester is %s", r.Spec.Username)
	}
	if len(r.Status.Conditions) != 1 {
		t.Fatalf("the conditions are %+v", r.Status.Conditions)
	}
	got, want := r.Status.Conditions[0], certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApprovedByHubCSRApprovingController",
		Message: "Auto approving Managed cluster agent certificate after SubjectAccessReview.",
	}
	got.LastUpdateTime, got.LastTransitionTime = metav1.Time{}, metav1.Time{}
	if got != want {
		t.Errorf("approved with %+v, want %+v", got, want)
	}
	testkit.Must(t, clientFor(t, withCertificate(r.Status.Certificate, key)).Get(ctx, types.NamespacedName{Name: name}, newCluster(name)))
}

// A denied agent goes on watching, to see that it is denied, and that it is not
// any more.
func TestUpstreamAgentSeesItsDenial(t *testing.T) {
	name := clusterName(t, "up-denied")
	config := joined(t, name, "a")
	clusters := informers(t, config, bootstrapWatches(name))["managedclusters"]
	for _, x := range []struct {
		accepts         bool
		status          metav1.ConditionStatus
		reason, message string
	}{
		{false, "False", "HubClusterAdminDenied", "Denied by hub cluster admin"},
		{true, "True", "HubClusterAdminAccepted", "Accepted by hub cluster admin"},
	} {
		accept(t, name, x.accepts)
		sees(t, clusters, name, func(o cached) error {
			return o.conditionIs("HubAcceptedManagedCluster", x.status, x.reason, x.message)
		})
		_, err := clientsetFor(t, config).CoordinationV1().Leases(name).Get(context.Background(), "managed-cluster-lease", metav1.GetOptions{})
		if apierrors.IsForbidden(err) == x.accepts {
			t.Errorf("accepted %v, reading the lease: %v", x.accepts, err)
		}
		// New caches, as after the restart of an agent.
		informers(t, config, bootstrapWatches(name)[:1])
	}
}
