package access_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/accessrequest"
)

// world is a namespace with the logical cloud "prod" on some clusters, which grants
// something to jo, and the controller at work. The tests play the scheduler, the
// controller of clouds and the agents.
type requestWorld struct {
	*testworld.World
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
	name   string
	hubID  string
	writes *testkit.Writes
}

func newRequestWorld(t testing.TB, clusters ...string) *requestWorld {
	t.Helper()
	// Objects are created by the real time.
	w := &requestWorld{World: env.World(t), clock: clocktesting.NewFakePassiveClock(time.Now()), events: events.NewFakeRecorder(10000)}
	w.name = w.BoundSet()
	system := &corev1.Namespace{}
	w.Eventually(func() error {
		return w.Get(context.Background(), client.ObjectKey{Name: metav1.NamespaceSystem}, system)
	})
	w.hubID = access.HubID(string(system.UID))
	for _, c := range clusters {
		w.Make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.full(c)}})
		mc := &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{
				Name: w.full(c), Labels: map[string]string{cluster.ClusterSetLabel: w.name},
				Annotations: map[string]string{"agent.open-cluster-management.io/user-access": "Certificate,Token"},
			},
			Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)},
		}
		mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "https://" + c + ".example.com", CABundle: []byte("ca")}}
		w.Make(mc)
		w.available(c, metav1.ConditionTrue)
	}
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p"}}
	w.Make(p)
	w.Make(&clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p-1", Labels: map[string]string{cluster.PlacementLabel: "p"}}})
	w.place(clusters...)
	lc := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "prod"}}
	lc.Spec.Placements = []v1alpha1.PlacementReference{{Name: "p"}}
	lc.Spec.Namespace.Name = w.name + "-apps"
	lc.Spec.Grants = []v1alpha1.Grant{{Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}, Users: []string{"jo"}, Groups: []string{"devs"}}}
	w.Make(lc)
	w.start()
	return w
}

// start runs the controller, stop ends it.
func (w *requestWorld) start() {
	w.Helper()
	w.writes = &testkit.Writes{}
	config := env.Config("muster-controllers")
	config.Wrap(w.writes.Wrap)
	env.StartManager(w, func(m manager.Manager) error {
		c, err := client.New(config, client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(), Cache: &client.CacheOptions{Reader: m.GetCache()}})
		if err != nil {
			return err
		}
		return accessrequest.NewController(c, m.GetAPIReader(), w.events, w.clock).Register(m)
	})
}

func (w *requestWorld) full(c string) string { return w.name + "-" + c }

func (w *requestWorld) available(c string, status metav1.ConditionStatus) {
	w.Helper()
	w.Report(w.cluster(c), `{"status":{"conditions":[{"type":%q,"status":%q,"reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, cluster.ConditionAvailable, status)
}

func (w *requestWorld) cluster(c string) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.full(c)}}
}

// place has the placement select clusters.
func (w *requestWorld) place(clusters ...string) {
	w.Helper()
	names := make([]string, 0, len(clusters))
	for _, c := range clusters {
		names = append(names, fmt.Sprintf(`{"clusterName":%q,"reason":""}`, w.full(c)))
	}
	w.Report(&clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p-1"}}, `{"status":{"decisions":[%s]}}`, strings.Join(names, ","))
	w.Report(&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "p"}}, `{"status":{"numberOfSelectedClusters":%d}}`, len(clusters))
}

func (w *requestWorld) cloud() *v1alpha1.LogicalCloud {
	w.Helper()
	lc := &v1alpha1.LogicalCloud{}
	w.Must(w.Get(context.Background(), client.ObjectKey{Namespace: w.name, Name: "prod"}, lc))
	return lc
}

// bind writes the cloud's work in a cluster with these keys, and has it applied.
func (w *requestWorld) bind(c string, applied bool, keys ...string) {
	w.Helper()
	ctx := context.Background()
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.full(c), Name: muster.CloudWork(w.name, "prod"),
		Labels:      map[string]string{muster.LogicalCloudLabel: muster.CloudID(w.name, "prod")},
		Annotations: map[string]string{muster.LogicalCloudAnnotation: w.name + "/prod", muster.BoundKeysAnnotation: strings.Join(keys, ",")},
	}}
	mw.Spec.Workload.Manifests = []workv1.Manifest{}
	if err := w.Get(ctx, client.ObjectKeyFromObject(mw), &workv1.ManifestWork{}); err != nil {
		w.Make(mw)
	} else {
		w.Merge(mw, `{"metadata":{"annotations":{%q:%q}},"spec":{"manifestConfigs":[{"resourceIdentifier":{"group":"","resource":"x","name":"k%d-%d","namespace":""},"updateStrategy":{"type":"Update"}}]}}`,
			muster.BoundKeysAnnotation, strings.Join(keys, ","), len(keys), time.Now().UnixNano())
	}
	if applied {
		w.apply(c)
	}
}

func (w *requestWorld) apply(c string) {
	w.Helper()
	mw := &workv1.ManifestWork{}
	w.Must(w.Get(context.Background(), client.ObjectKey{Namespace: w.full(c), Name: muster.CloudWork(w.name, "prod")}, mw))
	w.Report(mw, `{"status":{"conditions":[{"type":"Applied","status":"True","reason":"Test","message":"","observedGeneration":%d,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, mw.Generation)
}

// asked is a request of jo for a cluster, with its key.
type asked struct {
	w    *requestWorld
	key  *ecdsa.PrivateKey
	hash string
	*v1alpha1.AccessRequest
}

func (w *requestWorld) ask(c string, change ...func(*v1alpha1.AccessRequest)) *asked {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.Must(err)
	return w.askWith(key, c, change...)
}

func (w *requestWorld) askWith(key *ecdsa.PrivateKey, c string, change ...func(*v1alpha1.AccessRequest)) *asked {
	w.Helper()
	hash, err := access.KeyHash(key.Public())
	w.Must(err)
	csr, err := access.NewRequest(key, w.hubID, "jo")
	w.Must(err)
	r := &v1alpha1.AccessRequest{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, GenerateName: "r-", Finalizers: []string{muster.AccessFinalizer}}}
	r.Spec = v1alpha1.AccessRequestSpec{LogicalCloud: "prod", ManagedCluster: w.full(c), User: "jo", Mode: v1alpha1.AccessCertificate, Request: csr, ExpirationSeconds: 3600}
	r.Spec.Requester.Username = "jo"
	for _, f := range change {
		f(r)
	}
	w.Make(r)
	return &asked{w, key, hash, r}
}

// now is the request as it is.
func (a *asked) now() *v1alpha1.AccessRequest {
	a.w.Helper()
	r := &v1alpha1.AccessRequest{}
	a.w.Must(a.w.Get(context.Background(), client.ObjectKeyFromObject(a.AccessRequest), r))
	return r
}

// becomes waits for a condition, written as Issued=False/AgentOffline, and returns
// its message.
func (a *asked) becomes(want string) (message string) {
	a.w.Helper()
	kind, rest, _ := strings.Cut(want, "=")
	a.w.Eventually(func() error {
		c := meta.FindStatusCondition(a.now().Status.Conditions, kind)
		if c == nil || string(c.Status)+"/"+c.Reason != rest {
			return fmt.Errorf("want %s: %+v", want, a.now().Status.Conditions)
		}
		message = c.Message
		return nil
	})
	return message
}

// credential waits for what the agent is asked for.
func (a *asked) credential() *v1alpha1.ClusterCredential {
	a.w.Helper()
	c := &v1alpha1.ClusterCredential{}
	a.w.Eventually(func() error {
		return a.w.Get(context.Background(), client.ObjectKey{Namespace: a.Spec.ManagedCluster, Name: muster.Credential(string(a.UID))}, c)
	})
	return c
}

// sign is a certificate by the cluster, which change may falsify.
func (a *asked) sign(change ...func(*x509.Certificate)) []byte {
	a.w.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0xabcdef), Subject: access.Subject(a.w.hubID, "jo", a.hash), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore:   a.w.clock.Now().Add(-5 * time.Minute), NotAfter: a.w.clock.Now().Add(time.Hour),
	}
	for _, f := range change {
		f(template)
	}
	public := any(a.key.Public())
	if template.PublicKey != nil {
		public = template.PublicKey
	}
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.w.Must(err)
	der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{SerialNumber: big.NewInt(1)}, public, ca)
	a.w.Must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// answer is what the agent writes.
func (a *asked) answer(change func(*v1alpha1.ClusterCredentialStatus)) {
	a.w.Helper()
	c := a.credential()
	c.Status.Conditions = []metav1.Condition{{Type: muster.ConditionIssued, Status: metav1.ConditionTrue, Reason: "CertificateIssued", LastTransitionTime: metav1.Now()}}
	change(&c.Status)
	a.w.Must(a.w.Status().Update(context.Background(), c))
}

// issued is a request that has its certificate.
func (w *requestWorld) issued(c string) *asked {
	w.Helper()
	a := w.ask(c)
	a.becomes("Approved=True/Granted")
	w.bind(c, true, a.hash)
	a.answer(func(s *v1alpha1.ClusterCredentialStatus) { s.Certificate = a.sign() })
	a.becomes("Issued=True/CertificateIssued")
	return a
}

// poke has the controller look again, as a timer would.
func (a *asked) poke() {
	a.w.Helper()
	a.w.Merge(a.now(), `{"metadata":{"annotations":{"poke":"%d"}}}`, time.Now().UnixNano())
}

// reported are the events up to now.
func (w *requestWorld) reported() string {
	var out []string
	for {
		select {
		case e := <-w.events.Events:
			out = append(out, e)
		default:
			return strings.Join(out, "\n")
		}
	}
}
