package template_test

import (
	"fmt"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
)

// tenManifests is a template such as add-ons have: a Deployment, its account and rights,
// and what it reads.
func tenManifests() (manifests, config string) {
	manifests = `{apiVersion: v1, kind: Namespace, metadata: {name: agents}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: agent, namespace: agents}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: search-agent}, rules: [{apiGroups: [""], resources: [pods, nodes, namespaces], verbs: [get, list, watch]}, {apiGroups: [apps], resources: ["*"], verbs: [get, list, watch]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: search-agent}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: search-agent}, subjects: [{kind: ServiceAccount, name: agent, namespace: agents}]}
---
{apiVersion: v1, kind: Service, metadata: {name: agent, namespace: agents}, spec: {selector: {app: agent}, ports: [{name: metrics, port: 8080, targetPort: 8080}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: agent, namespace: agents}, data: {config.yaml: "cluster: {{CLUSTER_NAME}}\nlevel: {{LEVEL}}\n"}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: agent, namespace: agents}, spec: {minAvailable: 1, selector: {matchLabels: {app: agent}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: agent, namespace: agents, labels: {app: agent}}, spec: {replicas: 2, selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {serviceAccountName: agent, containers: [
  {name: agent, image: "quay.io/team/agent:v1", args: ["--cluster={{CLUSTER_NAME}}", "--hub-kubeconfig={{HUB_KUBECONFIG}}", --leader-elect], ports: [{containerPort: 8080}], resources: {requests: {cpu: 10m, memory: 64Mi}}, livenessProbe: {httpGet: {path: /healthz, port: 8081}}},
  {name: proxy, image: "quay.io/team/proxy:v1", args: [--upstream=localhost]}]}}}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: node, namespace: agents, labels: {app: node}}, spec: {selector: {matchLabels: {app: node}}, template: {metadata: {labels: {app: node}}, spec: {serviceAccountName: agent, containers: [{name: node, image: "quay.io/team/node:v1", args: ["--level={{LEVEL}}"]}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: clean, namespace: agents, annotations: {addon.open-cluster-management.io/addon-pre-delete: ""}}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: clean, image: "quay.io/team/agent:v1", args: [clean]}]}}}}`
	config = `{agentInstallNamespace: search-agents, customizedVariables: [{name: LEVEL, value: debug}], nodePlacement: {nodeSelector: {disk: ssd}, tolerations: [{operator: Exists}]},
		registries: [{source: quay.io, mirror: m.example.org}], proxyConfig: {httpsProxy: "http://proxy.example.org:3128", noProxy: .svc, caBundle: Q0E=},
		resourceRequirements: [{containerID: "deployments:agent:*", resources: {limits: {memory: 1Gi}}}]}`
	return manifests, config
}

// BenchmarkRender renders a template of ten manifests for one cluster after another, as
// the hub does: parsed once, and, to compare, parsed each time.
func BenchmarkRender(b *testing.B) {
	manifests, config := tenManifests()
	source := sourceOf(b, manifests, kubeClient)
	for _, c := range []string{"", config} {
		name := "plain"
		if c != "" {
			name = "configured"
		}
		parsed, err := template.Parse(source)
		if err != nil {
			b.Fatal(err)
		}
		in := input(source, settings(b, c))
		b.Run(name+"/parsed once", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				in.Cluster.Name = fmt.Sprintf("cluster-%d", i%1000)
				if got, err := parsed.Render(in); err != nil || len(got.Objects) < 10 {
					b.Fatal(err, len(got.Objects))
				}
			}
		})
		b.Run(name+"/parsed each time", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := template.Render(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
