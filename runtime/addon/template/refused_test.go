package template_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// Each problem names the template, the manifest or the field, what is there, and what
// to do.
func TestWhatCannotBeRendered(t *testing.T) {
	const signerWithout = `[{type: CustomSigner}]`
	for name, x := range map[string]struct {
		manifests            []string // JSON
		registration, config string
		annotation           string
		want                 string
	}{
		"an open placeholder": {manifests: []string{`{"kind":"ConfigMap","data":{"list":["a {{NAME"]}}`},
			want: `AddOnTemplate "search-v1": manifests[0] data.list[0]: "a {{NAME" opens a placeholder that nothing closes: close it with }}`},
		"an open placeholder in the name of a field": {manifests: []string{`{"data":{"{{a":1}}`},
			want: `manifests[0] data: "{{a" opens a placeholder that nothing closes`},
		"an open placeholder that JSON's own braces seem to close": {manifests: []string{`{"a":{"b":"{{X"}}`},
			want: `manifests[0] a.b: "{{X" opens a placeholder`},
		"no JSON":                {manifests: []string{`{}`, `{`}, want: `manifests[0] is empty: remove it`},
		"no JSON at all":         {manifests: []string{`{"a"`}, want: `manifests[0] is not JSON: unexpected EOF`},
		"two values":             {manifests: []string{`{"a":1} {}`}, want: `manifests[0] is more than one JSON value: make a manifest of each`},
		"an empty manifest":      {manifests: []string{``}, want: `manifests[0] is empty: remove it, or write an object there`},
		"null":                   {manifests: []string{`null`}, want: `manifests[0] is empty: remove it, or write an object there`},
		"a list":                 {manifests: []string{`[]`}, want: `manifests[0] is no object: write an object with apiVersion, kind and metadata`},
		"a text":                 {manifests: []string{`"{{A}}"`}, want: `manifests[0] is no object`},
		"a placeholder on top":   {manifests: []string{`{"{{A}}":1}`}, want: `manifests[0] has a placeholder in the name of one of its first fields`},
		"a List without items":   {manifests: []string{`{"apiVersion":"v1","kind":"List","items":null}`}, want: `manifests[0] (List) has no items: write its objects there, or remove it`},
		"a List in a List":       {manifests: []string{`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[]}]}`}, want: `manifests[0].items[0] is a List inside a List`},
		"an empty item":          {manifests: []string{`{"apiVersion":"v1","kind":"List","items":[{}]}`}, want: `manifests[0].items[0] is empty`},
		"no kind":                {manifests: []string{`{"apiVersion":"v1","metadata":{"name":"a"}}`}, want: `manifests[0]: kind is missing: every manifest needs one`},
		"no apiVersion":          {manifests: []string{`{"kind":"A","metadata":{"name":"a"}}`}, want: `manifests[0] (A a): apiVersion is missing`},
		"a kind that is no text": {manifests: []string{`{"apiVersion":"v1","kind":7,"metadata":{"name":"a"}}`}, want: `manifests[0]: kind is "7", which is no text`},
		"an empty kind":          {manifests: []string{`{"apiVersion":"v1","kind":"","metadata":{"name":"a"}}`}, want: `manifests[0]: kind is empty`},
		"no metadata":            {manifests: []string{`{"apiVersion":"v1","kind":"A"}`}, want: `manifests[0] (A): metadata is missing`},
		"no name":                {manifests: []string{`{"apiVersion":"v1","kind":"A","metadata":{"generateName":"a"}}`}, want: `manifests[0] (A): metadata.name is missing: every manifest needs one, and generateName does not do`},
		"a name without its value": {manifests: []string{`{"apiVersion":"v1","kind":"A","metadata":{"name":"{{NO_SUCH}}"},"b":"{{B}}"}`},
			want: `metadata.name is missing: every manifest needs one, and generateName does not do, as it is applied again and again ({{B}}, {{NO_SUCH}} had no value: give one in customizedVariables`},
		"a namespace that is no text": {manifests: []string{`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","namespace":{}}}`}, want: `manifests[0] (A a): metadata.namespace is "map[]", which is no text`},
		"one object in two ways": {manifests: []string{`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","namespace":"n"}}`, `{"apiVersion":"v2","kind":"A","metadata":{"name":"b","namespace":"n"}}`, `{"apiVersion":"v1","kind":"A","metadata":{"name":"a","namespace":"n"},"spec":1}`},
			want: `manifests[0] (A n/a) and manifests[2] (A n/a) say the same object, the A n/a, in two ways: remove one, or give it another name`},
		"one object in two ways by another namespace": {manifests: []string{`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","namespace":"m"},"x":1}`, `{"apiVersion":"v1","kind":"A","metadata":{"name":"a","namespace":"n"}}`},
			config: `{agentInstallNamespace: agents}`, want: `manifests[0] (A m/a) and manifests[1] (A n/a) say the same object, the A agents/a, in two ways`},
		"the proxy's ConfigMap": {manifests: []string{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"search-proxy-ca","namespace":"agents"}}`},
			config: `{agentInstallNamespace: agents, proxyConfig: {caBundle: Q0E=}}`,
			want:   `manifests[0] (ConfigMap agents/search-proxy-ca) and the ConfigMap for the proxy's certificates say the same object`},
		"two fields of one name": {manifests: []string{`{"apiVersion":"v1","kind":"A","metadata":{"name":"a","labels":{"paris":"x","{{CLUSTER_NAME}}":"y"}}}`},
			want: `manifests[0]: two fields get the name "paris" by their placeholders: give them different names`},
		"spec is no object":          {manifests: []string{deploymentJSON(`"x"`)}, want: `manifests[0] (Deployment n/a): spec is "x", and has to be an object`},
		"template is no object":      {manifests: []string{deploymentJSON(`{"template":[]}`)}, want: `spec.template is "[]", and has to be an object`},
		"pods are no object":         {manifests: []string{deploymentJSON(`{"template":{"spec":1}}`)}, want: `spec.template.spec is "1", and has to be an object`},
		"containers are no list":     {manifests: []string{podsJSON(`{"containers":{}}`)}, want: `spec.template.spec.containers is "map[]", and has to be a list`},
		"a container is a text":      {manifests: []string{podsJSON(`{"containers":["a"]}`)}, want: `spec.template.spec.containers[0] is "a", and has to be an object`},
		"env is no list":             {manifests: []string{podsJSON(`{"containers":[{"env":{"A":"b"}}]}`)}, want: `spec.template.spec.containers[0].env is "map[A:b]", and has to be a list`},
		"a variable is a text":       {manifests: []string{podsJSON(`{"containers":[{"env":["A"]}]}`)}, want: `spec.template.spec.containers[0].env[0] is "A", and has to be an object`},
		"mounts are no list":         {manifests: []string{podsJSON(`{"containers":[{"volumeMounts":7}]}`)}, registration: kubeClient, want: `spec.template.spec.containers[0].volumeMounts is "7", and has to be a list`},
		"volumes are no list":        {manifests: []string{podsJSON(`{"volumes":7}`)}, registration: kubeClient, want: `spec.template.spec.volumes is "7", and has to be a list`},
		"an image is no text":        {manifests: []string{podsJSON(`{"containers":[{"image":7}]}`)}, config: `{registries: [{mirror: m}]}`, want: `spec.template.spec.containers[0].image is "7", and has to be a text`},
		"nothing left of an image":   {manifests: []string{podsJSON(`{"containers":[{"image":"a/b"}]}`)}, config: `{registries: [{source: a/b, mirror: ""}]}`, want: `spec.template.spec.containers[0].image "a/b": nothing is left of it`},
		"a container without a name": {manifests: []string{podsJSON(`{"containers":[{}]}`)}, config: `{resourceRequirements: [{containerID: "*:*:*", resources: {}}]}`, want: `spec.template.spec.containers[0].name is missing`},
		"subjects are no list": {manifests: []string{`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"a"},"subjects":{}}`}, config: `{agentInstallNamespace: agents}`,
			want: `manifests[0] (RoleBinding a): subjects is "map[]", and has to be a list`},
		"a signer without its block": {registration: signerWithout, want: `AddOnTemplate "search-v1": spec.registration[0] has the type CustomSigner and no customSigner: name the signer there`},
		"an unknown registration":    {registration: `[{type: Other}]`, want: `spec.registration[0].type "Other" is unknown: it has to be KubeClient or CustomSigner`},
		"an expression": {config: `{resourceRequirements: [{containerID: "*:*:*", resources: {}}, {containerID: "deployments:a[:*", resources: {}}]}`,
			want: `AddOnTemplate "search-v1": AddOnDeploymentConfig "settings/search": spec.resourceRequirements[1].containerID is "deployments:a[:*": its part "a[" is no regular expression: error parsing regexp: missing closing ]: ` + "`[`"},
		"an expression that closes what it has not opened": {config: `{resourceRequirements: [{containerID: "*:a)|(b:*", resources: {}}]}`,
			want: `its part "a)|(b" is no regular expression: error parsing regexp: unexpected ): ` + "`a)|(b`"},
		"too many parts": {config: `{resourceRequirements: [{containerID: "deployments:a:b:c", resources: {}}]}`,
			want: `spec.resourceRequirements[0].containerID is "deployments:a:b:c", and has to be kind:name:container, such as deployments:agent:*`},
		"certificates that are no text": {config: `{proxyConfig: {caBundle: /w==}}`, want: `AddOnDeploymentConfig "settings/search": spec.proxyConfig.caBundle is no text: it has to be certificates in PEM`},
		"the cluster's annotation": {annotation: `["quay.io"]`,
			want: `ManagedCluster "paris": its annotation open-cluster-management.io/image-registries, "[\"quay.io\"]", can't be read: json: cannot unmarshal array`},
	} {
		t.Run(name, func(t *testing.T) {
			source := templateOf(x.manifests...)
			source.Spec.Registration = sourceOf(t, "{a: b}", x.registration).Spec.Registration
			in := input(source, settings(t, x.config))
			if x.annotation != "" {
				in.Cluster.Annotations = map[string]string{"open-cluster-management.io/image-registries": x.annotation}
			}
			got, err := template.Render(in)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got the error %v\nand\n%s\nwant %s", err, documents(t, got), x.want)
			}
			if strings.Count(err.Error(), "AddOnTemplate \"") != 1 {
				t.Errorf("%v does not name the template once", err)
			}
		})
	}
}

func deploymentJSON(spec string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n"},"spec":` + spec + `}`
}

func podsJSON(spec string) string { return deploymentJSON(`{"template":{"spec":` + spec + `}}`) }

// A small template with a large value must not fill the memory of the hub.
func TestValuesMakeTemplatesLargerWithinLimits(t *testing.T) {
	source := templateOf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"` + strings.Repeat("{{A}}", 10_000) + `"}}`)
	for size, fits := range map[int]bool{10: true, 800: true, 1024: false} {
		_, err := template.Render(input(source, configOf(new(string), v1alpha1.CustomizedVariable{Name: "A", Value: strings.Repeat("x", size)})))
		if fits != (err == nil) {
			t.Errorf("with a value of %d bytes: %v", size, err)
		}
		if want := "the placeholder {{A}} stands in it 10000 times, and its value has 1024 bytes"; !fits && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestPlaceholdersWithoutValueAreNamed(t *testing.T) {
	source := templateOf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"{{B}} {{CLUSTER_NAME}}","{{A}}":"{{HUB_KUBECONFIG}}{{INSTALL_NAMESPACE}}{{ C }}"}}`)
	parsed, err := template.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(parsed.Placeholders(), "|"), " C |A|B|CLUSTER_NAME|HUB_KUBECONFIG|INSTALL_NAMESPACE"; got != want {
		t.Errorf("got the placeholders %q, want %q", got, want)
	}
	got, err := parsed.Render(input(nil, configOf(new(string), v1alpha1.CustomizedVariable{Name: "B"})))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(got.Unknown, "|"), " C |A|HUB_KUBECONFIG"; got != want {
		t.Errorf("got %q without value, want %q", got, want)
	}
}

func TestNothingToRenderFrom(t *testing.T) {
	in := input(nil, nil)
	if _, err := template.Render(in); err == nil || !strings.Contains(err.Error(), "the add-on has no AddOnTemplate") {
		t.Errorf("got %v", err)
	}
	in = input(templateOf(), nil)
	in.AddOn = nil
	if _, err := template.Render(in); err == nil || !strings.Contains(err.Error(), "there is no ManagedClusterAddOn") {
		t.Errorf("got %v", err)
	}
	in = input(templateOf(`{"apiVersion":"v1","kind":"A","metadata":{"name":"{{CLUSTER_NAME}}"}}`), nil)
	in.Cluster = nil
	if got, err := template.Render(in); err != nil || got.Objects[0].GetName() != "paris" {
		t.Errorf("got %v, %v without a cluster, want the name of the add-on's namespace", got, err)
	}
	if got, err := template.Render(input(templateOf(), nil)); err != nil || len(got.Objects)+len(got.ManifestConfigs) != 0 {
		t.Errorf("got %v, %v of an empty template", got, err)
	}
}
