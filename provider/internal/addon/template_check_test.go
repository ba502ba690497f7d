package addon

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

const (
	sampleConfigMap  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"%s},"data":{"x":%s}}`
	sampleDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"{{CLUSTER_NAME}}-web","namespace":"n"},
		"spec":{"replicas":%s,"selector":{"matchLabels":{"app":"{{APP}}"}},"template":{"metadata":{"labels":{"app":"{{APP}}"}},
		"spec":{"containers":[{"name":"{{NAME}}","image":"{{IMAGE}}","imagePullPolicy":"{{POLICY}}","resources":{"limits":{"cpu":"{{CPU}}"}},"ports":[{"containerPort":%s}]}]}}}}`
)

func fill(pattern string, values ...string) string {
	for _, value := range values {
		pattern = strings.Replace(pattern, "%s", value, 1)
	}
	return pattern
}

// What is wrong with the objects of a template shows while planning, and what may turn
// out to be right passes.
func TestObjectsOfTemplates(t *testing.T) {
	text := func(value string) string {
		quoted, err := json.Marshal(value)
		testkit.Must(t, err)
		return fill(sampleConfigMap, "", string(quoted))
	}
	annotated := func(key, value string) string {
		return fill(sampleConfigMap, `,"annotations":{"`+key+`":"`+value+`"}`, `"y"`)
	}
	const hook = "addon.open-cluster-management.io/addon-pre-delete"
	job := `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a","namespace":"n","annotations":{"` + hook + `":""}},
		"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"{{IMAGE}}"}]}}}}`
	for name, x := range map[string]struct {
		object, want string
		warns        bool
	}{
		"variables that hubs set":           {object: text("{{CLUSTER_NAME}} {{INSTALL_NAMESPACE}} {{HUB_KUBECONFIG}}")},
		"a variable that nothing sets yet":  {object: text("{{LATER}}")},
		"one brace":                         {object: text("{LATER} }}")},
		"an unclosed placeholder":           {object: text("a {{LATER b"), want: `data.x: "a {{LATER b" opens a placeholder that nothing closes`},
		"spaces":                            {object: text("{{ LATER }}"), want: "{{ LATER }} has spaces in it, and hubs would leave it out; write {{LATER}}"},
		"another template language":         {object: text("{{ .Values.image }}"), want: "{{ .Values.image }} can't be a variable"},
		"nothing inside":                    {object: text("{{}}"), want: "can't be a variable"},
		"a hyphen":                          {object: text("{{IMAGE-TAG}}"), want: "names are letters, digits and underscores"},
		"no kind":                           {object: `{"apiVersion":"v1","metadata":{"name":"a"}}`, want: "it has no kind"},
		"no apiVersion":                     {object: `{"kind":"ConfigMap","metadata":{"name":"a"}}`, want: "it has no apiVersion"},
		"no name":                           {object: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`, want: "ConfigMap has no metadata.name"},
		"a list":                            {object: `{"apiVersion":"v1","kind":"List","items":[]}`, want: "write its items as manifests of their own"},
		"too large":                         {object: text(strings.Repeat("x", work.DefaultManifestLimit)), want: "more than the 512000 that a hub accepts in one work; divide it"},
		"placeholders in a Deployment":      {object: fill(sampleDeployment, "1", "80")},
		"a number as a text":                {object: fill(sampleDeployment, `"{{REPLICAS}}"`, "80"), want: "spec.replicas has to be a whole number, and is a text"},
		"a port as a text":                  {object: fill(sampleDeployment, "1", `"{{PORT}}"`), want: "containerPort has to be a whole number, and is a text"},
		"a field that there is not":         {object: strings.Replace(fill(sampleDeployment, "1", "80"), "replicas", "replcas", 1), want: "did you mean replicas?"},
		"a job that runs in the end":        {object: job},
		"a hook that is none":               {object: annotated(hook, ""), want: "counts for a Job or a Pod alone", warns: true},
		"an object that stays":              {object: annotated("addon.open-cluster-management.io/deletion-orphan", "")},
		"an object of the hosting cluster":  {object: annotated("addon.open-cluster-management.io/hosted-manifest-location", "hosting")},
		"an object of nowhere":              {object: annotated("addon.open-cluster-management.io/hosted-manifest-location", "hub"), want: `is "hub", and it takes one of managed, hosting, none`},
		"a custom resource":                 {object: `{"apiVersion":"example.com/v1","kind":"X","metadata":{"name":"{{NAME}}"},"spec":{"any":"{{CPU}}"}}`},
		"a namespace":                       {object: strings.Replace(fill(sampleConfigMap, "", `"y"`), `"n"`, `"{{INSTALL_NAMESPACE}}"`, 1), want: "metadata.namespace has a placeholder, and API servers refuse"},
		"a label":                           {object: fill(sampleConfigMap, `,"labels":{"a":"{{A}}"}`, `"y"`), want: "metadata.labels has a placeholder"},
		"a key":                             {object: fill(sampleConfigMap, "", `"y","{{KEY}}.conf":"z"`)},
		"an invalid key beside placeholder": {object: fill(sampleConfigMap, "", `"{{KEY}}","a b":"z"`), want: "is no valid key"},
	} {
		t.Run(name, func(t *testing.T) {
			content := workload.None()
			content.Manifests = attribute.StringListValue([]string{x.object})
			diags := content.Check(templateRules())
			switch {
			case x.want == "" && len(diags) > 0:
				t.Errorf("got %v", diags)
			case x.want != "" && (len(diags) != 1 || !strings.Contains(diags[0].Detail(), x.want) || diags.HasError() == x.warns):
				t.Errorf("got %v, want %s", diags, x.want)
			}
		})
	}
}

// A variable that is nearly called like a value is named; one of a configuration may be
// anything else.
func TestVariablesBesideValues(t *testing.T) {
	for text, want := range map[string]string{
		"{{REGION}} {{CLUSTER_NAME}} {{LEVEL}}": "",
		"in {{REGON}} or {{REGON}}": "{{REGON}} is none of values, and is left out unless a deployment configuration " +
			"has such a variable; did you mean {{REGION}}?",
	} {
		content := workload.None()
		content.Manifests = attribute.StringListValue([]string{fill(sampleConfigMap, "", `"`+text+`"`)})
		diags := content.Check(withValues(templateRules(), []string{"REGION", "SIZE"}))
		switch {
		case want == "" && len(diags) > 0, diags.HasError():
			t.Errorf("%s: got %v", text, diags)
		case want != "" && (len(diags) != 1 || strings.Count(diags[0].Detail(), want) != 1):
			t.Errorf("%s: got %v, want %s", text, diags, want)
		}
	}
}

func TestAnObjectTwiceInATemplate(t *testing.T) {
	content := workload.None()
	one := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"{{NAME}}"}}`
	content.Manifests = attribute.StringListValue([]string{one, one})
	if diags := content.Check(templateRules()); len(diags) != 1 || !strings.Contains(diags[0].Detail(), "manifests[1] is the second: Namespace {{NAME}} (v1) appears twice") {
		t.Errorf("got %v", diags)
	}
}

// What may be secret is not quoted.
func TestMistakesInSecretsOfTemplatesAreNotQuoted(t *testing.T) {
	for _, value := range []string{"hunter2 {{", "{{ hunter2 }}", "{{hunter-2}}"} {
		secret := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"n"},"stringData":{"password":"` + value + `"}}`
		shown, writeOnly := workload.None(), workload.None()
		shown.Manifests = attribute.StringListValue([]string{secret})
		writeOnly.WriteOnly = attribute.StringListValue([]string{fill(sampleConfigMap, "", `"`+value+`"`)})
		for _, content := range []workload.Content{shown, writeOnly} {
			diags := content.Check(templateRules())
			if len(diags) != 1 || strings.Contains(diags[0].Detail(), "hunter") || !strings.Contains(diags[0].Detail(), "{{") {
				t.Errorf("%s: got %v", value, diags)
			}
		}
	}
}
