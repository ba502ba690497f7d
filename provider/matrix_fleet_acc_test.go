package provider_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// fleetRow is a resource that needs a cluster with an agent.
type fleetRow struct {
	resource string
	// id and identity are those of an import; without them it can't be imported.
	id, identity string
	// edit is what somebody else does, which the next plan has to show.
	edit func(hub, inside *acctest.Outsider)
	// kept are attributes that differ from run to run, which a recorded state can't
	// have: see plansFromRecordedStates.
	kept []string
}

// fleetMatrix are the resources that need an agent. kubeconfig is that of the cluster.
func fleetMatrix(kubeconfig string) []fleetRow {
	return []fleetRow{
		{
			resource: "muster_klusterlet", id: "matrix-fleet@" + kubeconfig,
			identity: fmt.Sprintf(`cluster_name = "matrix-fleet", namespace = %q, kubeconfig_path = %q`, cluster.AgentNamespace, kubeconfig),
			edit: func(_, inside *acctest.Outsider) {
				inside.Patch(&appsv1.Deployment{}, cluster.AgentNamespace, klusterlet.Name, `{"spec":{"replicas":0}}`)
			},
			kept: []string{"cluster_connection", "cluster_uid", "image"},
		},
		{resource: "muster_cluster_registration", id: "matrix-fleet", identity: `managed_cluster = "matrix-fleet"`},
		{resource: "muster_manifest_work_wait", kept: []string{"generation"}},
		{resource: "muster_manifest_work_replica_set_wait", kept: []string{"generation"}},
		{resource: "muster_logical_cloud_wait"},
		{resource: "muster_access_request", kept: []string{"csr_pem", "name", "certificate_pem", "endpoint", "cluster_ca_certificate", "not_before", "not_after", "serial", "key_hash"}},
	}
}

// fleetConfig is a fleet of one cluster. All that can be changed depends on value.
func fleetConfig(t *testing.T, kubeconfig, csr, value string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	testkit.Must(t, err)
	var server clientcmdServer
	for _, c := range config.Clusters {
		server = clientcmdServer{c.Server, string(c.CertificateAuthorityData)}
	}
	text, err := os.ReadFile("testdata/matrix-fleet.tf")
	testkit.Must(t, err)
	return fmt.Sprintf("locals {\n  value = %q\n  kubeconfig = %q\n  server = %q\n  ca = %q\n  csr = %q\n}\n", value, kubeconfig, server.url, server.ca, csr) + string(text)
}

type clientcmdServer struct{ url, ca string }

// TestAccMatrixOfAFleet takes the resources that need a real agent through their life.
func TestAccMatrixOfAFleet(t *testing.T) {
	process := acctest.DevCluster(t)
	w, o, inside := acctest.NewWorkspace(t), acctest.Someone(t), acctest.OutsiderOf(t, process)
	rows := fleetMatrix(process.Kubeconfig)
	csr := requestOf(t, o, "jo")
	config := func(value string) string { return fleetConfig(t, process.Kubeconfig, csr, value) }
	apply := func(what, config string) {
		t.Helper()
		if said, ok := w.Apply(config); !ok {
			t.Fatalf("%s: %s", what, acctest.Excerpt(said))
		}
		if planned := w.Plan(config); !strings.Contains(planned, noChanges) {
			t.Errorf("%s: the plan after it is not empty: %s", what, planned)
		}
	}
	apply("created", config("one"))
	if *record {
		recordStates(t, w.Dir)
	}
	kept := map[string][]string{}
	for _, r := range rows {
		kept[r.resource] = r.kept
	}
	plansFromRecordedStates(t, w, config("one"), kept)

	changed := w.Plan(config("three"))
	for _, r := range rows {
		if !strings.Contains(changed, r.resource+".x will be updated in-place") {
			t.Errorf("changed: %s is not updated in place: %s", r.resource, changed)
		}
	}
	apply("changed", config("three"))
	apply("changed back", config("one"))
	if !inside.Exists(&corev1.ConfigMap{}, "default", "matrix-fleet-one") || inside.Exists(&corev1.ConfigMap{}, "default", "matrix-fleet-three") {
		t.Error("the work's objects are not what the configuration says")
	}

	for _, r := range rows {
		if r.edit == nil {
			continue
		}
		r.edit(o, inside)
		if planned := w.Plan(config("one")); !strings.Contains(planned, r.resource+".x will be updated in-place") {
			t.Errorf("%s: the plan shows no drift: %s", r.resource, planned)
		}
	}
	apply("healed", config("one"))
	fleetImports(t, rows, config("one"))

	// A wait goes with its object.
	o.Remove(&workv1.ManifestWork{}, "matrix-fleet", "web")
	o.Remove(&musterv1alpha1.LogicalCloud{}, "matrix-fleet-team", "prod")
	planned := w.Plan(config("one"))
	for _, address := range []string{"muster_manifest_work.x", "muster_manifest_work_wait.x", "muster_logical_cloud.x", "muster_logical_cloud_wait.x"} {
		if !strings.Contains(planned, address+" will be created") {
			t.Errorf("%s is not created again: %s", address, planned)
		}
	}
	apply("created again", config("one"))
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
	if inside.Exists(&corev1.Namespace{}, "", cluster.AgentNamespace) {
		t.Error("the agent is still there")
	}
}

// requestOf is a certificate request of a user of the hub.
func requestOf(t *testing.T, o *acctest.Outsider, user string) string {
	t.Helper()
	info := &corev1.ConfigMap{}
	o.Get(info, metav1.NamespacePublic, hubinfo.Name)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	csr, err := access.NewRequest(key, info.Data[hubinfo.HubIDKey], user)
	testkit.Must(t, err)
	return string(csr)
}

// fleetImports imports what can be into a state of its own, whose plan must not change
// it.
func fleetImports(t *testing.T, rows []fleetRow, config string) {
	t.Helper()
	config = regexp.MustCompile(`(?s)\n  timeouts \{.*?\n  \}`).ReplaceAllString(config, "") // which no hub knows
	for _, byIdentity := range []bool{false, true} {
		if byIdentity && !atLeast(t, 1, 12) {
			continue
		}
		var blocks string
		var imported []fleetRow
		for _, r := range rows {
			how := fmt.Sprintf("id = %q", r.id)
			if byIdentity {
				how = "identity = { " + r.identity + " }"
			}
			if r.id == "" {
				continue
			}
			blocks += fmt.Sprintf("import {\n  to = %s.x\n  %s\n}\n", r.resource, how)
			imported = append(imported, r)
		}
		planned := acctest.NewWorkspace(t).Plan(blocks + config)
		for _, r := range imported {
			if !strings.Contains(planned, r.resource+".x will be imported") {
				t.Errorf("by identity %v: %s is not imported without a change: %s", byIdentity, r.resource, acctest.Excerpt(planned))
			}
		}
	}
}
