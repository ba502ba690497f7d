package docs

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// TestAgentChart holds the rights in the agent's chart to those that the other ways to install
// an agent give it. With -update it writes them.
func TestAgentChart(t *testing.T) {
	const namespace = "namespace-of-the-release"
	rights := func(userAccess bool) map[string]string {
		texts := map[string]string{}
		options := v1alpha1.AgentOptions{Namespace: namespace, UserAccess: userAccess}
		for _, o := range klusterlet.Render(klusterlet.Options{AgentOptions: options}) {
			content, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.NewReplacer(namespace, "{{ .Release.Namespace }}", "spec: {}\n", "", "status: {}\n", "").
				Replace("---\n" + string(content))
			texts[o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName()] = text
		}
		delete(texts, "Namespace "+namespace) // helm makes it
		delete(texts, "Deployment "+klusterlet.Name)
		return texts
	}
	without, with := rights(false), rights(true)
	var b strings.Builder
	b.WriteString("{{- /* Written by make generate. */ -}}\n")
	for _, key := range slices.Sorted(maps.Keys(with)) {
		more, ok := strings.CutPrefix(with[key], without[key])
		if !ok {
			t.Fatalf("%s has other rights with user access, and not just more", key)
		}
		text := without[key]
		if more != "" {
			text += "{{- if .Values.userAccess }}\n" + more + "{{- end }}\n"
		}
		if key == "Namespace "+addon.DefaultInstallNamespace {
			text = "{{- if ne .Release.Namespace \"" + addon.DefaultInstallNamespace + "\" }}\n" + text + "{{- end }}\n"
		}
		b.WriteString(text)
	}
	name := filepath.Join("deploy", "charts", "muster-agent", "templates", "rights.yaml")
	if *update {
		if err := os.WriteFile(filepath.Join(root, name), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if read(t, name) != b.String() {
		t.Errorf("%s is not what klusterlet.Render gives: run make generate", name)
	}
}
