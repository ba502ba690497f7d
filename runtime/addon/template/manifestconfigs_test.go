package template_test

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/health"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestManifestConfigs(t *testing.T) {
	const workloads = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: own}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: d, namespace: own}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: s, namespace: own}}`
	const id = `{group: apps, resource: deployments, name: d, namespace: own}`
	const daemonSet = `{resourceIdentifier: {group: apps, resource: daemonsets, name: s, namespace: own}, feedbackRules: [{type: WellKnownStatus}]}`
	for name, x := range map[string]struct{ manifests, own, config, want string }{
		"none of anything":           {`{apiVersion: v1, kind: ConfigMap, metadata: {name: d}}`, `[]`, "", `[]`},
		"a rule for each workload":   {workloads, `[]`, "", `[{resourceIdentifier: ` + id + `, feedbackRules: [{type: WellKnownStatus}]}, ` + daemonSet + `]`},
		"in the add-on's namespace":  {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: own}}`, `[]`, `{agentInstallNamespace: agents}`, `[{resourceIdentifier: {group: apps, resource: deployments, name: d, namespace: agents}, feedbackRules: [{type: WellKnownStatus}]}]`},
		"another object's behind":    {workloads, `[{resourceIdentifier: {resource: configmaps, name: d, namespace: own}, updateStrategy: {type: ServerSideApply}}]`, "", `[{resourceIdentifier: ` + id + `, feedbackRules: [{type: WellKnownStatus}]}, ` + daemonSet + `, {resourceIdentifier: {resource: configmaps, name: d, namespace: own}, updateStrategy: {type: ServerSideApply}}]`},
		"a strategy of a workload":   {workloads, `[{resourceIdentifier: ` + id + `, updateStrategy: {type: ServerSideApply}}]`, "", `[{resourceIdentifier: ` + id + `, feedbackRules: [{type: WellKnownStatus}], updateStrategy: {type: ServerSideApply}}, ` + daemonSet + `]`},
		"well-known fields once":     {workloads, `[{resourceIdentifier: ` + id + `, feedbackRules: [{type: WellKnownStatus}]}]`, "", `[{resourceIdentifier: ` + id + `, feedbackRules: [{type: WellKnownStatus}]}, ` + daemonSet + `]`},
		"paths beside":               {workloads, `[{resourceIdentifier: ` + id + `, feedbackRules: [{type: JSONPaths, jsonPaths: [{name: a, path: .a}]}]}]`, "", `[{resourceIdentifier: ` + id + `, feedbackRules: [{type: WellKnownStatus}, {type: JSONPaths, jsonPaths: [{name: a, path: .a}]}]}, ` + daemonSet + `]`},
		"conditions and scrape stay": {workloads, `[{resourceIdentifier: ` + id + `, feedbackScrapeType: Watch, conditionRules: [{condition: A, type: CEL, celExpressions: ["true"]}]}]`, "", `[{resourceIdentifier: ` + id + `, feedbackRules: [{type: WellKnownStatus}], feedbackScrapeType: Watch, conditionRules: [{condition: A, type: CEL, celExpressions: ["true"]}]}, ` + daemonSet + `]`},
		"two of one object are one":  {workloads, `[{resourceIdentifier: {resource: configmaps, name: d}, feedbackRules: [{type: JSONPaths, jsonPaths: [{name: a, path: .a}]}]}, {resourceIdentifier: {resource: configmaps, name: d}, feedbackRules: [{type: JSONPaths, jsonPaths: [{name: a, path: .other}, {name: b, path: .b}]}], updateStrategy: {type: CreateOnly}}]`, "", `[{resourceIdentifier: ` + id + `, feedbackRules: [{type: WellKnownStatus}]}, ` + daemonSet + `, {resourceIdentifier: {resource: configmaps, name: d}, feedbackRules: [{type: JSONPaths, jsonPaths: [{name: a, path: .a}]}, {type: JSONPaths, jsonPaths: [{name: b, path: .b}]}], updateStrategy: {type: CreateOnly}}]`},
		"a pattern keeps the feedback": {workloads, `[{resourceIdentifier: {group: apps, resource: deployments, name: "*", namespace: "*"}, feedbackRules: [{type: JSONPaths, jsonPaths: [{name: a, path: .a}]}]}]`, "",
			`[{resourceIdentifier: ` + id + `, feedbackRules: [{type: WellKnownStatus}, {type: JSONPaths, jsonPaths: [{name: a, path: .a}]}]}, ` + daemonSet + `, {resourceIdentifier: {group: apps, resource: deployments, name: "*", namespace: "*"}, feedbackRules: [{type: JSONPaths, jsonPaths: [{name: a, path: .a}]}]}]`},
		"the namespace follows the objects": {workloads, `[{resourceIdentifier: ` + id + `, updateStrategy: {type: CreateOnly}}, {resourceIdentifier: {resource: configmaps, name: d, namespace: own*}}, {resourceIdentifier: {resource: namespaces, name: own}}]`, `{agentInstallNamespace: agents}`,
			`[{resourceIdentifier: {group: apps, resource: deployments, name: d, namespace: agents}, feedbackRules: [{type: WellKnownStatus}], updateStrategy: {type: CreateOnly}}, {resourceIdentifier: {group: apps, resource: daemonsets, name: s, namespace: agents}, feedbackRules: [{type: WellKnownStatus}]}, {resourceIdentifier: {resource: configmaps, name: d, namespace: own*}}, {resourceIdentifier: {resource: namespaces, name: own}}]`},
		"a StatefulSet": {`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, namespace: own}}`, `[]`, "",
			`[{resourceIdentifier: {group: apps, resource: statefulsets, name: s, namespace: own}, feedbackRules: []}]`},
		"placeholders": {`{apiVersion: v1, kind: ConfigMap, metadata: {name: "{{CLUSTER_NAME}}"}}`, `[{resourceIdentifier: {resource: configmaps, name: "{{CLUSTER_NAME}}", namespace: "{{NONE}}"}}]`, "", `[{resourceIdentifier: {resource: configmaps, name: paris}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			source := sourceOf(t, x.manifests, "")
			source.Spec.AgentSpec.ManifestConfigs = read[[]workv1.ManifestConfigOption](t, x.own)
			before := source.DeepCopy()
			got, err := template.Render(input(source, settings(t, x.config)))
			if err != nil {
				t.Fatal(err)
			}
			checkRollout(t, got.ManifestConfigs)
			if want := read[[]workv1.ManifestConfigOption](t, x.want); !apiequality.Semantic.DeepEqual(got.ManifestConfigs, want) {
				text, _ := yaml.Marshal(got.ManifestConfigs)
				t.Errorf("got\n%s\nwant %s", text, x.want)
			}
			for i := range got.ManifestConfigs {
				for _, rule := range got.ManifestConfigs[i].FeedbackRules {
					for j := range rule.JSONPaths {
						rule.JSONPaths[j].Name = "spoilt"
					}
				}
			}
			if !apiequality.Semantic.DeepEqual(source, before) {
				t.Errorf("the template became\n%+v", source)
			}
		})
	}
}

// checkRollout takes the paths out of options that the hub reads the progress of workloads
// from, and checks that each workload's option has them.
func checkRollout(t *testing.T, options []workv1.ManifestConfigOption) {
	t.Helper()
	for i := range options {
		_, want := health.RolloutRules(schema.GroupKind{Group: "apps", Kind: map[string]string{"deployments": "Deployment", "daemonsets": "DaemonSet",
			"statefulsets": "StatefulSet"}[options[i].ResourceIdentifier.Resource]})
		if want == nil || strings.Contains(options[i].ResourceIdentifier.Name, "*") {
			continue
		}
		rule := want[len(want)-1]
		at := slices.IndexFunc(options[i].FeedbackRules, func(r workv1.FeedbackRule) bool { return apiequality.Semantic.DeepEqual(r, rule) })
		if at < 0 {
			t.Errorf("%v lacks %v", options[i], rule)
			continue
		}
		options[i].FeedbackRules = slices.Delete(options[i].FeedbackRules, at, at+1)
	}
}
