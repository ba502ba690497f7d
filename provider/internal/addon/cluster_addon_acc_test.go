package addon_test

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
)

func clusterAddOn(cluster, name, body string) string {
	return "resource \"muster_cluster_addon\" \"test\" {\n  managed_cluster = \"" + cluster + "\"\n  name = \"" + name + "\"\n" + body + "\n}\n"
}

// accept makes a managed cluster that is accepted and has its namespace.
func accept(o *acctest.Outsider, name string, labels map[string]string) {
	o.T.Helper()
	accepted := true
	managed := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: &accepted}}
	managed.Name, managed.Labels = name, labels
	o.Apply(managed)
	o.Wait(&corev1.Namespace{}, "", name, func() bool { return true })
}

const fullClusterAddOn = `
  labels            = { env = "prod" }
  annotations       = { note = "x" }
  hosting_cluster   = "ca-host"
  install_namespace = "agents"
  configs = [
    { resource = "addondeploymentconfigs", namespace = "default", name = "b" },
    { resource = "addondeploymentconfigs", namespace = "default", name = "a" },
    { group = "example.com", resource = "settings", name = "x" },
  ]`

func TestAccClusterAddOnSaysAll(t *testing.T) {
	someone := acctest.Someone(t)
	accept(someone, "ca-all", nil)
	w := acctest.NewWorkspace(t)
	config := clusterAddOn("ca-all", "metrics", fullClusterAddOn)
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, said, `There is no ClusterManagementAddOn "metrics", so nothing deploys or configures the add-on`, "Define it with muster_addon",
		`hosting_cluster is "ca-host", and the hub`, "configs[0] names addondeploymentconfigs default/b, which the hub")
	acctest.Says(t, w.Plan(config), "No changes.")
	object := &v1alpha1.ManagedClusterAddOn{}
	someone.Get(object, "ca-all", "metrics")
	if object.Annotations[addon.HostingClusterAnnotation] != "ca-host" || object.Spec.InstallNamespace != "agents" || len(object.Spec.Configs) != 3 || object.Spec.Configs[0].Name != "b" {
		t.Errorf("on the hub: %+v, %+v", object.Annotations, object.Spec)
	}
	// Their order counts; what somebody adds goes.
	someone.Patch(&v1alpha1.ManagedClusterAddOn{}, "ca-all", "metrics", `{"spec":{"configs":[{"group":"","resource":"configmaps","namespace":"n","name":"theirs"}]},"metadata":{"annotations":{"`+addon.HostingClusterAnnotation+`":"theirs"}}}`)
	acctest.Says(t, w.Plan(config), `"theirs" -> "ca-host"`, `"configmaps" -> "addondeploymentconfigs"`)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	bare := clusterAddOn("ca-all", "metrics", "")
	if said, ok := w.Apply(bare); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	object = &v1alpha1.ManagedClusterAddOn{}
	someone.Get(object, "ca-all", "metrics")
	if _, hosted := object.Annotations[addon.HostingClusterAnnotation]; hosted || len(object.Spec.Configs) > 0 || object.Spec.InstallNamespace != addon.DefaultInstallNamespace {
		t.Errorf("left on the hub: %+v, %+v", object.Annotations, object.Spec)
	}
	someone.Patch(&v1alpha1.ManagedClusterAddOn{}, "ca-all", "metrics", `{"spec":{"configs":[{"group":"","resource":"configmaps","namespace":"n","name":"theirs"}]}}`)
	acctest.Says(t, w.Plan(bare), `- name = "theirs"`)
	if said, ok := w.Apply(bare); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.Plan(bare), "No changes.")
}

func TestAccClusterAddOnMistakes(t *testing.T) {
	w := acctest.NewWorkspace(t)
	for _, x := range []struct{ body, says string }{
		{`  hosting_cluster = "ca-wrong"`, "which is the cluster of the add-on"},
		{`  hosting_cluster = "Not A Name"`, "lower-case letters"},
		{`  annotations = { "addon.open-cluster-management.io/hosting-cluster-name" = "x" }`, "use the attribute hosting_cluster"},
		{`  annotations = { "addon.open-cluster-management.io/v1alpha1-install-namespace" = "x" }`, "use the attribute install_namespace"},
		{`  install_namespace = ""`, "cannot be used as namespace"},
		{`  configs = []`, "names no configuration"},
		{`  configs = [{ resource = "AddOnTemplate", name = "x" }]`, `Write "addontemplates"`},
		{`  configs = [{ resource = "addondeploymentconfigs", name = "x" }]`, "Set namespace"},
		{`  wait = {}`, "Nothing to wait for"},
		{`  cluster = "x"`, "Unsupported argument"},
	} {
		acctest.Says(t, w.Plan(clusterAddOn("ca-wrong", "metrics", x.body)), x.says)
	}
	planned := w.Plan(clusterAddOn("ca-nowhere", "metrics", ""))
	acctest.Says(t, planned, "No such managed cluster", `managed_cluster is "ca-nowhere"`, "muster_managed_cluster.NAME.name")
	said, ok := w.Apply(clusterAddOn("ca-nowhere", "metrics", ""))
	if ok {
		t.Error("an add-on in a cluster that does not exist is no error")
	}
	acctest.Says(t, said, `has no managed cluster "ca-nowhere". Create it with muster_managed_cluster`)
}

// What the same apply creates is not missing, and neither is what nobody may read.
func TestAccClusterAddOnWithWhatItNeeds(t *testing.T) {
	someone := acctest.Someone(t)
	w := acctest.NewWorkspace(t)
	config := `
resource "muster_managed_cluster" "x" { name = "ca-needs" }

resource "muster_cluster_acceptance" "x" { managed_cluster = muster_managed_cluster.x.name }

resource "muster_addon_deployment_config" "x" {
  namespace = "default"
  name      = "ca-needs"
}

resource "muster_addon" "x" {
  name    = "ca-needs"
  supported_configs = [{ resource = "addondeploymentconfigs" }]
}

resource "muster_cluster_addon" "x" {
  managed_cluster = muster_cluster_acceptance.x.managed_cluster
  name            = muster_addon.x.name
  configs         = [{ resource = "addondeploymentconfigs", namespace = muster_addon_deployment_config.x.namespace, name = muster_addon_deployment_config.x.name }]
}
`
	if said := w.Plan(config); strings.Contains(said, "Warning") || !strings.Contains(said, "5 to add") {
		t.Errorf("a plan of what is created together: %s", acctest.Excerpt(said))
	}
	if said, ok := w.Apply(config); !ok || strings.Contains(said, "Warning") {
		t.Fatal(acctest.Excerpt(said))
	}
	other := strings.Replace(config, `configs         = [`, `configs = [{ group = "example.com", resource = "settings", name = "x" }, `, 1)
	acctest.Says(t, w.Plan(other), "Configuration that the add-on does not understand", `configs[0] is of the kind settings of the group "example.com", and the add-on "ca-needs" understands addondeploymentconfigs`, "ConfigurationUnsupported")
	reader := someone.Identity("ca-reader", rbacv1.PolicyRule{APIGroups: []string{addon.GroupName}, Resources: []string{"managedclusteraddons"}, Verbs: []string{"get"}})
	alone := clusterAddOn("ca-needs", "another", "")
	if said := acctest.NewWorkspace(t).Plan(reader + alone); strings.Contains(said, "Warning") || !strings.Contains(said, "1 to add") {
		t.Errorf("a plan without rights: %s", acctest.Excerpt(said))
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// A wait says what holds the add-on up, and is met by what hub and agent report.
func TestAccClusterAddOnWaits(t *testing.T) {
	someone := acctest.Someone(t)
	accept(someone, "ca-waits", nil)
	w := acctest.NewWorkspace(t)
	config := clusterAddOn("ca-waits", "ca-waits-addon", `
  wait = { rolled_out = true, available = true }
  timeouts {
    create = "2s"
    update = "20s"
  }`)
	said, ok := w.Apply(config)
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, said, `Not ready: add-on "ca-waits-addon" in cluster "ca-waits"`, "rolled_out: Configured is not reported yet", "available: Available is not reported yet",
		`There is no ClusterManagementAddOn "ca-waits-addon"`, `The cluster "ca-waits" is not available`, "kubectl describe managedclusteraddon -n ca-waits ca-waits-addon")
	report := func(available metav1.ConditionStatus) {
		t.Helper()
		object := &v1alpha1.ManagedClusterAddOn{}
		someone.Get(object, "ca-waits", "ca-waits-addon")
		object.Status.Namespace = "agents"
		object.Status.Registrations = []v1alpha1.RegistrationConfig{{SignerName: addon.KubeClientSigner, Subject: v1alpha1.Subject{User: "u", Groups: []string{"g"}}}}
		object.Status.Conditions = []metav1.Condition{
			{Type: addon.ConditionConfigured, Status: metav1.ConditionTrue, Reason: addon.ReasonConfigurationsConfigured, LastTransitionTime: metav1.Now()},
			{Type: addon.ConditionProgressing, Status: metav1.ConditionFalse, Reason: addon.ReasonCompleted, LastTransitionTime: metav1.Now()},
			{Type: addon.ConditionAvailable, Status: available, Reason: "Probed", Message: "the agent says no", LastTransitionTime: metav1.Now()},
		}
		ctx, cancel := someone.Context()
		defer cancel()
		if err := someone.Client.UpdateSubresource(ctx, object, "status", acctest.OutsiderManager); err != nil {
			t.Fatal(err)
		}
	}
	report(metav1.ConditionFalse)
	failing := strings.Replace(config, `"20s"`, `"1s"`, 1)
	if said, ok = w.Apply(failing); ok {
		t.Error("a wait that is not met does not fail an update")
	}
	acctest.Says(t, said, "available: Available is False (Probed): the agent says no")
	report(metav1.ConditionTrue)
	if said, ok = w.Apply(config + "\noutput \"x\" { value = muster_cluster_addon.test }\n"); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.MustRun("output", "-json"), `"ready": true`, `"agent_namespace": "agents"`, `"user": "u"`, `"reason": "Completed"`)
}

// An add-on that placements install comes and goes with what they select, and Terraform
// says so before.
func TestAccClusterAddOnAndPlacements(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("ca-placed")
	accept(someone, "ca-in", map[string]string{cluster.ClusterSetLabel: "ca-placed"})
	accept(someone, "ca-out", nil)
	set := &clusterv1beta2.ManagedClusterSet{}
	set.Name = "ca-placed"
	someone.Apply(set)
	binding := &clusterv1beta2.ManagedClusterSetBinding{Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "ca-placed"}}
	binding.Namespace, binding.Name = "ca-placed", "ca-placed"
	someone.Apply(binding)
	placement := &clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{Tolerations: []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists}}}}
	placement.Namespace, placement.Name = "ca-placed", "where"
	someone.Apply(placement)
	definition := &v1alpha1.ClusterManagementAddOn{Spec: v1alpha1.ClusterManagementAddOnSpec{InstallStrategy: v1alpha1.InstallStrategy{
		Type: v1alpha1.InstallStrategyPlacements, Placements: []v1alpha1.PlacementStrategy{{PlacementRef: v1alpha1.PlacementRef{Namespace: "ca-placed", Name: "where"}}},
	}}}
	definition.Name = "ca-placed"
	someone.Apply(definition)
	someone.Wait(&v1alpha1.ManagedClusterAddOn{}, "ca-in", "ca-placed", func() bool { return true })

	w := acctest.NewWorkspace(t)
	out := clusterAddOn("ca-out", "ca-placed", "")
	acctest.Says(t, w.Plan(out), `The hub would remove add-on "ca-placed" in cluster "ca-out"`, `installed by placements (ca-placed/where), which do not select the cluster "ca-out"`)
	said, ok := w.Apply(out)
	if ok || someone.Exists(&v1alpha1.ManagedClusterAddOn{}, "ca-out", "ca-placed") {
		t.Error("an add-on was created that the hub removes")
	}
	acctest.Says(t, said, "Nothing was created", "Let a placement select the cluster")

	in := clusterAddOn("ca-in", "ca-placed", `  labels = { env = "prod" }`)
	said, ok = w.Apply(in)
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, said, "Installed by a placement, too", "installs it there in any case")
	acctest.Says(t, w.Plan(in), "No changes.")
	w.Init(in)
	planned, _ := w.Run("plan", "-destroy", "-no-color", "-input=false")
	acctest.Says(t, planned, "Installed again by a placement", "Placements of the add-on (ca-placed/where) select the cluster")
	if said, ok := w.Destroy(); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	again := &v1alpha1.ManagedClusterAddOn{}
	someone.Wait(again, "ca-in", "ca-placed", func() bool { return again.Labels["env"] == "" && again.DeletionTimestamp == nil })
	differing := clusterAddOn("ca-in", "ca-placed", `  install_namespace = "other"`)
	if said, ok = w.Apply(differing); ok {
		t.Error("the namespace of an add-on that the hub has installed was changed without adopt")
	}
	acctest.Says(t, said, "Exists already", "spec.installNamespace is", "terraform import ADDRESS ca-in/ca-placed")
}

// A removal that takes too long says what it waits for.
func TestAccClusterAddOnThatIsHeld(t *testing.T) {
	someone := acctest.Someone(t)
	accept(someone, "ca-held", nil)
	w := acctest.NewWorkspace(t)
	if said, ok := w.Apply(clusterAddOn("ca-held", "ca-held-addon", "  timeouts { delete = \"2s\" }")); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	someone.Patch(&v1alpha1.ManagedClusterAddOn{}, "ca-held", "ca-held-addon", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	said, ok := w.Destroy()
	if ok {
		t.Error("nothing was held")
	}
	acctest.Says(t, said, `Not removed yet: add-on "ca-held-addon" in cluster "ca-held"`, "Finalizer example.com/hold", "Repair the controller of example.com/hold")
	someone.Patch(&v1alpha1.ManagedClusterAddOn{}, "ca-held", "ca-held-addon", `{"metadata":{"finalizers":null}}`)
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}
