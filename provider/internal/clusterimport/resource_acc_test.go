package clusterimport_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
	"github.com/muster-fleet/terraform-provider-muster/provider/export"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// importConfig is an import with more of its body.
func importConfig(name, body string) string {
	return fmt.Sprintf("resource \"muster_cluster_import\" \"test\" {\n  name = %q\n%s\n}\n", name, body)
}

// handing is the part of a configuration that hands a kubeconfig in.
func handing(path string, version int) string {
	return fmt.Sprintf("  kubeconfig_wo = file(%q)\n  kubeconfig_wo_version = %d\n", path, version)
}

// kubeconfigFile is a kubeconfig, changed from that of a process.
func kubeconfigFile(t *testing.T, of string, change func(*clientcmdapi.Config)) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(of)
	if err != nil {
		t.Fatal(err)
	}
	change(config)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustApply(t *testing.T, w *acctest.Workspace, config string) string {
	t.Helper()
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.Plan(config), "No changes.")
	return said
}

// The life of an import: the hub installs the agent, what changes rolls it without a
// registration, and destroying the import leaves the cluster in the fleet. The
// kubeconfig is nowhere but in the cluster's own hands.
func TestAccImport(t *testing.T) {
	process := acctest.DevCluster(t)
	managed, someone := acctest.OutsiderOf(t, process), acctest.Someone(t)
	w := acctest.NewWorkspace(t)
	config := func(version int, more string) string {
		return importConfig("imp-life", handing(process.Kubeconfig, version)+"  accept = true\n  cluster_labels = { env = \"test\" }\n  wait = { joined = true, available = true }\n"+more)
	}
	mustApply(t, w, config(1, "")+`
data "muster_cluster_import" "test" {
  name = muster_cluster_import.test.name
}
output "seen" {
  value = [data.muster_cluster_import.test.joined, data.muster_cluster_import.test.problem, muster_cluster_import.test.ready]
}`)
	out, _ := w.Run("output", "-json", "seen")
	acctest.Says(t, out, `[true,"",true]`)
	mc := &clusterv1.ManagedCluster{}
	someone.Get(mc, "", "imp-life")
	if mc.Labels["env"] != "test" || !mc.Spec.AcceptsClient() {
		t.Errorf("the managed cluster is %+v", mc)
	}
	if someone.Exists(&corev1.Secret{}, muster.ImportNamespace, "imp-life") {
		t.Error("the hub still has the kubeconfig")
	}
	keepsNoSecret(t, w, process.Kubeconfig)

	identity := &corev1.Secret{}
	managed.Get(identity, cluster.AgentNamespace, cluster.HubKubeconfigSecret)
	agent := string(identity.Data[cluster.AgentNameKey])
	for what, more := range map[string]string{
		"options": "  agent = { annotations = { note = \"two\" } }\n",
		"counter": "  redeploy = 2\n",
	} {
		before := &appsv1.Deployment{}
		managed.Get(before, cluster.AgentNamespace, klusterlet.Name)
		mustApply(t, w, config(1, more))
		after := &appsv1.Deployment{}
		managed.Get(after, cluster.AgentNamespace, klusterlet.Name)
		if after.UID != before.UID || after.Generation == before.Generation {
			t.Errorf("%s: the agent is not rolled", what)
		}
		managed.Get(identity, cluster.AgentNamespace, cluster.HubKubeconfigSecret)
		if now := string(identity.Data[cluster.AgentNameKey]); now != agent {
			t.Errorf("%s: the cluster has registered again, as %s", what, now)
		}
	}
	// Users reach the cluster where the hub does.
	mustApply(t, w, config(1, "  redeploy = 2\n  publish_server = true\n"))
	someone.Get(mc, "", "imp-life")
	if at := mc.Spec.ManagedClusterClientConfigs; len(at) != 1 || at[0].URL != process.URL || len(at[0].CABundle) == 0 {
		t.Errorf("users find the cluster at %+v, want %s", at, process.URL)
	}
	// A new number has the hub look once more, and repair.
	managed.Remove(&appsv1.Deployment{}, cluster.AgentNamespace, klusterlet.Name)
	mustApply(t, w, config(2, "  redeploy = 2\n"))
	managed.Get(&appsv1.Deployment{}, cluster.AgentNamespace, klusterlet.Name)

	// A kubeconfig that the hub keeps is handed in again when somebody deletes it.
	keeping := config(2, "  redeploy = 2\n  forget_after_join = false\n")
	mustApply(t, w, keeping)
	someone.Remove(&corev1.Secret{}, muster.ImportNamespace, "imp-life")
	imp := &v1alpha1.ClusterImport{}
	someone.Wait(imp, "", "imp-life", func() bool {
		c := meta.FindStatusCondition(imp.Status.Conditions, muster.ConditionKubeconfigUsable)
		return c != nil && c.Reason == muster.ReasonForgotten
	})
	acctest.Says(t, w.Plan(keeping), "kubeconfig_needed = true -> (known after apply)")
	mustApply(t, w, keeping)
	if !someone.Exists(&corev1.Secret{}, muster.ImportNamespace, "imp-life") {
		t.Error("the kubeconfig was not handed in again")
	}

	acctest.Says(t, w.Plan("# nothing\n"), `The agent stays in the cluster: cluster import "imp-life"`, "muster detach imp-life")
	// A kubeconfig that is not handed in is not looked at, nor needed to destroy.
	acctest.Says(t, w.Plan(strings.Replace(keeping, fmt.Sprintf("file(%q)", process.Kubeconfig), `"dummy"`, 1)), "No changes.")
	if said, ok := w.Destroy(); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	someone.Get(mc, "", "imp-life")
	managed.Get(&appsv1.Deployment{}, cluster.AgentNamespace, klusterlet.Name)
	if someone.Exists(&corev1.Secret{}, muster.ImportNamespace, "imp-life") {
		t.Error("the kubeconfig is still there after the import was destroyed")
	}

	// Another name for the same cluster is refused, and the wait does not sit it out.
	said, ok := w.Apply(importConfig("imp-other", handing(process.Kubeconfig, 1)+"  wait = { joined = true }\n"))
	acctest.Says(t, said, `Not ready: cluster import "imp-other"`, `the cluster has an agent that serves the name "imp-life"`)
	if !ok {
		t.Error("a creation whose wait fails is an error, so that Terraform destroys the import")
	}
}

// keepsNoSecret looks for credentials of a kubeconfig in a workspace's state.
func keepsNoSecret(t *testing.T, w *acctest.Workspace, path string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	state := w.State()
	for _, user := range config.AuthInfos {
		for _, secret := range []string{string(user.ClientKeyData), user.Token, user.Password} {
			if secret != "" && strings.Contains(state, secret[:20]) {
				t.Error("a credential is in the state")
			}
		}
	}
	if strings.Contains(state, "current-context") {
		t.Error("the kubeconfig is in the state")
	}
}

// What the hub would refuse is refused while planning, with what to do, and without a
// word of what is secret.
func TestAccImportIsCheckedAtPlan(t *testing.T) {
	w := acctest.NewWorkspace(t)
	user := func(change func(*clientcmdapi.AuthInfo)) func(*clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) {
			for _, u := range c.AuthInfos {
				change(u)
			}
		}
	}
	to := func(change func(*clientcmdapi.Cluster)) func(*clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) {
			for _, u := range c.AuthInfos {
				u.Token = "t0psecret"
			}
			for _, u := range c.Clusters {
				change(u)
			}
		}
	}
	for _, x := range []struct {
		says   string
		change func(*clientcmdapi.Config)
	}{
		{"gets credentials from a program", user(func(u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{Command: "aws", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		})},
		{"gets credentials from a program", user(func(u *clientcmdapi.AuthInfo) { u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "gcp"} })},
		{"names a file", user(func(u *clientcmdapi.AuthInfo) { u.TokenFile = "/etc/passwd" })},
		{"insecure-skip-tls-verify", to(func(c *clientcmdapi.Cluster) { c.InsecureSkipTLSVerify, c.CertificateAuthorityData = true, nil })},
		{"sent in clear", to(func(c *clientcmdapi.Cluster) { c.Server = "http://api.example.com" })},
		{"does not connect to 169.254.169.254: it is link-local", to(func(c *clientcmdapi.Cluster) { c.Server = "https://169.254.169.254" })},
		{"does not connect to fd00:ec2::254", to(func(c *clientcmdapi.Cluster) { c.ProxyURL = "http://[fd00:ec2::254]:80" })},
		{"is none of its contexts", func(c *clientcmdapi.Config) { c.CurrentContext = "elsewhere" }},
	} {
		said := w.Plan(importConfig("imp-checked", handing(kubeconfigFile(t, acctest.Acc.Hub.Kubeconfig, x.change), 1)))
		acctest.Says(t, said, "Error: Invalid kubeconfig", "kubeconfig_wo", x.says)
		if strings.Contains(said, "t0psecret") {
			t.Errorf("%s: the token is shown", x.says)
		}
	}
	for _, x := range []struct{ body, says string }{
		{"  kubeconfig_wo = \"x\"\n  kubeconfig_wo_version = 1", "it is not a kubeconfig"},
		{"  kubeconfig_wo = \"x\"", "kubeconfig_wo_version"},
		{`  agent = { tolerations = [{ value = "x" }] }`, "agent.tolerations[0].operator"},
		{`  agent = { args = ["--bootstrap-kubeconfig=/x"] }`, "agent.args[0]"},
		{`  agent = { namespace = "kube-system" }`, "agent"},
		{`  endpoint = { server = "http://hub.example.com" }`, "only https is admitted"},
		{`  cluster_labels = { "cluster.open-cluster-management.io/clusterset" = "eu" }`, "use the attribute cluster_set"},
		{"  wait = {}", "Nothing to wait for"},
		{"  redeploy = -1", "redeploy"},
	} {
		acctest.Says(t, w.Plan(importConfig("imp-checked", x.body)), "Error: ", x.says)
	}
}

// What the hub alone can know is reported after it was handed in.
func TestAccImportOfTheHubItself(t *testing.T) {
	w := acctest.NewWorkspace(t)
	someone := acctest.Someone(t)
	config := importConfig("imp-hub", handing(acctest.Acc.Hub.Kubeconfig, 1)+"  wait = { joined = true }\n")
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, said, `Not ready: cluster import "imp-hub"`, "leads to the hub itself", "postcondition on self.ready")
	said, ok = w.Apply(strings.Replace(config, "_version = 1", "_version = 2", 1))
	if ok {
		t.Error("an update whose wait fails is no error")
	}
	acctest.Says(t, said, "leads to the hub itself")
	// The kubeconfig is withdrawn with the import, and with its attributes.
	if !someone.Exists(&corev1.Secret{}, muster.ImportNamespace, "imp-hub") {
		t.Error("nothing was handed in")
	}
	without := importConfig("imp-hub", "")
	mustApply(t, w, without)
	if someone.Exists(&corev1.Secret{}, muster.ImportNamespace, "imp-hub") {
		t.Error("the kubeconfig was not withdrawn")
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// A Secret of somebody else's is neither overwritten nor deleted.
func TestAccImportLeavesForeignSecrets(t *testing.T) {
	w, someone := acctest.NewWorkspace(t), acctest.Someone(t)
	secret := &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte("theirs")}}
	secret.Namespace, secret.Name = muster.ImportNamespace, "imp-theirs"
	someone.Apply(secret)
	config := importConfig("imp-theirs", handing(acctest.Acc.Hub.Kubeconfig, 1)+"  forget_after_join = false\n")
	said, ok := w.Apply(config)
	if ok {
		t.Error("another's Secret was overwritten")
	}
	acctest.Says(t, said, "Exists already: Secret muster-imports/imp-theirs", "set adopt = true", "kubeconfig_secret")
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
	someone.Get(secret, muster.ImportNamespace, "imp-theirs")
	if string(secret.Data["kubeconfig"]) != "theirs" {
		t.Error("another's Secret was changed")
	}
}

// An import that another state has taken over keeps its kubeconfig when the first state
// is destroyed.
func TestAccImportKeepsTheKubeconfigOfItsNextOwner(t *testing.T) {
	first, second, someone := acctest.NewWorkspace(t), acctest.NewWorkspace(t), acctest.Someone(t)
	const keep = "  forget_after_join = false\n"
	mustApply(t, first, importConfig("imp-handed-over", handing(acctest.Acc.Hub.Kubeconfig, 1)+keep))
	mustApply(t, second, importConfig("imp-handed-over", keep+"  adopt = true\n"))
	said, ok := first.Destroy()
	if !ok {
		t.Error(acctest.Excerpt(said))
	}
	someone.Get(&v1alpha1.ClusterImport{}, "", "imp-handed-over")
	someone.Get(&corev1.Secret{}, muster.ImportNamespace, "imp-handed-over")
	if said, ok := second.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// Who has the rights that the guide names can import a cluster, who may only read can
// plan, and who lacks a right learns which.
func TestAccImportWithRestrictedIdentities(t *testing.T) {
	w, someone := acctest.NewWorkspace(t), acctest.Someone(t)
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	imports := rule(muster.GroupName, "clusterimports", "get", "list", "watch", "create", "patch", "delete")
	clusters := rule(cluster.GroupName, "managedclusters", "create")
	sets := rule(cluster.GroupName, "managedclustersets/join", "create")
	secrets := rule("", "secrets", "get", "create", "patch", "delete")
	config := importConfig("imp-rights", handing(acctest.Acc.Hub.Kubeconfig, 1))
	reader := someone.Identity("imp-reader", rule(muster.GroupName, "clusterimports", "get", "list"))
	acctest.Says(t, w.Plan(reader+config), "Plan: 1 to add, 0 to change, 0 to destroy.")
	blind := someone.Identity("imp-blind", imports, clusters, sets)
	acctest.Says(t, w.Plan(blind+config), "with muster_cluster_import.test", `cannot use the Secret "imp-rights"`)
	accepting := strings.Replace(config, "\n}\n", "\n  accept = true\n}\n", 1)
	able := someone.Identity("imp-able", imports, clusters, sets, secrets)
	acctest.Says(t, w.Plan(able+accepting), "with muster_cluster_import.test", "managedclusters/accept")
	mustApply(t, w, able+config)
	if said, ok := w.Run("destroy", "-auto-approve", "-no-color"); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// A hub without the gate is noticed while planning, and says nothing of imports
// where nobody asks for any.
func TestAccImportNeedsItsGate(t *testing.T) {
	w := acctest.NewWorkspace(t)
	hub := acctest.OwnHub(t, "--feature-gates", "UserAccess=false")
	provider := fmt.Sprintf("provider \"muster\" {\n  kubeconfig_path = %q\n}\n", hub.Kubeconfig)
	acctest.Says(t, w.Plan(provider+importConfig("imp-gate", "")), "Error: The hub imports no clusters", "--feature-gates ClusterImport=true", "muster_klusterlet")
	acctest.Says(t, w.Plan(provider+"data \"muster_cluster_import\" \"x\" {\n  name = \"x\"\n}\n"), "Cluster imports need a muster hub with the feature gate ClusterImport")
	p, err := embedded.New(t.Context(), "test", map[string]any{"kubeconfig_path": hub.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := export.Write(t.Context(), p, export.Options{Dir: t.TempDir()}); err != nil {
		t.Errorf("a hub without imports and logical clouds can't be exported: %v", err)
	}
}
