package template_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// searching is a template whose texts have placeholders of all kinds.
const searching = `apiVersion: v1
kind: ConfigMap
metadata: {name: search, namespace: search}
data: {region: 'in {{REGION}}', cluster: '{{CLUSTER_NAME}}', level: '{{LEVEL}}', brace: '{{CLAIM}}',
  url: '{{CLUSTER_URL}}'}
---
apiVersion: example.com/v1
kind: Indexer
metadata: {name: indexer, namespace: search}
spec: {size: '{{SIZE}}', full: '{{FULL}}', text: '{{SIZE}} or {{FULL}}', '{{REGION}}': true}`

// own is the override of searching.
const own = `values:
- {name: REGION, label: region}
- {name: LEVEL, label: level, default: info}
- {name: CLAIM, claim: claim, default: none}
- {name: SIZE, expression: '2 + 1'}
- {name: FULL, expression: 'true'}
- {name: UNUSED, label: nobody-has-it}
overrides:
- clusterSelector: {labelSelector: {matchLabels: {env: test}}}
  manifests: {kind: ConfigMap, name: search}
  type: Merge
  patch: {data: {env: 'test of {{REGION}}', url: null}}`

// overridden renders searching with an override for a cluster, as YAML or as an error.
func overridden(t *testing.T, spec, config string, mc *clusterv1.ManagedCluster) string {
	t.Helper()
	source := sourceOf(t, searching, "")
	raw, err := yaml.YAMLToJSON([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	source.Annotations = map[string]string{muster.OverrideAnnotation: string(raw)}
	parsed, err := template.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	read, err := override.OfAddOn(source, 50<<10)
	if err != nil {
		return err.Error()
	}
	addOn := &v1alpha1.ManagedClusterAddOn{}
	addOn.Name, addOn.Namespace = "search", "west"
	out, err := parsed.RenderFor(context.Background(), read, template.Input{
		Cluster: mc, AddOn: addOn, Config: settings(t, config),
	})
	if err != nil {
		return err.Error()
	}
	all, err := json.Marshal(out.Objects)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// An override gives an add-on in each cluster its own values, beside the variables that a
// configuration and the hub give, and its own patches.
func TestOverridesOfTemplates(t *testing.T) {
	west := func(labels map[string]string, claim string) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{}
		mc.Name, mc.Labels = "west", labels
		mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "https://west.example.com"}}
		if claim != "" {
			mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "claim", Value: claim}}
		}
		return mc
	}
	region := map[string]string{"region": "eu"}
	for name, x := range map[string]struct {
		spec, config  string
		cluster       *clusterv1.ManagedCluster
		want, without []string
	}{
		"values": {own, "", west(region, ""),
			[]string{`"region":"in eu"`, `"cluster":"west"`, `"level":"info"`, `"url":"https://west.example.com"`,
				`"eu":true`},
			[]string{`"env"`}},
		"numbers and booleans": {own, "", west(region, ""),
			[]string{`"size":3`, `"full":true`, `"text":"3 or true"`}, nil},
		"a patch for some": {own, "", west(map[string]string{"region": "eu", "env": "test"}, ""),
			[]string{`"env":"test of eu"`}, []string{`"url"`}},
		"a configuration goes before": {
			own, "customizedVariables: [{name: REGION, value: us}, {name: SIZE, value: '7'}]",
			west(nil, ""), []string{`"region":"in us"`, `"size":"7"`}, nil},
		"what an agent claims is no placeholder": {own, "customizedVariables: [{name: SECRET, value: s3cret}]",
			west(region, `{{SECRET}}\n"`), []string{`"brace":"{{SECRET}}\\n\""`}, []string{"s3cret"}},
		"a cluster without a value": {own, "", west(nil, ""),
			[]string{`the override of the AddOnTemplate "search-v1": the value REGION: the cluster has no value: its ` +
				"ManagedCluster has no label region"}, []string{"UNUSED"}},
		"no cluster": {own, "", nil, []string{"the cluster is gone"}, nil},
		"another object": {
			`{overrides: [{manifests: {kind: ConfigMap}, type: Merge, patch: {metadata: {namespace: x}}}]}`,
			"", west(region, ""), []string{`the overrides change metadata.namespace of the ConfigMap search from ` +
				`"search" to "x"`}, nil},
		"a placeholder that nothing closes": {
			`{overrides: [{manifests: {kind: ConfigMap}, type: Merge, patch: {data: {a: "{{B"}}}]}`, "",
			west(region, ""),
			[]string{`the override of the AddOnTemplate "search-v1": manifests[0] data.a: "{{B" opens a ` +
				"placeholder"}, nil},
		"no such manifest": {`{overrides: [{manifests: {kind: Secret}, type: Merge, patch: {}}]}`, "", west(nil, ""),
			[]string{"the annotation muster-fleet.io/override: spec.overrides[0].manifests: there is no such " +
				"manifest (kind Secret): the manifests are ConfigMap search, Indexer indexer"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := overridden(t, x.spec, x.config, x.cluster)
			for _, want := range x.want {
				if !strings.Contains(got, want) {
					t.Errorf("there is no %s in\n%s", want, got)
				}
			}
			for _, bad := range x.without {
				if strings.Contains(got, bad) {
					t.Errorf("there is %s in\n%s", bad, got)
				}
			}
		})
	}
}

// A WorkOverride has a namespace and a template has none, so the annotation can't name one.
func TestATemplateNamesNoWorkOverride(t *testing.T) {
	source := sourceOf(t, searching, "")
	source.Annotations = map[string]string{muster.OverrideAnnotation: "regions"}
	if _, err := override.OfAddOn(source, 1000); err == nil || !strings.Contains(err.Error(),
		"of an AddOnTemplate has to be the spec of a WorkOverride as JSON") {
		t.Errorf("got %v", err)
	}
}
