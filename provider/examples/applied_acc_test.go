package examples_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// home is a home folder with the kubeconfigs that examples name, by their file.
func home(t *testing.T, kubeconfigs map[string]string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".kube"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, from := range kubeconfigs {
		if err := os.Symlink(from, filepath.Join(dir, ".kube", name+".kubeconfig")); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", dir)
}

// sibling is a dev cluster that trusts the same authority as another one, and so takes
// the same credentials.
func sibling(t *testing.T, of *testhub.Process) *testhub.Process {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	if err := os.CopyFS(filepath.Join(dir, "pki"), os.DirFS(filepath.Join(filepath.Dir(of.Kubeconfig), "pki"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder
		t.Fatal(err)
	}
	program, err := acctest.Acc.Builder.Path(acctest.Acc.Dir)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := testhub.StartCluster(program, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// applies applies a folder, sees that nothing is left to do then, and destroys it.
func applies(t *testing.T, w *acctest.Terraform, variables ...string) {
	t.Helper()
	var args []string
	for _, variable := range variables {
		args = append(args, "-var", variable)
	}
	run := func(command string, more ...string) string {
		return w.MustRun(append(append([]string{command, "-no-color", "-input=false"}, more...), args...)...)
	}
	run("apply", "-auto-approve")
	defer run("destroy", "-auto-approve")
	if said, ok := w.Run(append([]string{"plan", "-no-color", "-input=false", "-detailed-exitcode"}, args...)...); !ok {
		t.Errorf("a second apply would change something: %s", said)
	}
}

// TestAccClustersInClouds applies the examples of the modules for clusters in clouds:
// the cloud and its program for credentials are stand-ins, everything else is real.
func TestAccClustersInClouds(t *testing.T) {
	first := acctest.DevCluster(t)
	second := sibling(t, first)
	home(t, map[string]string{"hub": acctest.Acc.Hub.Kubeconfig})
	logins(t, first)
	e := copyExamples(t)
	for _, name := range []string{"eks", "gke", "aks", "kind"} {
		t.Run(name, func(t *testing.T) {
			w := acctest.NewTerraform(t)
			serveClouds(w, cloud{existing: inCloud(t, first), created: inCloud(t, second)})
			own := e.at(t, w, filepath.Join("modules", "cluster-on-"+name, "examples", "fleet"))
			if name == "kind" {
				applies(t, own, `clusters=["kind1"]`, "hub_server="+acctest.Acc.Hub.URL)
				return
			}
			applies(t, own)
		})
	}
}

// inCloud is a dev cluster as a cloud would describe it.
func inCloud(t *testing.T, cluster *testhub.Process) kubernetes {
	t.Helper()
	text, config := connection(t, cluster)
	at, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes{address: at.Host, authority: base64.StdEncoding.EncodeToString(config.CAData), kubeconfig: text}
}

// connection is the kubeconfig of a dev cluster, and what it means.
func connection(t *testing.T, cluster *testhub.Process) (string, *rest.Config) {
	t.Helper()
	text, err := os.ReadFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), config
}

// logins are the clouds' programs for credentials, which insist on the arguments that
// the modules pass.
func logins(t *testing.T, cluster *testhub.Process) {
	t.Helper()
	_, config := connection(t, cluster)
	credentials, err := json.Marshal(map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential",
		"status": map[string]string{"clientCertificateData": string(config.CertData), "clientKeyData": string(config.KeyData)},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "credentials.json")
	if err := os.WriteFile(file, credentials, 0o600); err != nil {
		t.Fatal(err)
	}
	for program, arguments := range map[string]string{
		"aws":                    `"eks get-token --output json --cluster-name "*" --region eu-west-3"`,
		"gke-gcloud-auth-plugin": `""`,
		"kubelogin":              `"get-token --login azurecli --server-id 6dae42f8-4368-4678-94ff-3960e28e3630"`,
	} {
		script := "#!/bin/sh\ncase \"$*\" in\n" + arguments + ") cat " + file + ";;\n*) echo \"unexpected arguments: $*\" >&2; exit 1;;\nesac\n"
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestAccProgressiveRollout breaks a rollout: it ends at the canary, and the other
// cluster keeps what it has.
func TestAccProgressiveRollout(t *testing.T) {
	paris := acctest.DevCluster(t)
	rome := sibling(t, paris)
	home(t, map[string]string{"hub": acctest.Acc.Hub.Kubeconfig, "paris": paris.Kubeconfig, "rome": rome.Kubeconfig})
	e := copyExamples(t)
	w := e.at(t, acctest.NewTerraform(t), "modules/progressive-rollout/examples/canary")
	apply := func(message string) (said string, ok bool) {
		return w.Run("apply", "-no-color", "-input=false", "-auto-approve", "-var", "message="+message)
	}
	if said, ok := apply("first"); !ok || !strings.Contains(said, `"rolled_out" = true`) {
		t.Fatal(said)
	}
	defer w.MustRun("destroy", "-no-color", "-input=false", "-auto-approve")

	replace(t, filepath.Join(w.Dir, "main.tf"), `namespace = "default" }`, `namespace = "missing" }`, `"2m"`, `"5s"`)
	said, ok := apply("second")
	if ok {
		t.Error("a rollout that stops is a success")
	}
	acctest.Says(t, said, `Not ready: manifest work replica set "default/hello"`, "1 of 2 works are not done: in paris: it is not applied: ConfigMap missing/hello:")
	if errors := strings.Count(said, "Error: "); errors != 1 {
		t.Errorf("there are %d errors: %s", errors, acctest.Excerpt(said))
	}
	greeting := &corev1.ConfigMap{}
	acctest.OutsiderOf(t, rome).Get(greeting, "default", "hello")
	if got := greeting.Data["message"]; got != "first" {
		t.Errorf("behind a canary that fails the other cluster has %q", got)
	}

	replace(t, filepath.Join(w.Dir, "main.tf"), `namespace = "missing" }`, `namespace = "default" }`)
	if said, ok := apply("third"); !ok || !strings.Contains(said, `"rolled_out" = true`) {
		t.Error(said)
	}
	acctest.OutsiderOf(t, rome).Get(greeting, "default", "hello")
	if got := greeting.Data["message"]; got != "third" {
		t.Errorf("after the correction the other cluster has %q", got)
	}
}

// replace edits a file: each second text takes the place of the one before it.
func replace(t *testing.T, file string, texts ...string) {
	t.Helper()
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	after := strings.NewReplacer(texts...).Replace(string(before))
	if after == string(before) {
		t.Fatalf("%s holds none of %q", file, texts)
	}
	if err := os.WriteFile(file, []byte(after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// startedFleet is a folder as muster up makes it, with the shared hub and these
// clusters.
func startedFleet(t *testing.T, clusters map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	link := func(from string, to ...string) {
		folder := filepath.Join(append([]string{dir}, to...)...)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, filepath.Join(folder, "admin.kubeconfig")); err != nil {
			t.Fatal(err)
		}
	}
	link(acctest.Acc.Hub.Kubeconfig, "hub")
	for name, kubeconfig := range clusters {
		link(kubeconfig, "clusters", name)
	}
	return dir
}

// TestAccGuides applies the configurations of the guides that can be applied with a
// hub and two clusters.
func TestAccGuides(t *testing.T) {
	first := acctest.DevCluster(t)
	second := sibling(t, first)
	e := copyExamples(t)
	at := func(t *testing.T, folder string) *acctest.Terraform {
		return e.at(t, acctest.NewTerraform(t), filepath.Join("guides", folder))
	}

	t.Run("tour", func(t *testing.T) {
		fleet := startedFleet(t, map[string]string{"cluster1": first.Kubeconfig, "cluster2": second.Kubeconfig})
		applies(t, at(t, "tour"), "fleet="+fleet)
	})

	t.Run("everything in one apply", func(t *testing.T) {
		hub, err := os.ReadFile(acctest.Acc.Hub.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		one, _ := connection(t, first)
		two, _ := connection(t, second)
		clusters, err := json.Marshal(map[string]string{"one-apply-1": one, "one-apply-2": two})
		if err != nil {
			t.Fatal(err)
		}
		applies(t, at(t, "onboarding/one-apply"), "hub_kubeconfig="+string(hub), "cluster_kubeconfigs="+string(clusters))
	})

	t.Run("drain", func(t *testing.T) {
		applies(t, at(t, "runbook/drain"), "drained=true")
	})
}

// TestAccGuideSecrets looks for the password of the guide where it must not be, and
// rotates it as the guide says.
func TestAccGuideSecrets(t *testing.T) {
	cluster := acctest.DevCluster(t)
	e := copyExamples(t)
	fleet := e.at(t, acctest.NewTerraform(t), "quickstart")
	with := []string{
		"-no-color", "-input=false", "-var", "fleet_dir=" + startedFleet(t, map[string]string{"keeper": cluster.Kubeconfig}),
		"-var", "clusters={keeper={}}",
	}
	fleet.MustRun(append([]string{"apply", "-auto-approve"}, with...)...)
	defer fleet.MustRun(append([]string{"destroy", "-auto-approve"}, with...)...)

	w := e.at(t, acctest.NewTerraform(t), "guides/secrets")
	run := func(command, password, version string, more ...string) string {
		return w.MustRun(append([]string{command, "-no-color", "-input=false", "-var", "cluster=keeper",
			"-var", "password=" + password, "-var", "password_version=" + version}, more...)...)
	}
	defer run("destroy", "x", "2", "-auto-approve")
	stored := func() string {
		secret := &corev1.Secret{}
		acctest.OutsiderOf(t, cluster).Get(secret, "shop", "database")
		return string(secret.Data["password"])
	}

	run("plan", "hunter2", "1", "-out", "planned")
	run("apply", "hunter2", "1", "-auto-approve")
	for _, kept := range []string{w.MustRun("show", "-json", "planned"), w.MustRun("show", "-json")} {
		if strings.Contains(kept, "hunter2") {
			t.Error("the password is in the plan or in the state")
		}
	}
	if got := stored(); got != "hunter2" {
		t.Errorf("the cluster has the password %q", got)
	}
	acctest.Says(t, run("plan", "hunter3", "1"), "No changes.")
	acctest.Says(t, run("apply", "hunter3", "2", "-auto-approve"), "(sensitive, version 2)")
	if got := stored(); got != "hunter3" {
		t.Errorf("after the rotation the cluster has the password %q", got)
	}
}

// TestAccGuideMigration imports a cluster that joined without Terraform, and leaves
// its agent alone.
func TestAccGuideMigration(t *testing.T) {
	hub := acctest.Someone(t)
	home(t, map[string]string{"hub": acctest.Acc.HubKubeconfig()})
	record := &clusterv1.ManagedCluster{}
	record.Name, record.Labels = "paris", map[string]string{"region": "eu"}
	accepted := true
	record.Spec.HubAcceptsClient = &accepted
	hub.Apply(record)
	e := copyExamples(t)
	reader := e.at(t, acctest.NewTerraform(t), "data-sources/muster_managed_cluster")
	acctest.Says(t, reader.MustRun("apply", "-no-color", "-input=false", "-auto-approve"), `paris = "has not joined yet"`)
	hub.Joined("paris")
	w := e.at(t, acctest.NewTerraform(t), "guides/migration")
	acctest.Says(t, w.MustRun("plan", "-no-color", "-input=false"), "Plan: 2 to import, 0 to add, 1 to change, 0 to destroy.")
	applies(t, w)
}

// TestAccReference applies snippets of the reference in the order in which somebody
// would who follows it: a cluster joins, gets a work, and is read.
func TestAccReference(t *testing.T) {
	home(t, map[string]string{"paris": acctest.DevCluster(t).Kubeconfig})
	e := copyExamples(t)
	for _, snippet := range []struct {
		folder    string
		variables []string
	}{
		{"resources/muster_managed_cluster_set", nil},
		{"resources/muster_namespace", nil},
		{"resources/muster_bootstrap_token", nil},
		{"resources/muster_cluster_registration", nil},
		{"resources/muster_manifest_work", []string{"-var", "password=hunter2"}},
		{"data-sources/muster_managed_cluster", nil},
		{"data-sources/muster_managed_clusters", nil},
		{"data-sources/muster_manifest_work", nil},
	} {
		w := e.at(t, acctest.NewTerraform(t), snippet.folder)
		with := append([]string{"-no-color", "-input=false"}, snippet.variables...)
		w.MustRun(append([]string{"apply", "-auto-approve"}, with...)...)
		defer w.MustRun(append([]string{"destroy", "-auto-approve"}, with...)...)
		// What agents report may still arrive, and be in an output.
		if said := w.MustRun(append([]string{"plan"}, with...)...); strings.Contains(said, "Terraform will perform the following actions") ||
			strings.Contains(said, "OpenTofu will perform the following actions") {
			t.Errorf("%s: a second apply would change something: %s", snippet.folder, said)
		}
	}
}
