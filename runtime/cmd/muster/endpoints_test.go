package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/pki"
)

// member is a joined cluster whose agent says this about the hub's endpoint.
func member(name string, generation int64, reason string, available metav1.ConditionStatus) *clusterv1.ManagedCluster {
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	mc.Status.Conditions = []metav1.Condition{
		{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue}, {Type: cluster.ConditionAvailable, Status: available},
	}
	if reason != "" {
		mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{
			Type: muster.ConditionHubEndpointCurrent, Reason: reason, Message: fmt.Sprintf(muster.FormatEndpointGeneration, generation, "the agent uses https://a"),
		})
	}
	return mc
}

func TestStatusCountsWhoHasFollowedTheHub(t *testing.T) {
	a, err := pki.LoadOrCreateAuthority(t.TempDir(), "ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	published := hubinfo.Endpoints{URLs: []string{"https://b", "https://a"}, CABundle: a.CertPEM, Generation: 2, HubUID: "uid"}
	b := fake.NewClientBuilder().WithScheme(api.Scheme()).WithObjects(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: hubinfo.EndpointsName}, Data: published.Data()},
		member("away", 1, muster.ReasonEndpointCurrent, metav1.ConditionUnknown),
		member("upstream", 0, "", metav1.ConditionTrue),
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "not-joined"}},
	)
	for i := range 12 {
		b.WithObjects(member(fmt.Sprintf("here-%d", i), 2, muster.ReasonEndpointCurrent, metav1.ConditionTrue),
			member(fmt.Sprintf("stuck-%02d", i), 1, muster.ReasonEndpointUnreachable, metav1.ConditionTrue))
	}
	var out bytes.Buffer
	if err := printStatus(t, &out, b.Build()); err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")
	for _, want := range []string{
		"https://b,https://a unknown 1 unknown upstream\n",
		"https://b,https://a 1 of 2 1 Current, offline away\n",
		"https://b,https://a 1 of 2 12 Unreachable stuck-00,stuck-01,stuck-02,stuck-03,stuck-04,stuck-05,stuck-06,stuck-07,stuck-08,stuck-09 and 2 more\n",
		"https://b,https://a 2 of 2 12 Current all others\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if strings.Contains(said[strings.Index(said, "HUB GEN"):], "not-joined") {
		t.Error("a cluster that has not joined is counted")
	}
}

func TestStatusIsQuietAboutAHubThatHasNotMoved(t *testing.T) {
	a, err := pki.LoadOrCreateAuthority(t.TempDir(), "ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	published := hubinfo.Endpoints{CABundle: a.CertPEM, Generation: 1, HubUID: "uid"}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: hubinfo.EndpointsName}, Data: published.Data()}
	for name, b := range map[string]*fake.ClientBuilder{
		"upstream": fake.NewClientBuilder(), "not moved": fake.NewClientBuilder().WithObjects(config, member("a", 1, muster.ReasonEndpointCurrent, metav1.ConditionTrue)),
	} {
		var out bytes.Buffer
		if err := printStatus(t, &out, b.WithScheme(api.Scheme()).Build()); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "HUB ") {
			t.Errorf("%s: it says\n%s", name, out.String())
		}
	}
}
