package admission

import (
	"cmp"
	"context"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// asAgent writes an object over another as an agent of paris does.
func asAgent(t *testing.T, subresource, now, before string, groups ...string) any {
	t.Helper()
	if len(groups) == 0 {
		groups = []string{cluster.Group("paris"), cluster.ManagedClustersGroup}
	}
	object, old := object([]byte(now)), object([]byte(before))
	a := admission.NewAttributesRecord(object, old, schema.GroupVersionKind{}, "", "paris", clusterv1.GroupVersion.WithResource("managedclusters"),
		subresource, admission.Update, nil, false, &user.DefaultInfo{Name: "system:open-cluster-management:paris:a", Groups: groups})
	if err := (agentWrites{}).Admit(context.Background(), a, nil); err != nil {
		t.Fatal(err)
	}
	return object.Object
}

func TestAgentsChangeOnlyWhatIsTheirs(t *testing.T) {
	const before = `{"metadata":{"labels":{"env":"edge","muster-fleet.io/bootstrap-token":"abcdef","cluster.open-cluster-management.io/clusterset":"blue"},
		"annotations":{"note":"x","agent.open-cluster-management.io/a":"1"},"finalizers":["f"],"managedFields":[{"manager":"admin"}]},
		"spec":{"hubAcceptsClient":true,"leaseDurationSeconds":60,"taints":[{"key":"k","effect":"NoSelect","timeAdded":"2026-01-01T00:00:00Z"}],"managedClusterClientConfigs":[{"url":"https://a"}]}}`
	for name, x := range map[string]struct {
		before, now, want string // before is the one above by default
		groups            []string
	}{
		"what it read": {now: before, want: before},
		"its addresses and annotations": {
			now: `{"metadata":{"labels":{"env":"edge","muster-fleet.io/bootstrap-token":"abcdef","cluster.open-cluster-management.io/clusterset":"blue"},
				"annotations":{"note":"x","agent.open-cluster-management.io/b":"2"},"finalizers":["f"],"managedFields":[{"manager":"agent"}]},
				"spec":{"hubAcceptsClient":true,"leaseDurationSeconds":60,"taints":[{"key":"k","effect":"NoSelect","timeAdded":"2026-01-01T00:00:00Z"}],"managedClusterClientConfigs":[{"url":"https://b"}]}}`,
			want: `{"metadata":{"labels":{"env":"edge","muster-fleet.io/bootstrap-token":"abcdef","cluster.open-cluster-management.io/clusterset":"blue"},
				"annotations":{"note":"x","agent.open-cluster-management.io/b":"2"},"finalizers":["f"],"managedFields":[{"manager":"agent"}]},
				"spec":{"hubAcceptsClient":true,"leaseDurationSeconds":60,"taints":[{"key":"k","effect":"NoSelect","timeAdded":"2026-01-01T00:00:00Z"}],"managedClusterClientConfigs":[{"url":"https://b"}]}}`,
		},
		"the request to renew its certificate, once it has": {
			before: strings.Replace(before, `"note":"x"`, `"note":"x","muster-fleet.io/renew-certificate":"1"`, 1), now: before, want: before,
		},
		"no such request of its own": {
			now: strings.Replace(before, `"note":"x"`, `"note":"x","muster-fleet.io/renew-certificate":"1"`, 1), want: before,
		},
		"nothing else": {
			now: `{"metadata":{"labels":{"env":"prod","own":"x"},"annotations":{"note":"y","open-cluster-management.io/automatically-accepted-on":"now","agent.open-cluster-management.io/a":"1"},
				"ownerReferences":[{"uid":"u"}],"managedFields":[{"manager":"agent"}]},
				"spec":{"leaseDurationSeconds":2147483647,"taints":[],"managedClusterClientConfigs":[{"url":"https://a"}]}}`,
			want: before,
		},
		"no fields at all": {
			now: `{"metadata":{"managedFields":[]}}`,
			want: `{"metadata":{"labels":{"env":"edge","muster-fleet.io/bootstrap-token":"abcdef","cluster.open-cluster-management.io/clusterset":"blue"},
				"annotations":{"note":"x"},"finalizers":["f"],"managedFields":[{"manager":"admin"}]},
				"spec":{"hubAcceptsClient":true,"leaseDurationSeconds":60,"taints":[{"key":"k","effect":"NoSelect","timeAdded":"2026-01-01T00:00:00Z"}]}}`,
		},
		"with the group that has no prefix": {
			groups: []string{cluster.GroupWithoutPrefix("paris")},
			now:    `{"metadata":{"labels":{"env":"prod"},"annotations":{"agent.open-cluster-management.io/a":"1"}},"spec":{"managedClusterClientConfigs":[{"url":"https://a"}]}}`,
			want:   before,
		},
		"an administrator changes all": {
			groups: []string{"system:masters"},
			now:    `{"metadata":{"labels":{"env":"prod"}}}`, want: `{"metadata":{"labels":{"env":"prod"}}}`,
		},
		"an agent of an add-on is none": {
			groups: []string{"system:open-cluster-management:cluster:paris:addon:search"},
			now:    `{"metadata":{"labels":{"env":"prod"}}}`, want: `{"metadata":{"labels":{"env":"prod"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := asAgent(t, "", x.now, cmp.Or(x.before, before), x.groups...)
			if want := object([]byte(x.want)).Object; !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%v, want\n%v", got, want)
			}
		})
	}

	// What upstream refuses in words is left to be refused.
	moved := as[clusterv1.ManagedCluster](t, object([]byte(`{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":"blue","env":"prod"}},"spec":{"hubAcceptsClient":true}}`)))
	const denied = `{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":"red","env":"edge"}},"spec":{"hubAcceptsClient":false}}`
	got := asAgent(t, "", `{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":"blue","env":"prod"}},"spec":{"hubAcceptsClient":true}}`, denied)
	if want := object([]byte(`{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":"blue","env":"edge"}},"spec":{"hubAcceptsClient":true}}`)).Object; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v (sent %v)", got, want, moved)
	}
}

func TestAgentsDoNotSetTheHubsConditions(t *testing.T) {
	const (
		accepted = `{"type":"HubAcceptedManagedCluster","status":"True"}`
		denied   = `{"type":"HubAcceptedManagedCluster","status":"False"}`
		skewed   = `{"type":"ManagedClusterConditionClockSynced","status":"False"}`
		synced   = `{"type":"ManagedClusterConditionClockSynced","status":"True"}`
		joined   = `{"type":"ManagedClusterJoined","status":"True","message":"a"}`
		rejoined = `{"type":"ManagedClusterJoined","status":"True","message":"b"}`
		unjoined = `{"type":"ManagedClusterJoined","status":"False"}`
		up       = `{"type":"ManagedClusterConditionAvailable","status":"True"}`
		down     = `{"type":"ManagedClusterConditionAvailable","status":"False"}`
		emptied  = `{"type":"Deleting","status":"True"}`
	)
	list := func(conditions ...string) string {
		out := ""
		for i, c := range conditions {
			if i > 0 {
				out += ","
			}
			out += c
		}
		return `{"status":{"version":{"kubernetes":"v1"},"conditions":[` + out + `]}}`
	}
	for name, x := range map[string]struct{ now, before, want string }{
		"what it read":               {list(accepted, joined, up), list(accepted, joined, up), list(accepted, joined, up)},
		"its own":                    {list(accepted, skewed, rejoined, down), list(accepted, skewed, joined, up), list(accepted, skewed, rejoined, down)},
		"the first report":           {list(accepted, joined, up), list(accepted), list(accepted, joined, up)},
		"that it is accepted":        {list(accepted, up), list(denied), list(denied, up)},
		"that it was never judged":   {list(up), list(denied, synced), list(up, denied, synced)},
		"a good clock":               {list(synced), list(skewed), list(skewed)},
		"a verdict before there is":  {list(accepted, emptied, up), list(), list(up)},
		"that it has never joined":   {list(accepted, unjoined), list(accepted, joined), list(accepted, joined)},
		"nothing":                    {`{"status":{}}`, list(accepted, joined, up), `{"status":{"conditions":[` + accepted + "," + joined + `]}}`},
		"no status":                  {`{}`, list(accepted, up), `{"status":{"conditions":[` + accepted + `]}}`},
		"no status when there is no": {`{}`, `{}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := asAgent(t, "status", x.now, x.before)
			if want := object([]byte(x.want)).Object; !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%v, want\n%v", got, want)
			}
		})
	}
}

// Whatever an agent writes: it breaks nothing, and all but its own stays.
func FuzzAgentWrites(f *testing.F) {
	for _, x := range []struct{ now, before string }{
		{`{"metadata":{"labels":{"a":"b"}},"spec":{"taints":[]}}`, `{"metadata":{"labels":{"a":"c"}},"spec":{"taints":[{"key":"k"}]}}`},
		{`{"metadata":[],"spec":"x","status":1}`, `{"metadata":{},"spec":{},"status":{}}`},
		{`{"status":{"conditions":[1,null,{"type":2},{"type":"ManagedClusterJoined"}]}}`, `{"status":{"conditions":[{"type":"ManagedClusterJoined","status":"True"},[]]}}`},
		{`{"spec":null,"metadata":null}`, `{"spec":{"hubAcceptsClient":true}}`},
	} {
		f.Add([]byte(x.now), []byte(x.before))
	}
	f.Fuzz(func(t *testing.T, now, before []byte) {
		if object(now) == nil || object(before) == nil {
			return
		}
		for _, subresource := range []string{"", "status"} {
			got := asAgent(t, subresource, string(now), string(before)).(map[string]any)
			again := asAgent(t, subresource, string(now), string(before))
			if !reflect.DeepEqual(again, got) {
				t.Errorf("once %v, once %v", got, again)
			}
			was := object(before)
			spec, isObject := got["spec"].(map[string]any)
			had, wasObject := was.Object["spec"].(map[string]any)
			if subresource == "" && isObject && wasObject && !reflect.DeepEqual(spec["taints"], had["taints"]) {
				t.Errorf("the taints %v became %v", had["taints"], spec["taints"])
			}
		}
	})
}
