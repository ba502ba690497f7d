package addon_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/health"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// fromYAML reads YAML.
func fromYAML[T any](t testing.TB, text string) (out T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v, in:\n%s", err, text)
	}
	return out
}

// renders makes the add-on in the cluster "a" from a template in YAML, with a default
// configuration of its name, which nobody has made yet.
func (f *fleet) renders(spec string) {
	f.Helper()
	t := &addonv1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Spec: fromYAML[addonv1alpha1.AddOnTemplateSpec](f, spec)}
	t.Spec.AddonName = f.name
	f.Make(t)
	f.place("p", "0:a")
	f.fromTemplate(f.strategy("p", "", progressive(1, clusterv1alpha1.RolloutConfig{})))
}

// configure has the add-on use a deployment configuration in YAML, or none.
func (f *fleet) configure(spec string) {
	f.Helper()
	reference := "null"
	if spec != "" {
		c := &unstructured.Unstructured{Object: map[string]any{"spec": fromYAML[map[string]any](f, spec)}}
		c.SetGroupVersionKind(addonv1beta1.GroupVersion.WithKind("AddOnDeploymentConfig"))
		c.SetNamespace(f.name)
		c.SetName("settings")
		f.Remove(c.DeepCopy())
		f.Make(c)
		reference = fmt.Sprintf(`{"namespace":%q,"name":"settings"}`, f.name)
	}
	f.Merge(f.definition(), fmt.Sprintf(`{"spec":{"supportedConfigs":[
		{"group":"addon.open-cluster-management.io","resource":"addontemplates","defaultConfig":{"name":%q}},
		{"group":"addon.open-cluster-management.io","resource":"addondeploymentconfigs","defaultConfig":%s}]}}`, f.name, reference))
	f.settle()
	f.apply("a", true)
	f.settle()
}

// mustBeRendered compares the work of the cluster "a" with documents of YAML, in which
// CLUSTER and ADDON are the names of the cluster and of the add-on.
func (f *fleet) mustBeRendered(want string) *workv1.ManifestWork {
	f.Helper()
	w := f.mustHaveWorks("a", "addon-A-deploy-0")["addon-A-deploy-0"]
	if w == nil {
		f.Fatal(f.condition("a", "ManifestApplied"))
	}
	want = strings.NewReplacer("CLUSTER", f.full("a"), "ADDON", f.name, "VARIABLE", "CLUSTER_NAME").Replace(want)
	documents := strings.Split(want, "\n---\n")
	got := w.Spec.Workload.Manifests
	for i := range max(len(got), len(documents)) {
		switch {
		case i >= len(got):
			f.Errorf("the work lacks\n%s", documents[i])
		case i >= len(documents):
			f.Errorf("the work has in addition\n%s", got[i].Raw)
		case !apiequality.Semantic.DeepEqual(fromYAML[map[string]any](f, string(got[i].Raw)), fromYAML[map[string]any](f, documents[i])):
			text, _ := yaml.JSONToYAML(got[i].Raw)
			f.Errorf("the manifest %d is\n%s\nand not\n%s", i, text, documents[i])
		}
	}
	return w
}

// annotate gives the cluster "a" registries of images, or none.
func (f *fleet) annotate(value string) {
	f.Helper()
	mc := &clusterv1.ManagedCluster{}
	f.Must(f.Get(context.Background(), types.NamespacedName{Name: f.full("a")}, mc))
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	f.Merge(mc, fmt.Sprintf(`{"metadata":{"annotations":{"open-cluster-management.io/image-registries":%s}}}`, text))
	f.settle()
}

const (
	// rendering is a template with both kinds of workloads. Their selectors are left
	// out, as nobody applies them here.
	rendering = `
registration: [{type: KubeClient}]
agentSpec:
  workload:
    manifests:
    - {apiVersion: v1, kind: ServiceAccount, metadata: {name: agent, namespace: own}}
    - {apiVersion: apps/v1, kind: Deployment, metadata: {name: agent, namespace: own}, spec: {template: {spec: {serviceAccountName: agent, containers: [
        {name: main, image: "quay.io/team/agent:v1", args: ["{{CLUSTER_NAME}}", "{{HUB_KUBECONFIG}}", "{{LEVEL}}"], env: [{name: OWN, value: x}]}, {name: side, image: "quay.io/team/side"}]}}}}
    - {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: node, namespace: own}, spec: {template: {spec: {containers: [{name: main, image: "quay.io/team/node"}]}}}}
    - {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: agent}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: ServiceAccount, name: agent, namespace: own}]}
  manifestConfigs:
  - resourceIdentifier: {group: apps, resource: daemonsets, name: node, namespace: own}
    updateStrategy: {type: ServerSideApply}
`
	account = `{apiVersion: v1, kind: ServiceAccount, metadata: {name: agent, namespace: NAMESPACE}}`
	binding = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: agent}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: ServiceAccount, name: agent, namespace: NAMESPACE}]}`
	mounted = `volumeMounts: [{name: hub-kubeconfig, mountPath: /managed/hub-kubeconfig}MOUNT]`
	volumes = `volumes: [{name: hub-kubeconfig, secret: {secretName: ADDON-hub-kubeconfig}}VOLUME]`
	always  = `{name: HUB_KUBECONFIG, value: /managed/hub-kubeconfig/kubeconfig}, {name: CLUSTER_NAME, value: CLUSTER}ENV`
)

// rendered is what becomes of that template: in a namespace, with a level, from a
// registry, with more of the environment, mounts and volumes, and of each main
// container.
func rendered(namespace, level, registry, env, mount, volume, main string) string {
	text := strings.Join([]string{account,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: agent, namespace: NAMESPACE}, spec: {template: {spec: {serviceAccountName: agent, containers: [
			{name: main, image: "REGISTRY/agent:v1", args: ["CLUSTER", /managed/hub-kubeconfig/kubeconfig, "LEVEL"], env: [{name: OWN, value: x}, ` + always + `], ` + mounted + `MAIN},
			{name: side, image: "REGISTRY/side", env: [` + always + `], ` + mounted + `}], ` + volumes + `}}}}`,
		`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: node, namespace: NAMESPACE}, spec: {template: {spec: {containers: [
			{name: main, image: "REGISTRY/node", env: [` + always + `], ` + mounted + `MAIN}], ` + volumes + `}}}}`,
		binding}, "\n---\n")
	// CLUSTER_NAME is the name of a variable, and not that of the cluster.
	text = strings.ReplaceAll(text, "CLUSTER_NAME", "VARIABLE")
	text = strings.NewReplacer("NAMESPACE", namespace, "LEVEL", level, "REGISTRY", registry, "MOUNT", mount, "VOLUME", volume, "MAIN", main, "ENV", env).Replace(text)
	return text
}

func TestTemplatesAreRenderedIntoWorks(t *testing.T) {
	const own = "quay.io/team"
	f := newFleet(t, "a")
	f.renders(rendering)
	f.configure("")
	f.mustBeRendered(rendered("own", "", own, "", "", "", ""))
	f.mustNamespace("own")

	// The default namespace of a configuration counts, and not only for itself.
	f.configure(`{customizedVariables: [{name: LEVEL, value: debug}]}`)
	const install = "open-cluster-management-agent-addon"
	inNamespace := ", {name: INSTALL_NAMESPACE, value: " + install + "}"
	w := f.mustBeRendered(rendered(install, "debug", own, inNamespace, "", "", ""))
	f.mustNamespace(install)
	want := fromYAML[[]workv1.ManifestConfigOption](t, `
- {resourceIdentifier: {group: apps, resource: deployments, name: agent, namespace: `+install+`}, feedbackRules: [{type: WellKnownStatus}], feedbackScrapeType: Poll}
- {resourceIdentifier: {group: apps, resource: daemonsets, name: node, namespace: `+install+`}, feedbackRules: [{type: WellKnownStatus}], feedbackScrapeType: Poll, updateStrategy: {type: ServerSideApply}}`)
	for i, kind := range []string{"Deployment", "DaemonSet"} {
		_, want[i].FeedbackRules = health.RolloutRules(schema.GroupKind{Group: "apps", Kind: kind})
	}
	if !apiequality.Semantic.DeepEqual(w.Spec.ManifestConfigs, want) {
		t.Errorf("the options of the manifests are %+v, want %+v", w.Spec.ManifestConfigs, want)
	}

	// Another namespace, and the empty one, with which manifests keep theirs.
	f.configure(`{agentInstallNamespace: agents}`)
	f.mustBeRendered(rendered("agents", "", own, ", {name: INSTALL_NAMESPACE, value: agents}", "", "", ""))
	f.mustNamespace("agents")
	f.configure(`{agentInstallNamespace: ""}`)
	f.mustBeRendered(rendered("own", "", own, "", "", "", ""))
	f.mustNamespace("own")

	// Registries: the cluster's annotation, the configuration's before it, and neither.
	f.annotate(`{"registries":[{"source":"quay.io/team","mirror":"cluster.example.org"}]}`)
	f.mustBeRendered(rendered("own", "", "cluster.example.org", "", "", "", ""))
	f.configure(`{agentInstallNamespace: "", registries: [{source: quay.io, mirror: config.example.org}]}`)
	f.mustBeRendered(rendered("own", "", "config.example.org/team", "", "", "", ""))
	f.annotate("")
	f.mustBeRendered(rendered("own", "", "config.example.org/team", "", "", "", ""))
	f.configure(`{agentInstallNamespace: ""}`)
	f.mustBeRendered(rendered("own", "", own, "", "", "", ""))

	// Resources of the containers of one name in both kinds.
	f.configure(`{agentInstallNamespace: "", resourceRequirements: [{containerID: "*:*:main", resources: {requests: {memory: 64Mi}}}]}`)
	f.mustBeRendered(rendered("own", "", own, "", "", "", ", resources: {requests: {memory: 64Mi}}"))

	// A proxy: seven variables, and the certificates behind all else.
	f.configure(`{agentInstallNamespace: agents, proxyConfig: {httpProxy: "http://p", httpsProxy: "https://p", noProxy: .local, caBundle: Q0E=}}`)
	f.mustBeRendered(rendered("agents", "", own, `, {name: INSTALL_NAMESPACE, value: agents}, {name: HTTP_PROXY, value: "http://p"}, {name: http_proxy, value: "http://p"},
		{name: HTTPS_PROXY, value: "https://p"}, {name: https_proxy, value: "https://p"}, {name: NO_PROXY, value: .local}, {name: no_proxy, value: .local},
		{name: CA_BUNDLE_FILE_PATH, value: /managed/proxy-ca/ca-bundle.crt}`,
		", {name: proxy-ca-bundle, mountPath: /managed/proxy-ca}", ", {name: proxy-ca-bundle, configMap: {name: ADDON-proxy-ca}}", "") +
		"\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: ADDON-proxy-ca, namespace: agents}, data: {ca-bundle.crt: CA}}")
	f.configure("")
	f.mustBeRendered(rendered("own", "", own, "", "", "", ""))
	f.mustCondition("a", "Progressing", completed)
}

// mustNamespace checks where the agent's credentials are to be.
func (f *fleet) mustNamespace(want string) {
	f.Helper()
	if got := f.in("a").Status.Namespace; got != want {
		f.Errorf("the agent's namespace is %q, want %q", got, want)
	}
}

// A template with a DaemonSet alone has its agent in that one's namespace.
func TestTheNamespaceOfADaemonSet(t *testing.T) {
	f := newFleet(t, "a")
	f.renders(`
registration: [{type: KubeClient}]
agentSpec: {workload: {manifests: [{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: node, namespace: nodes}}]}}`)
	f.configure("")
	f.mustNamespace("nodes")
	f.mustBeRendered(`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: node, namespace: nodes}}`)
}

// What makes a template impossible is said where a user looks, and goes when it is put
// right.
func TestWhyATemplateIsNotRendered(t *testing.T) {
	f := newFleet(t, "a")
	f.renders(rendering)
	f.configure("")
	for spec, want := range map[string]string{
		`{resourceRequirements: [{containerID: "deployments:a[:main", resources: {}}]}`: `spec.resourceRequirements[0].containerID is "deployments:a[:main": its part "a[" is no regular expression`,
		`{proxyConfig: {caBundle: /w==}}`:                                               `spec.proxyConfig.caBundle is no text`,
	} {
		f.configure(spec)
		got := f.condition("a", "ManifestApplied")
		if !strings.HasPrefix(got, "False/ManifestWorkApplyFailed/failed to get manifest from agent interface: AddOnTemplate") || !strings.Contains(got, want) {
			t.Errorf("with %s got %s", spec, got)
		}
	}
	f.annotate(`quay.io`)
	f.configure("")
	if got, want := f.condition("a", "ManifestApplied"), `its annotation open-cluster-management.io/image-registries, "quay.io", can't be read`; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	f.annotate("")
	f.apply("a", true)
	f.settle()
	f.mustCondition("a", "ManifestApplied", applied)
}
