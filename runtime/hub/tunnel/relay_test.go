package tunnel_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	ends "github.com/muster-fleet/terraform-provider-muster/internal/tunnel"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/tunnel"
)

var env testenv.Env

func TestMain(m *testing.M) { testenv.Main(m, &env, testenv.Gated(kinds.HubWithUserAccess)) }

// world is a relay behind what an API server does before it.
type world struct {
	testing.TB
	client.Client
	*httptest.Server
	relay  *tunnel.Relay
	clock  *clocktesting.FakeClock
	tenant string
	stop   context.CancelFunc
	// admitted is called between the admission of jo's end and its connection.
	admitted func()
}

func newWorld(t testing.TB, replica string, limits tunnel.Limits) *world {
	w := &world{
		TB:     t,
		Client: env.Client(),
		clock:  clocktesting.NewFakeClock(time.Now()),
		tenant: testenv.Namespace(t, env.Client()),
	}
	w.relay = tunnel.New(tunnel.Options{
		Client: w.Client, Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(), Replica: replica, Limits: limits,
		Clock: w.clock, Log: logr.Discard(),
	})
	w.Server = httptest.NewServer(http.HandlerFunc(w.serve))
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	t.Cleanup(func() {
		cancel()
		w.CloseClientConnections()
		w.Close()
	})
	objects, err := cache.New(env.Config("test-relay"), cache.Options{Scheme: api.Scheme()})
	testkit.Must(t, err)
	go func() { _ = objects.Start(ctx) }()
	requests, err := objects.GetInformer(ctx, &v1alpha1.AccessRequest{})
	testkit.Must(t, err)
	credentials, err := objects.GetInformer(ctx, &v1alpha1.ClusterCredential{})
	testkit.Must(t, err)
	testkit.Must(t, w.relay.Follow(requests, credentials))
	go w.relay.Run(ctx)
	return w
}

// serve does what an API server does: it finds out what is asked for, and by whom.
func (w *world) serve(out http.ResponseWriter, r *http.Request) {
	factory := request.RequestInfoFactory{APIPrefixes: sets.NewString("apis"), GrouplessAPIPrefixes: sets.NewString()}
	info, err := factory.NewRequestInfo(r)
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	tunnel.Verb(info)
	ctx := request.WithUser(request.WithRequestInfo(r.Context(), info), &user.DefaultInfo{Name: r.UserAgent()})
	if r = r.WithContext(ctx); !tunnel.Matches(r) {
		http.Error(out, "not for the relay", http.StatusTeapot)
		return
	}
	if w.admitted != nil && r.UserAgent() == "jo" {
		out = hijacked{out, w.admitted}
	}
	w.relay.ServeHTTP(out, r)
}

// hijacked is an answer that calls a function before it becomes a connection.
type hijacked struct {
	http.ResponseWriter
	before func()
}

func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.before()
	return http.NewResponseController(h.ResponseWriter).Hijack()
}

// cluster makes a managed cluster whose agent takes tunnels.
func (w *world) cluster() string {
	w.Helper()
	name := testenv.Namespace(w, w.Client)
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{muster.TunnelAnnotation: "{}"}},
	}
	testkit.Must(w, w.Create(context.Background(), mc))
	w.Cleanup(func() { _ = w.Delete(context.Background(), mc) })
	return name
}

// access gives a user access to a cluster, as the hub's controllers do.
func (w *world) access(cluster, name string) *v1alpha1.AccessRequest {
	w.Helper()
	ctx := context.Background()
	a := &v1alpha1.AccessRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "a-" + rand.String(8)},
		Spec: v1alpha1.AccessRequestSpec{
			LogicalCloud:   "prod",
			ManagedCluster: cluster,
			User:           name,
			Mode:           v1alpha1.AccessToken,
		},
	}
	testkit.Must(w, w.Create(ctx, a))
	a.Status.Conditions = []metav1.Condition{{
		Type: muster.ConditionIssued, Status: metav1.ConditionTrue, Reason: "Issued", LastTransitionTime: metav1.Now(),
	}}
	testkit.Must(w, w.Status().Update(ctx, a))
	testkit.Must(w, w.Create(ctx, &v1alpha1.ClusterCredential{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: muster.Credential(string(a.UID))},
		Spec: v1alpha1.ClusterCredentialSpec{
			AccessRequest: v1alpha1.RequestReference{
				Namespace: a.Namespace,
				Name:      a.Name,
				UID:       a.UID,
			}, HubID: "01234567",
			Requester: name, User: name, Namespace: "x", Mode: v1alpha1.AccessToken, ExpirationSeconds: 600,
		},
	}))
	return a
}

func (w *world) dial(who, path, id string) (*websocket.Conn, error) {
	to, err := ends.At(&rest.Config{Host: w.URL, UserAgent: who}, path, id)
	testkit.Must(w, err)
	return to(context.Background())
}

func (w *world) asUser(a *v1alpha1.AccessRequest, who, id string) (*websocket.Conn, error) {
	return w.dial(who, ends.Path("accessrequests", a.Namespace, a.Name), id)
}

func (w *world) asAgent(a *v1alpha1.AccessRequest, id string) (*websocket.Conn, error) {
	credential := muster.Credential(string(a.UID))
	return w.dial("agent", ends.Path("clustercredentials", a.Spec.ManagedCluster, credential), id)
}

// open opens a tunnel of jo to a cluster.
func (w *world) open() (a *v1alpha1.AccessRequest, id string, jo, agent *websocket.Conn) {
	w.Helper()
	a, id = w.access(w.cluster(), "jo"), ends.NewID()
	jo, err := w.asUser(a, "jo", id)
	must(w, jo, err)
	agent, err = w.asAgent(a, id)
	return a, id, jo, must(w, agent, err)
}

func (w *world) entries(a *v1alpha1.AccessRequest) []v1alpha1.Tunnel {
	w.Helper()
	c := &v1alpha1.ClusterCredential{}
	testkit.Must(
		w,
		w.Get(
			context.Background(),
			client.ObjectKey{Namespace: a.Spec.ManagedCluster, Name: muster.Credential(string(a.UID))},
			c,
		),
	)
	return c.Spec.Tunnels
}

func must(t testing.TB, c *websocket.Conn, err error) *websocket.Conn {
	t.Helper()
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

func says(t testing.TB, c *websocket.Conn, err error, want string) {
	t.Helper()
	if err == nil {
		_ = c.CloseNow()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// passes sends a packet from one end to the other.
func passes(t testing.TB, from, to *websocket.Conn, packet string) {
	t.Helper()
	testkit.Must(t, from.Write(t.Context(), websocket.MessageBinary, []byte(packet)))
	_, got, err := to.Read(t.Context())
	testkit.Must(t, err)
	if string(got) != packet {
		t.Errorf("got %q, want %q", got, packet)
	}
}

// closes waits until an end is told the end of the tunnel.
func closes(t testing.TB, c *websocket.Conn, code websocket.StatusCode, want string) {
	t.Helper()
	for {
		_, _, err := c.Read(t.Context())
		if err == nil {
			continue
		}
		var closed websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != code || !strings.Contains(closed.Reason, want) {
			t.Errorf("it ends with %v, want %d and %q", err, code, want)
		}
		return
	}
}

func TestPacketsWaitForTheOtherEnd(t *testing.T) {
	w := newWorld(t, "", tunnel.Default())
	a, id := w.access(w.cluster(), "jo"), ends.NewID()
	jo, err := w.asUser(a, "jo", id)
	must(t, jo, err)
	testkit.Must(t, jo.Write(t.Context(), websocket.MessageBinary, []byte("early")))
	agent, err := w.asAgent(a, id)
	must(t, agent, err)
	if _, got, err := agent.Read(t.Context()); err != nil || string(got) != "early" {
		t.Errorf("got %q, %v", got, err)
	}
	passes(t, agent, jo, "back")
	passes(t, jo, agent, strings.Repeat("x", ends.MaxPacket))
	// Either end may come back by another connection.
	again, err := w.asUser(a, "jo", id)
	must(t, again, err)
	passes(t, again, agent, "by another connection")
	passes(t, agent, again, "back again")
	if entries := w.entries(a); len(entries) != 1 || entries[0].ID != id {
		t.Errorf("the entries are %+v", entries)
	}
}

// The agent may refuse before the user's end is there, which then hears why, and asks no more.
func TestUserHearsOfARefusalThatCameFirst(t *testing.T) {
	w := newWorld(t, "", tunnel.Default())
	a, id := w.access(w.cluster(), "jo"), ends.NewID()
	w.admitted = func() {
		agent, err := w.asAgent(a, id)
		must(t, agent, err)
		testkit.Must(t, agent.Close(websocket.StatusNormalClosure, "not at night"))
		testkit.Eventually(t, func() error {
			if left := w.entries(a); len(left) > 0 {
				return fmt.Errorf("the entries are %+v", left)
			}
			return nil
		})
	}
	jo, err := w.asUser(a, "jo", id)
	closes(t, must(t, jo, err), websocket.StatusNormalClosure, "the cluster's agent says: not at night")
}

func TestLimitsCountAllTunnelsThereAre(t *testing.T) {
	w := newWorld(
		t,
		"",
		tunnel.Limits{
			PerAccess: 2, PerUser: 3, PerCluster: 4, PerMinute: 1000, UserRate: 1 << 20, ClusterRate: 1 << 20,
		},
	)
	first, second := w.cluster(), w.cluster()
	open := func(a *v1alpha1.AccessRequest) (*websocket.Conn, error) {
		return w.asUser(a, a.Spec.User, ends.NewID())
	}
	jo := "jo-" + first // other tests have other users
	joFirst := w.access(first, jo)
	for range 2 {
		c, err := open(joFirst)
		must(t, c, err)
	}
	c, err := open(joFirst)
	says(t, c, err, "2 tunnels are open by this access request, and no more may be: close one")
	opensOnce := func(a *v1alpha1.AccessRequest) *websocket.Conn { // once the relay has heard of those before
		c, err := open(a)
		return must(t, c, err)
	}
	last := opensOnce(w.access(second, jo))
	eventually := func(a *v1alpha1.AccessRequest, want string) {
		testkit.Eventually(t, func() error {
			c, err := open(a)
			if err == nil {
				return errors.Join(errors.New("it opens"), c.Close(websocket.StatusNormalClosure, ""))
			}
			if !strings.Contains(err.Error(), want) {
				return fmt.Errorf("got %w, want %q", err, want)
			}
			return nil
		})
	}
	other := w.access(second, jo)
	eventually(other, `3 tunnels are open of the user "jo-`)
	for range 2 {
		opensOnce(w.access(first, jo+"-ann"))
	}
	eventually(w.access(first, jo+"-bob"), "4 tunnels are open to the cluster "+first)
	testkit.Must(t, last.Close(websocket.StatusNormalClosure, ""))
	testkit.Eventually(t, func() error {
		c, err := open(other)
		if err == nil {
			_ = c.CloseNow()
		}
		return err
	})
}

func TestTunnelsAreNotOpenedOverAndOver(t *testing.T) {
	limits := tunnel.Default()
	limits.PerMinute = 2
	w := newWorld(t, "", limits)
	a := w.access(w.cluster(), "jo")
	first := ends.NewID()
	for range 3 { // the same one counts once
		jo, err := w.asUser(a, "jo", first)
		must(t, jo, err)
	}
	jo, err := w.asUser(a, "jo", ends.NewID())
	must(t, jo, err)
	again := ends.NewID()
	jo, err = w.asUser(a, "jo", again)
	says(t, jo, err, `the user "jo" has opened 2 tunnels within a minute, and no more may be`)
	var final *ends.EndedError
	if errors.As(err, &final) {
		t.Error("the user's side would not try again")
	}
	w.clock.Step(time.Minute)
	jo, err = w.asUser(a, "jo", again)
	must(t, jo, err)
}

func TestTunnelEndsWhenItsUserStaysAway(t *testing.T) {
	w := newWorld(t, "", tunnel.Default())
	a, id, jo, agent := w.open()
	passes(t, jo, agent, "hello")
	testkit.Must(t, jo.CloseNow())
	testkit.Eventually(t, func() error {
		if !w.clock.HasWaiters() {
			return errors.New("nobody waits for the user")
		}
		return nil
	})
	w.clock.Step(ends.Silence)
	closes(t, agent, websocket.StatusNormalClosure, "the user's side has been gone for 2m0s")
	testkit.Eventually(t, func() error {
		if entries := w.entries(a); len(entries) > 0 {
			return fmt.Errorf("the entries %+v are left", entries)
		}
		return nil
	})
	again, err := w.asAgent(a, id)
	says(t, again, err, "has ended")
}

// After an outage the hub may not have heard of the cluster yet.
func TestUserComesBackToAClusterThatIsNotAvailable(t *testing.T) {
	w := newWorld(t, "", tunnel.Default())
	a, id := w.access(w.cluster(), "jo"), ends.NewID()
	jo, err := w.asUser(a, "jo", id)
	must(t, jo, err)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: a.Spec.ManagedCluster}}
	testkit.Must(t, w.Get(t.Context(), client.ObjectKeyFromObject(mc), mc))
	mc.Status.Conditions = []metav1.Condition{{
		Type: cluster.ConditionAvailable, Status: metav1.ConditionUnknown, Reason: "Silent", Message: "no heartbeat",
		LastTransitionTime: metav1.Now(),
	}}
	testkit.Must(t, w.Status().Update(t.Context(), mc))
	jo, err = w.asUser(a, "jo", id)
	must(t, jo, err)
	c, err := w.asUser(a, "jo", ends.NewID())
	says(t, c, err, "is not available, so its agent can't come to the other end: no heartbeat")
	if entries := w.entries(a); len(entries) != 1 {
		t.Errorf("the entries are %+v", entries)
	}
}

func TestTunnelGoesOverToAnotherReplica(t *testing.T) {
	one, two := newWorld(t, "one", tunnel.Default()), newWorld(t, "two", tunnel.Default())
	a, id := one.access(one.cluster(), "jo"), ends.NewID()
	jo, err := one.asUser(a, "jo", id)
	must(t, jo, err)
	wrong, err := two.asAgent(a, id)
	says(t, wrong, err, "the user's side is connected to the replica one of the hub: try again")
	var final *ends.EndedError
	if errors.As(err, &final) {
		t.Error("the agent would not try again")
	}
	agent, err := one.asAgent(a, id)
	must(t, agent, err)
	passes(t, jo, agent, "hello")
	one.stop()
	closes(t, jo, websocket.StatusGoingAway, "the hub is stopping")
	closes(t, agent, websocket.StatusGoingAway, "the hub is stopping")
	jo, err = two.asUser(a, "jo", id)
	must(t, jo, err)
	agent, err = two.asAgent(a, id)
	must(t, agent, err)
	passes(t, jo, agent, "hello again")
}

// The user's end may go over to another replica while the first one goes on: the agent's
// follows, and the first one takes no entry back that is not its any more.
func TestAgentFollowsTheUserToAnotherReplica(t *testing.T) {
	one, two := newWorld(t, "one", tunnel.Default()), newWorld(t, "two", tunnel.Default())
	a, id, jo, agent := one.open()
	passes(t, jo, agent, "hello")
	_ = jo.CloseNow()
	jo, err := two.asUser(a, "jo", id)
	must(t, jo, err)
	closes(t, agent, websocket.StatusGoingAway, "connected to another replica")
	agent, err = two.asAgent(a, id)
	must(t, agent, err)
	passes(t, jo, agent, "hello again")
	one.clock.Step(2 * ends.Silence)
	passes(t, agent, jo, "still here")
	if entries := one.entries(a); len(entries) != 1 || entries[0].Replica != "two" {
		t.Errorf("the entries are %+v", entries)
	}
}

func TestAgentGivesUpATunnelOfAReplicaThatIsGone(t *testing.T) {
	one, two := newWorld(t, "one", tunnel.Default()), newWorld(t, "two", tunnel.Default())
	a, id := one.access(one.cluster(), "jo"), ends.NewID()
	jo, err := one.asUser(a, "jo", id)
	must(t, jo, err)
	one.stop()
	path := ends.Path("clustercredentials", a.Spec.ManagedCluster, muster.Credential(string(a.UID)))
	testkit.Must(t, ends.GiveUp(t.Context(), &rest.Config{Host: two.URL}, path, id))
	if entries := two.entries(a); len(entries) > 0 {
		t.Errorf("the entries %+v are left", entries)
	}
}

func TestTunnelEndsWithAnother(t *testing.T) {
	for name, x := range map[string]struct {
		end  func(*world, *v1alpha1.AccessRequest)
		want string
	}{
		"access expires": {func(w *world, a *v1alpha1.AccessRequest) {
			a.Status.Conditions = append(a.Status.Conditions, metav1.Condition{
				Type: muster.ConditionExpired, Status: metav1.ConditionTrue, Reason: "Ended",
				LastTransitionTime: metav1.Now(),
			})
			testkit.Must(w, w.Status().Update(context.Background(), a))
		}, "access has ended"},
		"the request is deleted": {func(w *world, a *v1alpha1.AccessRequest) {
			testkit.Must(w, w.Delete(context.Background(), a))
		}, "access was withdrawn"},
		"the credential is deleted": {func(w *world, a *v1alpha1.AccessRequest) {
			c := &v1alpha1.ClusterCredential{}
			c.Namespace, c.Name = a.Spec.ManagedCluster, muster.Credential(string(a.UID))
			testkit.Must(w, w.Delete(context.Background(), c))
		}, "access was withdrawn"},
		"the agent is another": {func(w *world, a *v1alpha1.AccessRequest) {
			_, _ = w.asAgent(a, w.entries(a)[0].ID)
		}, "the cluster's agent has restarted"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "", tunnel.Default())
			a, _, jo, agent := w.open()
			passes(t, jo, agent, "hello")
			x.end(w, a)
			closes(t, jo, websocket.StatusNormalClosure, x.want)
		})
	}
}

func TestWhoMayNotOpenATunnel(t *testing.T) {
	w := newWorld(t, "", tunnel.Default())
	a := w.access(w.cluster(), "jo")
	c, err := w.asUser(a, "ann", ends.NewID())
	says(t, c, err, `it gives access to the user "jo", and you are "ann"`)
	c, err = w.asUser(a, "jo", "short")
	says(t, c, err, "32 hexadecimal digits")
	unable := w.access(w.cluster(), "jo")
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: unable.Spec.ManagedCluster}}
	testkit.Must(t, w.Get(t.Context(), client.ObjectKeyFromObject(mc), mc))
	mc.Annotations = nil
	testkit.Must(t, w.Update(t.Context(), mc))
	c, err = w.asUser(unable, "jo", ends.NewID())
	says(t, c, err, "takes no tunnels: start it with --user-access --tunnels")
	a.Status.Conditions[0].Status = metav1.ConditionFalse
	testkit.Must(t, w.Status().Update(t.Context(), a))
	c, err = w.asUser(a, "jo", ends.NewID())
	says(t, c, err, "it gives no access yet")
	if entries := w.entries(a); len(entries) > 0 {
		t.Errorf("the entries %+v were written", entries)
	}
}

// A right that is gone ends the tunnel, and an authorizer that fails ends none.
func TestRightsChanged(t *testing.T) {
	w := newWorld(t, "", tunnel.Default())
	decision, failure := authorizer.DecisionAllow, error(nil)
	w.relay.Authorizer = authorizer.AuthorizerFunc(
		func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetVerb() != "tunnel" || a.GetResource() != "accessrequests" || a.GetUser().GetName() != "jo" {
				t.Errorf("asked for %+v", a)
			}
			return decision, "", failure
		},
	)
	_, _, jo, agent := w.open()
	decision, failure = authorizer.DecisionNoOpinion, apierrors.NewServiceUnavailable("later")
	w.relay.RightsChanged(t.Context())
	passes(t, jo, agent, "hello")
	failure = nil
	w.relay.RightsChanged(t.Context())
	closes(t, jo, websocket.StatusNormalClosure, "the verb tunnel on accessrequests")
}

// BenchmarkOpenTunnels reports what a hub keeps for an open tunnel, both connections and the
// test's own ends of them included.
func BenchmarkOpenTunnels(b *testing.B) {
	const each = 250
	for b.Loop() {
		b.StopTimer()
		w := newWorld(
			b,
			"",
			tunnel.Limits{
				PerAccess: 16, PerUser: each, PerCluster: each, PerMinute: each,
				UserRate: 1 << 20, ClusterRate: 1 << 20,
			},
		)
		cluster := w.cluster()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		var a *v1alpha1.AccessRequest
		for i := range each {
			if i%16 == 0 {
				a = w.access(cluster, "jo")
			}
			id := ends.NewID()
			jo, err := w.asUser(a, "jo", id)
			must(b, jo, err)
			agent, err := w.asAgent(a, id)
			must(b, agent, err)
			testkit.Must(b, jo.Write(b.Context(), websocket.MessageBinary, make([]byte, 1200)))
			_, _, err = agent.Read(b.Context())
			testkit.Must(b, err)
		}
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		kept := float64(after.HeapAlloc+after.StackInuse) - float64(before.HeapAlloc+before.StackInuse)
		b.ReportMetric(kept/each/1024, "KiB/tunnel")
		b.StartTimer()
	}
}
