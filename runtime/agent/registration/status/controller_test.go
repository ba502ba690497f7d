package status

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/fakewatch"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// bench is a controller between a pretend hub and a pretend cluster.
type bench struct {
	*Controller
	t      *testing.T
	clock  *clocktesting.FakeClock
	codes  map[string]int
	writes int
	beat   time.Time
}

func newBench(t *testing.T, accepted metav1.ConditionStatus, conditions ...metav1.Condition) *bench {
	t.Helper()
	// The hub has judged the clock, unless a test says otherwise.
	synced := metav1.Condition{Type: cluster.ConditionClockSynced, Status: metav1.ConditionTrue, Reason: "x"}
	if i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == cluster.ConditionClockSynced }); i < 0 {
		conditions = append(conditions, synced)
	} else if conditions[i].Status == "" {
		conditions = slices.Delete(conditions, i, i+1)
	}
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Status: clusterv1.ManagedClusterStatus{
		Conditions: append([]metav1.Condition{{Type: cluster.ConditionHubAccepted, Status: accepted, Reason: "x"}}, conditions...),
	}}
	b := &bench{t: t, clock: clocktesting.NewFakeClock(time.Unix(1_900_000_000, 0)), codes: map[string]int{"/livez": 200, "/version": 200}}
	hub := interceptor.NewClient(fake.NewClientBuilder().WithScheme(api.Scheme()).WithObjects(mc).WithStatusSubresource(mc).Build(), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			b.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	hub, hubWatches := fakewatch.Client(hub)
	local, localWatches := fakewatch.Client(fake.NewClientBuilder().WithScheme(api.Scheme()).WithObjects(node(false, "4", "4")).Build())
	p, _, _ := proberOf(t, b.codes)
	b.Controller = New(Options{
		ClusterName: "c1", HubURL: "https://hub", Hub: hub,
		Clusters:  mirror.New(mirror.Options[*clusterv1.ManagedCluster]{Client: hub, List: &clusterv1.ManagedClusterList{}}),
		Local:     local,
		LocalREST: p.client,
		LastBeat:  func() time.Time { return b.beat },
		Clock:     b.clock, Log: slog.New(slog.DiscardHandler),
	})
	b.fill()
	fakewatch.Await(t, hubWatches, 1)
	fakewatch.Await(t, localWatches, 3)
	return b
}

// fill runs the mirrors until they show something.
func (b *bench) fill() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.Clusters.Run(ctx) })
	running.Go(func() { b.nodes.Run(ctx) })
	running.Go(func() { b.facts.run(ctx) })
	running.Go(func() { b.present.Run(ctx) })
	b.t.Cleanup(func() { cancel(); running.Wait() })
	for _, ch := range []<-chan struct{}{b.Clusters.Filled(), b.nodes.Filled(), b.facts.known(), b.present.Filled()} {
		<-ch
	}
}

// look reconciles and returns the Available condition.
func (b *bench) look() (after time.Duration, available *metav1.Condition) {
	b.t.Helper()
	after, _ = b.reconcile(b.t.Context()) // the pretend server's version is none
	mc := &clusterv1.ManagedCluster{}
	if err := b.Hub.Get(b.t.Context(), client.ObjectKey{Name: "c1"}, mc); err != nil {
		b.t.Fatal(err)
	}
	return after, meta.FindStatusCondition(mc.Status.Conditions, cluster.ConditionAvailable)
}

func TestReportIsOneWriteAndThenNone(t *testing.T) {
	b := newBench(t, "True")
	for range 3 {
		b.look()
	}
	if b.writes != 1 {
		t.Errorf("%d writes, want 1", b.writes)
	}
	mc := &clusterv1.ManagedCluster{}
	if err := b.Hub.Get(t.Context(), client.ObjectKey{Name: "c1"}, mc); err != nil {
		t.Fatal(err)
	}
	cpu := mc.Status.Capacity["cpu"]
	if !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionJoined) || !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionAvailable) || cpu.String() != "4" {
		t.Errorf("got %+v", mc.Status)
	}
}

func TestFirstReportLetsTheHubJudgeTheClockFirst(t *testing.T) {
	b := newBench(t, "True", metav1.Condition{Type: cluster.ConditionClockSynced})
	again, _ := b.look()
	if b.writes != 0 || again != time.Second {
		t.Errorf("%d writes before the verdict, and another look after %s, want none and 1s", b.writes, again)
	}
	b.clock.Step(time.Second)
	b.look()
	if b.writes != 1 {
		t.Errorf("%d writes when the hub does not judge, want 1", b.writes)
	}
}

func TestNothingIsReportedWithAClockThatIsWrong(t *testing.T) {
	b := newBench(t, "True", metav1.Condition{Type: cluster.ConditionClockSynced, Status: metav1.ConditionFalse, Reason: "x"})
	if _, err := b.reconcile(t.Context()); err == nil || b.writes != 0 {
		t.Errorf("%d writes and the error %v", b.writes, err)
	}
}

func TestUnavailableAfterTwentySeconds(t *testing.T) {
	b := newBench(t, "True")
	b.look()
	b.codes["/livez"] = 500
	for _, step := range []struct {
		after time.Duration
		want  metav1.ConditionStatus
	}{{0, "True"}, {19 * time.Second, "True"}, {time.Second, "False"}} {
		b.clock.Step(step.after)
		again, available := b.look()
		if available.Status != step.want || again != 5*time.Second {
			t.Fatalf("%s later it is %s and looked at again after %s, want %s and 5s", step.after, available.Status, again, step.want)
		}
	}
	b.codes["/livez"] = 200
	if again, available := b.look(); available.Status != "True" || again != time.Minute {
		t.Errorf("after the recovery it is %s and looked at again after %s, want True and 1m", available.Status, again)
	}
}

func TestShortFailureIsForgotten(t *testing.T) {
	b := newBench(t, "True")
	b.look()
	for _, code := range []int{500, 200, 500} {
		b.codes["/livez"] = code
		b.clock.Step(15 * time.Second)
		if _, available := b.look(); available.Status != "True" {
			t.Fatalf("with %d it is %s", code, available.Status)
		}
	}
}

func TestTheHubsUnknownIsCorrectedOnlyByAnAgentWhoseHeartBeats(t *testing.T) {
	b := newBench(t, "True", metav1.Condition{Type: cluster.ConditionAvailable, Status: metav1.ConditionUnknown, Reason: cluster.ReasonLeaseUpdateStopped})
	if _, available := b.look(); available.Status != metav1.ConditionUnknown {
		t.Errorf("without a heartbeat it is %s", available.Status)
	}
	b.beat = b.clock.Now()
	if _, available := b.look(); available.Status != metav1.ConditionTrue {
		t.Errorf("with a heartbeat it is %s", available.Status)
	}
}

func TestNothingIsReportedUnlessAccepted(t *testing.T) {
	b := newBench(t, "False")
	b.look()
	if b.writes != 0 {
		t.Errorf("%d writes, want none", b.writes)
	}
}

func TestCertificateConditionIsReported(t *testing.T) {
	b := newBench(t, "True")
	b.Report(metav1.Condition{Type: cluster.ConditionCertificateRotated, Status: metav1.ConditionFalse, Reason: cluster.ReasonClientCertificateUpdateFailed, Message: cluster.MessageTooManyRequests})
	b.look()
	mc := &clusterv1.ManagedCluster{}
	if err := b.Hub.Get(t.Context(), client.ObjectKey{Name: "c1"}, mc); err != nil {
		t.Fatal(err)
	}
	if c := meta.FindStatusCondition(mc.Status.Conditions, "ClusterCertificateRotated"); c == nil || c.Message != "Stop creating csr since there are too many csr created already on hub" {
		t.Errorf("got %+v", c)
	}
}

func TestReleasedWhenTheClusterIsGone(t *testing.T) {
	b := newBench(t, "True")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: map[string]string{b.namespaces.label: managed}}}
	if err := b.Local.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	for changed := b.present.Subscribe(); len(b.present.Objects()) == 0; {
		<-changed
	}
	gone, _ := b.Clusters.Get("c1")
	if err := b.Hub.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	for changed := b.Clusters.Subscribe(); len(b.Clusters.Objects()) != 0; {
		<-changed
	}
	if _, err := b.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Local.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil {
		t.Fatal(err)
	}
	if got := ns.Labels[b.namespaces.label]; got != "false" {
		t.Errorf("the namespace's label is %q, want false", got)
	}
}
