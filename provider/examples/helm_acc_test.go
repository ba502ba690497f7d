package examples_test

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// helm stands in for hashicorp/helm: its data source helm_template returns a chart
// that is rendered already, by file as the provider has it.
type helm struct{ standIn }

// serveHelm serves the stand-in.
func serveHelm(w *acctest.Terraform) {
	w.Serve("hashicorp/helm", providerserver.NewProtocol6(&helm{standIn{name: "helm"}}))
}

func (*helm) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{func() datasource.DataSource { return helmTemplate{} }}
}

var _ provider.Provider = (*helm)(nil)

type helmTemplate struct{}

func (helmTemplate) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_template"
}

func (helmTemplate) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	texts := schema.ListAttribute{Optional: true, ElementType: types.StringType}
	resp.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"name": schema.StringAttribute{Required: true}, "chart": schema.StringAttribute{Required: true},
		"namespace": schema.StringAttribute{Optional: true}, "repository": schema.StringAttribute{Optional: true},
		"version": schema.StringAttribute{Optional: true}, "kube_version": schema.StringAttribute{Optional: true},
		"skip_tests": schema.BoolAttribute{Optional: true}, "api_versions": texts, "values": texts,
		"manifest":  schema.StringAttribute{Computed: true},
		"manifests": schema.MapAttribute{Computed: true, ElementType: types.StringType},
		"crds":      schema.ListAttribute{Computed: true, ElementType: types.StringType},
		"notes":     schema.StringAttribute{Computed: true},
	}}
}

func (helmTemplate) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	resp.State.Raw = req.Config.Raw
	var version types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("version"), &version)...)
	manifests, all := map[string]string{}, ""
	for file, text := range renderedChart {
		manifests[file] = "---\n# Source: shop/" + file + "\n" + strings.ReplaceAll(text, "VERSION", version.ValueString())
		all += manifests[file]
	}
	for name, value := range map[string]any{"manifest": all, "manifests": manifests, "crds": []string{renderedDefinition}, "notes": "Thank you."} {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), value)...)
	}
}

// renderedChart is a chart as Helm renders it: documents without an object, separators
// with comments and blanks, texts that look like separators, and hooks.
var renderedChart = map[string]string{
	"templates/serviceaccount.yaml": `
apiVersion: v1
kind: ServiceAccount
metadata:
  name: shop
  labels: {app.kubernetes.io/version: "VERSION"}
`,
	"templates/web.yaml": `
--- # the settings
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  version: "VERSION"
  several.yaml: |
    a: 1
    ---
    b: 2
---   
# Source: shop/templates/web.yaml
# This chart has no ingress by default.
---

---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: shop-reader
rules:
- {apiGroups: [""], resources: [pods], verbs: [get]}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "example.com/shop:VERSION"}]}
---
apiVersion: shop.example.com/v1
kind: Till
metadata:
  name: first
spec: {}
`,
	"templates/NOTHING.yaml": "\n# all of it is off\n\n",
	"templates/migrate.yaml": `
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations:
    "helm.sh/hook": pre-install, pre-upgrade
    "helm.sh/hook-weight": "-5"
    "helm.sh/hook-delete-policy": before-hook-creation
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: migrate, image: "example.com/shop:VERSION"}]
`,
	"templates/cleanup.yaml": `
apiVersion: batch/v1
kind: Job
metadata:
  name: cleanup
  annotations: {helm.sh/hook: post-delete}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: cleanup, image: "example.com/shop:VERSION"}]
`,
	"charts/cache/templates/config.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: cache, namespace: shop}
data: {size: "1"}
`,
}

const renderedDefinition = `# A definition of the chart.
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: tills.shop.example.com
spec:
  group: shop.example.com
  names: {kind: Till, plural: tills, singular: till, listKind: TillList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// The example of the guide about Helm: definitions and namespace first, then the jobs
// of hooks, then the objects; an upgrade runs the jobs again; a removal leaves the
// definitions.
func TestAccAHelmChartBecomesWorks(t *testing.T) {
	managed := acctest.DevCluster(t)
	home(t, map[string]string{"hub": acctest.Acc.Hub.Kubeconfig})
	fleet := acctest.NewTerraform(t)
	if said, ok := fleet.Apply(onboardingModule(t, acctest.Acc.Hub.Kubeconfig, reached("paris", managed.Kubeconfig, ""))); !ok {
		t.Fatal(said)
	}
	w := acctest.NewTerraform(t)
	serveHelm(w)
	e := copyExamples(t)
	w = e.at(t, w, filepath.Join("guides", "helm"))
	inside := acctest.OutsiderOf(t, managed)
	run := func(command ...string) string {
		return w.MustRun(append(command, "-no-color", "-input=false")...)
	}

	acctest.Says(t, run("apply", "-auto-approve"), "4 added", `notes = "Thank you."`)
	for name, namespace := range map[string]string{"settings": "shop", "cache": "shop"} {
		if !inside.Exists(&corev1.ConfigMap{}, namespace, name) {
			t.Errorf("there is no config map %s", name)
		}
	}
	jobs := getText(t, managed.Kubeconfig, "/apis/batch/v1/namespaces/shop/jobs")
	if !strings.Contains(jobs, "example.com/shop:1.4.2") || strings.Contains(jobs, "cleanup") {
		t.Errorf("the jobs are %s", jobs)
	}
	acctest.Says(t, run("plan"), "No changes.")

	said := run("apply", "-auto-approve", "-var=chart_version=1.5.0")
	acctest.Says(t, said, "1 added, 1 changed, 1 destroyed")
	if jobs = getText(t, managed.Kubeconfig, "/apis/batch/v1/namespaces/shop/jobs"); !strings.Contains(jobs, "example.com/shop:1.5.0") {
		t.Errorf("after the upgrade the jobs are %s", jobs)
	}
	settings := &corev1.ConfigMap{}
	inside.Get(settings, "shop", "settings")
	if settings.Data["version"] != "1.5.0" || settings.Data["several.yaml"] != "a: 1\n---\nb: 2\n" {
		t.Errorf("the settings are %v", settings.Data)
	}

	run("destroy", "-auto-approve", "-var=chart_version=1.5.0")
	if inside.Exists(settings, "shop", "settings") || !inside.Exists(&corev1.Namespace{}, "", "shop") {
		t.Error("objects are left, or the namespace is gone")
	}
	if got := getText(t, managed.Kubeconfig, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"); !strings.Contains(got, "tills.shop.example.com") {
		t.Error("the definitions went")
	}
	if said, ok := fleet.Destroy(); !ok {
		t.Error(said)
	}
}

// getText reads a path of a cluster's API.
func getText(t *testing.T, kubeconfig, path string) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	testkit.Must(t, err)
	client, err := rest.HTTPClientFor(config)
	testkit.Must(t, err)
	resp, err := client.Get(config.Host + path)
	testkit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return string(text)
}
