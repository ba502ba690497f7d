package hostile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// claiming is a registration by a client ID, as from a cluster with a UID.
func claiming(clientID, uid string, labels map[string]string) *v1alpha1.ClusterRegistration {
	return &v1alpha1.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: string(uuid.NewUUID())},
		Spec:       v1alpha1.ClusterRegistrationSpec{ClientID: clientID, ClusterUID: uid, Labels: labels},
	}
}

// answer creates a registration and waits for the hub's answer.
func answer(t *testing.T, c client.Client, r *v1alpha1.ClusterRegistration) *metav1.Condition {
	t.Helper()
	testkit.Must(t, c.Create(context.Background(), r))
	var is *metav1.Condition
	testkit.Eventually(t, func() error {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if is = meta.FindStatusCondition(r.Status.Conditions, muster.ConditionRegistered); is == nil {
			return fmt.Errorf("the registration %s is not answered", r.Name)
		}
		return nil
	})
	return is
}

// unanswered is nil when a registration leads to no cluster, for a reason.
func unanswered(t *testing.T, c client.Client, r *v1alpha1.ClusterRegistration, reason string) error {
	t.Helper()
	if is := answer(t, c, r); is.Status != metav1.ConditionFalse || is.Reason != reason || r.Status.ClusterName != "" {
		return fmt.Errorf("the answer is %s %s, with the cluster %q: %s", is.Status, is.Reason, r.Status.ClusterName, is.Message)
	}
	return nil
}

// preparedCluster is accepted, and waits for the agent with a client ID.
func preparedCluster(t *testing.T, name, clientID string) {
	t.Helper()
	mc := clusterNamed(name, true)
	mc.Annotations = map[string]string{muster.ClientIDAnnotation: clientID}
	testkit.Must(t, hub.admin(t).Create(context.Background(), mc))
}

func managedCluster(t *testing.T, name string) *clusterv1.ManagedCluster {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	testkit.Must(t, hub.admin(t).Get(context.Background(), types.NamespacedName{Name: name}, mc))
	return mc
}

// A client ID is not a secret. Whatever token comes with one that is not its own gets no
// cluster: neither one that is prepared, nor one that has joined.
func TestATokenAloneTakesOverNoClientID(t *testing.T) {
	ctx := context.Background()
	preparedCluster(t, "ci-prepared", "store-1")
	joinedBefore(t, "ci-joined")
	testkit.Must(t, hub.admin(t).Patch(ctx, clusterNamed("ci-joined", true), mergePatchf(
		`{"metadata":{"annotations":{%q:"store-2",%q:"uid-of-the-first"}}}`, muster.ClientIDAnnotation, muster.ClusterUIDAnnotation)))
	before := managedCluster(t, "ci-joined")

	_, plain := hub.BootstrapToken(t, cluster.BootstrapGroup, nil)
	_, bound := hub.BootstrapToken(t, cluster.BoundBootstrapGroup("ci-other"), nil)
	_, named := hub.BootstrapToken(t, cluster.BootstrapGroup, map[string]string{cluster.TokenClientIDsAnnotation: "store-3"})
	for _, x := range []struct{ victim, id, uid, reason string }{
		{"ci-prepared", "store-1", "uid-of-a-thief", muster.ReasonProofRequired},
		{"ci-joined", "store-2", "uid-of-a-thief", muster.ReasonAnotherCluster},
		{"ci-joined", "store-2", "uid-of-the-first", muster.ReasonProofRequired}, // the UID is not a secret either
	} {
		holder := testfleet.Client(t, hub.WithToken(plain))
		harmless(t, "a token for any cluster claims "+x.victim, unanswered(t, holder, claiming(x.id, x.uid, nil), x.reason))
		request, _ := ask(t, hub.WithToken(plain), x.victim, "thief")
		harmless(t, "and asks for its certificate", undecided(t, request.Name))

		other := testfleet.Client(t, hub.WithToken(bound))
		harmless(t, "a token of another cluster claims "+x.victim, unanswered(t, other, claiming(x.id, x.uid, nil), muster.ReasonTokenNotFor))
		request, _ = testfleet.CertificateRequest(t, x.victim, "thief")
		refused(t, "and asks for its certificate", other.Create(ctx, request))

		elsewhere := testfleet.Client(t, hub.WithToken(named))
		refusedFor(t, "a token for another client ID claims "+x.victim, elsewhere.Create(ctx, claiming(x.id, x.uid, nil)), "none of them")
		request, _ = testfleet.CertificateRequest(t, x.victim, "thief")
		refusedFor(t, "and asks for its certificate", elsewhere.Create(ctx, request), cluster.RefusedUnregistered)
	}
	after := managedCluster(t, "ci-joined")
	if !maps.Equal(before.Annotations, after.Annotations) || managedCluster(t, "ci-prepared").Annotations[muster.ClusterUIDAnnotation] != "" {
		t.Errorf("the clusters have changed: %v, %v", before.Annotations, after.Annotations)
	}
}

// What looks like a client ID, to a person or to another program, is not that one.
func TestClientIDsThatOnlyLookLikeAnothers(t *testing.T) {
	ctx := context.Background()
	preparedCluster(t, "ci-looks", "Store-7")
	_, token := hub.BootstrapToken(t, cluster.BootstrapGroup, nil)
	holder := testfleet.Client(t, hub.WithToken(token))
	for _, id := range []string{
		"", " Store-7", "Store-7 ", "Store-7\n", "Store-7\x00", "Stоre-7" /* a Cyrillic о */, "Store\u200b-7", "Ｓtore-7", "Store-7-", ".Store-7",
		"a/../Store-7", "Store-7/status", "Store%2D7", "*", "Store-*", "Store-7,Store-8", "{{.}}", "$(id)", strings.Repeat("s", 254), strings.Repeat("s", 1<<20),
	} {
		refused(t, fmt.Sprintf("the client ID %.30q", id), holder.Create(ctx, claiming(id, "u", nil)))
	}
	// Case counts: these are other clusters, and get other names.
	names := map[string]bool{"ci-looks": true}
	for _, id := range []string{"store-7", "STORE-7", "store_7", "store.7", strings.Repeat("s", 253)} {
		r := claiming(id, "u", nil)
		is := answer(t, holder, r)
		var err error
		if is.Status != metav1.ConditionTrue || names[r.Status.ClusterName] {
			err = fmt.Errorf("the answer is %+v, and the cluster %q", is, r.Status.ClusterName)
		}
		harmless(t, fmt.Sprintf("the client ID %.30q", id), err)
		names[r.Status.ClusterName] = true
		t.Cleanup(func() { _ = hub.admin(t).Delete(ctx, clusterNamed(r.Status.ClusterName, false)) })
	}
}

// Labels decide who gets which works. An agent chooses those that its token allows.
func TestLabelsBeyondWhatTheTokenAllows(t *testing.T) {
	ctx := context.Background()
	_, token := hub.BootstrapToken(t, cluster.BootstrapGroup, map[string]string{
		cluster.TokenClusterLabelsAnnotation: "env=edge", cluster.TokenAllowedLabelsAnnotation: "site,team-*",
	})
	holder := testfleet.Client(t, hub.WithToken(token))
	r := claiming("ci-labels", "u", map[string]string{
		"site": "7", "team-a": "x", "env": "prod", "tier": "1", "Site": "8", "example.com/site": "9",
		cluster.ClusterSetLabel: "secrets", cluster.NameLabel: "paris", cluster.TokenLabel: "aaaaaa", muster.RegistrationLabel: "x", "node.kubernetes.io/x": "y",
	})
	is := answer(t, holder, r)
	t.Cleanup(func() { _ = hub.admin(t).Delete(ctx, clusterNamed(r.Status.ClusterName, false)) })
	labels := managedCluster(t, r.Status.ClusterName).Labels
	for key, want := range map[string]string{
		"site": "7", "team-a": "x", "env": "edge", "tier": "", "Site": "", "example.com/site": "", "node.kubernetes.io/x": "",
		cluster.ClusterSetLabel: "default", muster.RegistrationLabel: r.Name,
	} {
		var err error
		if labels[key] != want {
			err = fmt.Errorf("it is %q, want %q: %s", labels[key], want, is.Message)
		}
		harmless(t, "the label "+key, err)
	}
	if labels[cluster.TokenLabel] == "aaaaaa" || labels[cluster.NameLabel] == "paris" {
		t.Errorf("the agent has chosen %v", labels)
	}
	many := map[string]string{}
	for i := range 100_000 {
		many[fmt.Sprintf("team-%d", i)] = "x"
	}
	refused(t, "a hundred thousand labels", holder.Create(ctx, claiming("ci-many", "u", many)))
	for key, value := range map[string]string{"team-": "x", "team-/x": "x", "team-x": strings.Repeat("x", 64), "team-y": "a b", "": "x"} {
		refused(t, fmt.Sprintf("the label %q=%q", key, value), holder.Create(ctx, claiming("ci-label", "u", map[string]string{key: value})))
	}
}

// One token, ten thousand registrations at once: few get in, they make no more clusters
// than the token allows, and others are not kept waiting.
func TestTenThousandRegistrationsFromOneToken(t *testing.T) {
	ctx := context.Background()
	const all, clusters, atOnce = 10_000, 3, 32
	_, token := hub.BootstrapToken(t, cluster.BootstrapGroup, map[string]string{cluster.TokenMaxClustersAnnotation: fmt.Sprint(clusters)})
	holder := testfleet.Client(t, hub.WithToken(token))
	_, honest := hub.BootstrapToken(t, cluster.BootstrapGroup, nil)
	var made, turnedDown, next atomic.Int64
	var running sync.WaitGroup
	for range atOnce {
		running.Go(func() {
			for i := next.Add(1); i <= all; i = next.Add(1) {
				switch err := holder.Create(ctx, claiming(fmt.Sprintf("ci-flood-%d", i), "u", nil)); {
				case err == nil:
					made.Add(1)
				case apierrors.IsForbidden(err), apierrors.IsTooManyRequests(err):
					turnedDown.Add(1)
				default:
					t.Errorf("registration %d: %v", i, err)
				}
			}
		})
	}
	r := claiming("ci-honest", "u", nil)
	if is := answer(t, testfleet.Client(t, hub.WithToken(honest)), r); is.Status != metav1.ConditionTrue {
		t.Errorf("another token meanwhile: %+v", is)
	}
	running.Wait()
	t.Cleanup(func() { _ = hub.admin(t).Delete(ctx, clusterNamed(r.Status.ClusterName, false)) })
	if made.Load() != 200 || made.Load()+turnedDown.Load() != all {
		t.Errorf("%d registrations got in and %d were turned down, want 200 of %d in", made.Load(), turnedDown.Load(), all)
	}
	attempts.Add(all - 200)
	refusals.Add(turnedDown.Load())
	id, _, _ := strings.Cut(token, ".")
	testkit.Eventually(t, func() error { return settled(ctx, t, id) })
	list := &clusterv1.ManagedClusterList{}
	testkit.Must(t, hub.admin(t).List(ctx, list, client.MatchingLabels{cluster.TokenLabel: id}))
	if len(list.Items) != clusters {
		t.Errorf("the token has made %d clusters, want %d", len(list.Items), clusters)
	}
	for i := range list.Items {
		testkit.Must(t, hub.admin(t).Delete(ctx, &list.Items[i]))
	}
}

// settled is nil when each registration of a token is answered.
func settled(ctx context.Context, t *testing.T, token string) error {
	list := &v1alpha1.ClusterRegistrationList{}
	testkit.Must(t, hub.admin(t).List(ctx, list))
	waiting := slices.ContainsFunc(list.Items, func(r v1alpha1.ClusterRegistration) bool {
		return r.Spec.Token == token && meta.FindStatusCondition(r.Status.Conditions, muster.ConditionRegistered) == nil
	})
	if waiting {
		return fmt.Errorf("not all of %d registrations are answered", len(list.Items))
	}
	return nil
}

// Certificate requests are not secret, agents can read all. Sent once more, one is worth
// what its sender is.
func TestOldCertificateRequestsAreReplayed(t *testing.T) {
	ctx := context.Background()
	const name = "ci-replay"
	preparedCluster(t, name, "store-9")
	_, token := hub.BootstrapToken(t, cluster.BootstrapGroup, map[string]string{cluster.TokenClientIDsAnnotation: "store-9"})
	own := testfleet.Client(t, hub.WithToken(token))
	if is := answer(t, own, claiming("store-9", "uid-9", nil)); is.Status != metav1.ConditionTrue {
		t.Fatalf("the cluster does not register: %+v", is)
	}
	first, key := ask(t, hub.WithToken(token), name, "a")
	agent := hub.WithCertificate(hub.Certificate(t, first.Name), key)
	reportJoined(t, name, agent, metav1.ConditionTrue)
	replay := func() *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Labels: first.Labels}, Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: first.Spec.Request, SignerName: first.Spec.SignerName, Usages: first.Spec.Usages,
			},
		}
	}
	for what, config := range map[string]*rest.Config{"its own token": hub.WithToken(token), "a token for any cluster": plainToken(t)} {
		again := replay()
		testkit.Must(t, testfleet.Client(t, config).Create(ctx, again))
		harmless(t, "the first request is sent again with "+what, undecided(t, again.Name))
	}
	other := hub.Joined(t, "ci-replayer", "a")
	refused(t, "another cluster's agent sends it", testfleet.Client(t, other).Create(ctx, replay()))
	_, bound := hub.BootstrapToken(t, cluster.BoundBootstrapGroup("ci-replayer"), nil)
	refused(t, "another cluster's token sends it", testfleet.Client(t, hub.WithToken(bound)).Create(ctx, replay()))

	// Another agent has taken its place since. The former one has its key still.
	_, rejoin := rejoining(t, name, name)
	second, _ := ask(t, rejoin, name, "b")
	hub.Certificate(t, second.Name)
	soonRefused(t, "the former agent sends its first request again", func() error { return testfleet.Client(t, agent).Create(ctx, replay()) })
	again := replay()
	testkit.Must(t, testfleet.Client(t, rejoin).Create(ctx, again))
	harmless(t, "it is sent with the token that let the other one in", notApproved(t, again.Name, "has joined before"))
}

func plainToken(t *testing.T) *rest.Config {
	t.Helper()
	_, token := hub.BootstrapToken(t, cluster.BootstrapGroup, nil)
	return hub.WithToken(token)
}
