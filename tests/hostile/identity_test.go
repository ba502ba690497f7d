package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func clusterNamed(name string, accepted bool) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(accepted)}}
}

func mergePatchf(text string, args ...any) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, text, args...))
}

// A cluster's name must not make its roles, groups or namespace those of others.
func TestNamesOfClustersThatAreSomethingElse(t *testing.T) {
	ctx, admin := context.Background(), hub.admin(t)
	_, unbound := hub.BootstrapToken(t, cluster.BootstrapGroup, nil)
	token := testfleet.Client(t, hub.WithToken(unbound))
	for _, name := range []string{
		"work", "registration", "managed-clusters", "default", "kube-system", "kube-public", "kube-node-lease",
		"open-cluster-management", "open-cluster-management-hub", "open-cluster-management-agent", "open-cluster-management-agent-addon",
	} {
		refusedFor(t, "a token registers "+name, token.Create(ctx, clusterNamed(name, false)), "choose another name")
		refusedFor(t, "a cluster accepted as "+name, admin.Create(ctx, clusterNamed(name, true)), "choose another name")
		r, _ := testfleet.CertificateRequest(t, name, "a")
		refused(t, "a token asks for a certificate of "+name, token.Create(ctx, r))
		_, bound := hub.BootstrapToken(t, cluster.BoundBootstrapGroup(name), nil)
		refused(t, "a token bound to "+name+" registers it", testfleet.Client(t, hub.WithToken(bound)).Create(ctx, clusterNamed(name, false)))
		r, _ = testfleet.CertificateRequest(t, name, "a")
		refused(t, "a token bound to "+name+" asks for its certificate", testfleet.Client(t, hub.WithToken(bound)).Create(ctx, r))
	}
	// What looks like a part of the hub's own names is refused at creation, too.
	for _, name := range []string{"cluster", "addon", "bootstrap", "managedcluster", "muster-access-keys", "muster-imports"} {
		refusedFor(t, "a cluster called "+name, admin.Create(ctx, clusterNamed(name, false)), "choose another name")
	}
	for _, name := range []string{"Work", "work.", ".work", "a.b", "work:", "work/x", strings.Repeat("w", 64)} {
		refused(t, "a cluster called "+name, admin.Create(ctx, clusterNamed(name, false)))
	}
	// What only looks like one of them is a cluster like any other.
	for _, name := range []string{"work-1", "works", strings.Repeat("w", 63)} {
		agent := testfleet.Client(t, hub.Joined(t, name, "a"))
		refused(t, name+" reads all works", agent.List(ctx, &workv1.ManifestWorkList{}))
		refused(t, name+" reads the leases of the hub", agent.Get(ctx, types.NamespacedName{Namespace: cluster.HubNamespace, Name: "muster-hub"}, &coordinationv1.Lease{}))
	}
}

// The owner of a namespace on the hub does not share it with an agent.
func TestNamespacesThatAreNotAClusters(t *testing.T) {
	ctx, admin := context.Background(), hub.admin(t)
	hub.Tenant(t, "id-tenant", "tenant")
	refusedFor(t, "a cluster is created accepted under a tenant's namespace", admin.Create(ctx, clusterNamed("id-tenant", true)), "kubectl label namespace id-tenant")
	testkit.Must(t, admin.Create(ctx, clusterNamed("id-tenant", false)))
	refusedFor(t, "a cluster is accepted under a tenant's namespace", admin.Patch(ctx, clusterNamed("id-tenant", false), mergePatchf(`{"spec":{"hubAcceptsClient":true}}`)), "is not a cluster's")
	testkit.Must(t, admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "id-other", Labels: map[string]string{cluster.NameLabel: "id-tenant"}}}))
	refused(t, "a cluster is accepted under another cluster's namespace", admin.Create(ctx, clusterNamed("id-other", true)))

	// Handed over, it is the cluster's. The namespace of an earlier cluster is one
	// already.
	testkit.Must(t, admin.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "id-tenant"}}, mergePatchf(`{"metadata":{"labels":{%q:"id-tenant"}}}`, cluster.NameLabel)))
	testkit.Eventually(t, func() error { // admission learns of the label by a watch
		return admin.Patch(ctx, clusterNamed("id-tenant", false), mergePatchf(`{"spec":{"hubAcceptsClient":true}}`))
	})
	hub.Joined(t, "id-again", "a")
	testkit.Must(t, admin.Delete(ctx, clusterNamed("id-again", false)))
	testkit.Eventually(t, func() error {
		if err := admin.Get(ctx, types.NamespacedName{Name: "id-again"}, &clusterv1.ManagedCluster{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the cluster is still there (%v)", err)
		}
		return nil
	})
	hub.Joined(t, "id-again", "b")
}

// An agent says where its cluster is and how it fares. It does not choose what
// it gets.
func TestAnAgentRewritesItsCluster(t *testing.T) {
	ctx, admin := context.Background(), hub.admin(t)
	secret, token := hub.BootstrapToken(t, cluster.BoundBootstrapGroup("id-self"), map[string]string{cluster.TokenClusterLabelsAnnotation: "env=edge"})
	testkit.Must(t, testfleet.Client(t, hub.WithToken(token)).Create(ctx, clusterNamed("id-self", false)))
	testkit.Must(t, admin.Patch(ctx, clusterNamed("id-self", false), mergePatchf(
		`{"metadata":{"labels":{"tier":"3"},"annotations":{"note":"x"}},"spec":{"hubAcceptsClient":true,"taints":[{"key":"example.org/quarantine","effect":"NoSelect"}]}}`)))
	agent := testfleet.Client(t, hub.AgentCertificate(t, "id-self", "a"))
	self := func(c client.Client) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{}
		testkit.Eventually(t, func() error { return c.Get(ctx, types.NamespacedName{Name: "id-self"}, mc) })
		return mc
	}
	before := self(admin)
	write := func(change func(*clusterv1.ManagedCluster)) error {
		var err error
		testkit.Eventually(t, func() error {
			mc := self(agent)
			change(mc)
			if err = agent.Update(ctx, mc); apierrors.IsConflict(err) {
				return err
			}
			return nil
		})
		return err
	}
	unchanged := func(what string) {
		t.Helper()
		now := self(admin)
		var err error
		switch {
		case fmt.Sprint(now.Labels) != fmt.Sprint(before.Labels):
			err = fmt.Errorf("labels %v", now.Labels)
		case now.Annotations["note"] != "x" || len(now.Annotations) != len(before.Annotations):
			err = fmt.Errorf("annotations %v", now.Annotations)
		case !slices.Equal(now.Finalizers, before.Finalizers):
			err = fmt.Errorf("finalizers %v", now.Finalizers)
		case !now.Spec.AcceptsClient() || now.Spec.LeaseDurationSeconds != before.Spec.LeaseDurationSeconds:
			err = fmt.Errorf("spec %+v", now.Spec)
		case !slices.ContainsFunc(now.Spec.Taints, func(x clusterv1.Taint) bool { return x.Key == "example.org/quarantine" }):
			err = fmt.Errorf("taints %v", now.Spec.Taints)
		}
		harmless(t, what, err)
	}
	for what, change := range map[string]func(*clusterv1.ManagedCluster){
		"chooses a label":             func(mc *clusterv1.ManagedCluster) { mc.Labels["env"] = "prod" },
		"adds a label":                func(mc *clusterv1.ManagedCluster) { mc.Labels["gpu"] = "yes" },
		"drops its token's label":     func(mc *clusterv1.ManagedCluster) { delete(mc.Labels, cluster.TokenLabel) },
		"names another token":         func(mc *clusterv1.ManagedCluster) { mc.Labels[cluster.TokenLabel] = "aaaaaa" },
		"drops all labels":            func(mc *clusterv1.ManagedCluster) { mc.Labels = nil },
		"claims an add-on":            func(mc *clusterv1.ManagedCluster) { mc.Labels[cluster.AddOnFeatureLabelPrefix+"x"] = "available" },
		"drops its taints":            func(mc *clusterv1.ManagedCluster) { mc.Spec.Taints = nil },
		"drops its finalizers":        func(mc *clusterv1.ManagedCluster) { mc.Finalizers = nil },
		"holds itself for ever":       func(mc *clusterv1.ManagedCluster) { mc.Finalizers = append(mc.Finalizers, "example.org/mine") },
		"is never found silent":       func(mc *clusterv1.ManagedCluster) { mc.Spec.LeaseDurationSeconds = 1 << 30 },
		"denies itself":               func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = ptr.To(false) },
		"turns off the clock's check": func(mc *clusterv1.ManagedCluster) { mc.Annotations[cluster.SkipClockSyncAnnotation] = "true" },
		"drops annotations":           func(mc *clusterv1.ManagedCluster) { mc.Annotations = nil },
	} {
		if err := write(change); err != nil {
			t.Errorf("it %s: %v", what, err)
		}
		unchanged("an agent " + what)
	}
	refused(t, "an agent joins another set", write(func(mc *clusterv1.ManagedCluster) { mc.Labels[cluster.ClusterSetLabel] = "prod" }))
	refused(t, "an agent patches its cluster", agent.Patch(ctx, clusterNamed("id-self", true), mergePatchf(`{"metadata":{"labels":{"env":"prod"}}}`)))
	refused(t, "an agent deletes its cluster", agent.Delete(ctx, clusterNamed("id-self", true)))
	refused(t, "an agent writes labels by its status", func() error {
		err := agent.Status().Patch(ctx, clusterNamed("id-self", true), mergePatchf(`{"metadata":{"labels":{"env":"prod"}}}`))
		if err == nil && self(admin).Labels["env"] == "edge" {
			err = apierrors.NewBadRequest("without effect")
		}
		return err
	}())
	// What is the agent's to say is taken.
	testkit.Must(t, write(func(mc *clusterv1.ManagedCluster) {
		mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "https://self.example.com"}}
		mc.Annotations[cluster.AgentAnnotationPrefix+"/version"] = "1"
	}))
	if now := self(admin); len(now.Spec.ManagedClusterClientConfigs) != 1 || now.Annotations[cluster.AgentAnnotationPrefix+"/version"] != "1" {
		t.Errorf("the agent's own report is lost: %+v %v", now.Spec, now.Annotations)
	}
	if id := strings.TrimPrefix(secret.Name, cluster.TokenSecretPrefix); self(admin).Labels[cluster.TokenLabel] != id {
		t.Errorf("the labels are %v, want the token %s", self(admin).Labels, id)
	}
	// Nor does it count as the one who manages what it could not change.
	for _, f := range self(admin).ManagedFields {
		if f.FieldsV1 != nil && strings.Contains(f.String(), "f:gpu") {
			t.Errorf("the agent manages a field: %s", f.String())
		}
	}

	testForgedConditions(t, agent, admin)
}

func testForgedConditions(t *testing.T, agent, admin client.Client) {
	ctx := context.Background()
	condition := func(kind string) *metav1.Condition {
		mc := &clusterv1.ManagedCluster{}
		testkit.Must(t, admin.Get(ctx, types.NamespacedName{Name: "id-self"}, mc))
		return meta.FindStatusCondition(mc.Status.Conditions, kind)
	}
	testkit.Eventually(t, func() error {
		if condition(cluster.ConditionHubAccepted) == nil {
			return fmt.Errorf("the cluster is not accepted yet")
		}
		return nil
	})
	say := func(conditions ...string) {
		t.Helper()
		var list []string
		for _, c := range conditions {
			list = append(list, `{"type":`+c+`,"reason":"Forged","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}`)
		}
		testkit.Must(t, agent.Status().Patch(ctx, clusterNamed("id-self", true), mergePatchf(`{"status":{"conditions":[%s]}}`, strings.Join(list, ","))))
	}
	say(`"ManagedClusterJoined","status":"True"`, `"ManagedClusterConditionAvailable","status":"True"`, `"HubAcceptedManagedCluster","status":"False"`,
		`"ManagedClusterConditionClockSynced","status":"True"`, `"Deleting","status":"True"`)
	for _, kind := range []string{cluster.ConditionHubAccepted, cluster.ConditionClockSynced, cluster.ConditionDeleting} {
		var err error
		if have := condition(kind); have != nil && have.Reason == "Forged" {
			err = fmt.Errorf("the condition is %+v", have)
		}
		harmless(t, "an agent sets the condition "+kind, err)
	}
	if have := condition(cluster.ConditionJoined); have == nil || have.Reason != "Forged" {
		t.Errorf("the agent's own condition is %+v", have)
	}
	say(`"ManagedClusterConditionAvailable","status":"True"`)
	say(`"ManagedClusterJoined","status":"False"`)
	var err error
	if !meta.IsStatusConditionTrue([]metav1.Condition{*condition(cluster.ConditionJoined)}, cluster.ConditionJoined) || condition(cluster.ConditionHubAccepted) == nil {
		err = fmt.Errorf("the conditions are %+v and %+v", condition(cluster.ConditionJoined), condition(cluster.ConditionHubAccepted))
	}
	harmless(t, "an agent has never joined", err)
}

// Nobody's certificate requests name another's cluster, or keep it from joining
// and renewing.
func TestCertificateRequestsForOthers(t *testing.T) {
	ctx := context.Background()
	agent := testfleet.Client(t, hub.Joined(t, "id-csr", "a"))
	hub.Joined(t, "id-victim", "a")
	_, unbound := hub.BootstrapToken(t, cluster.BootstrapGroup, nil)
	_, limited := hub.BootstrapToken(t, cluster.BootstrapGroup, map[string]string{cluster.TokenMaxClustersAnnotation: "1"})
	_, bound := hub.BootstrapToken(t, cluster.BoundBootstrapGroup("id-csr"), nil)
	account := testfleet.Client(t, hub.WithToken(hub.bootstrapAccount(t)))
	who := map[string]client.Client{
		"an agent": agent, "a bound token": testfleet.Client(t, hub.WithToken(bound)),
		"a token": testfleet.Client(t, hub.WithToken(unbound)), "the account": account,
	}
	request := func(label, commonName string, organizations ...string) *certificatesv1.CertificateSigningRequest {
		r, _ := testfleet.CertificateRequest(t, "id-csr", "a")
		_, r.Spec.Request = testkit.CertificateRequest(t, commonName, organizations...)
		r.Labels[cluster.NameLabel] = label
		if label == "" {
			r.Labels = nil
		}
		return r
	}
	victim, own := cluster.CommonName("id-victim", "a"), cluster.CommonName("id-csr", "a")
	for name, c := range who {
		for what, r := range map[string]*certificatesv1.CertificateSigningRequest{
			"the victim's user under its own label":   request("id-csr", victim, cluster.Group("id-csr")),
			"the victim's group under its own label":  request("id-csr", own, cluster.Group("id-victim")),
			"both groups":                             request("id-csr", own, cluster.Group("id-csr"), cluster.Group("id-victim")),
			"the victim under no label":               request("", victim, cluster.Group("id-victim")),
			"itself under no label":                   request("", own, cluster.Group("id-csr")),
			"itself under the victim's label":         request("id-victim", own, cluster.Group("id-csr")),
			"all agents":                              request("id-csr", own, cluster.ManagedClustersGroup),
			"an administrator":                        request("id-csr", own, cluster.Group("id-csr"), "system:masters"),
			"another user under its own label":        request("id-csr", "alice"),
			"a user with one colon too many":          request("id-csr", own+":b", cluster.Group("id-csr")),
			"the hub's own namespace's agent":         request("kube-system", cluster.CommonName("kube-system", "a"), cluster.Group("kube-system")),
			"the agents' role":                        request("work", cluster.CommonName("work", "a"), cluster.Group("work")),
			"a group that only looks like its own":    request("id-csr", own, cluster.Group("id-csr-2")),
			"a cluster's group in other letters":      request("id-csr", own, cluster.Group("ID-CSR")),
			"itself, by the group that has no prefix": request("id-csr", own, cluster.GroupWithoutPrefix("id-csr")),
		} {
			refused(t, name+" asks for "+what, c.Create(ctx, r))
		}
		r := request("id-csr", own, cluster.Group("id-csr"))
		r.GenerateName = "id-victim-"
		refused(t, name+" asks under a name of the victim's", c.Create(ctx, r))
		r = request("id-csr", own, cluster.Group("id-csr"))
		r.Name = "id-victim-x"
		refused(t, name+" asks under the victim's name beside a prefix of its own", c.Create(ctx, r))
		r = request("id-csr", victim, cluster.Group("id-victim"))
		r.Labels[cluster.AddOnNameLabel] = "x"
		refused(t, name+" asks for the victim as an add-on", c.Create(ctx, r))
	}
	labelled, _ := testfleet.CertificateRequest(t, "id-victim", "a")
	refused(t, "an agent asks for the victim", agent.Create(ctx, labelled))

	// A token that may register one cluster registers one, labelled or not.
	once := testfleet.Client(t, hub.WithToken(limited))
	first, _ := testfleet.CertificateRequest(t, "id-once", "a")
	testkit.Must(t, once.Create(ctx, first))
	second, _ := testfleet.CertificateRequest(t, "id-twice", "a")
	refusedFor(t, "a used-up token asks for another cluster", once.Create(ctx, second), "may register 1 cluster")
	second.Labels = nil
	refused(t, "a used-up token asks without a label", once.Create(ctx, second))
	second, _ = testfleet.CertificateRequest(t, "id-twice", "a")
	second.Labels[cluster.NameLabel] = "id-once"
	refused(t, "a used-up token asks under a counted cluster's label", once.Create(ctx, second))

	// Junk in the victim's name stays below what an agent counts, from any sender.
	sent := 0
	for _, c := range []client.Client{testfleet.Client(t, hub.WithToken(unbound)), account} {
		for range 12 {
			junk, _ := testfleet.CertificateRequest(t, "id-victim", "a")
			if c.Create(ctx, junk) == nil {
				sent++
			}
		}
	}
	var err error
	if sent >= cluster.MaxPendingRequests {
		err = fmt.Errorf("there are %d requests in its name", sent)
	}
	harmless(t, "a token and the account fill the victim's requests", err)
	refused(t, "a token reads config maps outside kube-public", testfleet.Client(t, hub.WithToken(unbound)).Get(ctx,
		types.NamespacedName{Namespace: "kube-system", Name: "extension-apiserver-authentication"}, &corev1.ConfigMap{}))
	testkit.Must(t, testfleet.Client(t, hub.WithToken(unbound)).Get(ctx, types.NamespacedName{Namespace: "kube-public", Name: "cluster-info"}, &corev1.ConfigMap{}))
}

// A cluster joins though others have asked for as many certificates in its name
// as they could.
func TestAClusterJoinsThroughOthersRequests(t *testing.T) {
	ctx := context.Background()
	for range 3 {
		_, unbound := hub.BootstrapToken(t, cluster.BootstrapGroup, nil)
		for range 12 {
			junk, _ := testfleet.CertificateRequest(t, "id-flooded", "a")
			_ = testfleet.Client(t, hub.WithToken(unbound)).Create(ctx, junk)
		}
	}
	hub.join(t, "id-flooded")
	harmless(t, "others' requests keep a cluster from joining", nil)
}

// bootstrapAccount is a token of the service account that may register any
// cluster, as "clusteradm get token" gets one.
func (w *world) bootstrapAccount(t testing.TB) string {
	t.Helper()
	request, err := testfleet.Clientset(t, w.Admin).CoreV1().ServiceAccounts(cluster.Namespace).CreateToken(context.Background(), cluster.BootstrapServiceAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(3600))}}, metav1.CreateOptions{})
	testkit.Must(t, err)
	return request.Status.Token
}
