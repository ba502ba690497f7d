package template_test

import (
	"encoding/json"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// read reads YAML, and stops the test where that is impossible.
func read[T any](t testing.TB, text string) T {
	t.Helper()
	var out T
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v, in:\n%s", err, text)
	}
	return out
}

// sourceOf is a template of documents of YAML, with registrations.
func sourceOf(t testing.TB, manifests, registration string) *v1alpha1.AddOnTemplate {
	t.Helper()
	var all []string
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(raw))
	}
	out := templateOf(all...)
	if registration != "" {
		out.Spec.Registration = read[[]v1alpha1.RegistrationSpec](t, registration)
	}
	return out
}

// settings is a deployment configuration of YAML. Without an agentInstallNamespace it
// has the empty one: manifests keep their namespaces.
func settings(t testing.TB, spec string) *v1alpha1.AddOnDeploymentConfig {
	t.Helper()
	if spec == "" {
		return nil
	}
	c := &v1alpha1.AddOnDeploymentConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "settings", Name: "search"}}
	c.Spec = read[v1alpha1.AddOnDeploymentConfigSpec](t, spec)
	if c.Spec.AgentInstallNamespace == nil {
		c.Spec.AgentInstallNamespace = new(string)
	}
	return c
}

// documents are objects as documents of YAML.
func documents(t testing.TB, r template.Result) string {
	t.Helper()
	var out []string
	for _, o := range r.Objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	return strings.Join(out, "---\n")
}

// same compares objects with documents of YAML.
func same(t testing.TB, got template.Result, want string) {
	t.Helper()
	documentsWanted := strings.Split(want, "\n---\n")
	equal := len(got.Objects) == len(documentsWanted)
	for i := range documentsWanted {
		if !equal {
			break
		}
		raw, err := json.Marshal(got.Objects[i].Object)
		if err != nil {
			t.Fatal(err)
		}
		equal = apiequality.Semantic.DeepEqual(read[map[string]any](t, string(raw)), read[map[string]any](t, documentsWanted[i]))
	}
	if !equal {
		t.Errorf("got\n%s\nwant\n%s", documents(t, got), want)
	}
}

const (
	kubeClient = `[{type: KubeClient}]`
	signer     = `[{type: CustomSigner, customSigner: {signerName: example.org/agents, signingCA: {name: ca}}}]`
)

// pods is a Deployment with fields of its pods' spec, and in each container its fields.
func pods(spec string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: agent, namespace: own}\nspec: {template: {spec: " + spec + "}}"
}

func TestRender(t *testing.T) {
	for name, x := range map[string]struct {
		manifests, registration, config, annotation string
		want                                        string
	}{
		"placeholders": {
			manifests: `{apiVersion: v1, kind: ConfigMap, metadata: {name: "{{A}}-x", labels: {"{{A}}": b, c: d}}, data: {a: "{{A}}{{CLUSTER_NAME}}{{NONE}}.", b: "{{ A }}", c: "{{{{A}}}}", d: "}}", list: ["{{A}}"]}}`,
			config:    `{customizedVariables: [{name: A, value: one}]}`,
			want:      `{apiVersion: v1, kind: ConfigMap, metadata: {name: one-x, labels: {one: b, c: d}}, data: {a: oneparis., b: "", c: "}}", d: "}}", list: [one]}}`,
		},
		"values that JSON would quote": {
			manifests: `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {quote: "{{Q}}", lines: "{{L}}", json: "{{J}}", path: "{{P}}", field: "{{F}}"}}`,
			config: `{customizedVariables: [{name: Q, value: 'say "a"'}, {name: L, value: "a\nb"}, {name: J, value: 'a\nb'},
				{name: P, value: 'C:\x'}, {name: F, value: 'a", "b": "c'}]}`,
			want: `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {quote: 'say "a"', lines: "a\nb", json: "a\nb", path: 'C:\x', field: 'a", "b": "c'}}`,
		},
		"built-in values can't be replaced, and the default one can": {
			manifests:    `{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: own}, data: {c: "{{CLUSTER_NAME}}", n: "{{INSTALL_NAMESPACE}}", k: "{{HUB_KUBECONFIG}}"}}`,
			registration: kubeClient,
			config:       `{agentInstallNamespace: agents, customizedVariables: [{name: CLUSTER_NAME, value: x}, {name: INSTALL_NAMESPACE, value: x}, {name: HUB_KUBECONFIG, value: /own}]}`,
			want:         `{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: agents}, data: {c: paris, n: agents, k: /own}}`,
		},
		"a variable takes the place of an install namespace that there is not": {
			manifests: `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {n: "{{INSTALL_NAMESPACE}}"}}`,
			config:    `{customizedVariables: [{name: INSTALL_NAMESPACE, value: there}]}`,
			want:      `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {n: there}}`,
		},
		"the install namespace without a configuration": {
			manifests: pods(`{containers: []}`) + "\n---\n" + `{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: "{{INSTALL_NAMESPACE}}"}}`,
			want:      pods(`{containers: []}`) + "\n---\n" + `{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: own}}`,
		},
		"the kubeconfig's path needs a registration": {
			manifests: `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {k: "{{HUB_KUBECONFIG}}"}}`,
			want:      `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {k: ""}}`,
		},
		"environment, in its order": {
			manifests:    pods(`{initContainers: [{name: i}], containers: [{name: a, env: [{name: OWN, value: x}]}, {name: b}]}`),
			registration: kubeClient,
			config:       `{agentInstallNamespace: agents, customizedVariables: [{name: HUB_KUBECONFIG, value: /own}, {name: NOT_INJECTED, value: x}]}`,
			want: strings.ReplaceAll(pods(`{initContainers: [{name: i}], containers: [
				{name: a, env: [{name: OWN, value: x}, {name: HUB_KUBECONFIG, value: /own}, {name: CLUSTER_NAME, value: paris}, {name: INSTALL_NAMESPACE, value: agents}],
				 volumeMounts: [{name: hub-kubeconfig, mountPath: /managed/hub-kubeconfig}]},
				{name: b, env: [{name: HUB_KUBECONFIG, value: /own}, {name: CLUSTER_NAME, value: paris}, {name: INSTALL_NAMESPACE, value: agents}],
				 volumeMounts: [{name: hub-kubeconfig, mountPath: /managed/hub-kubeconfig}]}],
				volumes: [{name: hub-kubeconfig, secret: {secretName: search-hub-kubeconfig}}]}`), "namespace: own", "namespace: agents"),
		},
		"environment without registration and configuration": {
			manifests: pods(`{containers: [{name: a}]}`),
			want:      pods(`{containers: [{name: a, env: [{name: CLUSTER_NAME, value: paris}]}]}`),
		},
		"the kubeconfig's path is a placeholder without a registration": {
			manifests: pods(`{containers: [{name: a, args: ["{{HUB_KUBECONFIG}}"]}]}`),
			config:    `{customizedVariables: [{name: HUB_KUBECONFIG, value: /own}]}`,
			want:      pods(`{containers: [{name: a, args: [/own], env: [{name: CLUSTER_NAME, value: paris}]}]}`),
		},
		"an empty value": {
			manifests:    pods(`{containers: []}`) + "\n---\n{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x}, spec: {template: {spec: {containers: [{name: a}]}}}}",
			registration: `[]`,
			config:       `{customizedVariables: [{name: HUB_KUBECONFIG, value: ""}]}`,
			want: pods(`{containers: []}`) + "\n---\n" +
				`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x}, spec: {template: {spec: {containers: [{name: a, env: [{name: HUB_KUBECONFIG}, {name: CLUSTER_NAME, value: paris}]}]}}}}`,
		},
		"a variable that a container has already is there once": {
			manifests: pods(`{containers: [{name: a, env: [{name: CLUSTER_NAME, value: london}, {name: OWN, value: x}]}]}`),
			want:      pods(`{containers: [{name: a, env: [{name: OWN, value: x}, {name: CLUSTER_NAME, value: paris}]}]}`),
		},
		"a custom signer": {
			manifests:    pods(`{containers: [{name: a, volumeMounts: [{name: own, mountPath: /own}]}], volumes: [{name: own, emptyDir: {}}]}`),
			registration: signer,
			want: pods(`{containers: [{name: a, env: [{name: HUB_KUBECONFIG, value: /managed/hub-kubeconfig/kubeconfig}, {name: CLUSTER_NAME, value: paris}],
				volumeMounts: [{name: own, mountPath: /own}, {name: cert-example-org-agents, mountPath: /managed/example.org-agents}]}],
				volumes: [{name: own, emptyDir: {}}, {name: cert-example-org-agents, secret: {secretName: search-example.org-agents-client-cert}}]}`),
		},
		"two registrations for the hub mount one Secret": {
			manifests:    pods(`{containers: [{name: a}]}`),
			registration: `[{type: KubeClient}, {type: KubeClient}]`,
			want: pods(`{containers: [{name: a, env: [{name: HUB_KUBECONFIG, value: /managed/hub-kubeconfig/kubeconfig}, {name: CLUSTER_NAME, value: paris}],
				volumeMounts: [{name: hub-kubeconfig, mountPath: /managed/hub-kubeconfig}]}],
				volumes: [{name: hub-kubeconfig, secret: {secretName: search-hub-kubeconfig}}]}`),
		},
		"two signers whose volumes would have one name": {
			manifests: pods(`{containers: [{name: a}]}`),
			registration: `[{type: CustomSigner, customSigner: {signerName: example.org/a.b, signingCA: {name: ca}}},
				{type: CustomSigner, customSigner: {signerName: example.org/a-b, signingCA: {name: ca}}}]`,
			want: pods(`{containers: [{name: a, env: [{name: HUB_KUBECONFIG, value: /managed/hub-kubeconfig/kubeconfig}, {name: CLUSTER_NAME, value: paris}],
				volumeMounts: [{name: cert-example-org-a-b, mountPath: /managed/example.org-a.b}, {name: cert-example-org-a-b-2, mountPath: /managed/example.org-a-b}]}],
				volumes: [{name: cert-example-org-a-b, secret: {secretName: search-example.org-a.b-client-cert}},
				{name: cert-example-org-a-b-2, secret: {secretName: search-example.org-a-b-client-cert}}]}`),
		},
		"a signer with a long name": {
			manifests:    pods(`{containers: [{name: a}]}`),
			registration: `[{type: CustomSigner, customSigner: {signerName: a-service-with-a-rather-long-name.in-an-organization.example.org/agents, signingCA: {name: ca}}}]`,
			want: pods(`{containers: [{name: a, env: [{name: HUB_KUBECONFIG, value: /managed/hub-kubeconfig/kubeconfig}, {name: CLUSTER_NAME, value: paris}],
				volumeMounts: [{name: cert-a-service-with-a-rather-long-name-in-an-organizat-f2314991, mountPath: /managed/a-service-with-a-rather-long-name.in-an-organization.example.org-agents}]}],
				volumes: [{name: cert-a-service-with-a-rather-long-name-in-an-organizat-f2314991,
				secret: {secretName: search-a-service-with-a-rather-long-name.in-an-organization.example.org-agents-client-cert}}]}`),
		},
		"a volume and a path of the template's own": {
			manifests: pods(`{containers: [{name: a, volumeMounts: [{name: kube, mountPath: /managed/hub-kubeconfig/}]}, {name: b}],
				volumes: [{name: hub-kubeconfig, secret: {secretName: search-hub-kubeconfig, defaultMode: 256}}, {name: kube, emptyDir: {}}]}`),
			registration: kubeClient,
			want: pods(`{containers: [{name: a, env: [{name: HUB_KUBECONFIG, value: /managed/hub-kubeconfig/kubeconfig}, {name: CLUSTER_NAME, value: paris}],
				volumeMounts: [{name: kube, mountPath: /managed/hub-kubeconfig/}]},
				{name: b, env: [{name: HUB_KUBECONFIG, value: /managed/hub-kubeconfig/kubeconfig}, {name: CLUSTER_NAME, value: paris}],
				volumeMounts: [{name: hub-kubeconfig, mountPath: /managed/hub-kubeconfig}]}],
				volumes: [{name: hub-kubeconfig, secret: {secretName: search-hub-kubeconfig, defaultMode: 256}}, {name: kube, emptyDir: {}}]}`),
		},
		"another volume of the same name": {
			manifests:    pods(`{containers: [{name: a}], volumes: [{name: hub-kubeconfig, emptyDir: {}}]}`),
			registration: kubeClient,
			want: pods(`{containers: [{name: a, env: [{name: HUB_KUBECONFIG, value: /managed/hub-kubeconfig/kubeconfig}, {name: CLUSTER_NAME, value: paris}],
				volumeMounts: [{name: hub-kubeconfig-2, mountPath: /managed/hub-kubeconfig}]}],
				volumes: [{name: hub-kubeconfig, emptyDir: {}}, {name: hub-kubeconfig-2, secret: {secretName: search-hub-kubeconfig}}]}`),
		},
		"a selector replaces selector and tolerations": {
			manifests: pods(`{nodeSelector: {own: x}, tolerations: [{key: own}], containers: []}`),
			config:    `{nodePlacement: {nodeSelector: {disk: ssd}, tolerations: [{key: a, operator: Exists, tolerationSeconds: 30}]}}`,
			want:      pods(`{nodeSelector: {disk: ssd}, tolerations: [{key: a, operator: Exists, tolerationSeconds: 30}], containers: []}`),
		},
		"a selector alone removes tolerations": {
			manifests: pods(`{nodeSelector: {own: x}, tolerations: [{key: own}], containers: []}`),
			config:    `{nodePlacement: {nodeSelector: {disk: ssd}}}`,
			want:      pods(`{nodeSelector: {disk: ssd}, containers: []}`),
		},
		"an empty selector removes the selector": {
			manifests: pods(`{nodeSelector: {own: x}, containers: []}`),
			config:    `{nodePlacement: {nodeSelector: {}}}`,
			want:      pods(`{containers: []}`),
		},
		"tolerations alone replace tolerations": {
			manifests: pods(`{nodeSelector: {own: x}, tolerations: [{key: own}], containers: []}`),
			config:    `{nodePlacement: {tolerations: [{operator: Exists}]}}`,
			want:      pods(`{nodeSelector: {own: x}, tolerations: [{operator: Exists}], containers: []}`),
		},
		"an empty placement": {
			manifests: pods(`{nodeSelector: {own: x}, tolerations: [{key: own}], containers: []}`),
			config:    `{nodePlacement: {}}`,
			want:      pods(`{nodeSelector: {own: x}, tolerations: [{key: own}], containers: []}`),
		},
		"registries of the configuration go before those of the cluster": {
			manifests:  pods(`{containers: [{name: a, image: "quay.io/team/agent:v1"}, {name: b, image: "docker.io/x"}]}`),
			config:     `{registries: [{source: quay.io/team, mirror: mirror.example.org/team}]}`,
			annotation: `{"registries":[{"source":"docker.io","mirror":"never"}]}`,
			want: pods(`{containers: [{name: a, image: "mirror.example.org/team/agent:v1", env: [{name: CLUSTER_NAME, value: paris}]},
				{name: b, image: docker.io/x, env: [{name: CLUSTER_NAME, value: paris}]}]}`),
		},
		"registries of the cluster": {
			manifests:  pods(`{initContainers: [{name: i, image: quay.io/i}], containers: [{name: a, image: "quay.io/team/agent:v1"}]}`),
			config:     `{proxyConfig: {}}`,
			annotation: `{"pullSecret":"x.y","registries":[{"source":"quay.io","mirror":"mirror.example.org:5000"}]}`,
			want:       pods(`{initContainers: [{name: i, image: quay.io/i}], containers: [{name: a, image: "mirror.example.org:5000/team/agent:v1", env: [{name: CLUSTER_NAME, value: paris}]}]}`),
		},
		"an empty list of registries hides those of the cluster": {
			manifests:  pods(`{containers: [{name: a, image: quay.io/x}]}`),
			config:     `{registries: []}`,
			annotation: `{"registries":[{"source":"quay.io","mirror":"never"}]}`,
			want:       pods(`{containers: [{name: a, image: quay.io/x, env: [{name: CLUSTER_NAME, value: paris}]}]}`),
		},
		"resources": {
			manifests: pods(`{initContainers: [{name: i}], containers: [{name: a, resources: {limits: {cpu: 1}}}, {name: b}, {name: c}]}`),
			config: `{resourceRequirements: [
				{containerID: "*:*:*", resources: {requests: {cpu: 100m}}},
				{containerID: "deployments:agent:[ab]", resources: {limits: {memory: 1Gi}}},
				{containerID: "daemonsets:*:*", resources: {limits: {memory: 9Gi}}},
				{containerID: "deployments:age:a", resources: {limits: {memory: 9Gi}}}]}`,
			want: pods(`{initContainers: [{name: i}], containers: [{name: a, resources: {limits: {memory: 1Gi}}, env: [{name: CLUSTER_NAME, value: paris}]},
				{name: b, resources: {limits: {memory: 1Gi}}, env: [{name: CLUSTER_NAME, value: paris}]},
				{name: c, resources: {requests: {cpu: 100m}}, env: [{name: CLUSTER_NAME, value: paris}]}]}`),
		},
		"a proxy": {
			manifests: pods(`{containers: [{name: a}]}`),
			config:    `{agentInstallNamespace: agents, proxyConfig: {httpProxy: "http://p", httpsProxy: "https://p", noProxy: .local, caBundle: Q0E=}}`,
			want: strings.ReplaceAll(pods(`{containers: [{name: a, env: [{name: CLUSTER_NAME, value: paris}, {name: INSTALL_NAMESPACE, value: agents},
				{name: HTTP_PROXY, value: "http://p"}, {name: http_proxy, value: "http://p"}, {name: HTTPS_PROXY, value: "https://p"}, {name: https_proxy, value: "https://p"},
				{name: NO_PROXY, value: .local}, {name: no_proxy, value: .local}, {name: CA_BUNDLE_FILE_PATH, value: /managed/proxy-ca/ca-bundle.crt}],
				volumeMounts: [{name: proxy-ca-bundle, mountPath: /managed/proxy-ca}]}],
				volumes: [{name: proxy-ca-bundle, configMap: {name: search-proxy-ca}}]}`), "namespace: own", "namespace: agents") +
				"\n---\n" + `{apiVersion: v1, kind: ConfigMap, metadata: {name: search-proxy-ca, namespace: agents}, data: {ca-bundle.crt: CA}}`,
		},
		"a proxy in the namespaces of the template": {
			manifests: pods(`{containers: []}`) + "\n---\n{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x, namespace: second}, spec: {template: {spec: {containers: []}}}}",
			config:    `{proxyConfig: {noProxy: .local, caBundle: Q0E=}}`,
			want: pods(`{containers: []}`) + "\n---\n{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x, namespace: second}, spec: {template: {spec: {containers: []}}}}" +
				"\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: search-proxy-ca, namespace: own}, data: {ca-bundle.crt: CA}}" +
				"\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: search-proxy-ca, namespace: second}, data: {ca-bundle.crt: CA}}",
		},
		"a proxy of two workloads in one namespace, and of one without": {
			manifests: pods(`{containers: []}`) + "\n---\n{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x, namespace: own}, spec: {template: {spec: {containers: []}}}}" +
				"\n---\n{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: z}}",
			config: `{proxyConfig: {noProxy: .local, caBundle: Q0E=}}`,
			want: pods(`{containers: []}`) + "\n---\n{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x, namespace: own}, spec: {template: {spec: {containers: []}}}}" +
				"\n---\n{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: z}}" +
				"\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: search-proxy-ca, namespace: own}, data: {ca-bundle.crt: CA}}",
		},
		"certificates without a proxy are there and mounted nowhere": {
			manifests: pods(`{containers: [{name: a}]}`),
			config:    `{proxyConfig: {caBundle: Q0E=}}`,
			want: pods(`{containers: [{name: a, env: [{name: CLUSTER_NAME, value: paris}]}]}`) +
				"\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: search-proxy-ca, namespace: own}, data: {ca-bundle.crt: CA}}",
		},
		"another namespace": {
			manifests: `{apiVersion: v1, kind: Namespace, metadata: {name: own}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: own}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: b}, roleRef: {name: r}, subjects: [{kind: ServiceAccount, name: a, namespace: own}, {kind: User, name: u}, {kind: Group, name: g}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: kube-system}, roleRef: {name: r}}
---
{apiVersion: example.org/v1, kind: Namespace, metadata: {name: own}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: nowhere}}`,
			config: `{agentInstallNamespace: agents}`,
			want: `{apiVersion: v1, kind: Namespace, metadata: {name: agents}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: agents}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: b}, roleRef: {name: r}, subjects: [{kind: ServiceAccount, name: a, namespace: agents}, {kind: User, name: u}, {kind: Group, name: g}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: agents}, roleRef: {name: r}}
---
{apiVersion: example.org/v1, kind: Namespace, metadata: {name: own}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: nowhere}}`,
		},
		"two Namespaces become one": {
			manifests: "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {x: a}}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: b, labels: {x: b}}}",
			config:    `{agentInstallNamespace: agents}`,
			want:      "{apiVersion: v1, kind: Namespace, metadata: {name: agents, labels: {x: b}}}",
		},
		"the same object twice is there once": {
			manifests: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: a}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: a}}",
			want:      "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: a}}",
		},
		"a List is its items": {
			manifests: "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, {apiVersion: v1, kind: ConfigMap, metadata: {name: '{{CLUSTER_NAME}}'}}]}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}",
			want:      "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: paris}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}",
		},
		"other workloads stay as they are": {
			manifests: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: own}, spec: {template: {spec: {containers: [{name: a, image: quay.io/x}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: own}, spec: {template: {spec: {containers: [{name: a, image: quay.io/x}]}}}}`,
			registration: kubeClient,
			config:       `{registries: [{mirror: m}], nodePlacement: {nodeSelector: {a: b}}, resourceRequirements: [{containerID: "*:*:*", resources: {}}], proxyConfig: {noProxy: a}}`,
			want: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: own}, spec: {template: {spec: {containers: [{name: a, image: quay.io/x}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: own}, spec: {template: {spec: {containers: [{name: a, image: quay.io/x}]}}}}`,
		},
		"a Deployment that says a few fields stays as it is": {
			manifests:    `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: own}, spec: {replicas: 3}}`,
			registration: kubeClient,
			want:         `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: own}, spec: {replicas: 3}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(sourceOf(t, x.manifests, x.registration), settings(t, x.config))
			if x.annotation != "" {
				in.Cluster.Annotations = map[string]string{"open-cluster-management.io/image-registries": x.annotation}
			}
			got, err := template.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, x.want)
		})
	}
}
