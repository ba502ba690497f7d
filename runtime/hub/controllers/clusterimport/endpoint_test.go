package clusterimport

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// A change of the hub's URL, of its CA alone, of the proxy, and of what is trusted are
// each something else to install, and lead an agent's kubeconfig there.
func TestEachPartOfTheEndpointRollsTheAgent(t *testing.T) {
	imp := &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: "paris"}}
	before := endpoint{server: "https://a", ca: []byte("old")}
	content, err := before.bootstrap("token")
	if err != nil {
		t.Fatal(err)
	}
	_, hash, err := render(imp, before, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, moved, err := before.moved(content); moved || err != nil {
		t.Errorf("it leads elsewhere than it does: %v", err)
	}
	for what, after := range map[string]endpoint{
		"URL":          {server: "https://b", ca: []byte("old")},
		"CA":           {server: "https://a", ca: []byte("new")},
		"proxy":        {server: "https://a", ca: []byte("old"), proxy: "http://proxy:3128"},
		"trust System": {server: "https://a"},
	} {
		_, now, err := render(imp, after, nil)
		if err != nil || now == hash {
			t.Errorf("%s: nothing is to be installed: %v", what, err)
		}
		out, moved, err := after.moved(content)
		if err != nil || !moved || !strings.Contains(string(out), "token: token") {
			t.Errorf("%s: moved %t, %v: %s", what, moved, err, out)
		}
		if has := strings.Contains(string(out), "certificate-authority-data"); has != (len(after.ca) > 0) {
			t.Errorf("%s: the kubeconfig is %s", what, out)
		}
		if _, again, _ := after.moved(out); again {
			t.Errorf("%s: it is moved without end", what)
		}
	}
	// What is secret is no part of the hash, so a new token rolls nothing.
	if _, with, _ := render(imp, before, content); with != hash {
		t.Error("a bootstrap kubeconfig changes what is installed")
	}
}

// A name that a cluster has joined with is let in again only for a cluster that is
// known to be the same, or that the author names.
func TestAJoinedNameNeedsProof(t *testing.T) {
	joined := func(annotations map[string]string) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "paris", Annotations: annotations}}
		mc.Spec.HubAcceptsClient = ptr.To(true)
		mc.Status.Conditions = []metav1.Condition{{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue}}
		return mc
	}
	for what, x := range map[string]struct {
		mc              *clusterv1.ManagedCluster
		wanted, carried string
		certified, ok   bool
	}{
		"no such cluster":                     {ok: true},
		"not joined yet":                      {mc: &clusterv1.ManagedCluster{}, ok: true},
		"joined by itself":                    {mc: joined(nil)},
		"joined by itself, with certificate":  {mc: joined(nil), certified: true, ok: true},
		"joined by itself, named by its UID":  {mc: joined(nil), wanted: "u", ok: true},
		"installed by this import":            {mc: joined(nil), carried: "u", ok: true},
		"marked by Terraform or by an import": {mc: joined(map[string]string{muster.ClusterUIDAnnotation: "u"}), ok: true},
	} {
		imp := &v1alpha1.ClusterImport{ObjectMeta: metav1.ObjectMeta{Name: "paris"}, Spec: v1alpha1.ClusterImportSpec{ClusterUID: x.wanted}}
		why := unproven(&job{imp: imp, status: &v1alpha1.ClusterImportStatus{ClusterUID: x.carried}, cluster: x.mc, uid: "u"}, x.certified)
		if (why == "") != x.ok || !x.ok && !strings.Contains(why, "set spec.clusterUID") {
			t.Errorf("%s: %q", what, why)
		}
	}
}
