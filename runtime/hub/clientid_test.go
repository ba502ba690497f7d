package hub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// registrationOf is what an agent creates: its client ID, and the UID of its
// cluster.
func registrationOf(clientID, uid string) *musterv1alpha1.ClusterRegistration {
	return &musterv1alpha1.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: string(uuid.NewUUID())},
		Spec:       musterv1alpha1.ClusterRegistrationSpec{ClientID: clientID, ClusterUID: uid},
	}
}

// register creates a registration and waits for its answer.
func register(t testing.TB, c client.Client, r *musterv1alpha1.ClusterRegistration) *metav1.Condition {
	t.Helper()
	testkit.Must(t, c.Create(context.Background(), r))
	return answered(t, c, r, func(*metav1.Condition) bool { return true })
}

// answered waits for an answer as who has created the registration.
func answered(t testing.TB, c client.Client, r *musterv1alpha1.ClusterRegistration, wanted func(*metav1.Condition) bool) *metav1.Condition {
	t.Helper()
	var answer *metav1.Condition
	testkit.Eventually(t, func() error {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if answer = meta.FindStatusCondition(r.Status.Conditions, muster.ConditionRegistered); answer == nil || !wanted(answer) {
			return fmt.Errorf("the answer is %+v", answer)
		}
		return nil
	})
	return answer
}

// prepare makes a cluster with a client ID, as an administrator does.
func prepare(t testing.TB, name, clientID string) {
	t.Helper()
	mc := newCluster(name)
	mc.Annotations = map[string]string{muster.ClientIDAnnotation: clientID}
	testkit.Must(t, clientFor(t, admin).Create(context.Background(), mc))
}

func mustAnswer(t testing.TB, r *musterv1alpha1.ClusterRegistration, a *metav1.Condition, reason, name string) {
	t.Helper()
	if a.Reason != reason || r.Status.ClusterName != name || (a.Status == metav1.ConditionTrue) != (name != "") {
		t.Fatalf("the answer is %s %s for the cluster %q, want %s for %q: %s", a.Status, a.Reason, r.Status.ClusterName, reason, name, a.Message)
	}
}

// heard waits for an event about a cluster.
func heard(t testing.TB, name, reason, part string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		list := &eventsv1.EventList{}
		if err := clientFor(t, admin).List(context.Background(), list); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.Name == name && e.Reason == reason && strings.Contains(e.Note, part) {
				return nil
			}
		}
		return fmt.Errorf("no event %s of %s says %q", reason, name, part)
	})
}

func TestClientIDThatNobodyHasGetsACluster(t *testing.T) {
	id := clusterName(t, "new")
	secret, bootstrap := scoped(t, cluster.BootstrapGroup, map[string]string{
		cluster.TokenClusterLabelsAnnotation: "env=prod", cluster.TokenAllowedLabelsAnnotation: "site,team-*", cluster.TokenMaxClustersAnnotation: "1",
	})
	r := registrationOf(id, "uid-1")
	r.Spec.Labels = map[string]string{"site": "17", "team-a": "x", "env": "dev", cluster.ClusterSetLabel: "blue", "other": "y"}
	name := muster.DerivedClusterName(id)
	t.Cleanup(func() { _ = clientFor(t, admin).Delete(context.Background(), newCluster(name)) })
	answer := register(t, bootstrap, r)
	mustAnswer(t, r, answer, muster.ReasonRegistered, name)
	if want := "left out: " + cluster.ClusterSetLabel + ", env, other"; !strings.Contains(answer.Message, want) {
		t.Errorf("%q does not say %q", answer.Message, want)
	}
	token := strings.TrimPrefix(secret.Name, cluster.TokenSecretPrefix)
	if r.Spec.Token != token || r.Annotations[muster.RequesterAnnotation] != cluster.TokenUser(token) {
		t.Errorf("the hub notes the token %q and the requester %q", r.Spec.Token, r.Annotations[muster.RequesterAnnotation])
	}
	mc := waitForCluster(t, name, func(*clusterv1.ManagedCluster) error { return nil })
	for k, v := range map[string]string{"site": "17", "team-a": "x", "env": "prod", cluster.ClusterSetLabel: "default", cluster.TokenLabel: token, muster.RegistrationLabel: r.Name} {
		if mc.Labels[k] != v {
			t.Errorf("the label %s is %q, want %q", k, mc.Labels[k], v)
		}
	}
	if _, ok := mc.Labels["other"]; ok || mc.Spec.AcceptsClient() || mc.Annotations[muster.ClientIDAnnotation] != id || mc.Annotations[muster.ClusterUIDAnnotation] != "uid-1" {
		t.Errorf("the cluster is %+v", mc)
	}
	if got := usedBy(t, secret); got != name {
		t.Errorf("the token is used by %q", got)
	}

	// Killed before it knew its name, the agent asks again, with the same token or
	// another one. The labels stay.
	again := registrationOf(id, "uid-1")
	again.Spec.Labels = map[string]string{"site": "18"}
	mustAnswer(t, again, register(t, bootstrap, again), muster.ReasonRegistered, name)
	_, other := scoped(t, cluster.BootstrapGroup, nil)
	again = registrationOf(id, "uid-1")
	mustAnswer(t, again, register(t, other, again), muster.ReasonRegistered, name)
	if mc := waitForCluster(t, name, func(*clusterv1.ManagedCluster) error { return nil }); mc.Labels["site"] != "17" {
		t.Errorf("the label is %q now", mc.Labels["site"])
	}

	// A second cluster with the client ID hears no, and so does the first one's
	// administrator.
	double := registrationOf(id, "uid-2")
	mustAnswer(t, double, register(t, other, double), muster.ReasonAnotherCluster, "")
	heard(t, name, muster.ReasonAnotherCluster, "uid-2")

	// The token's limit holds, too.
	over := registrationOf(id+"-over", "uid-3")
	mustAnswer(t, over, register(t, bootstrap, over), muster.ReasonTokenUsedUp, "")
}

func TestPreparedClusterIsAdoptedWithAProof(t *testing.T) {
	ctx := context.Background()
	name, id := clusterName(t, "prepared"), clusterName(t, "store")
	prepare(t, name, id)
	_, plain := scoped(t, cluster.BootstrapGroup, nil)
	refused := registrationOf(id, "uid-1")
	mustAnswer(t, refused, register(t, plain, refused), muster.ReasonProofRequired, "")
	heard(t, name, muster.ReasonProofRequired, "uid-1")

	secret, named := scoped(t, cluster.BootstrapGroup, map[string]string{cluster.TokenClientIDsAnnotation: "x-1, " + id})
	r := registrationOf(id, "uid-1")
	mustAnswer(t, r, register(t, named, r), muster.ReasonRegistered, name)
	if got := usedBy(t, secret); got != name {
		t.Errorf("the token is used by %q", got)
	}
	waitForCluster(t, name, func(mc *clusterv1.ManagedCluster) error {
		if got := mc.Annotations[muster.ClusterUIDAnnotation]; got != "uid-1" {
			return fmt.Errorf("the cluster's UID is %q", got)
		}
		return nil
	})

	// The token is good for this cluster, and for no other.
	mustBeForbidden(t, "another client ID", named.Create(ctx, registrationOf("x-2", "uid-1")))
	mustBeForbidden(t, "a cluster by its name", named.Create(ctx, newCluster(clusterName(t, "by-name"))))
	foreign, _ := certificateRequest(t, clusterName(t, "foreign"), "a")
	mustBeForbidden(t, "another cluster's certificate", named.Create(ctx, foreign))
	request, _ := certificateRequest(t, name, "a")
	testkit.Must(t, named.Create(ctx, request))
	// It waits for the acceptance only.
	accept(t, name, true)
	if cert := certificate(t, request.Name); len(cert) == 0 {
		t.Error("no certificate")
	}
}

func TestPlainTokensRequestsWaitForAnAdministratorStill(t *testing.T) {
	ctx, id := context.Background(), clusterName(t, "waits")
	_, bootstrap := scoped(t, cluster.BootstrapGroup, nil)
	r := registrationOf(id, "uid-1")
	name := muster.DerivedClusterName(id)
	t.Cleanup(func() { _ = clientFor(t, admin).Delete(ctx, newCluster(name)) })
	mustAnswer(t, r, register(t, bootstrap, r), muster.ReasonRegistered, name)
	accept(t, name, true)
	request, _ := certificateRequest(t, name, "a")
	testkit.Must(t, bootstrap.Create(ctx, request))
	waitForCluster(t, name, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionTrue, cluster.ReasonHubAccepted))
	for until := time.Now().Add(300 * time.Millisecond); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		now := &certificatesv1.CertificateSigningRequest{}
		testkit.Must(t, clientFor(t, admin).Get(ctx, client.ObjectKeyFromObject(request), now))
		if len(now.Status.Conditions) > 0 {
			t.Fatalf("the request was decided: %+v", now.Status.Conditions)
		}
	}
}

func TestBoundTokenBringsItsClusterAClientID(t *testing.T) {
	name, id := clusterName(t, "bound"), clusterName(t, "id")
	testkit.Must(t, clientFor(t, admin).Create(context.Background(), newCluster(name)))
	_, bootstrap := scoped(t, cluster.BoundBootstrapGroup(name), nil)
	r := registrationOf(id, "uid-1")
	mustAnswer(t, r, register(t, bootstrap, r), muster.ReasonRegistered, name)
	waitForCluster(t, name, func(mc *clusterv1.ManagedCluster) error {
		if mc.Annotations[muster.ClientIDAnnotation] != id || mc.Annotations[muster.ClusterUIDAnnotation] != "uid-1" {
			return fmt.Errorf("annotations %v", mc.Annotations)
		}
		return nil
	})
	// One that is not there is created, as the token's holder could do it, too.
	missing := clusterName(t, "missing")
	_, bootstrap = scoped(t, cluster.BoundBootstrapGroup(missing), map[string]string{cluster.TokenClusterLabelsAnnotation: "env=prod"})
	r = registrationOf(id+"-2", "uid-2")
	mustAnswer(t, r, register(t, bootstrap, r), muster.ReasonRegistered, missing)
	waitForCluster(t, missing, func(mc *clusterv1.ManagedCluster) error {
		if mc.Labels["env"] != "prod" {
			return fmt.Errorf("labels %v", mc.Labels)
		}
		return nil
	})
}

func TestClientIDOfTwoClustersIsNobodys(t *testing.T) {
	ctx := context.Background()
	a, b, id := clusterName(t, "first"), clusterName(t, "second"), clusterName(t, "id")
	prepare(t, a, id)
	prepare(t, b, id)
	_, bootstrap := scoped(t, cluster.BootstrapGroup, map[string]string{cluster.TokenClientIDsAnnotation: id})
	r := registrationOf(id, "uid-1")
	mustAnswer(t, r, register(t, bootstrap, r), muster.ReasonClientIDNotUnique, "")
	heard(t, a, muster.ReasonClientIDNotUnique, id)
	heard(t, b, muster.ReasonClientIDNotUnique, id)
	// It is judged again once there is one.
	testkit.Must(t, clientFor(t, admin).Patch(ctx, newCluster(b), client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, muster.ClientIDAnnotation))))
	answer := answered(t, bootstrap, r, func(a *metav1.Condition) bool { return a.Status == metav1.ConditionTrue })
	mustAnswer(t, r, answer, muster.ReasonRegistered, a)
}

func TestTokenThatEndsBeforeTheAnswer(t *testing.T) {
	ctx, id := context.Background(), clusterName(t, "ends")
	name := clusterName(t, "prepared")
	prepare(t, name, id)
	secret, bootstrap := scoped(t, cluster.BootstrapGroup, nil)
	r := registrationOf(id, "uid-1")
	mustAnswer(t, r, register(t, bootstrap, r), muster.ReasonProofRequired, "")
	testkit.Must(t, clientFor(t, admin).Delete(ctx, secret))
	answer := answered(t, clientFor(t, admin), r, func(a *metav1.Condition) bool { return a.Reason == muster.ReasonTokenGone })
	if !strings.Contains(answer.Message, "revoked") {
		t.Error(answer.Message)
	}
}

func TestRegistrationOfADeletedClusterGoes(t *testing.T) {
	ctx, id := context.Background(), clusterName(t, "deleted")
	_, bootstrap := scoped(t, cluster.BootstrapGroup, nil)
	r := registrationOf(id, "uid-1")
	mustAnswer(t, r, register(t, bootstrap, r), muster.ReasonRegistered, muster.DerivedClusterName(id))
	testkit.Must(t, clientFor(t, admin).Delete(ctx, newCluster(r.Status.ClusterName)))
	testkit.Eventually(t, func() error {
		if err := bootstrap.Get(ctx, client.ObjectKeyFromObject(r), r); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the registration is still there (%v)", err)
		}
		return nil
	})
}

// What the holder of a token may not do with registrations.
func TestHostileRegistrations(t *testing.T) {
	ctx := context.Background()
	_, bootstrap := scoped(t, cluster.BootstrapGroup, nil)
	victim, _ := scoped(t, cluster.BootstrapGroup, nil)
	forged := registrationOf("forged-1", "u")
	forged.Spec.Token = strings.TrimPrefix(victim.Name, cluster.TokenSecretPrefix)
	mustBeForbidden(t, "another one's token", bootstrap.Create(ctx, forged))
	guessable := registrationOf("short-1", "u")
	guessable.Name = "paris"
	generated := registrationOf("short-2", "u")
	generated.Name, generated.GenerateName = "", "request-"
	strange := registrationOf("short-3", "u")
	strange.Spec.Labels = map[string]string{"a b": "c"}
	for name, r := range map[string]*musterv1alpha1.ClusterRegistration{"a short name": guessable, "a generated name": generated, "no label": strange} {
		if err := bootstrap.Create(ctx, r); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// The requester can't be made up, and nobody but agents registers.
	lied := registrationOf(clusterName(t, "lied"), "u")
	lied.Annotations = map[string]string{muster.RequesterAnnotation: "alice"}
	testkit.Must(t, bootstrap.Create(ctx, lied))
	if got := lied.Annotations[muster.RequesterAnnotation]; !strings.HasPrefix(got, "system:bootstrap:") {
		t.Errorf("the requester is %q", got)
	}
	t.Cleanup(func() { _ = clientFor(t, admin).Delete(ctx, newCluster(muster.DerivedClusterName(lied.Spec.ClientID))) })
	mustBeForbidden(t, "an administrator", clientFor(t, admin).Create(ctx, registrationOf("admin-1", "u")))
	// An answer is final, and not the agent's to give.
	lied.Status.ClusterName = "paris"
	mustBeForbidden(t, "an answer", bootstrap.Status().Update(ctx, lied))
	mustBeForbidden(t, "a change", bootstrap.Update(ctx, lied))
	mustBeForbidden(t, "a list", bootstrap.List(ctx, &musterv1alpha1.ClusterRegistrationList{}))
	testkit.Must(t, clientFor(t, admin).Get(ctx, client.ObjectKeyFromObject(lied), lied))
	lied.Spec.ClientID = "changed-1"
	if err := clientFor(t, admin).Update(ctx, lied); !apierrors.IsInvalid(err) {
		t.Errorf("the spec can be changed: %v", err)
	}

	// A client ID can't be had by creating a cluster, or by writing one's own.
	squatter := newCluster(clusterName(t, "squatter"))
	for _, key := range []string{muster.ClientIDAnnotation, muster.ClusterUIDAnnotation} {
		squatter.Annotations = map[string]string{key: "x"}
		mustBeForbidden(t, key, bootstrap.Create(ctx, squatter.DeepCopy()))
	}
	squatter.Annotations, squatter.Labels = nil, map[string]string{muster.RegistrationLabel: "x"}
	mustBeForbidden(t, muster.RegistrationLabel, bootstrap.Create(ctx, squatter))
	own := clusterName(t, "own")
	agent := clientFor(t, joined(t, own, "a"))
	mc := newCluster(own)
	testkit.Must(t, agent.Get(ctx, client.ObjectKeyFromObject(mc), mc))
	mc.Annotations = map[string]string{muster.ClientIDAnnotation: "store-17", muster.ClusterUIDAnnotation: "u"}
	testkit.Must(t, agent.Update(ctx, mc))
	if mc.Annotations[muster.ClientIDAnnotation] != "" || mc.Annotations[muster.ClusterUIDAnnotation] != "" {
		t.Errorf("an agent has written %v", mc.Annotations)
	}
}

func TestFloodOfRegistrations(t *testing.T) {
	ctx := context.Background()
	_, bootstrap := scoped(t, cluster.BootstrapGroup, nil)
	var err error
	count := 0
	for ; err == nil && count < 1000; count++ {
		r := registrationOf("flood", "u")
		if err = bootstrap.Create(ctx, r, client.DryRunAll); err == nil && count > 300 {
			err = bootstrap.Create(ctx, r) // what is only tried does not count
		}
		if err == nil && count > 300 {
			testkit.Must(t, clientFor(t, admin).Delete(ctx, r))
		}
	}
	t.Cleanup(func() { _ = clientFor(t, admin).Delete(ctx, newCluster(muster.DerivedClusterName("flood"))) })
	mustBeForbidden(t, "a flood", err)
	if want := "has created 200 cluster registrations within 5m0s"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say %q", err, want)
	}
	if count != 502 {
		t.Errorf("it ended at %d", count)
	}
	// Others go on.
	_, other := scoped(t, cluster.BootstrapGroup, nil)
	testkit.Must(t, other.Create(ctx, registrationOf("flood", "u"), client.DryRunAll))
}

func TestTokenWhoseScopeIsNonsense(t *testing.T) {
	for key, value := range map[string]string{
		cluster.TokenClientIDsAnnotation:     "a,-b",
		cluster.TokenAllowedLabelsAnnotation: "env,cluster.open-cluster-management.io/clusterset",
	} {
		_, bootstrap := scoped(t, cluster.BootstrapGroup, map[string]string{key: value})
		err := bootstrap.Create(context.Background(), registrationOf("nonsense", "u"))
		mustBeForbidden(t, key, err)
		if !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
}
