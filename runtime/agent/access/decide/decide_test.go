package decide_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/access/decide"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

func token(payload string) string {
	return "h." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".s"
}

func TestTokensAreCheckedBeforeTheyAreHandedOver(t *testing.T) {
	claims := func(namespace, name, uid string, lives int) string {
		return token(fmt.Sprintf(`{"iat":1000,"exp":%d,"kubernetes.io":{"namespace":%q,"serviceaccount":{"name":%q,"uid":%q}}}`, 1000+lives, namespace, name, uid))
	}
	for name, tc := range map[string]struct{ token, want string }{
		"the right one":         {claims("ns", "sa", "u", 3600), ""},
		"a little longer":       {claims("ns", "sa", "u", 3660), ""},
		"another namespace":     {claims("kube-system", "sa", "u", 3600), "withheld"},
		"another account":       {claims("ns", "default", "u", 3600), "withheld"},
		"an account of another": {claims("ns", "sa", "v", 3600), "withheld"},
		"too long":              {claims("ns", "sa", "u", 7200), "2h0m0s in place of 1h0m0s"},
		"without an end":        {token(`{"iat":1,"kubernetes.io":{"namespace":"ns","serviceaccount":{"name":"sa","uid":"u"}}}`), "withheld"},
		"nothing":               {"", "no token"},
		"not base64":            {"a.!.c", "no token"},
		"not JSON":              {token("x"), "no token"},
	} {
		err := decide.CheckToken(tc.token, "ns", "sa", "u", 3600)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if err != nil && len(tc.token) > 20 && strings.Contains(err.Error(), tc.token) {
			t.Errorf("%s: the token is in the error", name)
		}
	}
}

// What the hub deletes, and what has ended, is not taken up again.
func TestWhatHasEndedIsLeftAlone(t *testing.T) {
	with := func(change func(*v1alpha1.ClusterCredential)) decide.View {
		c := &v1alpha1.ClusterCredential{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "muster-access-u"}}
		change(c)
		return decide.View{ClusterName: "c1", HubID: "0123abcd", AgentNamespace: "agent", Credential: c, Now: time.Unix(1_900_000_000, 0)}
	}
	failed := func(reason, keyHash string) func(*v1alpha1.ClusterCredential) {
		return func(c *v1alpha1.ClusterCredential) {
			c.Status.KeyHash = keyHash
			c.Status.Conditions = []metav1.Condition{{Type: muster.ConditionFailed, Status: metav1.ConditionTrue, Reason: reason}}
		}
	}
	for name, tc := range map[string]struct {
		view decide.View
		want decide.Action
	}{
		"it is being deleted":          {with(func(c *v1alpha1.ClusterCredential) { now := metav1.Now(); c.DeletionTimestamp = &now }), decide.Nothing},
		"the signer was silent":        {with(failed(muster.ReasonSignerSilent, "")), decide.Nothing},
		"the hub has lied":             {with(failed(muster.ReasonRequestTampered, "")), decide.Nothing},
		"the owner took it back":       {with(failed(muster.ReasonRefusedByPolicy, "k")), decide.Nothing},
		"the owner may allow it now":   {with(failed(muster.ReasonRefusedByPolicy, "")), decide.Refuse},
		"the agent may have the right": {with(failed(muster.ReasonAgentUnable, "")), decide.Refuse},
	} {
		if got := decide.Next(tc.view); got.Action != tc.want {
			t.Errorf("%s: %+v, want the action %d", name, got, tc.want)
		}
	}
}
