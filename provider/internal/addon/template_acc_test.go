package addon_test

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func templateConfig(name, body string) string {
	return "resource \"muster_addon_template\" \"test\" {\n  name = \"" + name + "\"\n  addon_name = \"metrics\"\n" + body + "\n}\n"
}

const anObject = `
  objects = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "agent", namespace = "open-cluster-management-agent-addon" }, data = { cluster = "{{CLUSTER_NAME}}" } }]`

// fullTemplate sets every attribute.
const fullTemplate = anObject + `
  labels       = { app = "metrics" }
  manifests    = ["apiVersion: v1\nkind: Namespace\nmetadata: {name: \"{{INSTALL_NAMESPACE}}\"}\n"]
  manifests_wo = [jsonencode({ apiVersion = "v1", kind = "Secret", metadata = { name = "s", namespace = "n" }, stringData = { password = "hunter2" } })]
  manifests_wo_version = 1
  manifest_configs = [{ resource_identifier = { resource = "configmaps", name = "agent", namespace = "*" }, update_strategy = { type = "CreateOnly" } }]
  registration = [
    { kube_client = { hub_permissions = [
      { current_cluster = { cluster_role_name = "writer" } },
      { single_namespace = { namespace = "default", role_ref = { kind = "ClusterRole", name = "reader" } } },
    ] } },
    { custom_signer = { signer_name = "example.com/metrics", subject = { user = "u", groups = ["g"], organization_units = ["o"] }, signing_ca = { namespace = "ca", name = "ca" } } },
  ]`

func TestAccTemplateSaysAll(t *testing.T) {
	someone := acctest.Someone(t)
	w := acctest.NewWorkspace(t)
	config := templateConfig("template-all", fullTemplate)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.Plan(config), "No changes.")
	object := &v1alpha1.AddOnTemplate{}
	someone.Get(object, "", "template-all")
	spec := object.Spec
	if len(spec.AgentSpec.Workload.Manifests) != 3 || spec.AddonName != "metrics" || len(spec.AgentSpec.ManifestConfigs) != 1 || len(spec.Registration) != 2 {
		t.Fatalf("on the hub: %+v", spec)
	}
	permissions, signer := spec.Registration[0].KubeClient.HubPermissions, spec.Registration[1].CustomSigner
	if permissions[0].CurrentCluster.ClusterRoleName != "writer" || permissions[1].SingleNamespace.RoleRef != (v1alpha1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"}) ||
		signer.SignerName != "example.com/metrics" || signer.Subject.OrganizationUnits[0] != "o" || signer.SigningCA.Namespace != "ca" {
		t.Errorf("on the hub: %+v, %+v", permissions, signer)
	}
	if strings.Contains(w.MustRun("show", "-json"), "hunter2") {
		t.Error("the state has a write-only value")
	}
	// What others add to the rights goes, and what they change in an object shows.
	someone.Patch(&v1alpha1.AddOnTemplate{}, "", "template-all", `{"spec":{"registration":[{"type":"KubeClient"}],"agentSpec":{"manifestConfigs":null}}}`)
	acctest.Says(t, w.Plan(config), "1 to change", "+ cluster_role_name", "+ update_strategy")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	bare := templateConfig("template-all", anObject)
	if said, ok := w.Apply(bare); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	someone.Patch(&v1alpha1.AddOnTemplate{}, "", "template-all", `{"spec":{"registration":[{"type":"KubeClient"}]}}`)
	acctest.Says(t, w.Plan(bare), "- kube_client")
	if said, ok := w.Apply(bare); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	object = &v1alpha1.AddOnTemplate{}
	someone.Get(object, "", "template-all")
	if len(object.Spec.Registration) > 0 || len(object.Spec.AgentSpec.Workload.Manifests) != 1 {
		t.Errorf("left on the hub: %+v", object.Spec)
	}
}

// A credential without rights may be written on the hub in two ways, and is one.
func TestAccRegistrationWithoutRights(t *testing.T) {
	someone := acctest.Someone(t)
	object := &v1alpha1.AddOnTemplate{Spec: v1alpha1.AddOnTemplateSpec{AddonName: "metrics", Registration: []v1alpha1.RegistrationSpec{{Type: v1alpha1.RegistrationTypeKubeClient}}}}
	object.Name = "template-bare"
	object.Spec.AgentSpec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`)}}}
	someone.Apply(object)
	config := templateConfig("template-bare", `
  objects      = [{ apiVersion = "v1", kind = "Namespace", metadata = { name = "n" } }]
  registration = [{ kube_client = {} }]`)
	acctest.Says(t, acctest.NewWorkspace(t).Plan("import {\n  to = muster_addon_template.test\n  id = \"template-bare\"\n}\n"+config), "1 to import, 0 to add, 0 to change")
	w := acctest.NewWorkspace(t)
	said, ok := w.Apply(strings.Replace(config, `"metrics"`, `"other"`, 1))
	if ok {
		t.Fatal("a template of somebody else was taken over without adopt")
	}
	acctest.Says(t, said, "Exists already", `spec.addonName differs`, "terraform import ADDRESS template-bare")
	adopting := strings.Replace(config, "addon_name", "adopt = true\n  addon_name", 1)
	if said, ok = w.Apply(adopting); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.Plan(adopting), "No changes.")
}

// Each mistake is told while planning, with what to write.
func TestAccTemplateMistakes(t *testing.T) {
	w := acctest.NewWorkspace(t)
	for _, x := range []struct{ body, says string }{
		{``, "There is nothing to bring to clusters"},
		{`  objects = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "a", namespace = "n" }, data = { x = "{{ NS }}" } }]`, "write {{NS}}"},
		{`  objects = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "a", namespace = "n" }, data = { x = "{{NS" } }]`, "opens a placeholder that nothing closes"},
		{`  objects = [{ apiVersion = "v1", kind = "Secret", metadata = { name = "a", namespace = "n" }, stringData = { a = "b" } }]`, "Secret in objects"},
		{anObject + "\n  registration = []", "at least 1"},
		{anObject + "\n  registration = [{}]", "registration[0] takes exactly one of kube_client, custom_signer, and neither is set"},
		{anObject + "\n  registration = [{ kube_client = {} }, { kube_client = {} }]", "registration[0] and registration[1] are for the same signer"},
		{anObject + "\n  registration = [{ kube_client = { hub_permissions = [{}] } }]", "takes exactly one of current_cluster, single_namespace"},
		{anObject + "\n  registration = [{ kube_client = { hub_permissions = [{ current_cluster = { cluster_role_name = \"a/b\" } }] } }]", "takes the name of a role"},
		{anObject + "\n  registration = [{ custom_signer = { signer_name = \"metrics\", signing_ca = { name = \"a\" } } }]", "a domain, a slash and a name"},
		{anObject + "\n  registration = [{ custom_signer = { signer_name = \"kubernetes.io/kube-apiserver-client\", signing_ca = { name = \"a\" } } }]", "set kube_client in place of custom_signer"},
		{anObject + "\n  registration = [{ custom_signer = { signer_name = \"example.com/a\" } }]", `attribute "signing_ca" is required`},
		{anObject + "\n  executor = {}", "Unsupported argument"},
	} {
		acctest.Says(t, w.Plan(templateConfig("template-wrong", x.body)), x.says)
	}
	acctest.Says(t, w.Plan(templateConfig("Template", anObject)), `Try "template"`)
}

// A template that an add-on has applied stays until it is removed, although another one
// is wanted already.
func TestAccTemplateStaysWhileItIsUsed(t *testing.T) {
	someone := acctest.Someone(t)
	someone.Namespace("template-used")
	w := acctest.NewWorkspace(t)
	config := templateConfig("template-used", anObject+"\n  timeouts { delete = \"2s\" }")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	user := &v1alpha1.ManagedClusterAddOn{}
	user.Namespace, user.Name = "template-used", "used"
	someone.Apply(user)
	ctx, cancel := someone.Context()
	defer cancel()
	user.Status.ConfigReferences = []v1alpha1.ConfigReference{{
		ConfigGroupResource: v1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: addon.TemplateResource},
		ConfigReferent:      v1alpha1.ConfigReferent{Name: "other"},
		DesiredConfig:       &v1alpha1.ConfigSpecHash{ConfigReferent: v1alpha1.ConfigReferent{Name: "other"}},
		LastAppliedConfig:   &v1alpha1.ConfigSpecHash{ConfigReferent: v1alpha1.ConfigReferent{Name: "template-used"}},
	}}
	if err := someone.Client.UpdateSubresource(ctx, user, "status", acctest.OutsiderManager); err != nil {
		t.Fatal(err)
	}
	said, ok := w.Destroy()
	if ok || !someone.Exists(&v1alpha1.AddOnTemplate{}, "", "template-used") {
		t.Error("a template that is in use was destroyed")
	}
	acctest.Says(t, said, `Still in use: add-on template "template-used"`, "used in the cluster template-used")
	someone.Remove(&v1alpha1.ManagedClusterAddOn{}, "template-used", "used")
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}

// What is unknown while planning is no mistake, and a read-only identity plans.
func TestAccTemplateTakesUnknownValuesAndReaders(t *testing.T) {
	someone := acctest.Someone(t)
	w := acctest.NewWorkspace(t)
	config := `
resource "terraform_data" "late" {
  input = { role = "writer", object = { apiVersion = "v1", kind = "ConfigMap", metadata = { name = "late", namespace = "n" } }, signer = "example.com/late" }
}
` + templateConfig("template-late", `
  objects      = [terraform_data.late.output.object]
  registration = [
    { kube_client = { hub_permissions = [{ current_cluster = { cluster_role_name = terraform_data.late.output.role } }] } },
    { custom_signer = { signer_name = terraform_data.late.output.signer, signing_ca = { name = terraform_data.late.output.role } } },
  ]`)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	reader := someone.Identity("template-reader", rbacv1.PolicyRule{APIGroups: []string{addon.GroupName}, Resources: []string{"*"}, Verbs: []string{"get", "list"}})
	acctest.Says(t, w.Plan(reader+config), "No changes.")
	acctest.Says(t, w.Plan(reader+strings.Replace(config, `"metrics"`, `"other"`, 1)), "1 to change")
}
