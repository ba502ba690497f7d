package access_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/hubmade"
)

// DCM's own flow: 202 until all clusters have answered, then 200, and later from what
// is stored.
func TestKubeconfigsAreHandedOutWhenAllClustersHaveAnswered(t *testing.T) {
	w := newHubMadeWorld(t, "a b c")
	if got := w.pending(w.ask(http.MethodGet, "jo", "")); got != "a:InProgress b:InProgress c:InProgress" {
		t.Errorf("missing are %s", got)
	}
	w.sync("a b c")
	w.answer("a", time.Hour, false)
	w.answer("b", time.Hour, true) // its signer refuses
	if got := w.pending(w.ask(http.MethodGet, "jo", "")); got != "c:InProgress" {
		t.Errorf("missing are %s", got)
	}
	w.answer("c", time.Hour, false)
	answer := w.ask(http.MethodGet, "jo", "")
	if answer.Code != http.StatusOK || answer.Header().Get("Content-Type") != "application/yaml" || answer.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("the answer is %d %v %s", answer.Code, answer.Header(), answer.Body)
	}
	config, err := clientcmd.Load(answer.Body.Bytes())
	w.Must(err)
	for _, c := range []string{"a", "b", "c"} {
		name := "jo@" + w.full(c)
		at, ok := config.Contexts[name]
		if !ok || at.Cluster != w.full(c) || at.Namespace != "apps" || config.Clusters[at.Cluster].Server != "https://"+c+".example:6443" ||
			string(config.Clusters[at.Cluster].CertificateAuthorityData) != "CA of "+c {
			t.Errorf("the context %s is %+v in\n%s", name, at, answer.Body)
			continue
		}
		who := config.AuthInfos[at.AuthInfo]
		if certificate := len(who.ClientCertificateData) > 0 && len(who.ClientKeyData) > 0; certificate == (c == "b") || (who.Token == "token-of-b") != (c == "b") {
			t.Errorf("the user of %s is %+v", name, who)
		}
	}
	if again := w.ask(http.MethodGet, "jo", ""); again.Code != http.StatusOK || !bytes.Equal(again.Body.Bytes(), answer.Body.Bytes()) {
		t.Errorf("the second answer is %d %s", again.Code, again.Body)
	}
	w.mustHaveRecorded(config.AuthInfos["jo@"+w.full("a")].ClientKeyData)

	w.selects("a") // the others leave
	w.sync("a")
	answer = w.ask(http.MethodGet, "jo", "")
	config, err = clientcmd.Load(answer.Body.Bytes())
	w.Must(err)
	if answer.Code != http.StatusOK || len(config.Contexts) != 1 || config.Contexts["jo@"+w.full("a")].AuthInfo != "jo" || len(w.requests("b")) != 0 {
		t.Errorf("the answer is %d %s", answer.Code, answer.Body)
	}
}

// mustHaveRecorded checks the events about kubeconfigs.
func (w *hubMadeWorld) mustHaveRecorded(key []byte) {
	w.Helper()
	list := &eventsv1.EventList{}
	w.Must(w.List(context.Background(), list, client.InNamespace(w.name)))
	handed := 0
	for _, e := range list.Items {
		if e.Reason == muster.EventKubeconfigHandedOut {
			handed++
			for _, part := range []string{`requester "jo"`, `user "jo"`, w.full("a"), "key ", "until "} {
				if !strings.Contains(e.Note, part) {
					w.Errorf("the event says %q, without %q", e.Note, part)
				}
			}
		}
		if strings.Contains(e.Note, "PRIVATE") || strings.Contains(e.Note, string(key)) {
			w.Errorf("the event has the key: %q", e.Note)
		}
	}
	if handed != 2 {
		w.Errorf("%d events, want one for each of 2 kubeconfigs", handed)
	}
}

func TestOnlyThoseWhoMayGetAKubeconfig(t *testing.T) {
	w := newHubMadeWorld(t, "a")
	boss := w.name + "-boss"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: boss}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}, ResourceNames: []string{"jo"}}}}
	w.Make(role)
	w.Make(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: boss},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: boss}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: boss}}})
	w.Eventually(func() error { // the authorizer learns of it by a watch
		if code := w.ask(http.MethodGet, boss, "?user=jo").Code; code != http.StatusAccepted {
			return context.DeadlineExceeded
		}
		return nil
	})
	for _, x := range []struct {
		method, who, query string
		code               int
		want               string
	}{
		{http.MethodGet, "eve", "?user=jo", http.StatusForbidden, "the verb impersonate on users"},
		{http.MethodGet, boss, "?user=al", http.StatusForbidden, "impersonate"},
		{http.MethodGet, "eve", "", http.StatusForbidden, "no grant of the logical cloud names the user"},
		{http.MethodHead, "jo", "", http.StatusMethodNotAllowed, ""},
		{http.MethodPost, "jo", "", http.StatusMethodNotAllowed, ""},
		{http.MethodDelete, "jo", "", http.StatusMethodNotAllowed, ""},
	} {
		answer := w.ask(x.method, x.who, x.query)
		if answer.Code != x.code || !strings.Contains(answer.Body.String(), x.want) || !strings.Contains(answer.Body.String(), `"kind":"Status"`) {
			t.Errorf("%s %s as %s: %d %s", x.method, x.query, x.who, answer.Code, answer.Body)
		}
		if x.code == http.StatusMethodNotAllowed && answer.Header().Get("Allow") != http.MethodGet {
			t.Errorf("%s: Allow is %q", x.method, answer.Header().Get("Allow"))
		}
	}
	w.ask(http.MethodGet, "eve", "?user=jo") // once more: an equal refusal is no further event
	list := &eventsv1.EventList{}
	w.Must(w.List(context.Background(), list, client.InNamespace(w.name)))
	var reported []string
	early := fmt.Sprintf("requester %q, user \"jo\"", boss) // before the authorizer had learned of the role
	for _, e := range list.Items {
		if e.Reason == muster.EventAccessRefused && e.Type == "Warning" && e.Regarding.Name == w.cloud().Name && !strings.Contains(e.Note, early) {
			reported = append(reported, e.Note)
		}
	}
	all := strings.Join(reported, "\n")
	for _, want := range []string{`requester "eve", user "jo": user "eve" may not have`, `user "al"`, `requester "eve", user "eve": no grant`} {
		if len(reported) != 3 || !strings.Contains(all, want) {
			t.Errorf("the events about refusals are\n%s\nwant 3 of them, and %s", all, want)
		}
	}
	lc := w.cloud()
	w.Merge(lc, `{"spec":{"access":{"keyPolicy":"UserHeld"}}}`)
	if answer := w.ask(http.MethodGet, "jo", ""); answer.Code != http.StatusConflict || !strings.Contains(answer.Body.String(), "muster access kubeconfig") {
		t.Errorf("a cloud of users who hold their keys: %d %s", answer.Code, answer.Body)
	}
	w.Remove(lc)
	if answer := w.ask(http.MethodGet, "jo", ""); answer.Code != http.StatusNotFound {
		t.Errorf("no cloud: %d %s", answer.Code, answer.Body)
	}
}

func TestAccessIsRenewedWithTheSameKeyBeforeItEnds(t *testing.T) {
	w := newHubMadeWorld(t, "a")
	w.sync("a")
	w.answer("a", time.Hour, false)
	wake := w.sync("a")
	if wake < 39*time.Minute || wake > 41*time.Minute {
		t.Errorf("the hub looks again in %s, want about 40 minutes", wake)
	}
	w.clock.SetTime(w.clock.Now().Add(wake + time.Second))
	w.sync("a")
	w.sync("a")
	if n := len(w.requests("a")); n != 2 {
		t.Fatalf("%d requests, want the old one and the new one", n)
	}
	if answer := w.ask(http.MethodGet, "jo", ""); answer.Code != http.StatusOK {
		t.Errorf("while access is renewed: %d %s", answer.Code, answer.Body)
	}
	w.answer("a", 3*time.Hour, false)
	all := w.requests("a")
	if all[0].Status.KeyHash != all[1].Status.KeyHash {
		t.Errorf("the keys are %s and %s", all[0].Status.KeyHash, all[1].Status.KeyHash)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Hour)) // the first has ended
	if answer := w.ask(http.MethodGet, "jo", ""); answer.Code != http.StatusOK {
		t.Errorf("after the renewal: %d %s", answer.Code, answer.Body)
	}
	w.clock.SetTime(w.clock.Now().Add(3 * time.Hour)) // so has the second, as the cluster is silent
	if answer := w.ask(http.MethodGet, "jo", ""); answer.Code != http.StatusAccepted {
		t.Errorf("after the end: %d %s", answer.Code, answer.Body)
	}
}

func TestAUserWhoIsNotGrantedAnythingAnyMoreLosesAll(t *testing.T) {
	w := newHubMadeWorld(t, "a")
	w.sync("a")
	w.answer("a", time.Hour, false)
	before := w.secrets()
	w.Merge(w.cloud(), `{"spec":{"grants":[]}}`)
	w.sync("a")
	if answer := w.ask(http.MethodGet, "jo", ""); answer.Code != http.StatusForbidden {
		t.Errorf("the answer is %d %s", answer.Code, answer.Body)
	}
	if len(before) != 1 || len(w.secrets()) != 0 || len(w.requests("a")) != 0 {
		t.Errorf("%d keys before, %d after, %d requests", len(before), len(w.secrets()), len(w.requests("a")))
	}
}

func TestAKeyThatWasWithdrawnIsReplaced(t *testing.T) {
	w := newHubMadeWorld(t, "a b")
	w.sync("a b")
	w.answer("a", time.Hour, false)
	w.answer("b", time.Hour, false)
	first := w.requests("a")[0].Status.KeyHash
	w.sync("b") // a leaves, and its certificate lives on
	lc := w.cloud()
	lc.Status.RevokedKeys = []v1alpha1.RevokedKey{{ManagedCluster: w.full("a"), KeyHash: first, Until: metav1.NewTime(w.clock.Now().Add(time.Hour))}}
	w.Must(w.Status().Update(context.Background(), lc))
	w.sync("a b")
	w.answer("a", time.Hour, false)
	if again := w.requests("a"); len(again) != 1 || again[0].Status.KeyHash == first {
		t.Errorf("the requests are %+v", again)
	}
	if answer := w.ask(http.MethodGet, "jo", ""); answer.Code != http.StatusOK { // b goes on with the first key
		t.Errorf("the answer is %d %s", answer.Code, answer.Body)
	}
}

func TestWhyAClusterIsMissingIsReported(t *testing.T) {
	w := newHubMadeWorld(t, "a b c")
	w.sync("a b c")
	w.answer("c", time.Hour, false)
	refused := w.requests("a")[0]
	refused.Status.Conditions = []metav1.Condition{{Type: muster.ConditionFailed, Status: metav1.ConditionTrue, Reason: muster.ReasonAgentUnable, Message: "no", LastTransitionTime: metav1.Now()}}
	w.Must(w.Status().Update(context.Background(), &refused))
	w.Merge(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.full("b")}}, `{"spec":{"hubAcceptsClient":false}}`)
	nowhere := w.requests("c")[0]
	nowhere.Status.Endpoints = nil
	w.Must(w.Status().Update(context.Background(), &nowhere))
	if got := w.pending(w.ask(http.MethodGet, "jo", "")); got != "a:AgentUnable b:ClusterNotAccepted c:EndpointUnknown" {
		t.Errorf("missing are %s", got)
	}
	for annotation, want := range map[string]string{
		`[{\"url\":`:               "it is not a list of endpoints in JSON",
		`[{\"url\":\"http://x\"}]`: "must begin with https://",
	} {
		w.Merge(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.full("c")}},
			`{"metadata":{"annotations":{"`+muster.EndpointsAnnotation+`":"`+annotation+`"}}}`)
		if body := w.ask(http.MethodGet, "jo", "").Body.String(); !strings.Contains(body, muster.EndpointsAnnotation) || !strings.Contains(body, want) {
			t.Errorf("with the annotation %s the hub says %s", annotation, body)
		}
	}
	if n := len(w.requests("a")); n != 1 {
		t.Fatalf("%d requests", n)
	}
	w.clock.SetTime(w.clock.Now().Add(11 * time.Minute))
	w.sync("a c")
	if again := w.requests("a"); len(again) != 1 || again[0].Name == refused.Name {
		t.Errorf("the requests after ten minutes are %+v, want another one", again)
	}
}

func TestKeysCanNotBeReadInTheStore(t *testing.T) {
	w := newHubMadeWorld(t, "a")
	ring, err := w.vault.Add(context.Background(), w.cloud(), "jo", nil)
	w.Must(err)
	text, err := ring[0].KeyPEM()
	w.Must(err)
	raw := ring[0].Certificate.D.Bytes() //nolint:staticcheck // what must not be found
	secret := w.secrets()[0]
	for _, clear := range [][]byte{[]byte("PRIVATE"), text, raw, ring[0].Token.Bytes()} {
		for _, form := range [][]byte{clear, []byte(base64.StdEncoding.EncodeToString(clear))} {
			if bytes.Contains(secret.Data["sealed"], form) {
				t.Error("the Secret has the key in clear")
			}
		}
	}
	again, err := w.vault.Get(context.Background(), w.cloud(), "jo")
	if err != nil || len(again) != 1 || !again[0].Certificate.Equal(ring[0].Certificate) {
		t.Errorf("read again: %v, %v", again, err)
	}
	other := w.cloud()
	other.UID = "another" // of the same name
	if got, err := w.vault.Get(context.Background(), other, "jo"); err != nil || got != nil {
		t.Errorf("another cloud reads %v, %v", got, err)
	}
	stranger, err := hubmade.NewVault(w.Client, bytes.Repeat([]byte{8}, 32))
	w.Must(err)
	if got, err := stranger.Get(context.Background(), w.cloud(), "jo"); err != nil || got != nil {
		t.Errorf("another hub reads %v, %v", got, err)
	}
}
