package hostile

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// joinedBefore is the first agent, called a, of a cluster that has joined.
func joinedBefore(t *testing.T, name string) (agent *rest.Config) {
	t.Helper()
	agent = hub.Joined(t, name, "a")
	reportJoined(t, name, agent, metav1.ConditionTrue)
	return agent
}

func reportJoined(t *testing.T, name string, agent *rest.Config, status metav1.ConditionStatus) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	testkit.Must(t, testfleet.Client(t, agent).Status().Patch(context.Background(), mc, mergePatchf(
		`{"status":{"conditions":[{"type":"ManagedClusterJoined","status":%q,"reason":"ManagedClusterJoined","message":"",`+
			`"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, status)))
}

// ask makes a certificate request for an agent.
func ask(t *testing.T, config *rest.Config, name, agent string) (request *certificatesv1.CertificateSigningRequest, key []byte) {
	t.Helper()
	request, key = testfleet.CertificateRequest(t, name, agent)
	testkit.Must(t, testfleet.Client(t, config).Create(context.Background(), request))
	return request, key
}

// notApproved waits until the hub has looked at a request and said why it does
// not approve it, in these words, and reports whether it has left it undecided.
func notApproved(t *testing.T, request, words string) error {
	t.Helper()
	err := testkit.Poll(testkit.Timeout, func() error { return explained(t, request, words) })
	return errors.Join(err, undecided(t, request))
}

// explained reports whether an event says in these words why a request is not
// approved.
func explained(t *testing.T, request, words string) error {
	t.Helper()
	list, err := testfleet.Clientset(t, hub.Admin).EventsV1().Events("").List(context.Background(),
		metav1.ListOptions{FieldSelector: "regarding.name=" + request})
	if err != nil {
		return err
	}
	for _, e := range list.Items {
		if e.Reason == "CertificateRequestNotApproved" && strings.Contains(e.Note, words) {
			return nil
		}
	}
	return fmt.Errorf("no event of the request %s says %q: %v", request, words, notes(list.Items))
}

func notes(events []eventsv1.Event) (out []string) {
	for _, e := range events {
		out = append(out, e.Note)
	}
	return out
}

func undecided(t *testing.T, request string) error {
	t.Helper()
	r, err := testfleet.Clientset(t, hub.Admin).CertificatesV1().CertificateSigningRequests().Get(context.Background(), request, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(r.Status.Conditions) > 0 {
		return fmt.Errorf("the request %s is decided: %+v", request, r.Status.Conditions)
	}
	return nil
}

// rejoining is a token with which one cluster may join again.
func rejoining(t *testing.T, bound, name string) (secret *corev1.Secret, config *rest.Config) {
	t.Helper()
	secret, token := hub.BootstrapToken(t, cluster.BoundBootstrapGroup(bound), map[string]string{cluster.RejoinAnnotation: name})
	return secret, hub.WithToken(token)
}

// Once a cluster has joined, a token that was not made for joining again makes
// no second agent, for any holder and any request.
func TestATokenFromBeforeMakesNoSecondAgent(t *testing.T) {
	ctx := context.Background()
	const name = "rejoin-old"
	agent := joinedBefore(t, name)
	secret, token := hub.BootstrapToken(t, cluster.BoundBootstrapGroup(name), nil)
	holder := hub.WithToken(token)

	request, _ := ask(t, holder, name, "b")
	harmless(t, "a token from before asks for another agent", notApproved(t, request.Name, "has joined before"))
	request, _ = ask(t, holder, name, "a")
	harmless(t, "a token from before asks for the agent that is there", notApproved(t, request.Name, "has joined before"))

	allow := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, cluster.RejoinAnnotation, name))
	for who, config := range map[string]*rest.Config{"the token's holder": holder, "the agent": agent} {
		refused(t, who+" allows itself to join again", testfleet.Client(t, config).Patch(ctx, secret.DeepCopy(), allow))
	}
	// What the request says of itself is of no interest.
	request, _ = testfleet.CertificateRequest(t, name, "b")
	request.Annotations = map[string]string{cluster.RejoinAnnotation: name}
	testkit.Must(t, testfleet.Client(t, holder).Create(ctx, request))
	harmless(t, "a request allows itself to join again", notApproved(t, request.Name, "has joined before"))

	// A token for one cluster lets no other one join again, whatever its Secret says.
	_, other := rejoining(t, "rejoin-other", name)
	theirs, _ := testfleet.CertificateRequest(t, name, "b")
	refused(t, "another cluster's token asks", testfleet.Client(t, other).Create(ctx, theirs))
	_, elsewhere := rejoining(t, name, "rejoin-other")
	request, _ = ask(t, elsewhere, name, "b")
	harmless(t, "a token that lets another cluster join again", notApproved(t, request.Name, "has joined before"))
}

// A token that lets a cluster join again does so once, however many requests
// come at the same moment, and the agent from before has nothing from then on.
func TestJoiningAgainIsForOneAgent(t *testing.T) {
	ctx := context.Background()
	const name, many = "rejoin-once", 4 // and one more: a token may have five requests for a cluster
	old := joinedBefore(t, name)
	_, token := rejoining(t, name, name)

	requests, keys := make([]*certificatesv1.CertificateSigningRequest, many), make([][]byte, many)
	var asking sync.WaitGroup
	for i := range many {
		requests[i], keys[i] = testfleet.CertificateRequest(t, name, fmt.Sprintf("b%d", i))
		c := testfleet.Client(t, token)
		asking.Go(func() {
			if err := c.Create(ctx, requests[i]); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	chosen := -1
	testkit.Eventually(t, func() error {
		seen := 0
		for i, r := range requests {
			switch {
			case undecided(t, r.Name) != nil:
				chosen = i
				seen++
			case explained(t, r.Name, "has joined before") == nil:
				seen++
			}
		}
		if chosen < 0 || seen < many {
			return fmt.Errorf("%d of %d requests were looked at, the approved one is %d", seen, many, chosen)
		}
		return nil
	})
	for i, r := range requests {
		if i != chosen {
			harmless(t, "another request with the same token", undecided(t, r.Name))
		}
	}
	current := hub.WithCertificate(hub.Certificate(t, requests[chosen].Name), keys[chosen])
	again, _ := ask(t, token, name, fmt.Sprintf("b%d", chosen))
	harmless(t, "the token is used again, for the agent that it was used for", notApproved(t, again.Name, "has joined before"))

	renewal, _ := ask(t, current, name, fmt.Sprintf("b%d", chosen))
	hub.Certificate(t, renewal.Name)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	testkit.Must(t, hub.admin(t).Get(ctx, client.ObjectKeyFromObject(mc), mc))
	if got, want := mc.Annotations[cluster.AgentAnnotation], fmt.Sprintf("b%d", chosen); got != want {
		t.Errorf("the cluster's agent is %q, want %q", got, want)
	}
	// Who the agent is, is not for agents to say.
	testkit.Eventually(t, func() error { // the hub's controllers write, too, and agents may not patch
		if err := hub.admin(t).Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			return err
		}
		mc.Annotations[cluster.AgentAnnotation] = "z"
		return testfleet.Client(t, current).Update(ctx, mc)
	})
	testkit.Must(t, hub.admin(t).Get(ctx, client.ObjectKeyFromObject(mc), mc))
	var err error
	if got := mc.Annotations[cluster.AgentAnnotation]; got != fmt.Sprintf("b%d", chosen) {
		err = fmt.Errorf("the cluster's agent is %q now", got)
	}
	harmless(t, "the agent names another one", err)
	// The agent from before has lost everything, within a second.
	before, works := testfleet.Client(t, old), &workv1.ManifestWorkList{}
	renewal, _ = testfleet.CertificateRequest(t, name, "a")
	soonRefused(t, "the agent from before renews its certificate", func() error { return before.Create(ctx, renewal.DeepCopy()) })
	refused(t, "the agent from before lists its works", before.List(ctx, works, client.InNamespace(name)))
	refused(t, "the agent from before reads its cluster", before.Get(ctx, client.ObjectKeyFromObject(mc), mc.DeepCopy()))
	refused(t, "the agent from before makes itself the one again", before.Patch(ctx, mc.DeepCopy(), client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"a"}}}`, cluster.AgentAnnotation))))
	testkit.Must(t, testfleet.Client(t, current).List(ctx, works, client.InNamespace(name)))
}

// Joining again takes both opt-ins: the token and the acceptance.
func TestJoiningAgainTakesAnAcceptedCluster(t *testing.T) {
	ctx := context.Background()
	const name = "rejoin-denied"
	joinedBefore(t, name)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	accept := func(yes bool) {
		testkit.Must(t, hub.admin(t).Patch(ctx, mc, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"hubAcceptsClient":%t}}`, yes))))
	}
	accept(false)
	_, token := rejoining(t, name, name)
	request, _ := ask(t, token, name, "b")
	harmless(t, "a denied cluster joins again", notApproved(t, request.Name, "is not accepted"))
	accept(true)
	hub.Certificate(t, request.Name)
}

// A request that waits already is approved as soon as its token allows it, and
// an administrator's approval counts as much as a token.
func TestJoiningAgainIsAllowedAfterwards(t *testing.T) {
	ctx := context.Background()
	const name = "rejoin-late"
	joinedBefore(t, name)
	secret, token := hub.BootstrapToken(t, cluster.BoundBootstrapGroup(name), nil)
	request, _ := ask(t, hub.WithToken(token), name, "b")
	testkit.Must(t, notApproved(t, request.Name, "has joined before"))
	testkit.Must(t, hub.admin(t).Patch(ctx, secret, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, cluster.RejoinAnnotation, name))))
	hub.Certificate(t, request.Name)

	request, _ = ask(t, hub.WithToken(token), name, "c")
	testkit.Must(t, notApproved(t, request.Name, "has joined before"))
	testkit.Must(t, testfleet.Approve(ctx, testfleet.Clientset(t, hub.Admin), request))
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	testkit.Eventually(t, func() error {
		if err := hub.admin(t).Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
			return err
		}
		if got := mc.Annotations[cluster.AgentAnnotation]; got != "c" {
			return fmt.Errorf("the cluster's agent is %q, want c", got)
		}
		return nil
	})
}

// "muster rejoin" lets one agent in, by a token that is used up by it.
func TestRejoinCommandLetsOneAgentIn(t *testing.T) {
	const name = "rejoin-command"
	rejoin := func(args ...string) (string, error) {
		var out, errs strings.Builder
		cmd := exec.Command(program, append([]string{"rejoin", "--kubeconfig", hub.process.Kubeconfig}, args...)...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		return out.String(), errors.Join(err, errors.New(errs.String()))
	}
	if _, err := rejoin(name); !strings.Contains(err.Error(), "has no ManagedCluster") {
		t.Errorf("for a cluster that is not there: %v", err)
	}
	joinedBefore(t, name)
	content, err := rejoin(name)
	config, loadErr := clientcmd.RESTConfigFromKubeConfig([]byte(content))
	if loadErr != nil {
		t.Fatal(loadErr, err)
	}
	testfleet.LogsIn(t, config)
	request, _ := ask(t, config, name, "b")
	hub.Certificate(t, request.Name)
	request, _ = ask(t, config, name, "c")
	harmless(t, "the printed token is used for a second agent", notApproved(t, request.Name, "has joined before"))
}
