package provider_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

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
	// edit is what somebody else does, which the next plan has to show, with these words.
	edit  func(hub, inside *acctest.Outsider)
	shows []string
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
			edit:     func(_, inside *acctest.Outsider) { addToAgent(inside) },
			shows: []string{
				"spec.template.spec.hostNetwork was added", "spec.template.spec.containers[beside] was added",
				"spec.template.spec.containers[klusterlet-agent].env[HTTPS_PROXY] was added",
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
	w, o, inside := acctest.NewTerraform(t), acctest.Someone(t), acctest.OutsiderOf(t, process)
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
		acctest.Says(t, w.Plan(config("one")), append(r.shows, r.resource+".x will be updated in-place")...)
	}
	apply("healed", config("one"))
	pod := agentIn(inside).Spec.Template.Spec
	if pod.HostNetwork || len(pod.Containers) != 1 || len(pod.Containers[0].Env) > 0 {
		t.Errorf("healed: the agent still has what somebody has added: %+v", pod)
	}
	replicaSetFails(t, w, config("one"))
	apply("corrected", config("one"))
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

func agentIn(inside *acctest.Outsider) *appsv1.Deployment {
	agent := &appsv1.Deployment{}
	inside.Get(agent, cluster.AgentNamespace, klusterlet.Name)
	return agent
}

// addToAgent stops the agent, and adds to it what nobody has configured: an environment
// variable, a second container and the node's network.
func addToAgent(inside *acctest.Outsider) {
	containers := agentIn(inside).Spec.Template.Spec.Containers
	containers[0].Env = append(containers[0].Env, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://evil:3128"})
	containers = append(containers, corev1.Container{Name: "beside", Image: "evil"})
	pod, err := json.Marshal(map[string]any{"hostNetwork": true, "containers": containers})
	testkit.Must(inside.T, err)
	patch := fmt.Sprintf(`{"spec":{"replicas":0,"template":{"spec":%s}}}`, pod)
	inside.Patch(&appsv1.Deployment{}, cluster.AgentNamespace, klusterlet.Name, patch)
}

// replicaSetFails has the cluster refuse the objects of a replica set for good. The wait
// for them ends at once, and the next plan says why, in the words of the cluster's API
// server.
func replicaSetFails(t *testing.T, w *acctest.Terraform, config string) {
	t.Helper()
	failing := strings.Replace(config, `kind = "ConfigMap", metadata = { name = "matrix-fleet-rs", namespace = "default" }, data = { env = local.value } }`,
		`kind = "ResourceQuota", metadata = { name = "matrix-fleet-rs", namespace = "default" }, spec = { hard = { pods = "-1" } } }`, 1)
	began := time.Now()
	said, ok := w.Apply(failing)
	if took := time.Since(began); ok || took > time.Minute {
		t.Errorf("refused: it went on for %s: %s", took, acctest.Excerpt(said))
	}
	const why = `ResourceQuota "matrix-fleet-rs" is invalid: spec.hard[pods]: Invalid value: (sensitive): must be greater than or equal to 0`
	acctest.Says(t, said, `Not ready: manifest work replica set "matrix-fleet-team/rs"`, "so the wait ended before its timeout",
		"in matrix-fleet: it is not applied: ResourceQuota default/matrix-fleet-rs", why)
	acctest.Says(t, w.Plan(failing), `Not applied: manifest work replica set "matrix-fleet-team/rs"`,
		"in matrix-fleet: ResourceQuota default/matrix-fleet-rs (objects[0])", why)
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
		planned := acctest.NewTerraform(t).Plan(blocks + config)
		for _, r := range imported {
			if !strings.Contains(planned, r.resource+".x will be imported") {
				t.Errorf("by identity %v: %s is not imported without a change: %s", byIdentity, r.resource, acctest.Excerpt(planned))
			}
		}
	}
}
