package klusterlet

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestBearer(t *testing.T) {
	of := func(token string) bearer {
		content, err := kubeconfig.Config{Cluster: "hub", User: "u", Server: "https://hub", Token: token}.YAML()
		if err != nil {
			t.Fatal(err)
		}
		return bearerOf(content)
	}
	request := func(user, jti string) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			Username: user, Extra: map[string]certificatesv1.ExtraValue{credentialID: {"JTI=" + jti}},
		}}
	}
	const token, account = "abcdef.0123456789abcdef", "e30.eyJqdGkiOiJ0aGUtb25lIn0.c2ln" // {"jti":"the-one"}
	for name, x := range map[string]struct {
		token   string
		request *certificatesv1.CertificateSigningRequest
		want    bool
	}{
		"the token":                 {token, request("system:bootstrap:abcdef", ""), true},
		"another token":             {token, request("system:bootstrap:ghijkl", ""), false},
		"the account's token":       {account, request(cluster.BootstrapUser, "the-one"), true},
		"the account's other token": {account, request(cluster.BootstrapUser, "another"), false},
		"neither":                   {"opaque", request(cluster.BootstrapUser, ""), false},
		"an account without an ID":  {"e30.e30.c2ln", request(cluster.BootstrapUser, ""), false},
	} {
		if got := of(x.token).made(x.request); got != x.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if bearerOf([]byte("rubbish")) != (bearer{}) {
		t.Error("rubbish is taken for a credential")
	}
}

func TestPlace(t *testing.T) {
	was := place{Host: "https://a", UID: "1"}
	null, set := types.StringNull(), types.StringValue
	for name, x := range map[string]struct {
		was, found place
		wanted     types.String
		refused    string // a word of the refusal
	}{
		"the same":                      {was, was, null, ""},
		"by another address":            {was, place{"https://b", "1"}, null, ""},
		"rebuilt at its address":        {was, place{"https://a", "2"}, null, ""},
		"another cluster":               {was, place{"https://b", "2"}, null, "cluster_uid"},
		"another cluster that is meant": {was, place{"https://b", "2"}, set("2"), ""},
		"not the one that is meant":     {was, place{"https://b", "2"}, set("3"), "cluster_uid"},
		"rebuilt, but the old is meant": {was, place{"https://a", "2"}, set("1"), "cluster_uid"},
		"nobody knows where it was":     {place{}, place{"https://b", "2"}, null, ""},
	} {
		var diags diag.Diagnostics
		config := model{Values: attribute.Values{"cluster_uid": x.wanted}}
		if ok := checkPlace("c1", x.was, x.found, config, &diags); ok != (x.refused == "") || (!ok && !strings.Contains(diags.Errors()[0].Detail(), x.refused)) {
			t.Errorf("%s: got %t, %v", name, ok, diags)
		}
	}
}

func TestElsewhere(t *testing.T) {
	of := func(uid string, available metav1.ConditionStatus) *clusterv1.ManagedCluster {
		return &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{muster.ClusterUIDAnnotation: uid}},
			Status:     clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{{Type: cluster.ConditionAvailable, Status: available}}},
		}
	}
	for name, x := range map[string]struct {
		cluster *clusterv1.ManagedCluster
		want    bool
	}{
		"no cluster":                 {nil, false},
		"nobody noted where":         {of("", "True"), false},
		"here":                       {of("1", "True"), false},
		"elsewhere, and available":   {of("2", "True"), true},
		"elsewhere, and silent":      {of("2", "Unknown"), false},
		"elsewhere, and unavailable": {of("2", "False"), false},
	} {
		if _, got := elsewhere(x.cluster, "1"); got != x.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// Who cleans up for a cluster follows from the agent that the hub serves, and else by the
// cluster that it was installed in.
func TestIsAgentOf(t *testing.T) {
	for name, x := range map[string]struct {
		served, noted, id, uid string
		want                   bool
	}{
		"the agent that is served":          {served: "a", id: "a", uid: "1", want: true},
		"after another has taken its place": {served: "b", id: "a", noted: "1", uid: "1"},
		"without a certificate, here":       {served: "a", noted: "1", uid: "1", want: true},
		"every agent is served, here":       {noted: "1", id: "a", uid: "1", want: true},
		"every agent is served, elsewhere":  {noted: "2", id: "a", uid: "1"},
		"the hub has noted nothing":         {id: "a", uid: "1"},
	} {
		mc := &clusterv1.ManagedCluster{}
		mc.Annotations = map[string]string{cluster.AgentAnnotation: x.served, muster.ClusterUIDAnnotation: x.noted}
		if got := isAgentOf(mc, x.id, x.uid); got != x.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestAgentRolledOut(t *testing.T) {
	of := func(observed int64, updated, all, available int32, reason string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)}}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: observed, UpdatedReplicas: updated, Replicas: all, AvailableReplicas: available}
		if reason != "" {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reason}}
		}
		return d
	}
	for name, x := range map[string]struct {
		deployment *appsv1.Deployment
		want       bool
	}{
		"not seen yet":                      {of(1, 1, 1, 1, "NewReplicaSetAvailable"), false},
		"done":                              {of(2, 1, 1, 1, ""), true},
		"the new one can't start":           {of(2, 1, 2, 1, "ReplicaSetUpdated"), false},
		"done, and the pod is moved now":    {of(2, 1, 1, 0, "NewReplicaSetAvailable"), true},
		"nothing runs yet":                  {of(2, 1, 1, 0, "NewReplicaSetCreated"), false},
		"only the agent from before runs":   {of(2, 0, 1, 1, ""), false},
		"the last one of before still ends": {of(2, 1, 2, 2, "ReplicaSetUpdated"), false},
		"back to a revision of before":      {of(2, 1, 2, 1, "NewReplicaSetAvailable"), false},
	} {
		if got := agentRolledOut(x.deployment); got != x.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestKeptWorks(t *testing.T) {
	kept, going := workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "going", DeletionTimestamp: &metav1.Time{}}}
	if names, deleting := keptWorks([]workv1.ManifestWork{going, kept}); len(names) != 1 || !strings.Contains(names[0], "kept") || !deleting {
		t.Errorf("got %v, %t", names, deleting)
	}
	if names, deleting := keptWorks(nil); len(names) != 0 || deleting {
		t.Errorf("got %v, %t", names, deleting)
	}
}
