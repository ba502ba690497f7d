package hub_test

import (
	"context"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// hubID is how subjects name the hub that the tests share: anybody may know.
func hubID(t testing.TB) string {
	t.Helper()
	info := &corev1.ConfigMap{}
	testkit.Must(t, clientFor(t, admin).Get(context.Background(), client.ObjectKey{Namespace: "kube-public", Name: hubinfo.Name}, info))
	return info.Data[hubinfo.HubIDKey]
}

func ecdsaKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	return key
}

func sealKey(t testing.TB) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	testkit.Must(t, err)
	return key.PublicKey().Bytes()
}

// csrFor is what a client sends for a user.
func csrFor(t testing.TB, user string) []byte {
	t.Helper()
	csr, err := access.NewRequest(ecdsaKey(t), hubID(t), user)
	testkit.Must(t, err)
	return csr
}

// tenancy is a namespace with a logical cloud, to whose users "jo" belongs, who
// may ask for access.
func tenancy(t testing.TB, change func(*v1alpha1.LogicalCloud)) (namespace string, cloud *v1alpha1.LogicalCloud) {
	t.Helper()
	w := testworld.New(t, clientFor(t, admin))
	namespace = w.Namespace()
	cloud = &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod"}}
	cloud.Spec.Placements = []v1alpha1.PlacementReference{{Name: "all"}}
	cloud.Spec.Namespace.Name = namespace
	cloud.Spec.Grants = []v1alpha1.Grant{{
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}, Users: []string{"jo"},
	}}
	change(cloud)
	w.Make(cloud)
	return namespace, cloud
}

// asks gives a user all rights on access requests, and the one to use clouds.
func asks(t testing.TB, name string, more ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	grant(t, name, append(more,
		rbacv1.PolicyRule{APIGroups: []string{clustersGroup}, Resources: []string{"managedclusters"}, Verbs: []string{"list"}},
		rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{"accessrequests", "accessrequests/status", "clustercredentials", "clustercredentials/status"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{"logicalclouds"}, ResourceNames: []string{"prod", "tokens", "gone"}, Verbs: []string{"use"}},
	)...)
	return clientFor(t, impersonate(name, "devs"))
}

// ask is a request for access to the cluster "paris".
func ask(namespace string, csr []byte, change func(*v1alpha1.AccessRequestSpec)) *v1alpha1.AccessRequest {
	r := &v1alpha1.AccessRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "r-"}}
	r.Spec = v1alpha1.AccessRequestSpec{LogicalCloud: "prod", ManagedCluster: "paris", Request: csr}
	if change != nil {
		change(&r.Spec)
	}
	return r
}

// create creates a request that goes with the test.
func create(t testing.TB, c client.Client, r *v1alpha1.AccessRequest) *v1alpha1.AccessRequest {
	t.Helper()
	testkit.Must(t, c.Create(context.Background(), r))
	t.Cleanup(func() {
		_ = clientFor(t, admin).Delete(context.Background(), r)
		_ = clientFor(t, admin).Patch(context.Background(), r, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	return r
}

func TestAccessRequestSaysWhoMadeIt(t *testing.T) {
	namespace, _ := tenancy(t, func(c *v1alpha1.LogicalCloud) { c.Spec.Access.DefaultLifetimeSeconds = 1200 })
	jo := asks(t, "jo")
	r := create(t, jo, ask(namespace, csrFor(t, "jo"), func(s *v1alpha1.AccessRequestSpec) {
		s.Requester = v1alpha1.Requester{Username: "al", UID: "1", Groups: []string{"system:masters"}}
	}))
	if r.Spec.User != "jo" || r.Spec.Requester.Username != "jo" || r.Spec.Requester.UID != "" || !slices.Equal(r.Spec.Requester.Groups, []string{"devs", "system:authenticated"}) {
		t.Errorf("it is for %q, by %+v", r.Spec.User, r.Spec.Requester)
	}
	if r.Spec.ExpirationSeconds != 1200 || r.Spec.Mode != v1alpha1.AccessCertificate || !slices.Contains(r.Finalizers, muster.AccessFinalizer) {
		t.Errorf("%d seconds, mode %s, finalizers %v", r.Spec.ExpirationSeconds, r.Spec.Mode, r.Finalizers)
	}
	// The API server takes base64 in one line only, so that the same bytes are the same
	// text for all that compares them.
	text := base64.StdEncoding.EncodeToString(r.Spec.Request)
	mustRefuse(t, "writing it in lines", patching(r, `{"spec":{"request":"`+text[:76]+"\\n"+text[76:]+`"}}`)(jo), "must be of type byte")
	mustRefuse(t, "the same bytes", patching(r, `{"spec":{"request":"`+text+`"}}`)(jo), "")
	mustRefuse(t, "other bytes", patching(r, `{"spec":{"request":"AAAA`+text+`"}}`)(jo), "can't be changed")
	mustRefuse(t, "changing it", patching(r, `{"spec":{"expirationSeconds":600}}`)(jo), "can't be changed")
}

// Who asks for another user needs the right to impersonate that user, and each
// group that the user is said to have.
func TestAccessRequestForAnotherUser(t *testing.T) {
	namespace, _ := tenancy(t, func(*v1alpha1.LogicalCloud) {})
	core := func(resource, name string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{name}, Verbs: []string{"impersonate"}}
	}
	boss := asks(t, "boss", core("users", "jo"), core("groups", "devs"), core("serviceaccounts", "ci"))
	forUser := func(user string, groups ...string) *v1alpha1.AccessRequest {
		return ask(namespace, csrFor(t, user), func(s *v1alpha1.AccessRequestSpec) {
			s.User, s.Requester.Groups = user, groups
		})
	}
	r := create(t, boss, forUser("jo", "devs"))
	if r.Spec.User != "jo" || r.Spec.Requester.Username != "boss" || !slices.Equal(r.Spec.Requester.Groups, []string{"devs"}) {
		t.Errorf("it is for %q, by %+v", r.Spec.User, r.Spec.Requester)
	}
	create(t, boss, forUser("system:serviceaccount:default:ci"))
	for user, x := range map[string]struct {
		groups []string
		want   string
	}{
		"al":                                  {nil, `the verb impersonate on users "al" is missing`},
		"jo":                                  {[]string{"devs", "admins"}, `the verb impersonate on groups "admins" is missing`},
		"system:serviceaccount:default:other": {nil, `the verb impersonate on serviceaccounts "other" is missing`},
	} {
		err := boss.Create(context.Background(), forUser(user, x.groups...))
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", user, err, x.want)
		}
	}
}

func TestAccessRequestsThatAreRefused(t *testing.T) {
	namespace, _ := tenancy(t, func(c *v1alpha1.LogicalCloud) { c.Spec.Access.MaxLifetimeSeconds = 7200 })
	w := testworld.New(t, clientFor(t, admin))
	tokens := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tokens"}}
	tokens.Spec.Placements, tokens.Spec.Namespace.Name = []v1alpha1.PlacementReference{{Name: "all"}}, namespace+"-t"
	tokens.Spec.Access.Modes = []v1alpha1.AccessMode{v1alpha1.AccessToken}
	w.Make(tokens)
	jo, csr := asks(t, "jo"), csrFor(t, "jo")
	subject := func(change func(*pkix.Name)) []byte {
		key := ecdsaKey(t)
		hash, err := access.KeyHash(key.Public())
		testkit.Must(t, err)
		name := access.Subject(hubID(t), "jo", hash)
		change(&name)
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: name}, key)
		testkit.Must(t, err)
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	for name, x := range map[string]struct {
		change func(*v1alpha1.AccessRequestSpec)
		want   string
	}{
		"a system name":                  {func(s *v1alpha1.AccessRequestSpec) { s.User = "system:kube-controller-manager" }, "is a name of Kubernetes"},
		"a cloud that it may not use":    {func(s *v1alpha1.AccessRequestSpec) { s.LogicalCloud = "secret" }, `cannot use the LogicalCloud "secret"`},
		"a cloud that is not there":      {func(s *v1alpha1.AccessRequestSpec) { s.LogicalCloud = "gone" }, `there is no LogicalCloud "gone"`},
		"a certificate where tokens are": {func(s *v1alpha1.AccessRequestSpec) { s.LogicalCloud = "tokens" }, "spec.mode: Certificate is not allowed by the logical cloud; take the mode Token"},
		"either where tokens are": {func(s *v1alpha1.AccessRequestSpec) {
			s.LogicalCloud, s.Mode, s.SealTo = "tokens", v1alpha1.AccessAuto, sealKey(t)
		}, "spec.mode: Auto is not allowed"},
		"a long life":  {func(s *v1alpha1.AccessRequestSpec) { s.ExpirationSeconds = 7201 }, "spec.expirationSeconds: 7201 is more than the 7200"},
		"a short life": {func(s *v1alpha1.AccessRequestSpec) { s.ExpirationSeconds = 599 }, "greater than or equal to 600"},
		"system:masters": {func(s *v1alpha1.AccessRequestSpec) {
			s.Request = subject(func(n *pkix.Name) { n.Organization = []string{"system:masters"} })
		}, "spec.request: its subject"},
		"a second organisation": {func(s *v1alpha1.AccessRequestSpec) {
			s.Request = subject(func(n *pkix.Name) { n.Organization = append(n.Organization, "x") })
		}, "spec.request: its subject"},
		"a controller's name": {func(s *v1alpha1.AccessRequestSpec) {
			s.Request = subject(func(n *pkix.Name) { n.CommonName = "system:kube-scheduler" })
		}, "spec.request: its subject"},
		"another user's name":  {func(s *v1alpha1.AccessRequestSpec) { s.Request = csrFor(t, "al") }, "spec.request: its subject"},
		"no key for the token": {func(s *v1alpha1.AccessRequestSpec) { s.Mode = v1alpha1.AccessAuto }, "spec.sealTo: the mode Auto needs"},
		"a key without secrets": {func(s *v1alpha1.AccessRequestSpec) {
			s.Mode, s.Request, s.SealTo = v1alpha1.AccessToken, nil, make([]byte, 32)
		}, "nothing is secret"},
		"a key for no token":    {func(s *v1alpha1.AccessRequestSpec) { s.SealTo = sealKey(t) }, "spec.sealTo: the mode Certificate has no token to seal"},
		"a token's certificate": {func(s *v1alpha1.AccessRequestSpec) { s.Mode, s.SealTo = v1alpha1.AccessToken, sealKey(t) }, "spec.request: the mode Token needs no certificate request"},
		"nothing to sign":       {func(s *v1alpha1.AccessRequestSpec) { s.Request = nil }, "spec.request: the mode Certificate needs"},
	} {
		err := jo.Create(context.Background(), ask(namespace, csr, x.change))
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", name, err, x.want)
		}
	}
	for range 8 { // the bytes of some keys have a + or a / in their base64
		r := create(t, jo, ask(namespace, nil, func(s *v1alpha1.AccessRequestSpec) { s.Mode, s.SealTo = v1alpha1.AccessToken, sealKey(t) }))
		testkit.Must(t, patching(r, `{"metadata":{"labels":{"a":"b"}}}`)(jo))
	}

	// Each refusal leaves an event, with who asked, for which user and where.
	reported := &eventsv1.EventList{}
	testkit.Must(t, clientFor(t, admin).List(context.Background(), reported, client.InNamespace(namespace)))
	for _, want := range []string{
		`requester "jo", user "system:kube-controller-manager", cluster "paris"`, `user "jo" cannot use the LogicalCloud "secret"`, "spec.request: its subject",
	} {
		if !slices.ContainsFunc(reported.Items, func(e eventsv1.Event) bool {
			return e.Reason == muster.EventAccessRefused && e.Regarding.Kind == "LogicalCloud" && strings.Contains(e.Note, want)
		}) {
			t.Errorf("no event says %q", want)
		}
	}
}

// The status is the hub's alone, whatever the rights are, and so is the mark that
// something is left in a cluster.
func TestAccessRequestsAreAnsweredByTheHub(t *testing.T) {
	namespace, _ := tenancy(t, func(*v1alpha1.LogicalCloud) {})
	jo := asks(t, "jo")
	r := create(t, jo, ask(namespace, csrFor(t, "jo"), nil))
	for what, send := range map[string]func(client.Client) error{
		"approves its own request": patchingStatus(r, `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"Me","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"keyHash":"x"}}`),
		"removes the finalizer":    patching(r, `{"metadata":{"finalizers":null}}`),
		"makes a credential": creating(&v1alpha1.ClusterCredential{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: muster.Credential("1")},
			Spec:       v1alpha1.ClusterCredentialSpec{Mode: v1alpha1.AccessCertificate, ExpirationSeconds: 600},
		}),
	} {
		if err := send(jo); err == nil || !strings.Contains(err.Error(), "by the hub") {
			t.Errorf("jo %s: got %v, want a refusal", what, err)
		}
	}
	testkit.Must(t, patching(r, `{"metadata":{"labels":{"a":"b"}}}`)(jo))
}

func TestNumberOfAccessRequestsIsLimited(t *testing.T) {
	ctx := context.Background()
	namespace, _ := tenancy(t, func(c *v1alpha1.LogicalCloud) { c.Spec.Access.MaxRequestsPerUser = 3 })
	jo := asks(t, "jo")
	csr := csrFor(t, "jo")
	var group errgroup.Group
	made := make([]*v1alpha1.AccessRequest, 12)
	for i := range made {
		made[i] = ask(namespace, csr, nil)
		group.Go(func() error {
			if err := jo.Create(ctx, made[i]); err != nil && !strings.Contains(err.Error(), "allows no more than 3") {
				return err
			}
			return nil
		})
	}
	testkit.Must(t, group.Wait())
	list := &v1alpha1.AccessRequestList{}
	testkit.Must(t, jo.List(ctx, list, client.InNamespace(namespace)))
	if len(list.Items) != 3 {
		t.Errorf("%d at a time were admitted, want 3", len(list.Items))
	}
	for i := range list.Items {
		create := &list.Items[i]
		t.Cleanup(func() {
			_ = clientFor(t, admin).Patch(ctx, create, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		})
	}
	// Of another cluster there may be as many, and one that has ended does not count.
	create(t, jo, ask(namespace, csr, func(s *v1alpha1.AccessRequestSpec) { s.ManagedCluster = "rome" }))
	ended := metav1.Condition{Type: muster.ConditionExpired, Status: metav1.ConditionTrue, Reason: "Ended", LastTransitionTime: metav1.Now()}
	list.Items[0].Status.Conditions = []metav1.Condition{ended}
	testkit.Must(t, clientFor(t, admin).Status().Update(ctx, &list.Items[0]))
	create(t, jo, ask(namespace, csr, nil))
}

// The hub renews with the key that it has while access goes on: that is no further
// request of the user.
func TestTheHubsOwnRequestsDoNotCount(t *testing.T) {
	namespace, _ := tenancy(t, func(c *v1alpha1.LogicalCloud) { c.Spec.Access.MaxRequestsPerUser = 1 })
	jo, csr := asks(t, "jo"), csrFor(t, "jo")
	madeBy := func(c client.Client, csr []byte) error {
		r := ask(namespace, csr, func(s *v1alpha1.AccessRequestSpec) { s.User = "jo" })
		r.Labels = map[string]string{muster.HubMadeLabel: "true"}
		err := c.Create(context.Background(), r)
		if err == nil {
			t.Cleanup(func() {
				_ = clientFor(t, admin).Delete(context.Background(), r)
				_ = clientFor(t, admin).Patch(context.Background(), r, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
			})
		}
		return err
	}
	const theHubs = "muster-fleet.io/hub-made is the hub's"
	mustRefuse(t, "a user says that a request is the hub's", madeBy(jo, csr), theHubs)
	for range 2 {
		testkit.Must(t, madeBy(clientFor(t, admin), csr))
	}
	own := create(t, jo, ask(namespace, csrFor(t, "jo"), nil))
	mustRefuse(t, "a second one", jo.Create(context.Background(), ask(namespace, csr, nil)), "allows no more than 1")
	mustRefuse(t, "a user says so later", patching(own, `{"metadata":{"labels":{"muster-fleet.io/hub-made":"true"}}}`)(jo), theHubs)
}

func TestRevokedKeyIsRefusedWhileItsCertificateLives(t *testing.T) {
	namespace, cloud := tenancy(t, func(*v1alpha1.LogicalCloud) {})
	jo, key := asks(t, "jo"), ecdsaKey(t)
	hash, err := access.KeyHash(key.Public())
	testkit.Must(t, err)
	csr, err := access.NewRequest(key, hubID(t), "jo")
	testkit.Must(t, err)
	patch := fmt.Appendf(nil, `{"status":{"revokedKeys":[{"keyHash":%q,"managedCluster":"paris","until":%q},{"keyHash":%q,"managedCluster":"rome","until":%q}]}}`,
		hash, time.Now().Add(time.Hour).UTC().Format(time.RFC3339), hash, time.Now().Add(-time.Second).UTC().Format(time.RFC3339))
	testkit.Must(t, clientFor(t, admin).Status().Patch(context.Background(), cloud, client.RawPatch(types.MergePatchType, patch)))
	if err := jo.Create(context.Background(), ask(namespace, csr, nil)); err == nil || !strings.Contains(err.Error(), "was withdrawn from the cluster \"paris\"") {
		t.Errorf("got %v, want a refusal", err)
	}
	create(t, jo, ask(namespace, csr, func(s *v1alpha1.AccessRequestSpec) { s.ManagedCluster = "rome" }))
}

func TestAgentAnswersItsCredentialsOnly(t *testing.T) {
	ctx, c := context.Background(), clientFor(t, admin)
	own, other := clusterName(t, "own"), clusterName(t, "other")
	agent := clientFor(t, joined(t, own, "a"))
	acceptedCluster(t, c, other)
	credential := func(namespace string) *v1alpha1.ClusterCredential {
		x := &v1alpha1.ClusterCredential{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: muster.Credential("1")}}
		x.Spec = v1alpha1.ClusterCredentialSpec{
			AccessRequest: v1alpha1.RequestReference{Namespace: "x", Name: "x", UID: "1"}, HubID: hubID(t), Requester: "jo", User: "jo",
			Namespace: "x", Mode: v1alpha1.AccessCertificate, ExpirationSeconds: 600,
		}
		return x
	}
	for _, namespace := range []string{own, other} {
		testkit.Eventually(t, func() error { return c.Create(ctx, credential(namespace)) })
	}
	const failed = `{"status":{"conditions":[{"type":"Failed","status":"True","reason":"RefusedByPolicy","message":"%s","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	testkit.Must(t, getting(credential(own))(agent))
	testkit.Must(t, listing(&v1alpha1.ClusterCredentialList{}, client.InNamespace(own))(agent))
	testkit.Must(t, patchingStatus(credential(own), fmt.Sprintf(failed, "no"))(agent))
	for what, x := range map[string]struct {
		send func(client.Client) error
		want string
	}{
		"reads another's":          {getting(credential(other)), "forbidden"},
		"answers another's":        {patchingStatus(credential(other), fmt.Sprintf(failed, "no")), "forbidden"},
		"lists all":                {listing(&v1alpha1.ClusterCredentialList{}), "forbidden"},
		"reads the requests":       {listing(&v1alpha1.AccessRequestList{}), "forbidden"},
		"makes one":                {creating(credential(own)), "forbidden"},
		"changes one":              {patching(credential(own), `{"metadata":{"labels":{"a":"b"}}}`), "forbidden"},
		"deletes one":              {deleting(credential(own)), "forbidden"},
		"approves":                 {patchingStatus(credential(own), strings.ReplaceAll(fmt.Sprintf(failed, "no"), "Failed", "Approved")), "an agent sets Issued and Failed only"},
		"tells a long story":       {patchingStatus(credential(own), fmt.Sprintf(failed, strings.Repeat("x", 1025))), "may have 1024"},
		"answers more than it may": {patchingStatus(credential(own), fmt.Sprintf(`{"status":{"sealedToken":%q}}`, strings.Repeat("AAAA", 6000))), "may have 16384"},
	} {
		if err := x.send(agent); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("an agent %s: got %v, want %q", what, err, x.want)
		}
	}
}
