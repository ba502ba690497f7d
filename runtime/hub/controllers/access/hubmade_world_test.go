package access_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/hubmade"
)

const hubID = "0123abcd"

// world is a cloud "prod" with the key policy HubMade, the user jo, and clusters. The
// tests play the controller of access requests and the agents.
type hubMadeWorld struct {
	*testworld.World
	clock   *clocktesting.FakePassiveClock
	name    string
	vault   *hubmade.Vault
	maker   *hubmade.Maker
	handler *hubmade.Handler
}

func newHubMadeWorld(t testing.TB, clusters string) *hubMadeWorld {
	t.Helper()
	// Objects are created at the server's time.
	w := &hubMadeWorld{World: env.World(t), clock: clocktesting.NewFakePassiveClock(time.Now())}
	w.name = w.BoundSet()
	var err error
	w.vault, err = hubmade.NewVault(w.Client, bytes.Repeat([]byte{7}, 32))
	w.Must(err)
	w.maker = hubmade.NewMaker(w.Client, w.Client, w.clock, w.vault)
	w.handler = hubmade.NewHandler(w.Client, w.clock, w.vault, func(context.Context) (string, error) { return hubID, nil })
	for c := range strings.FieldsSeq(clusters) {
		w.Make(&clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: w.full(c), Labels: map[string]string{cluster.ClusterSetLabel: w.name}},
			Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)},
		})
	}
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p"}}
	w.Make(p)
	w.Make(&clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p-decision-0", Labels: map[string]string{cluster.PlacementLabel: "p"}}})
	w.selects(clusters)
	lc := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "prod"}}
	lc.Spec.Placements = []v1alpha1.PlacementReference{{Name: "p"}}
	lc.Spec.Namespace.Name = "apps"
	lc.Spec.Access.KeyPolicy = v1alpha1.KeyHubMade
	lc.Spec.Grants = []v1alpha1.Grant{{
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}, Users: []string{"jo"}, Groups: []string{"devs"},
	}}
	w.Make(lc)
	w.Cleanup(func() { w.Must(w.maker.Forget(context.Background(), lc)) })
	return w
}

func (w *hubMadeWorld) full(cluster string) string { return w.name + "-" + cluster }

// selects has the placement select clusters.
func (w *hubMadeWorld) selects(clusters string) {
	w.Helper()
	d := &clusterv1beta1.PlacementDecision{}
	w.Must(w.Get(context.Background(), client.ObjectKey{Namespace: w.name, Name: "p-decision-0"}, d))
	d.Status.Decisions = []clusterv1beta1.ClusterDecision{}
	for c := range strings.FieldsSeq(clusters) {
		d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: w.full(c)})
	}
	w.Must(w.Status().Update(context.Background(), d))
}

func (w *hubMadeWorld) cloud() *v1alpha1.LogicalCloud {
	w.Helper()
	lc := &v1alpha1.LogicalCloud{}
	w.Must(w.Get(context.Background(), client.ObjectKey{Namespace: w.name, Name: "prod"}, lc))
	return lc
}

// sync has the hub look at the cloud, in these clusters.
func (w *hubMadeWorld) sync(clusters string) time.Duration {
	w.Helper()
	var names []string
	for c := range strings.FieldsSeq(clusters) {
		names = append(names, w.full(c))
	}
	wake, err := w.maker.Sync(context.Background(), w.cloud(), hubID, names)
	w.Must(err)
	return wake
}

// requests are those of the cloud in a cluster, the oldest first.
func (w *hubMadeWorld) requests(cluster string) (found []v1alpha1.AccessRequest) {
	w.Helper()
	all, err := hubmade.Requests(context.Background(), w.Client, w.cloud())
	w.Must(err)
	for _, r := range all {
		if r.Spec.ManagedCluster == w.full(cluster) {
			found = append(found, r)
		}
	}
	return found
}

// answer has a cluster answer all that it was not asked before: with a certificate, or
// with a token where its signer refuses.
func (w *hubMadeWorld) answer(cluster string, lifetime time.Duration, token bool) {
	w.Helper()
	for _, r := range w.requests(cluster) {
		if len(r.Status.Conditions) > 0 {
			continue
		}
		until := w.clock.Now().Add(lifetime)
		hash, err := access.CheckRequest(r.Spec.Request, hubID, r.Spec.User)
		w.Must(err)
		r.Status.KeyHash, r.Status.NotAfter = hash, &metav1.Time{Time: until}
		if token {
			r.Status.SealedToken, err = access.Seal(r.Spec.SealTo, []byte("token-of-"+cluster), string(r.UID))
			w.Must(err)
		} else {
			r.Status.Certificate = sign(w, r.Spec.Request, until)
		}
		r.Status.Endpoints = []v1alpha1.Endpoint{{URL: "https://" + cluster + ".example:6443", CABundle: []byte("CA of " + cluster)}}
		for _, kind := range []string{muster.ConditionApproved, muster.ConditionIssued} {
			r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now()})
		}
		w.Must(w.Status().Update(context.Background(), &r))
	}
}

// sign is a cluster's signer.
func sign(t testing.TB, csr []byte, until time.Time) []byte {
	t.Helper()
	block, _ := pem.Decode(csr)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	testkit.Must(t, err)
	keys, err := useraccess.NewKeys()
	testkit.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: asked.Subject, NotBefore: until.Add(-24 * time.Hour), NotAfter: until}
	ca := &x509.Certificate{SerialNumber: big.NewInt(2)}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, asked.PublicKey, keys.Certificate)
	testkit.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// ask asks for a kubeconfig as a user, and returns the answer.
func (w *hubMadeWorld) ask(method, who, query string) *httptest.ResponseRecorder {
	w.Helper()
	r := httptest.NewRequest(method, "/apis/muster-fleet.io/v1alpha1/namespaces/"+w.name+"/logicalclouds/prod/kubeconfig"+query, nil)
	ctx := request.WithUser(r.Context(), &user.DefaultInfo{Name: who, Groups: []string{"system:authenticated"}})
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, Verb: "get", APIGroup: muster.GroupName, Namespace: w.name, Resource: "logicalclouds", Name: "prod", Subresource: "kubeconfig",
	})
	r = r.WithContext(ctx)
	if !hubmade.Matches(r) {
		w.Fatal("the request is not for the handler")
	}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	return answer
}

// pending is what a 202 says: the clusters that are missing, with reasons.
func (w *hubMadeWorld) pending(answer *httptest.ResponseRecorder) string {
	w.Helper()
	if answer.Code != http.StatusAccepted || answer.Header().Get("Retry-After") == "" {
		w.Fatalf("the answer is %d %v %s", answer.Code, answer.Header(), answer.Body)
	}
	var p hubmade.Pending
	w.Must(json.Unmarshal(answer.Body.Bytes(), &p))
	var out []string
	for _, m := range p.Missing {
		out = append(out, strings.TrimPrefix(m.Name, w.name+"-")+":"+m.Reason)
	}
	return strings.Join(out, " ")
}

func (w *hubMadeWorld) secrets() []corev1.Secret {
	w.Helper()
	list := &corev1.SecretList{}
	w.Must(w.List(context.Background(), list, client.InNamespace(muster.AccessKeyNamespace),
		client.MatchingLabels{muster.LogicalCloudLabel: muster.CloudID(w.name, "prod")}))
	return list.Items
}
